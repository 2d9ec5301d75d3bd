"""Placing what has no node with the fewest moves of what has one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from murmuration.assignment import objectives as of
from murmuration.assignment.evaluate import COUNT
from murmuration.assignment.packed import Work
from murmuration.assignment.problem import Integers, Problem
from murmuration.assignment.search.ejection import make_room
from murmuration.assignment.search.exact import available, fewest_exactly, small_enough
from murmuration.assignment.search.improve import place_left
from murmuration.assignment.state import load, new_state
from murmuration.base.random import state as random_state


class Fewest(NamedTuple):
    """A placement, how many tasks it moves, and the fewest any placement of as many tasks could;
    None if not proved."""

    node_of: Integers
    moves: int
    bound: int | None


def fewest_moves(work: Work, seed: int, exact_effort: float) -> Fewest:
    """Without moving anything, if that can be, each task on the node that stays most even; else by
    ejections.

    With some effort to spend, the exact solver confirms or improves the number of moves where the
    problem is small.
    """
    node_of = _beside(work, seed)
    if (node_of >= 0).all():
        return Fewest(node_of, 0, 0)
    room = make_room(work)
    waiting = (node_of < 0).sum()
    if (room.node_of < 0).sum() < waiting:
        node_of = room.node_of
    moves = int(((work.problem.node_of >= 0) & (node_of != work.problem.node_of)).sum())
    found = Fewest(node_of, moves, _bound(work.problem, node_of))
    return (
        found
        if exact_effort <= 0 or found.moves == found.bound
        else _confirmed(work.problem, found, exact_effort)
    )


def _beside(work: Work, seed: int) -> Integers:
    """The new tasks beside the others as they are."""
    packed = work.packed
    weights = np.zeros(COUNT)
    weights[[of.UNPLACED, of.IMBALANCE, of.REPLICAS, of.CROWDING]] = 1e6, 1.0, 0.1, 0.01
    state = new_state(packed)
    load(packed, state, packed.start.astype(np.int32))
    place_left(packed, state, weights, random_state(seed, "plan", "place"))
    return work.restored(state.x)


def _bound(problem: Problem, node_of: Integers) -> int | None:
    """A single new task that fits nowhere takes a move at least; for several, it is not so
    plain."""
    alone = (problem.node_of < 0).sum() == 1
    return 1 if alone and (node_of >= 0).all() else None


def _confirmed(problem: Problem, found: Fewest, effort: float) -> Fewest:
    """What the exact solver says; nothing new if it is not installed or the problem too large for
    it."""
    if not available() or not small_enough(problem):
        return found
    complete = bool((found.node_of >= 0).all())
    exact = fewest_exactly(problem, effort, found.node_of if complete else None)
    if exact.node_of is None or exact.moves is None:
        return found._replace(bound=exact.bound if complete else found.bound)
    better = not complete or exact.moves < found.moves
    return (
        Fewest(exact.node_of, exact.moves, exact.bound)
        if better
        else found._replace(bound=exact.bound)
    )
