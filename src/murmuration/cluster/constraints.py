"""Constraints: which nodes a job may use, by their attributes.

Written as people write them: `zone = a`, `zone != a`, `generation > 3`, `zone in (a, b)`, `gpu
exists`. A node that lacks the attribute meets only `!=`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from murmuration.base.errors import InputError

Value = str | float
Attributes = Mapping[str, Value]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_AROUND = re.compile(r"\A[\s'\"]+|[\s'\"]+\Z")
_EXPRESSION = re.compile(
    r"""\s*(?P<key>[\w./-]+)(?:
        \s+(?P<exists>exists)
        |\s+in(?:\s*\((?P<set>[^()]*)\)|\s+(?P<bare>[^()]+))
        |\s*(?P<op>!=|≠|=|<|>)(?![=<>])\s*(?P<value>\S.*?)
    )\s*""",
    re.VERBOSE,
)


def as_value(text: str) -> Value:
    """A number where the text is one, so that `3` and `3.0` are equal and `<` has a meaning; quotes
    are left out."""
    bare = _AROUND.sub("", text)
    number = float(bare) if _NUMBER.fullmatch(bare) else math.inf
    return number if math.isfinite(number) else bare


def value_text(value: Value) -> str:
    """A value as text that `as_value` reads as the same value."""
    if isinstance(value, str):
        return value or "''"
    return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))


def _compare(order: Callable[[float, float], bool]) -> Callable[[Value, tuple[Value, ...]], bool]:
    def test(have: Value, want: tuple[Value, ...]) -> bool:
        return isinstance(have, float) and isinstance(want[0], float) and order(have, want[0])

    return test


TESTS: dict[str, Callable[[Value, tuple[Value, ...]], bool]] = {
    "=": lambda have, want: have == want[0],
    "!=": lambda have, want: have != want[0],
    "<": _compare(lambda have, want: have < want),
    ">": _compare(lambda have, want: have > want),
    "in": lambda have, want: have in want,
    "exists": lambda have, want: True,
}


@dataclass(frozen=True)
class Constraint:
    """One test of one attribute of a node."""

    key: str
    operator: str
    values: tuple[Value, ...] = ()

    def meets(self, attributes: Attributes) -> bool:
        if self.key not in attributes:
            return self.operator == "!="
        have = attributes[self.key]
        return TESTS[self.operator](float(have) if isinstance(have, int) else have, self.values)

    def __str__(self) -> str:
        if self.operator == "exists":
            return f"{self.key} exists"
        values = ", ".join(value_text(value) for value in self.values)
        return (
            f"{self.key} in ({values})"
            if self.operator == "in"
            else f"{self.key} {self.operator} {values}"
        )


def parse_constraint(text: str, where: str = "constraint") -> Constraint:
    """Read one constraint; the sentence names the forms that are understood."""
    match = _EXPRESSION.fullmatch(text)
    if match is None:
        raise InputError(
            f"{where}: expected 'key = value', '!=', '<', '>', 'key in (a, b)' or 'key exists', "
            f"got {text!r}"
        )
    key = match["key"]
    if match["exists"]:
        return Constraint(key, "exists")
    if match["op"] is None:
        parts = (match["set"] or match["bare"] or "").split(",")
        return Constraint(key, "in", tuple(as_value(part) for part in parts if part.strip()))
    operator = "!=" if match["op"] == "≠" else match["op"]
    value = as_value(match["value"])
    if operator in "<>" and not isinstance(value, float):
        raise InputError(f"{where}: expected a number after {operator!r}, got {text!r}")
    return Constraint(key, operator, (value,))


def node_mask(
    constraints: Sequence[Constraint], attributes: Sequence[Attributes]
) -> NDArray[np.bool_]:
    """The nodes that meet every constraint."""
    return np.array(
        [all(c.meets(node) for c in constraints) for node in attributes], dtype=np.bool_
    )
