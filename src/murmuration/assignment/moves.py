"""From where the tasks are to where they should be, one allowed step after the other.

**What a step may rely on.** A step starts only when its node has room for the task while everything
else is where the steps before left it, and no rule is broken then. A task never waits outside the
cluster for room to appear, because in a real one it would be down meanwhile.

**How the order comes about.** All moves that are allowed now are made; that frees room and makes
others possible; and so on, until nothing is left or every move that is left waits for another. In
that case they wait in a ring (two tasks that change places between full nodes, say), and one of
them makes a *detour*: to a third node with room, from which it goes to its target later. A detour
is made only if it lets another move happen at once, so each one brings the end nearer and the loop
ends. Where no detour helps, the moves that are left are impossible and their tasks stay.

The result is not the shortest order there is: finding that is hard, and a detour is rare. It is
checked step by step by `check`, and carried out in virtual time by `planning.rehearsal`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from murmuration.assignment.packed import Packed, Work
from murmuration.assignment.problem import Problem, describe, new_violations, sum_requests
from murmuration.assignment.state import (
    PlacementState,
    legal,
    load,
    new_state,
    place_task,
    remove_task,
    takes,
    whole,
)
from murmuration.base.arrays import Flags, Indices, Integers
from murmuration.base.jit import loop_kernel


class MoveStep(NamedTuple):
    """A task goes to a node, from another or from none (−1); steps of one wave may run side by
    side."""

    task: int
    origin: int
    node: int
    wave: int = 0
    detour: bool = False


@dataclass(frozen=True)
class MoveOrder:
    """Steps in order, the placement they end in, and the tasks whose moves are impossible."""

    steps: tuple[MoveStep, ...]
    node_of: Indices
    blocked: tuple[int, ...]

    @property
    def moved(self) -> int:
        """Tasks that were on a node and are moved."""
        return len({step.task for step in self.steps if step.origin >= 0})


def order_moves(work: Work, node_of: Indices) -> MoveOrder:
    """Steps from the present placement to another one."""
    packed, problem = work.packed, work.problem
    state = new_state(packed)
    present = work.placement(problem.present)
    load(packed, state, present)
    target = work.placement(node_of).astype(np.int64)
    pending = np.flatnonzero((target != present) & (target >= 0))
    # Small tasks first: they fit while it is crowded, and make room for large ones.
    pending = pending[np.argsort(packed.request[pending, 1], kind="stable")]
    made: list[MoveStep] = []
    while True:
        made += _advance(packed, state, target, pending)
        pending = pending[state.x[pending] != target[pending]]
        detour = _make_detour(packed, state, target, pending) if len(pending) else []
        more = detour or _settle(packed, state, target)
        made += more
        if not more:
            break
    steps = [step._replace(task=int(work.order[step.task])) for step in made]
    blocked = tuple(int(work.order[t]) for t in pending)
    ended = work.restore(state.x)
    # Who could not leave a node that goes has none in the end.
    ended = np.where((ended == problem.present) & (problem.node_of < 0), -1, ended)
    return MoveOrder(_number_waves(problem, steps), ended, blocked)


def _settle(packed: Packed, state: PlacementState, target: Indices) -> list[MoveStep]:
    """Where moves turned out impossible, or a plan found no node: put tasks that have none, or
    whose node goes, on any node that takes them now. That node is their target from then on."""
    home = state.x.astype(np.int64)
    homeless = packed.movable[(packed.start[packed.movable] < 0)]
    homeless = homeless[(home[homeless] != target[homeless]) | (home[homeless] < 0)]
    steps = []
    for task in homeless[np.argsort(-packed.priority[homeless], kind="stable")].tolist():
        node = find_node(packed, state, task)
        if node >= 0:
            target[task] = node
            shift(packed, state, task, node)
            steps.append(MoveStep(task, int(home[task]), node))
    return steps


def _advance(
    packed: Packed, state: PlacementState, target: Indices, pending: Indices
) -> list[MoveStep]:
    """Make the moves that are possible; tasks in packed order."""
    steps = np.empty((len(pending), 3), dtype=np.int64)
    count = make_moves(packed, state, target, pending, steps)
    return [MoveStep(int(t), int(a), int(b)) for t, a, b in steps[:count]]


def _make_detour(
    packed: Packed, state: PlacementState, target: Indices, pending: Indices
) -> list[MoveStep]:
    """Send a task over a third node, and make the moves that allows; empty, and nothing changed, if
    none does."""
    task, node = find_detour(packed, state, target, pending)
    if task < 0:
        return []
    home = int(state.x[task])
    shift(packed, state, task, node)
    freed = _advance(packed, state, target, pending)
    if not freed:
        # The task on its detour took part in a rule that now keeps out who should have come: it
        # goes back, and no other detour is tried.
        shift(packed, state, task, home)
        return []
    return [MoveStep(task, home, node, detour=True), *freed]


@loop_kernel
def make_moves(
    p: Packed, s: PlacementState, target: Indices, pending: Indices, steps: Integers
) -> int:
    """Make every move that is allowed now, then those it makes possible; returns how many.

    A task reaches its target once, so there are no more steps than pending tasks.
    """
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
                    remove_task(p, s, t)
                place_task(p, s, t, n)
    return count


@loop_kernel
def shift(p: Packed, s: PlacementState, t: int, n: int) -> None:
    """Move a task to a node, from its node or from none."""
    if s.x[t] >= 0:
        remove_task(p, s, t)
    place_task(p, s, t, n)


@loop_kernel
def find_node(p: Packed, s: PlacementState, t: int) -> int:
    """A node other than its own that takes a task now, one where no other's rule is made worse if
    there is any; −1 if none does."""
    found = -1
    for n in range(p.total.shape[0]):
        if n != s.x[t] and takes(p, s, t, n):
            if legal(p, s, t, n):
                return n
            found = n if found < 0 else found
    return found


@loop_kernel
def find_detour(p: Packed, s: PlacementState, target: Indices, pending: Indices) -> tuple[int, int]:
    """A task that could wait on a third node and so let another one in, and that node; (−1, −1) if
    there is none."""
    for k in range(pending.shape[0]):
        t = pending[k]
        home = whole(s.x[t])
        if home < 0:
            continue
        remove_task(p, s, t)
        helps = False
        for other in range(pending.shape[0]):
            u = pending[other]
            helps |= u != t and target[u] == home and legal(p, s, u, home)
        place_task(p, s, t, home)
        if not helps:
            continue
        for n in range(p.total.shape[0]):
            if n != home and n != target[t] and legal(p, s, t, n):
                return t, n
    return -1, -1


def _number_waves(problem: Problem, steps: list[MoveStep]) -> tuple[MoveStep, ...]:
    """Give steps that may run side by side one number.

    A step joins the wave of those before it if it fits without the room they free (they may not
    have ended), its disruption budget lets one more task be on the way, and no other step of the
    wave moves the same task. Who takes part in a rule waits for all before it: what a rule allows
    depends on where others are.
    """
    ruled = _mark_ruled(problem)
    free = problem.total - sum_requests(problem, problem.present)
    freed = np.zeros_like(free)
    down = np.zeros(len(problem.budget), dtype=np.int64)
    moving: set[int] = set()
    wave, numbered = 1, []
    for step in steps:
        request, budget = problem.request[step.task], problem.budget_of[step.task]
        stopped = budget >= 0 and step.origin >= 0 and down[budget] >= problem.budget[budget]
        fits = bool(((request <= free[step.node]) | (request == 0)).all())
        if not fits or stopped or step.task in moving or (ruled[step.task] and moving):
            wave += 1
            free, freed, moving = free + freed, np.zeros_like(freed), set()
            down[:] = 0
        free[step.node] -= request
        moving.add(step.task)
        if step.origin >= 0:
            freed[step.origin] += request
            if budget >= 0:
                down[budget] += 1
        numbered.append(step._replace(wave=wave))
    return tuple(numbered)


def _mark_ruled(problem: Problem) -> Flags:
    """The tasks that take part in a rule."""
    ruled = np.zeros(len(problem.tasks), dtype=np.bool_)
    for rule in problem.rules:
        ruled[rule.members] = True
    return ruled


def check(problem: Problem, order: MoveOrder) -> list[str]:
    """What is wrong with an order of moves by the plain rules of `problem`: the oracle of tests."""
    node_of = problem.present.copy()
    errors = []
    for step in order.steps:
        if node_of[step.task] != step.origin:
            errors.append(f"{problem.tasks[step.task]} is not where the step begins")
        before = node_of.copy()
        node_of[step.task] = step.node
        if worse := new_violations(problem, node_of, before):
            errors.append(describe(problem, worse))
    node_of = np.where((node_of == problem.present) & (problem.node_of < 0), -1, node_of)
    if not np.array_equal(node_of, order.node_of):
        errors.append("the steps do not end where they should")
    return errors
