"""Sizes, prices and power of nodes a snapshot does not describe: AWS's families, and a linear model
of power.

Prices are Linux on demand in us-east-1, in dollars per hour for the smallest size; larger ones cost
in proportion.
"""

from __future__ import annotations

from typing import NamedTuple

GIB = 2**30


class RentedNode(NamedTuple):
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


def types() -> dict[str, RentedNode]:
    """Every known type by name."""
    return {
        f"{family}.{size}": RentedNode(float(cpu), cpu * ratio, large * cpu / 2)
        for family, (large, ratio, sizes) in _FAMILIES.items()
        for size, cpu in (sizes or _USUAL).items()
    }


#: Pods a node can have: addresses of its network interfaces, by family and size.
_PODS = {
    "medium": 8,
    "large": 29,
    "xlarge": 58,
    "2xlarge": 58,
    "16xlarge": 737,
    "24xlarge": 737,
}
_PODS_ELSE = 234
_PODS_OF = {"m4.large": 20, "m4.16xlarge": 234, "t3.large": 35}
#: Families with ARM processors.
_ARM = ("a1", "m6g")
MIB = 2**20
#: The share of memory that the hypervisor and the kernel keep before the node can count it.
_UNSEEN = 0.075


def pods_of(kind: str) -> int:
    """How many pods a node of a type has addresses for."""
    return _PODS_OF.get(kind, _PODS.get(kind.partition(".")[2], _PODS_ELSE))


def architecture_of(kind: str) -> str:
    return "arm64" if kind.partition(".")[0] in _ARM else "amd64"


def allocatable(kind: str) -> dict[str, float]:
    """What pods get of a node of a type: its size less what the kubelet keeps for the system, as
    Amazon's images reserve it (CPU by a falling share of each core, memory by pods, and 100 MiB
    below which pods are evicted)."""
    size, pods = types()[kind], pods_of(kind)
    cores = int(size.cpu)
    reserved = sum(
        0.06 if k < 1 else 0.01 if k < 2 else 0.005 if k < 4 else 0.0025 for k in range(cores)
    )
    memory = size.memory_gib * GIB * (1 - _UNSEEN) - (255 + 11 * pods + 100) * MIB
    return {"cpu": round(size.cpu - reserved, 3), "memory": float(int(memory)), "pods": float(pods)}


def price_of(cpu: float, memory_gib: float) -> float:
    """What a node of a size that has no list price costs: CPU and memory as m5 prices them, by
    least squares."""
    return 0.036 * cpu + 0.003 * memory_gib
