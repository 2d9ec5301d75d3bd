"""The plain arrays every planner works on, and the oracle that says whether an allocation is
allowed.

A *placement* is one node per task, −1 for unplaced. Nothing here is clever: `violations` is written
to be read, and whatever a search, an exact solver or an order of moves claims is checked against
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as field_of
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from murmuration.assignment.details import SnapshotDetails
from murmuration.base.arrays import Amounts, Flags, Floats, Indices, Integers
from murmuration.base.resources import format_amount

if TYPE_CHECKING:
    from murmuration.assignment.preferences import Preferences

UNPLACED = -1
#: What a rule between tasks asks for.
APART, TOGETHER, SPREAD = "apart", "together", "spread"


@dataclass(frozen=True)
class Rule:
    """A rule between tasks, by domain: a node, a zone, or whatever else `domain_of` parts the nodes
    into (−1: none).

    A rule speaks of *holders*, the tasks that have it, and *targets*, the tasks it is about; a task
    may be both, and then is no target to itself.

    apart: beside each holder at most `limit` targets lie in its domain.
    together: beside each holder lies at least one target; the only target of all may lie alone.
    spread: a domain with a holder has at most `limit` targets more than the emptiest domain.
    """

    kind: str
    name: str
    holders: Indices
    targets: Indices
    domain_of: Indices
    limit: int = 0
    #: A spread over fewer domains than this counts one more, which has no node and holds nothing.
    domains_min: int = 0
    #: Whether a spread leaves out the nodes that are closed, and what lies on them.
    only_open: bool = False

    @property
    def domains(self) -> int:
        there = int(self.domain_of.max(initial=-1)) + 1
        return there + (there < self.domains_min)

    @cached_property
    def members(self) -> Indices:
        """The tasks the rule speaks of."""
        return np.union1d(self.holders, self.targets)

    @cached_property
    def parts(self) -> tuple[Indices, Indices, Indices]:
        """Targets, holders that are no targets, and those that are both."""
        both = np.intersect1d(self.holders, self.targets)
        return self.targets, np.setdiff1d(self.holders, both), both

    def without_nodes(self, gone: Flags) -> Rule:
        """The same rule where these nodes are in no domain; the domains left are numbered anew."""
        left, numbers = np.unique(np.where(gone, -1, self.domain_of), return_inverse=True)
        return replace(self, domain_of=numbers - int(left[0] < 0))

    def subset(self, keep: Flags) -> Rule:
        """The same rule over some of the tasks, by their new numbers."""
        place = np.cumsum(keep) - 1
        holders, targets = (place[tasks[keep[tasks]]] for tasks in (self.holders, self.targets))
        return replace(self, holders=holders, targets=targets)


class Violation(NamedTuple):
    """One thing that is not allowed: `kind`, the node, task or rule it concerns (and the domain),
    and by how much."""

    kind: str
    subject: int
    domain: int
    amount: int


#: The columns of a problem that have one entry per task.
PER_TASK = (
    "request",
    "node_of",
    "class_of",
    "group",
    "pinned",
    "budget_of",
    "priority",
    "megabytes",
)


@dataclass(frozen=True)
class Problem:
    """Nodes, tasks, where the tasks are now, and what binds them.

    Task t may use the nodes of row `class_of[t]` of `allowed`; a pinned task stays where it is.
    Tasks of one `group` are replicas of one service. `budget_of` names the disruption budget a task
    counts against (−1: none), of which at most `budget[b]` tasks may be on the way at once.
    """

    resources: tuple[str, ...]
    nodes: tuple[str, ...]
    tasks: tuple[str, ...]
    total: Amounts
    request: Amounts
    node_of: Indices
    allowed: Flags
    class_of: Indices
    group: Indices
    pinned: Flags
    budget_of: Indices
    budget: Integers
    rules: tuple[Rule, ...]
    priority: Integers
    megabytes: Floats
    zone_of: Indices
    price: Floats
    idle_watts: Floats
    peak_watts: Floats
    #: What a reader of the plan should know about the snapshot.
    notes: tuple[str, ...] = ()
    #: Integers per natural unit of each resource; empty for the usual ones.
    units: tuple[float, ...] = ()
    #: The node a task still lies on though it is to be without one, because that node goes; −1 for
    #: the others, None if no node goes.
    leaves: Indices | None = None
    #: What tasks would rather have; None if nobody says.
    preferences: Preferences | None = field_of(default=None, compare=False)
    #: Where the problem was read from; None if it was made from arrays.
    source: SnapshotDetails | None = field_of(default=None, compare=False)

    def __post_init__(self) -> None:
        nodes, tasks = len(self.nodes), len(self.tasks)
        assert self.total.shape == (nodes, len(self.resources)), "one row of totals per node"
        assert self.request.shape == (tasks, len(self.resources)), "one request per task"
        assert all(len(getattr(self, name)) == tasks for name in PER_TASK), "one entry per task"
        assert self.allowed.shape[1] == nodes, "one flag per class and node"
        assert self.node_of.max(initial=-1) < nodes, "a task lies on a node that is not there"
        assert self.source is None or len(self.source.services) == tasks, "a source of other tasks"

    @property
    def present(self) -> Indices:
        """Where the tasks lie when the first step is made, those on nodes that go included."""
        return self.with_leaving(self.node_of)

    def with_leaving(self, node_of: Indices) -> Indices:
        """A placement in which tasks that got no new node still lie on the node that goes."""
        if self.leaves is None:
            return node_of
        return np.where((node_of < 0) & (self.leaves >= 0), self.leaves, node_of)

    @property
    def movable(self) -> Flags:
        """Tasks a plan may place or move: a budget of nothing pins its tasks."""
        stuck = (self.budget_of >= 0) & (self._budget_left() == 0)
        return np.asarray(~self.pinned & ((self.node_of < 0) | ~stuck))

    def _budget_left(self) -> Integers:
        return np.append(self.budget, 0)[self.budget_of]

    @cached_property
    def _rules_by_task(self) -> tuple[Integers, Integers]:
        """Where each task's rules begin, and the rules of all tasks one after the other."""
        members = [rule.members for rule in self.rules]
        tasks = np.concatenate([*members, np.zeros(0, dtype=np.int64)]).astype(np.int64)
        rules = np.repeat(np.arange(len(members)), [len(part) for part in members])
        by_task = np.argsort(tasks, kind="stable")
        return np.searchsorted(tasks[by_task], np.arange(len(self.tasks) + 1)), rules[by_task]

    def rules_of(self, tasks: Integers) -> list[int]:
        """The rules that speak of any of these tasks."""
        first, rules = self._rules_by_task
        if len(tasks) == len(self.tasks):
            return list(range(len(self.rules)))
        return sorted(
            {int(rule) for task in tasks.tolist() for rule in rules[first[task] : first[task + 1]]}
        )

    def may_use(self, task: int) -> Flags:
        """The nodes a task may lie on: those its class allows, and the one it is on."""
        nodes: Flags = self.allowed[self.class_of[task]].copy()
        if self.node_of[task] >= 0:
            nodes[self.node_of[task]] = True
        return nodes

    def format(self, resource: int, amount: int) -> str:
        """An amount of a resource for people."""
        unit = self.units[resource] if self.units else None
        return format_amount(self.resources[resource], amount, unit)

    def subset(self, keep: Flags) -> Problem:
        """The same problem with some of its tasks. A rule without holders is left out, and one
        without targets too, unless it asks for company that then nobody gives."""
        rules = [rule.subset(keep) for rule in self.rules]
        return replace(
            self,
            tasks=tuple(self.tasks[t] for t in np.flatnonzero(keep).tolist()),
            rules=tuple(
                rule
                for rule in rules
                if len(rule.holders) and (len(rule.targets) or rule.kind == TOGETHER)
            ),
            preferences=None if self.preferences is None else self.preferences.subset(keep),
            leaves=None if self.leaves is None else self.leaves[keep],
            source=None if self.source is None else self.source.subset(keep),
            **{name: getattr(self, name)[keep] for name in PER_TASK},
        )


def problem_of(
    total: Any, request: Any, node_of: Any = None, group: Any = None, **others: Any
) -> Problem:
    """A problem from the few arrays that matter, the rest plain: for tests, benchmarks and other
    formats."""
    total, request = np.asarray(total, dtype=np.int64), np.asarray(request, dtype=np.int64)
    n, t = len(total), len(request)
    names = ("cpu", "memory", *(f"resource-{k}" for k in range(2, total.shape[1])))[
        : total.shape[1]
    ]
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


def sum_requests(problem: Problem, node_of: Indices) -> Amounts:
    """What the placed tasks ask of each node."""
    amounts = np.zeros_like(problem.total)
    placed = node_of >= 0
    np.add.at(amounts, node_of[placed], problem.request[placed])
    return amounts


def violations(problem: Problem, node_of: Integers) -> list[Violation]:
    """Everything that is not allowed in a placement; an unplaced task is no violation."""
    return _check_tasks(problem, node_of) + _check_rules(
        problem, node_of, range(len(problem.rules))
    )


def _check_tasks(problem: Problem, node_of: Integers) -> list[Violation]:
    """Nodes with more asked of them than they have, and tasks that may not lie where they are."""
    allowed = (
        problem.allowed[problem.class_of, node_of] | (node_of == problem.node_of) | (node_of < 0)
    )
    moved_though_fixed = ~problem.movable & (problem.node_of >= 0) & (node_of != problem.node_of)
    return [
        *_check_capacity(problem, node_of),
        *(Violation("constraint", int(task), -1, 1) for task in np.flatnonzero(~allowed)),
        *(Violation("pinned", int(task), -1, 1) for task in np.flatnonzero(moved_though_fixed)),
    ]


def _check_rules(problem: Problem, node_of: Integers, rules: Iterable[int]) -> list[Violation]:
    return [
        Violation(problem.rules[k].kind, k, d, by)
        for k in rules
        for d, by in find_broken(problem.rules[k], node_of).items()
    ]


def _check_capacity(problem: Problem, node_of: Integers) -> list[Violation]:
    over = np.maximum(sum_requests(problem, node_of) - problem.total, 0)
    return [
        Violation("capacity", int(n), int(r), int(over[n, r]))
        for n, r in zip(*np.nonzero(over), strict=True)
    ]


def find_broken(rule: Rule, node_of: Integers) -> dict[int, int]:
    """The domains in which a rule is broken, and by how many tasks; a spread is broken as a whole,
    in domain 0."""
    targets, alone, twice = (Counter(domains_of(rule, tasks, node_of)) for tasks in rule.parts)
    if rule.kind == APART:
        # A holder that is a target does not count against itself; where another holder lies that is
        # none, all targets count.
        beside = {d: targets[d] - (0 if alone[d] else 1) - rule.limit for d in {**alone, **twice}}
        return {d: by for d, by in beside.items() if by > 0}
    if rule.kind == TOGETHER:
        return _find_broken_together(rule, node_of, targets, alone, twice)
    emptiest = min((targets[d] for d in range(rule.domains)), default=0)
    # One number for the whole rule: what makes the worst domain no worse may fill another one.
    skew = max((targets[d] - emptiest - rule.limit for d in {**alone, **twice}), default=0)
    return {0: skew} if skew > 0 else {}


def _find_broken_together(
    rule: Rule,
    node_of: Indices,
    targets: Counter[int],
    alone: Counter[int],
    twice: Counter[int],
) -> dict[int, int]:
    """Domains whose holders have no target beside them. The only placed target of all may lie
    alone, or the first replica of a service could never be placed."""
    only = int((node_of[rule.targets] >= 0).sum()) == 1
    lonely = [d for d in alone if targets[d] == 0] + [
        d for d in twice if targets[d] < 2 and not only
    ]
    # A holder in no domain has nobody beside it; all of these count as one domain after the last.
    places = node_of[rule.holders]
    outside = int((rule.domain_of[places[places >= 0]] < 0).sum())
    return {**dict.fromkeys(lonely, 1), **({rule.domains: outside} if outside else {})}


def domains_of(rule: Rule, tasks: Integers, node_of: Integers) -> list[int]:
    """The domain of each of these tasks that lies in one."""
    nodes = node_of[tasks]
    domains = rule.domain_of[nodes[nodes >= 0]]
    inside: list[int] = domains[domains >= 0].tolist()
    return inside


def new_violations(
    problem: Problem, node_of: Integers, since: Integers | None = None
) -> list[Violation]:
    """What a placement breaks that was not broken as much before: a cluster may break rules
    already, and a plan must not make that worse."""
    before = problem.node_of if since is None else since
    more = _find_greater(_check_tasks(problem, node_of), _check_tasks(problem, before))
    return more + new_broken(problem, np.flatnonzero(node_of != before), node_of, before)


def new_broken(
    problem: Problem, moved: Integers, node_of: Integers, before: Integers
) -> list[Violation]:
    """The rules among them; one that speaks of none of the tasks that moved is as broken as it was.

    A task that must lie together with others does not become lonely by what happens in other
    domains: a domain that kept its tasks is left out, as Kubernetes does. Nor does it ask a spread
    about tasks that had no node, or whose node goes, unless they hold it themselves: those are
    judged when they arrive. Where a single task moved, its arrival is judged here.
    """
    rules = problem.rules_of(moved)
    after = _check_rules(problem, node_of, rules)
    homeless = moved[problem.node_of[moved] < 0]
    more = _find_greater(after, _check_rules(problem, before, {v.subject for v in after}))
    settled = before.copy()
    settled[homeless] = node_of[homeless]
    worse = [v for v in more if _is_blamed(problem.rules[v.subject], v, before, settled, node_of)]
    if worse or len(moved) != 1:
        return worse
    task = int(moved[0])
    refused = [k for k in rules if refuses_arrival(problem.rules[k], task, node_of)]
    return [Violation(problem.rules[k].kind, k, -1, 1) for k in refused]


def _is_blamed(
    rule: Rule, violation: Violation, before: Integers, settled: Integers, after: Integers
) -> bool:
    """Whether a broken rule counts: `settled` is the placement before, with those who had no node
    where they are after."""
    if rule.kind == TOGETHER:
        return _is_touched(rule, violation.domain, before, after)
    if rule.kind == SPREAD:
        return violation.amount > find_broken(rule, settled).get(violation.domain, 0)
    return True


def refuses_arrival(rule: Rule, task: int, node_of: Integers) -> bool:
    """Whether a rule would not let a task come where it lies now, all others being where they are.

    What was broken before does not excuse it: whoever comes is judged by the domain it comes to, as
    Kubernetes' scheduler does.
    """
    domain = int(rule.domain_of[node_of[task]]) if node_of[task] >= 0 else -1
    if node_of[task] < 0 or (rule.kind != APART and task not in rule.holders):
        return False
    if rule.kind == APART:
        return domain in find_broken(rule, node_of)
    if domain < 0:
        return True
    others = Counter(domains_of(rule, rule.targets[rule.targets != task], node_of))
    itself = int(task in rule.targets)
    if rule.kind == TOGETHER:
        anywhere = (node_of[rule.targets[rule.targets != task]] >= 0).any()
        return not (others[domain] or (itself and not anywhere))
    emptiest = min(others[d] for d in range(rule.domains))
    return others[domain] + itself - emptiest > rule.limit


def _find_greater(after: list[Violation], before: list[Violation]) -> list[Violation]:
    """The violations that are new, or greater than they were."""
    amounts = {v[:3]: v.amount for v in before}
    return [v for v in after if v.amount > amounts.get(v[:3], 0)]


def _is_touched(rule: Rule, domain: int, before: Integers, after: Integers) -> bool:
    """Whether a task of a rule came to a domain or left it; what lies outside all domains always
    counts."""
    inside = [
        (x[rule.members] >= 0) & (rule.domain_of[x[rule.members]] == domain)
        for x in (before, after)
    ]
    return domain >= rule.domains or not np.array_equal(*inside)


def feasible(problem: Problem, node_of: Integers) -> bool:
    """Whether a placement breaks nothing at all."""
    return not violations(problem, node_of)


def describe(problem: Problem, listed: Sequence[Violation], max_shown: int = 5) -> str:
    """Violations for people."""
    words = [_sentence(problem, v) for v in listed[:max_shown]]
    more = len(listed) - max_shown
    return "; ".join([*words, f"and {more} more"] if more > 0 else words)


def _sentence(problem: Problem, violation: Violation) -> str:
    if violation.kind == "capacity":
        return (
            f"{problem.nodes[violation.subject]} has more {problem.resources[violation.domain]} "
            "asked of it than it has"
        )
    if violation.kind == "constraint":
        return f"{problem.tasks[violation.subject]} may not lie where it is put"
    if violation.kind == "pinned":
        return f"{problem.tasks[violation.subject]} may not be moved"
    return f"{problem.rules[violation.subject].name} is broken"
