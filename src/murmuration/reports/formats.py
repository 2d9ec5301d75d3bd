"""Numbers and words formatted for print: the same rules for the terminal, the page and the
plots."""

from __future__ import annotations

import math
import numbers
import re

MISSING = "—"
HOUR_S, DAY_S = 3600.0, 86_400.0
_NOT_PRINTABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NUMBER_LIKE = re.compile(
    r"^(=|[<>≤≥~±+\-−]?\s*[\d.,]+(e[+-]?\d+)?(\s*±\s*[\d.,]+(e[+-]?\d+)?)?"
    r"\s*(%|[kMGTµnm]?s|[kMGT]?B|[kMGT×x])?(\s*\([\d.,]+–[\d.,]+\))?)$"
)
_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def finite(value: object) -> float | None:
    """The value as a float, or None when it is missing, not a number, or infinite."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def clean(text: object) -> str:
    """The text without the control characters that XML forbids."""
    return _NOT_PRINTABLE.sub("", str(text))


def looks_numeric(value: object) -> bool:
    """Whether a cell should stand on the right of its column."""
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        return value == MISSING or bool(_NUMBER_LIKE.match(value.strip()))
    return value is None or isinstance(value, numbers.Real)


def human(value: object) -> str:
    """A value for a table cell: four significant digits, whole counts in full, a dash when
    missing."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral):
        return f"{int(value):,}"
    if isinstance(value, numbers.Real):
        return _human_float(float(value))
    return clean(value)


def _human_float(value: float) -> str:
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e9 or size < 1e-4:
        return _short_exponent(f"{value:.4g}")
    if size >= 999.95:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _short_exponent(text: str) -> str:
    return re.sub(
        r"e([+-])0*(\d+)$", lambda match: "e" + match[1].replace("+", "") + match[2], text
    )


def with_half(mean: float, half: float) -> str:
    """A mean and half the width of its interval: two digits of the latter, and of the mean no more
    than it says anything about."""
    decimals = 1 - math.floor(math.log10(half))
    if decimals > 6 or abs(mean) >= 1e9:
        return f"{human(mean)}\u00a0±\u00a0{human(float(f'{half:.2g}'))}"
    decimals, half = max(0, decimals), float(f"{half:.2g}")
    return f"{mean:,.{decimals}f}\u00a0±\u00a0{half:,.{decimals}f}"


def percent(value: object, digits: int = 1) -> str:
    """A fraction as a percentage: 0.123 becomes `12.3 %` (joined by a no-break space)."""
    number = finite(value)
    return MISSING if number is None else f"{100 * number:.{digits}f}\u00a0%"


def format_change(change: float) -> str:
    """A relative change with its sign, `−4.2 %`; less than half a thousandth is none."""
    return f"{100 * change:+.1f}\u00a0%".replace("-", "−") if abs(change) >= 5e-4 else "0\u00a0%"


def tick_label(value: float, as_percent: bool = False) -> str:
    """A short label for an axis: 0.1, 1, 10, 1k, 2.5M, 50 %, 10⁻⁵."""
    if as_percent:
        return f"{100 * value:.8g}\u00a0%"
    size = abs(value)
    if size == 0:
        return "0"
    if math.isinf(size):
        return _human_float(value)
    if size >= 1e15 or size < 1e-3:
        return _power_label(value)
    for unit, suffix in _SUFFIXES:
        if size >= unit:
            return f"{value / unit:.10g}{suffix}"
    return f"{value:.10g}"


def time_unit(longest_s: float) -> tuple[float, str]:
    """The seconds and the name of the unit in which times up to this are neither tiny nor huge."""
    if longest_s > 2 * DAY_S:
        return DAY_S, "days"
    return (HOUR_S, "hours") if longest_s > 2 * HOUR_S else (60.0, "minutes")


def _power_label(value: float) -> str:
    mantissa, exponent = f"{value:.3e}".split("e")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPT)
    head = f"{float(mantissa):g}"
    return power if head == "1" else f"{head}·{power}"
