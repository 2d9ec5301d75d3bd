"""What a plan is judged by, each to be made small, written with plain NumPy.

The first six are Kapellmeister's; the others are ours. "Everything placed" is a constraint of the
search, not something it trades away.

`BUILT_IN` is the one list of objectives: their order, what they mean, and the plain function that
defines each. Columns of values and weights everywhere are numbered by this list. A new objective is
one entry. Without more it is evaluated by its plain function, as a user's own is: a search measures
it and selects by it, but its local moves do not see it. To let them, set `compiled`, compute it in
`evaluate` (the tests hold it to the plain function), and add what one move changes to
`state.change` and `state.swap_change`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from murmuration.assignment.problem import Problem, sum_requests
from murmuration.base.arrays import Counts, Flags, Floats, Indices, Integers
from murmuration.base.errors import InputError, unknown
from murmuration.base.loading import is_module_path, load_object

#: A user's objective: a number for a problem and a placement.
Function = Callable[[Problem, Indices], float]


@dataclass(frozen=True)
class MeasuredPlacement:
    """A placement as objectives read it, with the counts that several of them need."""

    problem: Problem
    node_of: Indices
    placed: Flags
    moved: Flags
    #: Tasks on each node.
    counts: Counts
    power_off: bool


@dataclass(frozen=True)
class BuiltIn:
    """An objective of this program: its name, what it means, and the function that defines it."""

    name: str
    meaning: str
    value: Callable[[MeasuredPlacement], float]
    #: Whether `evaluate` and the local moves of `state` compute it too.
    compiled: bool = False


def sum_triangular(counts: Counts) -> float:
    """1 + 2 + … + k for each count, summed."""
    return float((counts * (counts + 1) // 2).sum())


def _replicas_together(group: Indices, place: Indices) -> float:
    """Σ 1 + 2 + … + k over every group and place that has k of the group's tasks."""
    pairs, counts = np.unique(np.stack([group, place]), axis=1, return_counts=True)
    return sum_triangular(counts) if pairs.size else 0.0


def _crowding(m: MeasuredPlacement) -> float:
    return sum_triangular(m.counts)


def _replicas(m: MeasuredPlacement) -> float:
    return _replicas_together(m.problem.group[m.placed], m.node_of[m.placed])


def _power(m: MeasuredPlacement) -> float:
    load = np.nan_to_num(shares(m.problem, m.node_of)[:, :2]).sum(axis=1) / 2
    watts = m.problem.idle_watts + (m.problem.peak_watts - m.problem.idle_watts) * load
    return float(watts[m.counts > 0].sum() if m.power_off else watts.sum())


def _imbalance(m: MeasuredPlacement) -> float:
    share = shares(m.problem, m.node_of)[m.counts > 0, :2]
    return float(100 * np.nan_to_num(np.abs(share[:, 0] - share[:, 1])).sum() / max(len(share), 1))


def _unplaced(m: MeasuredPlacement) -> float:
    return float((~m.placed).sum())


def _moves(m: MeasuredPlacement) -> float:
    return float(m.moved.sum())


def _cost(m: MeasuredPlacement) -> float:
    return float(m.problem.price[m.counts > 0].sum())


def _nodes(m: MeasuredPlacement) -> float:
    return float((m.counts > 0).sum())


def _priority(m: MeasuredPlacement) -> float:
    return float(priority_weight(m.problem)[~m.placed].sum())


def _zones(m: MeasuredPlacement) -> float:
    zone = m.problem.zone_of[m.node_of[m.placed]]
    return _replicas_together(m.problem.group[m.placed], zone)


def _megabytes(m: MeasuredPlacement) -> float:
    return float(m.problem.megabytes[m.moved].sum())


def _preferences(m: MeasuredPlacement) -> float:
    wishes = m.problem.preferences
    return 0.0 if wishes is None else wishes.unmet(m.node_of)


BUILT_IN = (
    BuiltIn("crowding", "sum over nodes of 1 + 2 + … + tasks on it", _crowding, True),
    BuiltIn(
        "replicas", "sum over nodes and services of 1 + 2 + … + replicas on it", _replicas, True
    ),
    BuiltIn("power", "watts, linear between a node's idle and peak draw", _power, True),
    BuiltIn(
        "imbalance",
        "mean over nodes in use of the gap between free shares of CPU and memory, in percent",
        _imbalance,
        True,
    ),
    BuiltIn("unplaced", "tasks without a node", _unplaced, True),
    BuiltIn("moves", "tasks that change node", _moves, True),
    BuiltIn("cost", "price per hour of the nodes in use", _cost, True),
    BuiltIn("nodes", "nodes in use", _nodes, True),
    BuiltIn("priority", "tasks without a node, weighted by priority", _priority, True),
    BuiltIn("zones", "sum over zones and services of 1 + 2 + … + replicas in it", _zones, True),
    BuiltIn("megabytes", "memory of the tasks that change node, in MB", _megabytes, True),
    BuiltIn(
        "preferences", "preferences that are not met, a weight of 100 counting as one", _preferences
    ),
)
NAMES = tuple(entry.name for entry in BUILT_IN)
COUNT = len(NAMES)
MEANINGS = {entry.name: entry.meaning for entry in BUILT_IN}

# The column of each, as kernels need it: a plain integer, looked up so that the order is written
# once.
CROWDING = NAMES.index("crowding")
REPLICAS = NAMES.index("replicas")
POWER = NAMES.index("power")
IMBALANCE = NAMES.index("imbalance")
UNPLACED = NAMES.index("unplaced")
MOVES = NAMES.index("moves")
COST = NAMES.index("cost")
NODES = NAMES.index("nodes")
PRIORITY = NAMES.index("priority")
ZONES = NAMES.index("zones")
MEGABYTES = NAMES.index("megabytes")
PREFERENCES = NAMES.index("preferences")


@dataclass(frozen=True)
class Objective:
    """One thing to be made small: built in, or a function of a problem and a placement; `weight` is
    for the choice."""

    name: str
    weight: float = 1.0
    function: Function | None = None

    @property
    def index(self) -> int:
        """The column kernels compute it in; −1 if only its function can."""
        return NAMES.index(self.name) if self.function is None else -1


def parse_objective(text: str, where: str = "--objective") -> Objective:
    """`imbalance`, `power=2` or `module:function=0.5`, as written after `--objective` or in a
    scenario."""
    name, separator, number = text.partition("=")
    name = name.strip()
    weight = _positive(number, f"{where} {name}") if separator else 1.0
    if is_module_path(name):
        return Objective(name, weight, _load(name, where))
    if name not in NAMES:
        raise InputError(f"{where}: {unknown('objective', name, NAMES)}")
    return built_in(name, weight)


def built_in(name: str, weight: float = 1.0) -> Objective:
    """An objective of `BUILT_IN`: by its column where kernels compute it, else by its function."""
    entry = BUILT_IN[NAMES.index(name)]
    if entry.compiled:
        return Objective(name, weight)
    return Objective(name, weight, lambda problem, node_of: entry.value(measure(problem, node_of)))


def parse_limit(text: str) -> tuple[int, float]:
    """`moves=20`, as written after `--limit`: the column of the objective and the highest value it
    may have."""
    name, separator, number = text.partition("=")
    name = name.strip()
    if not separator:
        raise InputError(f"--limit: expected NAME=MAX such as moves=20, got {text!r}")
    known = [entry.name for entry in BUILT_IN if entry.compiled]
    if name not in known:
        raise InputError(f"--limit: {unknown('objective', name, known)}")
    return NAMES.index(name), _positive(number, f"--limit {name}", zero=True)


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


def _load(name: str, where: str) -> Function:
    function: Function = load_object(name, f"{where} {name}")
    if not callable(function):
        raise InputError(f"{where} {name}: expected a function of a problem and a placement")
    return function


def measure(problem: Problem, node_of: Indices, power_off: bool = False) -> MeasuredPlacement:
    """A placement with the counts that objectives are computed from."""
    placed = node_of >= 0
    counts = np.bincount(node_of[placed], minlength=len(problem.total))
    moved = (problem.node_of >= 0) & (node_of != problem.node_of)
    return MeasuredPlacement(problem, node_of, placed, moved, counts, power_off)


def values(problem: Problem, node_of: Integers, power_off: bool = False) -> Floats:
    """All built-in objectives of a placement, in the order of `NAMES`: the reference the compiled
    evaluation is held to."""
    measured = measure(problem, node_of, power_off)
    return np.array([entry.value(measured) for entry in BUILT_IN])


def shares(problem: Problem, node_of: Integers) -> Floats:
    """The used share of each resource of each node; NaN for what a node does not have."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(problem.total > 0, sum_requests(problem, node_of) / problem.total, np.nan)


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
