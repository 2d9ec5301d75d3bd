"""Placing what has no node with the fewest moves of what has one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from murmuration.cluster.random import state as random_state
from murmuration.planning import objectives as of
from murmuration.planning.evaluate import COUNT
from murmuration.planning.improve import place_left
from murmuration.planning.packed import Work
from murmuration.planning.problem import Integers
from murmuration.planning.state import load, new_state


class Fewest(NamedTuple):
    """A placement, how many tasks it moves, and the fewest any placement of as many tasks could; None if not proved."""

    node_of: Integers
    moves: int
    bound: int | None


def fewest_moves(work: Work, seed: int, exact_seconds: float) -> Fewest:
    """First without moving anything, each task on the node that stays most even."""
    packed = work.packed
    weights = np.zeros(COUNT)
    weights[[of.UNPLACED, of.IMBALANCE, of.REPLICAS, of.CROWDING]] = 1e6, 1.0, 0.1, 0.01
    state = new_state(packed)
    load(packed, state, packed.start.astype(np.int32))
    place_left(packed, state, weights, random_state(seed, "plan", "place"))
    node_of = work.restored(state.x)
    moves = int(((work.problem.node_of >= 0) & (node_of != work.problem.node_of)).sum())
    return Fewest(node_of, moves, 0 if moves == 0 and (node_of >= 0).all() else None)
