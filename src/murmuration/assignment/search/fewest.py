"""Placing what has no node with the fewest moves of what has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from murmuration.assignment import objectives as of
from murmuration.assignment.packed import Work
from murmuration.assignment.problem import Problem
from murmuration.assignment.search.ejection import make_room
from murmuration.assignment.search.exact import is_available, is_small_enough, solve_fewest_moves
from murmuration.assignment.search.improve import place_unplaced
from murmuration.assignment.state import load, new_state
from murmuration.base.arrays import Indices
from murmuration.base.random import state as random_state


class Fewest(NamedTuple):
    """A placement, how many tasks it moves, and the fewest any placement of as many tasks could;
    None if not proved."""

    node_of: Indices
    moves: int
    bound: int | None


def fewest_moves(
    work: Work,
    seed: int,
    exact_effort: float,
    moves_max: float = np.inf,
    left: Callable[[], float] = lambda: np.inf,
) -> Fewest:
    """Place every task that has no node with the fewest moves of others, and not more of them than
    `moves_max`. `left` says how many seconds there are yet.

    First without moving anything, each task on the node whose CPU and memory stay most even. Where
    that leaves tasks unplaced, by chains of ejections. With some effort to spend, the exact solver
    confirms or improves the number of moves where the problem is small.
    """
    node_of = _place_beside(work, seed)
    if (node_of >= 0).all() or moves_max < 1:
        return Fewest(node_of, 0, 0 if (node_of >= 0).all() else None)
    beside = Fewest(node_of, 0, None)
    room = make_room(work, moves_max=moves_max, stopped=lambda: left() <= 0)
    waiting = (node_of < 0).sum()
    if (room.node_of < 0).sum() < waiting:
        node_of = room.node_of
    moves = int(((work.problem.node_of >= 0) & (node_of != work.problem.node_of)).sum())
    fewest = Fewest(node_of, moves, _lower_bound(work.problem, node_of))
    if exact_effort > 0 and fewest.moves != fewest.bound and left() > 0:
        fewest = _confirm(work.problem, fewest, exact_effort, left())
    if fewest.moves <= moves_max:
        return fewest
    # The solver places everything or nothing; the chains stopped at the limit.
    return Fewest(room.node_of, room.moves, None) if room.moves <= moves_max else beside


def _place_beside(work: Work, seed: int) -> Indices:
    """Place the new tasks and leave the others where they are."""
    packed = work.packed
    weights = np.zeros(of.COUNT)
    weights[[of.UNPLACED, of.IMBALANCE, of.REPLICAS, of.CROWDING]] = 1e6, 1.0, 0.1, 0.01
    state = new_state(packed)
    load(packed, state, packed.start.astype(np.int32))
    place_unplaced(packed, state, weights, random_state(seed, "plan", "place"))
    return work.restore(state.x)


def _lower_bound(problem: Problem, node_of: Indices) -> int | None:
    """The fewest moves any plan can have, where that is plain: a single new task that fits nowhere
    takes at least one."""
    alone = (problem.node_of < 0).sum() == 1
    return 1 if alone and (node_of >= 0).all() else None


def _confirm(problem: Problem, fewest: Fewest, effort: float, seconds: float) -> Fewest:
    """Ask the exact solver for a better plan or a bound; nothing new if it is not installed or the
    problem too large for it."""
    if not is_available() or not is_small_enough(problem):
        return fewest
    complete = bool((fewest.node_of >= 0).all())
    exact = solve_fewest_moves(problem, effort, fewest.node_of if complete else None, seconds)
    if exact.node_of is None or exact.moves is None:
        # A bound is for placing every task; it says nothing of a plan that places some of them.
        return fewest._replace(bound=exact.bound if complete else fewest.bound)
    if not complete or exact.moves < fewest.moves:
        return Fewest(exact.node_of, exact.moves, exact.bound)
    return fewest._replace(bound=exact.bound)
