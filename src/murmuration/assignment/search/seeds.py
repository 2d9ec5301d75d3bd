"""What a search near a running placement starts from: nodes emptied one by one, and single moves.

A population drawn at random finds placements that are better than the present one and need nearly
every task to move. These seeds lie on the way from the present placement: each is reached by few
moves, and a search that begins at them looks between them instead of far away.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from murmuration.assignment import objectives as of
from murmuration.assignment.moves import order_moves
from murmuration.assignment.search.consolidate import consolidate, worth_of
from murmuration.assignment.search.gains import STEPS_MAX, best_moves
from murmuration.assignment.search.grant import grant_wishes
from murmuration.assignment.search.search import Search
from murmuration.base.arrays import Floats, Placement
from murmuration.base.random import state as random_state

#: Placements of a path of single moves that a search starts from.
PATH_MAX = 48
#: Objectives that count moves: the present placement has none, so more of them is not worse.
OF_MOVES = ("moves", "megabytes")


def seed_placements(search: Search, begin: Placement, reference: Floats) -> list[Placement]:
    """Placements near the present one: nodes emptied one by one, and the best single moves."""
    if not (search.work.problem.node_of >= 0).any():
        return []
    moves_max = dict(search.settings.limits).get(of.MOVES, np.inf)
    seeds = [
        *_consolidate(search, begin, moves_max),
        *_thin(_best_moves(search, begin, reference, moves_max)),
    ]
    if any(objective.name == "preferences" for objective in search.objectives):
        seeds += _thin(grant_wishes(search.work, begin, moves_max, search.settings.stopped))
    return seeds


def _thin(path: Iterable[Placement]) -> list[Placement]:
    """A path of single moves in fewer steps: the first ones all, then wider and wider apart, and
    the last. Of a large cluster not all would fit in memory."""
    kept = set(np.geomspace(1, STEPS_MAX, PATH_MAX).astype(int).tolist())
    thinned, last = [], None
    for k, placement in enumerate(path, 1):
        last = None if k in kept else placement
        if k in kept:
            thinned.append(placement)
    return thinned if last is None else [*thinned, last]


def _consolidate(search: Search, begin: Placement, moves_max: float) -> list[Placement]:
    """Placements with fewer nodes in use, if that is wanted."""
    work, weight = search.work, {o.name: o.weight for o in search.objectives}
    power = weight.get("power", 0.0) if work.packed.power_off else 0.0
    worth = worth_of(work.packed, weight.get("nodes", 0.0), weight.get("cost", 0.0), power)

    def is_reachable(x: Placement) -> bool:
        return search.is_allowed(x) and not order_moves(work, work.restore(x)).blocked

    def empty_nodes(start: Placement, what: Floats, name: str) -> list[Placement]:
        rng = random_state(search.settings.seed, "plan", name)
        stopped = search.settings.stopped
        return consolidate(work.packed, start, what, moves_max, rng, is_reachable, stopped)

    stages = empty_nodes(begin, worth, "consolidate")
    if len(np.unique(worth[worth > 0])) > 1:
        # Where nodes have several prices the drain soon closes what is expensive and then stands
        # between placements that no small step connects. As few nodes as possible, whatever they
        # cost, is another place to go on from.
        few = empty_nodes(begin, worth_of(work.packed, 1.0, 0.0, 0.0), "fewest")
        stages += [*few, *empty_nodes(few[-1], worth, "cheapest")] if few else []
    return stages[-PATH_MAX:]


def _best_moves(
    search: Search, begin: Placement, reference: Floats, moves_max: float
) -> Iterable[Placement]:
    """The best single moves, an objective weighed by its share of the present value."""
    counted = [
        k for k, o in enumerate(search.objectives) if o.index >= 0 and o.name not in OF_MOVES
    ]
    weights = np.zeros(of.COUNT)
    for k in counted:
        objective = search.objectives[k]
        weights[objective.index] = objective.weight / (abs(reference[k]) or 1.0)
    columns = np.array([search.objectives[k].index for k in counted], dtype=np.int64)
    if not len(columns):
        return []
    return best_moves(
        search.work.packed, begin, weights, columns, moves_max, search.settings.stopped
    )
