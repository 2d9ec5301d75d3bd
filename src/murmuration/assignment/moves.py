"""From where the tasks are to where they should be, one allowed step after the other.

A step starts only when its node has room for the task while everything else is where the steps
before left it, and no rule is broken then. Where moves wait for each other in a ring, one of them
makes a detour over a third node; where no node has room for that, the moves are said to be
impossible and their tasks stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.assignment.packed import Packed, Work
from murmuration.assignment.problem import Integers, Problem, describe, new_violations, used
from murmuration.assignment.state import State, enter, leave, legal, load, new_state, whole
from murmuration.base.jit import loop_kernel

Array = NDArray[Any]


class Step(NamedTuple):
    """A task goes to a node, from another or from none (−1); steps of one wave may run side by
    side."""

    task: int
    origin: int
    node: int
    wave: int = 0
    detour: bool = False


@dataclass(frozen=True)
class Order:
    """Steps in order, the placement they end in, and the tasks whose moves are impossible."""

    steps: tuple[Step, ...]
    node_of: Integers
    blocked: tuple[int, ...]

    @property
    def moved(self) -> int:
        """Tasks that end on another node than the one they were on."""
        return len({step.task for step in self.steps if step.origin >= 0})


def order(work: Work, node_of: Integers) -> Order:
    """Steps from the present placement to another one."""
    packed = work.packed
    state = new_state(packed)
    load(packed, state, packed.start.astype(np.int32))
    target = work.placement(node_of).astype(np.int64)
    pending = np.flatnonzero((target != packed.start) & (target >= 0))
    # Small tasks first make room for large ones last; what frees an overfull node goes before all.
    pending = pending[np.argsort(packed.request[pending, 1], kind="stable")]
    found: list[tuple[int, int, int, bool]] = []
    while True:
        found += _advance(packed, state, target, pending)
        pending = pending[state.x[pending] != target[pending]]
        if not len(pending):
            break
        task, node = detour(packed, state, target, pending)
        if task < 0:
            break
        home = int(state.x[task])
        go(packed, state, task, node)
        freed = _advance(packed, state, target, pending)
        if not freed:
            # A rule kept out who should have come: back, and no further.
            go(packed, state, task, home)
            break
        found += [(task, home, node, True), *freed]
    steps = [Step(int(work.order[t]), a, b, 0, by) for t, a, b, by in found]
    blocked = tuple(int(work.order[t]) for t in pending)
    return Order(_waves(work.problem, steps), work.restored(state.x), blocked)


def _advance(
    packed: Packed, state: State, target: Integers, pending: Integers
) -> list[tuple[int, int, int, bool]]:
    steps = np.empty((len(pending), 3), dtype=np.int64)
    count = run(packed, state, target, pending, steps)
    return [(int(t), int(a), int(b), False) for t, a, b in steps[:count]]


@loop_kernel
def run(p: Packed, s: State, target: Array, pending: Array, steps: Array) -> int:
    """Every move that is allowed now, then those it makes possible; returns how many."""
    count, before = 0, -1
    while count != before:
        before = count
        for k in range(pending.shape[0]):
            t = pending[k]
            n = target[t]
            if s.x[t] != n and legal(p, s, t, n):
                steps[count, 0], steps[count, 1], steps[count, 2] = t, s.x[t], n
                count += 1
                if s.x[t] >= 0:
                    leave(p, s, t)
                enter(p, s, t, n)
    return count


@loop_kernel
def go(p: Packed, s: State, t: int, n: int) -> None:
    if s.x[t] >= 0:
        leave(p, s, t)
    enter(p, s, t, n)


@loop_kernel
def detour(p: Packed, s: State, target: Array, pending: Array) -> tuple[int, int]:
    """A task that could wait on a third node, and so let another one in; (−1, −1) if there is
    none."""
    for k in range(pending.shape[0]):
        t = pending[k]
        home = whole(s.x[t])
        if home < 0:
            continue
        leave(p, s, t)
        helps = False
        for other in range(pending.shape[0]):
            u = pending[other]
            helps |= u != t and target[u] == home and legal(p, s, u, home)
        enter(p, s, t, home)
        if not helps:
            continue
        for n in range(p.total.shape[0]):
            if n != home and n != target[t] and legal(p, s, t, n):
                return t, n
    return -1, -1


def _waves(problem: Problem, steps: list[Step]) -> tuple[Step, ...]:
    """Steps that may run side by side get one number: room without what others free, budgets, no
    task twice."""
    ruled = np.zeros(len(problem.tasks), dtype=np.bool_)
    for rule in problem.rules:
        ruled[rule.holders] = ruled[rule.targets] = True
    free = problem.total - used(problem, problem.node_of)
    freed = np.zeros_like(free)
    down = np.zeros(len(problem.budget), dtype=np.int64)
    busy: set[int] = set()
    wave, found = 1, []
    for step in steps:
        request, budget = problem.request[step.task], problem.budget_of[step.task]
        stopped = budget >= 0 and step.origin >= 0 and down[budget] >= problem.budget[budget]
        fits = bool(((request <= free[step.node]) | (request == 0)).all())
        if not fits or stopped or step.task in busy or (ruled[step.task] and busy):
            wave += 1
            free, freed, busy = free + freed, np.zeros_like(freed), set()
            down[:] = 0
        free[step.node] -= request
        busy.add(step.task)
        if step.origin >= 0:
            freed[step.origin] += request
            if budget >= 0:
                down[budget] += 1
        found.append(step._replace(wave=wave))
    return tuple(found)


def check(problem: Problem, found: Order) -> list[str]:
    """What is wrong with an order of moves: the oracle of tests, and the last look before a plan is
    shown."""
    node_of = problem.node_of.copy()
    wrong = []
    for step in found.steps:
        if node_of[step.task] != step.origin:
            wrong.append(f"{problem.tasks[step.task]} is not where the step begins")
        before = node_of.copy()
        node_of[step.task] = step.node
        if worse := new_violations(problem, node_of, before):
            wrong.append(describe(problem, worse))
    if not np.array_equal(node_of, found.node_of):
        wrong.append("the steps do not end where they should")
    return wrong
