"""What a plan is judged by, each to be made small, written with plain NumPy.

The first six are Kapellmeister's; the others are ours. `value` is the reference the compiled
evaluation is held to, and the place to read what a name means. "Everything placed" is a constraint
of the search, not something it trades away.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from murmuration.assignment.problem import Floats, Integers, Problem, used
from murmuration.base.errors import InputError, unknown

CROWDING, REPLICAS, POWER, IMBALANCE, UNPLACED, MOVES = range(6)
COST, NODES, PRIORITY, ZONES, MEGABYTES = range(6, 11)

NAMES = (
    "crowding",
    "replicas",
    "power",
    "imbalance",
    "unplaced",
    "moves",
    "cost",
    "nodes",
    "priority",
    "zones",
    "megabytes",
)
MEANINGS = {
    "crowding": "sum over nodes of 1 + 2 + … + tasks on it",
    "replicas": "sum over nodes and services of 1 + 2 + … + replicas on it",
    "power": "watts, linear between a node's idle and peak draw",
    "imbalance": "mean over nodes in use of the gap between free shares of CPU and memory, in "
    "percent",
    "unplaced": "tasks without a node",
    "moves": "tasks that change node",
    "cost": "price per hour of the nodes in use",
    "nodes": "nodes in use",
    "priority": "tasks without a node, weighted by priority",
    "zones": "sum over zones and services of 1 + 2 + … + replicas in it",
    "megabytes": "memory of the tasks that change node, in MB",
}
Own = Callable[[Problem, Integers], float]


@dataclass(frozen=True)
class Objective:
    """One thing to be made small: built in, or a function of a problem and a placement; `weight` is
    for the choice."""

    name: str
    weight: float = 1.0
    function: Own | None = None

    @property
    def index(self) -> int:
        return NAMES.index(self.name) if self.function is None else -1


def parse_objective(text: str, where: str = "--objective") -> Objective:
    """`imbalance`, `power=2` or `module:function=0.5`, as written after `--objective` or in a
    scenario."""
    name, separator, number = text.partition("=")
    name = name.strip()
    weight = _positive(number, f"{where} {name}") if separator else 1.0
    if ":" in name:
        return Objective(name, weight, _load(name, where))
    if name not in NAMES:
        raise InputError(f"{where}: {unknown('objective', name, NAMES)}")
    return Objective(name, weight)


def parse_limit(text: str) -> tuple[int, float]:
    """`moves=20`, as written after `--limit`: the place of the objective and the most it may
    reach."""
    name, separator, number = text.partition("=")
    if not separator:
        raise InputError(f"--limit: expected NAME=MOST such as moves=20, got {text!r}")
    if name.strip() not in NAMES:
        raise InputError(f"--limit: {unknown('objective', name.strip(), NAMES)}")
    return NAMES.index(name.strip()), _positive(number, f"--limit {name.strip()}", zero=True)


def _positive(text: str, where: str, zero: bool = False) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not (value >= 0 if zero else value > 0) or value == float("inf"):
        raise InputError(
            f"{where}: expected a number {'not below' if zero else 'above'} 0, got {text!r}"
        )
    return value


def _load(name: str, where: str) -> Own:
    module, _, attribute = name.partition(":")
    # The folder a command is given from is where people keep their own modules.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{where} {name}: cannot be imported: {error}") from error
    if not callable(found):
        raise InputError(f"{where} {name}: expected a function of a problem and a placement")
    return found  # type: ignore[no-any-return]


def triangular(counts: Any) -> float:
    """1 + 2 + … + k for each count, summed."""
    counts = np.asarray(counts, dtype=np.int64)
    return float((counts * (counts + 1) // 2).sum())


def values(problem: Problem, node_of: Integers, power_off: bool = False) -> Floats:
    """All built-in objectives of a placement, in the order of `NAMES`."""
    placed = node_of >= 0
    counts = np.bincount(node_of[placed], minlength=len(problem.total))
    moved = (problem.node_of >= 0) & (node_of != problem.node_of)
    return np.array(
        [
            triangular(counts),
            _together(problem.group[placed], node_of[placed]),
            _power(problem, node_of, counts, power_off),
            _imbalance(problem, node_of, counts),
            float((~placed).sum()),
            float(moved.sum()),
            float(problem.price[counts > 0].sum()),
            float((counts > 0).sum()),
            float(priority_weight(problem)[~placed].sum()),
            _together(problem.group[placed], problem.zone_of[node_of[placed]]),
            float(problem.megabytes[moved].sum()),
        ]
    )


def _together(group: Integers, place: Integers) -> float:
    pairs, counts = np.unique(np.stack([group, place]), axis=1, return_counts=True)
    return triangular(counts) if pairs.size else 0.0


def shares(problem: Problem, node_of: Integers) -> Floats:
    """The used share of each resource of each node; NaN for what a node does not have."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(problem.total > 0, used(problem, node_of) / problem.total, np.nan)


def _power(problem: Problem, node_of: Integers, counts: Integers, power_off: bool) -> float:
    load = np.nan_to_num(shares(problem, node_of)[:, :2]).sum(axis=1) / 2
    watts = problem.idle_watts + (problem.peak_watts - problem.idle_watts) * load
    return float(watts[counts > 0].sum() if power_off else watts.sum())


def _imbalance(problem: Problem, node_of: Integers, counts: Integers) -> float:
    share = shares(problem, node_of)[counts > 0, :2]
    return float(100 * np.nan_to_num(np.abs(share[:, 0] - share[:, 1])).sum() / max(len(share), 1))


def priority_weight(problem: Problem) -> Floats:
    """1 for the lowest priority, one more for each higher one there is: Kubernetes' numbers have no
    scale."""
    ranks = np.unique(problem.priority, return_inverse=True)[1]
    return np.asarray(ranks, dtype=np.float64) + 1.0


def power_of(cpu: Floats, memory_mb: Floats) -> tuple[Floats, Floats]:
    """Idle and peak watts: a node of 4 CPUs and 4,000 MB draws 171 to 218; 30 % goes with CPUs, 11
    % with memory."""
    grows = 0.3 * (np.asarray(cpu) / 4.0 - 1.0) + 0.11 * (np.asarray(memory_mb) / 4000.0 - 1.0)
    return 171.0 * (1.0 + grows), 218.0 * (1.0 + grows)
