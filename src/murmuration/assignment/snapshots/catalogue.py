"""Sizes, prices and power of nodes a snapshot does not describe: AWS's families, and a linear model
of power.

Prices are Linux on demand in us-east-1, in dollars per hour for the smallest size; larger ones cost
in proportion.
"""

from __future__ import annotations

from typing import NamedTuple

GIB = 2**30


class NodeType(NamedTuple):
    """A node one can rent."""

    cpu: float
    memory_gib: float
    price: float


#: Family: price of its `large` per hour, memory per CPU in GiB, and sizes in CPUs.
_FAMILIES: dict[str, tuple[float, float, dict[str, int]]] = {
    "a1": (0.051, 2.0, {"medium": 1, "large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16}),
    "m4": (
        0.10,
        4.0,
        {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "10xlarge": 40, "16xlarge": 64},
    ),
    "m5a": (0.086, 4.0, {}),
    "m5": (0.096, 4.0, {}),
    "m6i": (0.096, 4.0, {}),
    "m6g": (0.077, 4.0, {}),
    "c5": (
        0.085,
        2.0,
        {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "9xlarge": 36, "12xlarge": 48},
    ),
    "r5": (0.126, 8.0, {}),
    "t3": (0.0832, 4.0, {"large": 2, "xlarge": 4, "2xlarge": 8}),
}
_USUAL = {
    "large": 2,
    "xlarge": 4,
    "2xlarge": 8,
    "4xlarge": 16,
    "8xlarge": 32,
    "12xlarge": 48,
    "16xlarge": 64,
    "24xlarge": 96,
}


def types() -> dict[str, NodeType]:
    """Every known type by name."""
    return {
        f"{family}.{size}": NodeType(float(cpu), cpu * ratio, large * cpu / 2)
        for family, (large, ratio, sizes) in _FAMILIES.items()
        for size, cpu in (sizes or _USUAL).items()
    }


def price_of(cpu: float, memory_gib: float) -> float:
    """What a node of a size that has no list price costs: CPU and memory as m5 prices them, by
    least squares."""
    return 0.036 * cpu + 0.003 * memory_gib
