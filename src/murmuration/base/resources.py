"""Resources: what a node has and a task asks for, in exact whole numbers.

Amounts are 64-bit integers, so that what is released is to the last digit what was assigned: memory
in bytes, CPU and every other resource in millionths. `500m`, `2Gi`, `1.5G` and plain numbers are
read as Kubernetes reads them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from murmuration.base.arrays import Amounts as Amounts
from murmuration.base.arrays import Floats
from murmuration.base.errors import InputError, unknown

MICRO = 1_000_000
#: The largest amount: it passes through a float to the last digit, and a hundred times it is still
#: an integer.
AMOUNT_MAX = 2**50
SUFFIXES: dict[str, float] = {
    "": 1.0,
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
}
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z]*)\s*")


def parse_quantity(text: str | float, where: str = "quantity") -> float:
    """The number behind `500m`, `2Gi` or a plain number; negative, infinite and unknown units are
    refused."""
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
    value = float(number) * SUFFIXES[suffix]
    if not 0 <= value < math.inf:
        raise InputError(
            f"{where}: expected a size that is neither negative nor infinite, got {text!r}"
        )
    return value


@dataclass(frozen=True)
class Resources:
    """The named columns of a cluster, `cpu` and `memory` first; turns amounts in natural units into
    exact integers."""

    names: tuple[str, ...] = ("cpu", "memory")

    def __post_init__(self) -> None:
        if self.names[:2] != ("cpu", "memory") or len(set(self.names)) != len(self.names):
            raise InputError(
                f"resources: expected cpu, memory, then distinct names, got {', '.join(self.names)}"
            )

    def __len__(self) -> int:
        return len(self.names)

    def unit(self, name: str) -> int:
        """Integers per natural unit: 1 for a byte of memory, a million for one CPU or one of
        anything else."""
        return 1 if name == "memory" else MICRO

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


def format_amount(name: str, amount: int) -> str:
    """One exact amount in the unit people use."""
    if name == "memory":
        return f"{amount / 1e9:.4g} GB"
    label = "CPU" if name == "cpu" else name
    return f"{amount / MICRO:.4g} {label}"
