"""The moves of a plan carried out in virtual time: how long they take, how many at once, and that
no node overflows.

**Time.** Where tasks migrate, a move copies a task's memory at a given rate. Kubernetes migrates
nothing: a pod ends and another one starts, so a move takes as long as that pod took before until it
was ready, where the snapshot tells, or as its replicas did. Either way a move counts on both nodes
until it ends; a new task runs at once.

**Order.** The steps of a plan are right one after the other, but carrying them out that way would
take hours. A step may overtake an earlier one only where that cannot matter:

- a step to a node leaves room there for the earlier steps to it that have not begun;
- a step from a node waits until all earlier steps to that node have begun, because those were
  ordered when the task was still there, and the room it frees is not theirs;
- steps of one task, or of tasks under one rule, run one after the other;
- a disruption budget lets no more of its tasks be on the way than it allows.

So no step ever uses room that the order does not give it, and a wrong order gets stuck here instead
of overloading a node later.

**Two witnesses.** `_Stage` runs the steps on `ClusterState`, the table of the whole program, which
refuses what does not fit. `_replay` then goes through what happened with plain sums and looks at
every node's load at every moment. An error of either stops the plan.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from murmuration.assignment.moves import MoveStep
from murmuration.assignment.problem import Problem, describe, new_broken, sum_requests
from murmuration.base.arrays import Flags, Floats, Integers
from murmuration.base.resources import Resources
from murmuration.cluster.state import Assignment, ClusterState

#: A gigabit per second, in megabytes.
RATE = 125.0
#: Seconds until a restarted task is ready where no task of the snapshot tells.
READY_S = 30.0


class Pace(NamedTuple):
    """How fast moves are made: by copying megabytes a second, or None where tasks restart; then the
    seconds until one is ready whose snapshot does not tell."""

    rate: float | None = RATE
    ready_s: float | None = None


MIGRATING = Pace()


def pace_of(problem: Problem, rate: float | None, ready_s: float | None) -> Pace:
    """Pods of Kubernetes restart unless a rate is given; everything else migrates."""
    restarts = problem.source is not None and problem.source.format == "kubernetes"
    if rate is None and restarts:
        return Pace(None, ready_s)
    return Pace(RATE if rate is None else rate, ready_s)


@dataclass(frozen=True)
class Moment:
    """After a step began or ended: the time, how many are under way, and the load of the fullest
    node."""

    at: float
    step: int
    began: bool
    under_way: int = 0
    load: float = 0.0


@dataclass
class MoveRehearsal:
    """The result. There are no `errors` if every step could be made and no node was above its total
    on the way.

    A node the snapshot shows above its total (`overfull`) must not get fuller.
    """

    rate: float | None
    start: Floats
    end: Floats
    megabytes: float
    moments: list[Moment]
    load_before: float = 0.0
    overfull: int = 0
    #: Tasks that are restarted; none where tasks migrate.
    restarts: int = 0
    #: Nodes that were above their total on the way, or fuller than before if they were above it
    #: then.
    above: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return max((moment.at for moment in self.moments), default=0.0)

    @property
    def takes_time(self) -> Flags:
        """Steps that copy something; a new task is there at once, and so never under way."""
        return np.asarray(~(self.end <= self.start))

    @property
    def one_by_one(self) -> float:
        """How long it takes if every step waits for the one before."""
        return float(np.nansum(self.end - self.start))

    @property
    def at_once(self) -> int:
        return max((moment.under_way for moment in self.moments), default=0)

    @property
    def load(self) -> float:
        return max((moment.load for moment in self.moments), default=self.load_before)


def rehearse(
    problem: Problem,
    steps: Sequence[MoveStep],
    pace: Pace = MIGRATING,
    displaced: Iterable[int] = (),
) -> MoveRehearsal:
    """Carry the steps out; tasks of `displaced` still run on a node that goes, so they take their
    time as well."""
    moved = {*displaced, *(step.task for step in steps if step.origin >= 0)}
    moves = np.array([step.task in moved for step in steps], dtype=np.bool_)
    tasks = np.array([step.task for step in steps], dtype=np.int64)
    megabytes = np.where(moves, problem.megabytes[tasks], 0.0)
    if pace.rate is None:
        seconds = np.where(moves, _until_ready(problem, pace.ready_s)[tasks], 0.0)
    else:
        seconds = megabytes / pace.rate
    stage = _Stage(problem, steps, seconds)
    stage.run()
    rehearsal = MoveRehearsal(
        pace.rate,
        stage.start,
        stage.end,
        float(megabytes.sum()),
        stage.moments,
        restarts=int(moves.sum()) if pace.rate is None else 0,
        errors=stage.errors,
    )
    _replay(problem, steps, rehearsal)
    return rehearsal


def _until_ready(problem: Problem, ready_s: float | None) -> Floats:
    """Seconds until each task is ready again: as it took before, else as the median replica of its
    service, else `ready_s`, else as the median of all."""
    told = problem.source.ready_s if problem.source is not None else ()
    seconds = np.array(told or np.full(len(problem.tasks), np.nan))
    known = ~np.isnan(seconds)
    usual = float(np.median(seconds[known])) if known.any() else READY_S
    by_group: dict[int, list[float]] = {}
    for group, value in zip(problem.group[known].tolist(), seconds[known].tolist(), strict=True):
        by_group.setdefault(group, []).append(value)
    others = {group: float(np.median(values)) for group, values in by_group.items()}
    rest = usual if ready_s is None else ready_s
    filled = [others.get(group, rest) for group in problem.group.tolist()]
    return np.where(known, seconds, filled)


class _Stage:
    """A rehearsal under way: the cluster table, what has begun and ended, and who waits for
    whom."""

    def __init__(self, problem: Problem, steps: Sequence[MoveStep], seconds: Floats) -> None:
        self.problem, self.steps, self.seconds = problem, steps, seconds
        self.table = _table(problem)
        self.node_of, self.movable = problem.present.copy(), problem.movable
        self.start, self.end = (np.full(len(steps), np.nan) for _ in range(2))
        self.moments: list[Moment] = []
        self.errors: list[str] = []
        self.now = 0.0
        self.under_way: list[tuple[float, int]] = []
        #: Tasks of each budget that are on the way.
        self.down: Counter[int] = Counter()
        #: Steps to each node that have not begun.
        self.coming: dict[int, list[int]] = {}
        for k, step in enumerate(steps):
            self.coming.setdefault(step.node, []).append(k)
        self.after_start, self.after_end, self.waits = _prerequisites(problem, steps)
        #: Steps that wait for room on a node, or for a disruption budget.
        self.held: dict[tuple[str, int], list[int]] = {}
        self.ready = [k for k in range(len(steps)) if self.waits[k] == 0]

    def run(self) -> None:
        """Begin whatever may begin, then let time pass until the next steps end."""
        self._begin_all()
        while self.under_way and not self.errors:
            self.now = self.under_way[0][0]
            while self.under_way and self.under_way[0][0] == self.now:
                self._finish(heapq.heappop(self.under_way)[1])
            self._begin_all()
        if not self.errors and np.isnan(self.start).any():
            self.errors.append(self._stuck(int(np.isnan(self.start).argmax())))
        self.table.check()

    def _begin_all(self) -> None:
        """The ready in their order; one that begins may make others ready."""
        while self.ready and not self.errors:
            self._begin(heapq.heappop(self.ready))

    def _begin(self, k: int) -> None:
        step, budget = self.steps[k], int(self.problem.budget_of[self.steps[k].task])
        assert np.isnan(self.start[k]), "a step begins once"
        if self._is_over_budget(step, budget):
            self.held.setdefault(("budget", budget), []).append(k)
            return
        if not self._take_room(k, step):
            self.held.setdefault(("node", step.node), []).append(k)
            return
        self._check(k)
        self.start[k] = self.now
        self.down[budget] += step.origin >= 0
        heapq.heappush(self.under_way, (self.now + float(self.seconds[k]), k))
        self.moments.append(Moment(self.now, k, True))
        self._release(self.after_start[k])

    def _is_over_budget(self, step: MoveStep, budget: int) -> bool:
        """Whether a disruption budget lets no more of its tasks go now."""
        return budget >= 0 and step.origin >= 0 and self.down[budget] >= self.problem.budget[budget]

    def _take_room(self, k: int, step: MoveStep) -> bool:
        """Whether the task now counts on its new node, beside those that should have come there
        before it."""
        request = self.problem.request
        promised = [
            request[self.steps[other].task] for other in self.coming[step.node] if other < k
        ]
        asked = request[step.task]
        if (
            promised
            and not ((asked + sum(promised) <= self.table.free[step.node]) | (asked == 0)).all()
        ):
            return False
        if step.origin >= 0:
            taken = self.table.begin_migration(str(step.task), step.node)
        else:
            taken = self.table.assign(_assignment(self.problem, step.task, step.node))
        if taken:
            self.coming[step.node].remove(k)
        return taken

    def _check(self, k: int) -> None:
        """The step against the plain rules: where the task is, where it may go, and whom it must
        lie with or not."""
        step, problem = self.steps[k], self.problem
        after = self.node_of.copy()
        after[step.task] = step.node
        broken = new_broken(problem, np.array([step.task]), after, self.node_of)
        errors = [describe(problem, broken)] if broken else []
        if self.node_of[step.task] != step.origin:
            errors.append(f"{problem.tasks[step.task]} is not where the step begins")
        if not problem.may_use(step.task)[step.node] or not self.movable[step.task]:
            errors.append(f"{problem.tasks[step.task]} may not go to {problem.nodes[step.node]}")
        self.errors += [f"step {k + 1}: {sentence}" for sentence in errors]

    def _finish(self, k: int) -> None:
        step, budget = self.steps[k], int(self.problem.budget_of[self.steps[k].task])
        if step.origin >= 0:
            self.table.end_migration(str(step.task), moved=True)
            self.down[budget] -= 1
            assert self.down[budget] >= 0, "more of a budget ended than began"
        self.node_of[step.task] = step.node
        self.end[k] = self.now
        self.moments.append(Moment(self.now, k, False))
        self._release(self.after_end[k])
        for line in (("node", step.origin), ("budget", budget)):
            for other in self.held.pop(line, []):
                heapq.heappush(self.ready, other)

    def _release(self, others: Iterable[int]) -> None:
        for k in others:
            self.waits[k] -= 1
            if self.waits[k] == 0:
                heapq.heappush(self.ready, k)

    def _stuck(self, k: int) -> str:
        """Why the first step that never began could not: nothing is under way, and everything
        before it is done."""
        step, problem = self.steps[k], self.problem
        what = f"step {k + 1}: {problem.tasks[step.task]} cannot go to {problem.nodes[step.node]}"
        if self._is_over_budget(step, int(problem.budget_of[step.task])):
            return f"{what}: its disruption budget allows none of its pods to go"
        free = self.table.free[step.node]
        short = np.flatnonzero(
            (problem.request[step.task] > free) & (problem.request[step.task] > 0)
        )
        if not len(short):
            return f"{what}: it is not where the step begins"
        r = int(short[0])
        needs, has = (
            problem.format(r, int(row[r]))
            for row in (problem.request[step.task], np.maximum(free, 0))
        )
        return f"{what}: it asks for {needs} and {has} are free then"


def _table(problem: Problem) -> ClusterState:
    table = ClusterState(
        Resources(problem.resources, problem.units),
        problem.nodes,
        problem.total,
        ({},) * len(problem.nodes),
    )
    present = problem.present
    placed = np.flatnonzero(present >= 0).tolist()
    table.adopt([_assignment(problem, t, int(present[t])) for t in placed])
    return table


def _assignment(problem: Problem, task: int, node: int) -> Assignment:
    return Assignment(str(task), node, tuple(problem.request[task].tolist()))


def _prerequisites(
    problem: Problem, steps: Sequence[MoveStep]
) -> tuple[list[list[int]], list[list[int]], Integers]:
    """For each step the later ones that wait for its start, those that wait for its end, and for
    how many it waits itself."""
    after_start: list[list[int]] = [[] for _ in steps]
    after_end: list[list[int]] = [[] for _ in steps]
    waits = np.zeros(len(steps), dtype=np.int64)
    arrivals: dict[int, list[int]] = {}
    last: dict[tuple[str, int], int] = {}
    for k, step in enumerate(steps):
        # From a node once all earlier steps to it have begun; of one task, or under one rule, one
        # after the other.
        starts = arrivals.get(step.origin, [])
        lines = [
            ("task", step.task),
            *(("rule", rule) for rule in problem.rules_of(np.array([step.task]))),
        ]
        ends = {last[line] for line in lines if line in last}
        for before, waiting in ((starts, after_start), (ends, after_end)):
            for other in before:
                waiting[other].append(k)
        waits[k] = len(starts) + len(ends)
        arrivals.setdefault(step.node, []).append(k)
        last.update(dict.fromkeys(lines, k))
    return after_start, after_end, waits


def _replay(problem: Problem, steps: Sequence[MoveStep], rehearsal: MoveRehearsal) -> None:
    """Go through what happened with plain sums: note the load of the fullest node at every moment,
    and the nodes that were above their total."""
    use = sum_requests(problem, problem.present)
    limit = np.maximum(problem.total, use)
    known = problem.total > 0
    share = np.divide(use, problem.total, out=np.zeros(use.shape), where=known).max(axis=1)
    rehearsal.overfull = int((use > problem.total).any(axis=1).sum())
    rehearsal.load_before, under_way = float(share.max(initial=0.0)), 0
    moments, above, takes_time = list[Moment](), set[int](), rehearsal.takes_time
    for moment in rehearsal.moments:
        step = steps[moment.step]
        node, sign = (step.node, 1) if moment.began else (step.origin, -1)
        under_way += sign if takes_time[moment.step] else 0
        if node >= 0:
            use[node] += sign * problem.request[step.task]
            share[node] = (use[node][known[node]] / problem.total[node][known[node]]).max(
                initial=0.0
            )
            if (use[node] > limit[node]).any():
                above.add(node)
                rehearsal.errors.append(
                    f"step {moment.step + 1}: {problem.nodes[node]} is above its total"
                )
        moments.append(Moment(moment.at, moment.step, moment.began, under_way, float(share.max())))
    rehearsal.moments, rehearsal.above = moments, len(above)
