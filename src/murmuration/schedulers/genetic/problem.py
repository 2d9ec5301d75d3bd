"""The plain arrays every planner works on, and the oracle that says whether an allocation is allowed.

A *placement* is one node per task, −1 for unplaced. Nothing here is clever: `violations` is written to be read, and
whatever a search, an exact solver or an order of moves claims is checked against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as field_of
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

UNPLACED = -1
#: What a rule between tasks asks for.
APART, TOGETHER, SPREAD = "apart", "together", "spread"


@dataclass(frozen=True)
class Rule:
    """A rule between tasks, by domain: a node, a zone, or whatever else `domain_of` parts the nodes into (−1: none).

    apart: beside each holder at most `most` targets lie in its domain (itself not counted).
    together: beside each holder lies at least one target; the only target of all may lie alone.
    spread: a domain with a holder has at most `most` targets more than the emptiest of the domains.
    """

    kind: str
    name: str
    holders: Integers
    targets: Integers
    domain_of: Integers
    most: int = 0
    #: Domains that have no node, and so hold nothing.
    extra: int = 0

    @property
    def domains(self) -> int:
        return int(self.domain_of.max(initial=-1)) + 1 + self.extra


class Violation(NamedTuple):
    """One thing that is not allowed: `kind`, the node, task or rule it concerns (and the domain), and by how much."""

    kind: str
    subject: int
    domain: int
    amount: int


@dataclass(frozen=True)
class Problem:
    """Nodes, tasks, where the tasks are now, and what binds them.

    Task t may use the nodes of row `class_of[t]` of `allowed`; a pinned task stays where it is. Tasks of one `group`
    are replicas of one service. `budget_of` names the disruption budget a task counts against (−1: none), of which at
    most `budget[b]` tasks may be on the way at once.
    """

    resources: tuple[str, ...]
    nodes: tuple[str, ...]
    tasks: tuple[str, ...]
    total: Integers
    request: Integers
    node_of: Integers
    allowed: Flags
    class_of: Integers
    group: Integers
    pinned: Flags
    budget_of: Integers
    budget: Integers
    rules: tuple[Rule, ...]
    priority: Integers
    megabytes: Floats
    zone_of: Integers
    price: Floats
    idle_watts: Floats
    peak_watts: Floats
    #: What a reader of the plan should know about the snapshot.
    notes: tuple[str, ...] = ()
    #: What the snapshot's format says beyond these arrays, for whoever writes the moves in that format.
    details: Any = field_of(default=None, compare=False)

    @property
    def movable(self) -> Flags:
        """Tasks a plan may place or move: a budget of nothing pins its tasks."""
        stuck = (self.budget_of >= 0) & (self._budget_left() == 0)
        return np.asarray(~self.pinned & ((self.node_of < 0) | ~stuck))

    def _budget_left(self) -> Integers:
        return np.append(self.budget, 0)[self.budget_of]

    def may_use(self, task: int) -> Flags:
        """The nodes a task may lie on: those its class allows, and the one it is on."""
        found: Flags = self.allowed[self.class_of[task]].copy()
        if self.node_of[task] >= 0:
            found[self.node_of[task]] = True
        return found


def problem_of(
    total: Any, request: Any, node_of: Any = None, group: Any = None, **others: Any
) -> Problem:  # fmt: skip
    """A problem from the few arrays that matter, the rest plain: for tests, benchmarks and other formats."""
    total, request = np.asarray(total, dtype=np.int64), np.asarray(request, dtype=np.int64)
    n, t = len(total), len(request)
    names = ("cpu", "memory", *(f"resource-{k}" for k in range(2, total.shape[1])))[: total.shape[1]]
    plain: dict[str, Any] = {
        "resources": names,
        "nodes": tuple(f"node-{k}" for k in range(n)),
        "tasks": tuple(f"task-{k}" for k in range(t)),
        "node_of": np.full(t, UNPLACED) if node_of is None else node_of,
        "allowed": np.ones((1, n), dtype=np.bool_),
        "class_of": np.zeros(t, dtype=np.int64),
        "group": np.arange(t) if group is None else group,
        "pinned": np.zeros(t, dtype=np.bool_),
        "budget_of": np.full(t, -1),
        "budget": np.zeros(0, dtype=np.int64),
        "rules": (),
        "priority": np.zeros(t, dtype=np.int64),
        "megabytes": request[:, 1] / 1e6 if total.shape[1] > 1 else np.zeros(t),
        "zone_of": np.zeros(n, dtype=np.int64),
        "price": np.ones(n),
        "idle_watts": np.full(n, 100.0),
        "peak_watts": np.full(n, 200.0),
    }
    plain.update(others)
    for name in ("node_of", "class_of", "group", "budget_of", "budget", "priority", "zone_of"):
        plain[name] = np.asarray(plain[name], dtype=np.int64)
    return Problem(total=total, request=request, **plain)


def used(problem: Problem, node_of: Integers) -> Integers:
    """What the placed tasks ask of each node."""
    found = np.zeros_like(problem.total)
    placed = node_of >= 0
    np.add.at(found, node_of[placed], problem.request[placed])
    return found


def violations(problem: Problem, node_of: Integers) -> list[Violation]:
    """Everything that is not allowed in a placement; an unplaced task is no violation."""
    found = _over_capacity(problem, node_of)
    for task in np.flatnonzero(node_of >= 0).tolist():
        if not problem.may_use(task)[node_of[task]]:
            found.append(Violation("constraint", task, -1, 1))
    fixed = ~problem.movable & (problem.node_of >= 0) & (node_of != problem.node_of)
    found += [Violation("pinned", int(task), -1, 1) for task in np.flatnonzero(fixed)]
    for index, rule in enumerate(problem.rules):
        found += [Violation(rule.kind, index, d, by) for d, by in enumerate(broken(rule, node_of)) if by > 0]
    return found


def _over_capacity(problem: Problem, node_of: Integers) -> list[Violation]:
    over = np.maximum(used(problem, node_of) - problem.total, 0)
    return [Violation("capacity", int(n), int(r), int(over[n, r])) for n, r in zip(*np.nonzero(over), strict=True)]


def broken(rule: Rule, node_of: Integers) -> list[int]:
    """For each domain of a rule, by how many tasks it is broken; a spread is broken as a whole."""
    both = np.intersect1d(rule.holders, rule.targets)
    targets = per_domain(rule, rule.targets, node_of)
    alone = per_domain(rule, np.setdiff1d(rule.holders, both), node_of)
    twice = per_domain(rule, both, node_of)
    if rule.kind == APART:
        beside = np.maximum(np.where(alone > 0, targets, 0), np.where(twice > 0, targets - 1, 0))
        return [int(x) for x in np.maximum(beside - rule.most, 0)]
    if rule.kind == TOGETHER:
        only = int((node_of[rule.targets] >= 0).sum()) == 1
        lonely = ((alone > 0) & (targets == 0)) | ((twice > 0) & (targets < 2) & (not only))
        # Nobody is beside a holder that lies in no domain.
        places = node_of[rule.holders]
        outside = int((rule.domain_of[places[places >= 0]] < 0).sum())
        return [*(int(x) for x in lonely), outside]
    least = int(targets.min()) if len(targets) else 0
    skew = np.where(alone + twice > 0, targets - least - rule.most, 0)
    # One number for the whole rule: what makes the worst no worse may fill another domain.
    return [max(int(skew.max(initial=0)), 0)]


def per_domain(rule: Rule, tasks: Integers, node_of: Integers) -> Integers:
    """How many of these tasks each domain holds."""
    nodes = node_of[tasks]
    domains = rule.domain_of[nodes[nodes >= 0]]
    return np.bincount(domains[domains >= 0], minlength=rule.domains).astype(np.int64)


def new_violations(problem: Problem, node_of: Integers, since: Integers | None = None) -> list[Violation]:
    """What a placement breaks that was not broken as much before: a plan never adds to what it found.

    Nobody becomes lonely by what happens elsewhere: a domain that kept its tasks is left out, as Kubernetes does.
    """
    before = problem.node_of if since is None else since
    old = {v[:3]: v.amount for v in violations(problem, before)}
    found = [v for v in violations(problem, node_of) if v.amount > old.get(v[:3], 0)]
    return [v for v in found if v.kind != TOGETHER or _touched(problem.rules[v.subject], v.domain, before, node_of)]


def _touched(rule: Rule, domain: int, before: Integers, after: Integers) -> bool:
    """Whether a task of a rule came to a domain or left it; what lies outside all domains always counts."""
    members = np.union1d(rule.holders, rule.targets)
    inside = [(x[members] >= 0) & (rule.domain_of[x[members]] == domain) for x in (before, after)]
    return domain >= rule.domains or not np.array_equal(*inside)


def feasible(problem: Problem, node_of: Integers) -> bool:
    """Whether a placement breaks nothing at all."""
    return not violations(problem, node_of)


def describe(problem: Problem, found: Sequence[Violation], most: int = 5) -> str:
    """Violations for people."""
    words = [_sentence(problem, v) for v in found[:most]]
    return "; ".join([*words, f"and {len(found) - most} more"] if len(found) > most else words)


def _sentence(problem: Problem, found: Violation) -> str:
    if found.kind == "capacity":
        return f"{problem.nodes[found.subject]} has more {problem.resources[found.domain]} asked of it than it has"
    if found.kind in ("constraint", "pinned"):
        why = "may not lie where it is put" if found.kind == "constraint" else "may not be moved"
        return f"{problem.tasks[found.subject]} {why}"
    return f"{problem.rules[found.subject].name} is broken"
