"""Resources: what a node has and a task asks for, in exact whole numbers.

Amounts are 64-bit integers, so that what is released is to the last digit what was assigned: memory
in bytes, CPU and every other resource in millionths, unless a table says otherwise (`fitting_unit`:
bytes of disk would not fit in millionths). `500m`, `2Gi`, `1.5G` and plain numbers are read as
Kubernetes reads them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from murmuration.base.arrays import Amounts as Amounts
from murmuration.base.arrays import Floats
from murmuration.base.errors import InputError, unknown

MICRO = 1_000_000
#: The largest amount: it passes through a float to the last digit, and a hundred times it is still
#: an integer.
AMOUNT_MAX = 2**50
SUFFIXES: dict[str, Fraction] = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "K": Fraction(1000),
    **{suffix: Fraction(1000 ** (k + 1)) for k, suffix in enumerate("kMGTPE")},
    **{f"{suffix}i": Fraction(1024 ** (k + 1)) for k, suffix in enumerate("KMGTPE")},
}
#: Exponents beyond this are no size anybody means, and would take too long to write out.
EXPONENT_MAX = 400
#: Resources counted in bytes; pages of several sizes are resources of their own.
IN_BYTES = ("memory", "ephemeral-storage", "storage")
PAGES = "hugepages-"
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z]*)\s*")


def parse_quantity(text: str | float, where: str = "quantity") -> float:
    """The number behind `500m`, `2Gi` or a plain number; negative, infinite and unknown units are
    refused."""
    if type(text) is float and 0.0 <= text < math.inf:
        return text
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise InputError(f"{where}: expected a number such as 2, '500m' or '2Gi', got {text!r}")
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise InputError(f"{where}: expected a number such as 2, '500m' or '2Gi', got {text!r}")
    number, suffix = match.groups()
    if suffix not in SUFFIXES:
        raise InputError(
            f"{where}: {text!r} has an {unknown('unit', suffix, (s for s in SUFFIXES if s))}"
        )
    value = _value(number, suffix)
    if value is None or not 0 <= value < math.inf:
        raise InputError(
            f"{where}: expected a size that is neither negative nor infinite, got {text!r}"
        )
    return value


@lru_cache(maxsize=65536)
def _value(number: str, suffix: str) -> float | None:
    """The nearest float to a number times its suffix; none if it is beyond all sizes."""
    _, _, exponent = number.lower().partition("e")
    if abs(int(exponent or 0)) > EXPONENT_MAX:
        return None
    try:
        return float(Fraction(number) * SUFFIXES[suffix])
    except OverflowError:
        return None


def is_in_bytes(name: str) -> bool:
    """Whether a resource is counted in bytes rather than in pieces."""
    return name in IN_BYTES or name.startswith(PAGES)


def fitting_unit(name: str, largest: float) -> float:
    """Integers per natural unit for a resource whose largest amount is known: bytes for what is
    counted in bytes, else millionths, and coarser by thousands where that would be too much."""
    unit = 1.0 if is_in_bytes(name) else float(MICRO)
    while largest * unit > AMOUNT_MAX:
        unit /= 1000.0
    return unit


@dataclass(frozen=True)
class Resources:
    """The named columns of a cluster, `cpu` and `memory` first; turns amounts in natural units into
    exact integers."""

    names: tuple[str, ...] = ("cpu", "memory")
    #: Integers per natural unit of each; empty for those of `usual_unit`.
    given_units: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.names[:2] != ("cpu", "memory") or len(set(self.names)) != len(self.names):
            raise InputError(
                f"resources: expected cpu, memory, then distinct names, got {', '.join(self.names)}"
            )

    def __len__(self) -> int:
        return len(self.names)

    def unit(self, name: str) -> float:
        """Integers per natural unit: 1 for a byte of memory, a million for one CPU or one of
        anything else, unless the table was given others."""
        if self.given_units:
            return self.given_units[self.names.index(name)]
        return usual_unit(name)

    def units(self) -> Floats:
        return np.array([self.unit(name) for name in self.names], dtype=np.float64)

    def exact(self, name: str, amount: str | float, where: str = "quantity") -> int:
        """One amount as the integer the table keeps."""
        if name not in self.names:
            raise InputError(f"{where}: {unknown('resource', name, self.names)}")
        value = parse_quantity(amount, where) * self.unit(name)
        if value > AMOUNT_MAX:
            raise InputError(
                f"{where}: expected at most {format_amount(name, AMOUNT_MAX)}, got {amount!r}"
            )
        return round(value)

    def vector(self, amounts: Mapping[str, str | float], where: str = "resources") -> Amounts:
        """A row of the table from named amounts; what is not named is zero."""
        row = np.zeros(len(self.names), dtype=np.int64)
        for name, amount in amounts.items():
            exact = self.exact(name, amount, f"{where}.{name}")
            row[self.names.index(name)] = exact
        return row

    def describe(self, row: Sequence[int] | Amounts) -> str:
        """A row for people: `1.1 CPU, 1.5 GB`; zero amounts of extra resources are left out."""
        parts = [
            format_amount(name, int(amount))
            for name, amount in zip(self.names, row, strict=True)
            if amount or name in ("cpu", "memory")
        ]
        return ", ".join(parts)


def usual_unit(name: str) -> int:
    """Integers per natural unit where nobody chose another."""
    return 1 if name == "memory" else MICRO


def _bytes(value: float) -> str:
    """Gigabytes, or megabytes where those are a small fraction: `33.55 MB` is 32Mi."""
    if 0 < value < 1e8:
        return f"{value / 1e6:.4g} MB"
    return f"{value / 1e9:.4g} GB"


def format_amount(name: str, amount: int, unit: float | None = None) -> str:
    """One exact amount in the unit people use; `unit` integers are one of it."""
    value = amount / (usual_unit(name) if unit is None else unit)
    if name == "memory":
        return _bytes(value)
    if unit is not None and is_in_bytes(name):
        return f"{_bytes(value)} {name}"
    label = "CPU" if name == "cpu" else name
    return f"{value:.4g} {label}"
