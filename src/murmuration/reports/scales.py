"""Axes without ink: which interval to show, where its ticks go, and which pixel a value lands
on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

TICKS_MAX = 12
_EDGE = 1e-9  # A tick this close to the end (in steps) counts as on it, whatever rounding did.


@dataclass(frozen=True)
class Scale:
    """A map from values in [low, high] to pixels from start to end; values outside land on the
    nearer end."""

    low: float
    high: float
    log: bool
    start: float
    end: float

    def holds(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not self.log)

    def at(self, value: float) -> float:
        if value <= self.low:
            return self.start
        if value >= self.high:
            return self.end
        return self.start + self._share(value) * (self.end - self.start)

    def _share(self, value: float) -> float:
        if self.log:
            start = math.log(self.low)
            return (math.log(value) - start) / (math.log(self.high) - start)
        # Halves keep the difference finite even for the largest floats.
        return (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)


def _step(low: float, high: float, target: int) -> tuple[int, int] | None:
    """The 1-2-5 step that gives at most `target` intervals, as digit and power of ten; None when
    floats cannot."""
    raw = (high - low) / max(target, 1)
    if not 1e-290 < raw < 1e290 or max(abs(low), abs(high)) / raw > 1e11:
        return None
    power = math.floor(math.log10(raw))
    for digit in (1, 2, 5):
        if _multiple(1, digit, power) >= raw * (1 - _EDGE):
            return digit, power
    return 1, power + 1


def _multiple(count: int, digit: int, power: int) -> float:
    # Dividing by a whole power of ten rounds once, so 3 steps of 0.1 give 0.3 and not
    # 0.30000000000000004.
    return count * digit / 10**-power if power < 0 else float(count * digit * 10**power)


def _multiples(low: float, high: float, target: int) -> list[float]:
    step = _step(low, high, target)
    if step is None:
        return []
    size = _multiple(1, *step)
    first, last = math.ceil(low / size - _EDGE), math.floor(high / size + _EDGE)
    return [min(max(_multiple(count, *step), low), high) for count in range(first, last + 1)]


def linear_ticks(low: float, high: float, target: int = 6) -> list[float]:
    """Round values inside [low, high], between 2 and 12 of them, increasing."""
    for wanted in (target, 2 * target, 3 * target):
        ticks = _multiples(low, high, min(wanted, TICKS_MAX - 1))
        if len(ticks) >= 2:
            return ticks if _increasing(ticks) else [low, high]
    return [low, high]


def _increasing(values: list[float]) -> bool:
    return all(left < right for left, right in pairwise(values))


def log_ticks(low: float, high: float, target: int = 8) -> list[float]:
    """Decades inside [low, high], thinned when there are many, filled with 2 and 5 when there are
    few."""
    decades = _powers(low, high, (1,))
    if len(decades) > 2:
        stride = math.ceil(len(decades) / max(2, min(target, TICKS_MAX)))
        return decades[::stride] if len(decades[::stride]) >= 2 else [decades[0], decades[-1]]
    fine = _powers(low, high, (1, 2, 5))
    return fine if len(fine) >= 2 else linear_ticks(low, high)


def minor_ticks(low: float, high: float) -> list[float]:
    """The unlabelled marks of a log axis: 2 to 9 in every decade, none when they would blur."""
    if math.log10(high) - math.log10(low) > 8:
        return []
    return _powers(low, high, tuple(range(2, 10)))


def _powers(low: float, high: float, digits: tuple[int, ...]) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = (float(f"{digit}e{power}") for power in powers for digit in digits)
    return [value for value in values if low <= value <= high]


def linear_domain(
    values: Iterable[float], from_zero: bool, rounded: bool = True
) -> tuple[float, float]:
    """The interval of a linear axis, widened to whole steps when `rounded`; never empty."""
    known = list(values)
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if not low < high:
        pad = abs(low) / 2 or 1.0
        low, high = (low, high + 1.0) if low == 0 else (low - pad, high + pad)
    return _widen(low, high) if rounded else (low, high)


def _widen(low: float, high: float) -> tuple[float, float]:
    step = _step(low, high, 5)
    if step is None:
        return low, high
    size = _multiple(1, *step)
    return (
        _multiple(math.floor(low / size + _EDGE), *step),
        _multiple(math.ceil(high / size - _EDGE), *step),
    )


def log_domain(values: Iterable[float], rounded: bool = True) -> tuple[float, float]:
    """The interval of a log axis: positive values only, widened to 1, 2 or 5 when `rounded`; never
    empty."""
    known = [min(max(value, 1e-290), 1e290) for value in values if value > 0]
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    if rounded:
        low, high = _round_down(low), _round_up(high)
    if high / low < 1.01:
        low, high = low / 10**0.5, high * 10**0.5
        return (_round_down(low), _round_up(high)) if rounded else (low, high)
    return low, high


def _round_down(value: float) -> float:
    power = math.floor(math.log10(value))
    return max((v for v in _ladder(power) if v <= value * (1 + _EDGE)), default=value)


def _round_up(value: float) -> float:
    power = math.floor(math.log10(value))
    return min((v for v in _ladder(power) if v >= value * (1 - _EDGE)), default=value)


def _ladder(power: int) -> list[float]:
    return [float(f"{digit}e{p}") for p in (power - 1, power, power + 1) for digit in (1, 2, 5)]
