"""Which placement of a front a plan takes.

A placement is worth what the *order* of its moves ends in: some moves wait for each other, and a
plan that loses them may save nothing. So the best rows of the front are put in order one after the
other, and the first whose moves can all be made is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from murmuration.assignment import objectives as of
from murmuration.assignment.moves import MoveOrder, order_moves
from murmuration.assignment.objectives import Objective
from murmuration.assignment.packed import Work, pack
from murmuration.assignment.problem import Problem, Violation, new_violations, violations
from murmuration.assignment.search.construct import construct
from murmuration.assignment.search.ejection import make_room
from murmuration.assignment.search.fewest import Fewest
from murmuration.assignment.search.gains import keep_at_home
from murmuration.assignment.search.search import Search
from murmuration.assignment.search.seeds import OF_MOVES
from murmuration.assignment.search.selection import rank_by_knee, rank_fronts, rank_rows, sov
from murmuration.base.arrays import Flags, Floats, Indices, Integers, Placement

#: Rows of the front whose moves are put in order before the best of them is taken as it is.
ORDERED_MAX = 12


def add_moves(problem: Problem, wanted: Sequence[Objective]) -> tuple[Objective, ...]:
    """The objectives wanted, and moves without a weight: between equals the fewest decide."""
    running = bool((problem.node_of >= 0).any())
    if not running or any(objective.name == "moves" for objective in wanted):
        return tuple(wanted)
    return (*wanted, replace(of.built_in("moves"), weight=0.0))


def reference_placement(work: Work) -> Indices:
    """What a plan should not be worse than: the present placement, or where nothing runs, what
    Kubernetes would do."""
    if (work.problem.node_of >= 0).any():
        return work.problem.node_of
    return work.restore(construct(work, "kubernetes"))


def show_front(search: Search, wanted: int) -> tuple[Floats, Integers]:
    """The front by the objectives that were asked for, and its placements."""
    archive = search.archive
    values = archive.front[:, :wanted]
    _, first = np.unique(values, axis=0, return_index=True)
    rows = np.sort(first)
    rows = rows[rank_fronts(values[rows], np.zeros(len(rows))) == 0] if len(rows) else rows
    placements = [search.work.restore(archive.placements[k]) for k in rows.tolist()]
    return values[rows].copy(), np.array(placements)


class RankedFront(NamedTuple):
    """Rows of a front, the best first, and what decides between placements that lose moves."""

    rows: Indices
    counted: Flags
    weights: Floats


def rank(search: Search, fewest: Fewest | None, by_knee: bool) -> RankedFront:
    """The rows of the front in the order in which they are tried.

    With objectives of the user's the best mean normalised objective comes first, among those no
    worse than the reference in anything and better in something; between equals the fewest moves.
    Without, `by_knee`: what is gained for each move. Moves do not count as worse, because the
    present placement has none.
    """
    weights = np.array([objective.weight for objective in search.objectives])
    names = [objective.name for objective in search.objectives]
    counted = np.array([name not in OF_MOVES for name in names])
    front, work = search.archive.front, search.work
    running = bool((work.problem.node_of >= 0).any())
    moves = front[:, names.index("moves")] if running else np.zeros(len(front))
    base = fewest.node_of if fewest is not None else reference_placement(work)
    reference = search.measure(work.placement(base)[None])[0][0]
    if not (by_knee and running):
        rows = rank_rows(front, weights, reference, counted, or_equal=not running, ties=moves)
    else:
        limited = of.MOVES in dict(search.settings.limits)
        rows = rank_by_knee(front, reference, counted, moves, limited)
    return RankedFront(rows, counted, weights)


def choose(
    search: Search, fewest: Fewest | None, by_knee: bool, is_late: Callable[[], bool]
) -> MoveOrder:
    """The order of moves to the best placement of the front that can be reached; if the best ones
    all lose moves, the one that ends best. When it `is_late` no further one is tried."""
    work, ranked = search.work, rank(search, fewest, by_knee)
    orders: list[MoveOrder] = []
    for row in ranked.rows[:ORDERED_MAX].tolist():
        if orders and is_late():
            break
        node_of = _finish(search, search.archive.placements[row], ranked)
        orders.append(order_moves(work, node_of))
        if not orders[-1].blocked and not new_breaks(work.problem, orders[-1]):
            return orders[-1]
    ends = np.array([work.placement(order.node_of) for order in orders])
    values, bad = search.measure(ends)
    merit = sov(values, ranked.weights)
    best = orders[int(np.lexsort((merit, bad))[0])]
    base = fewest.node_of if fewest is not None else work.problem.node_of
    if not _is_worth(search, ranked, best, base):
        return order_moves(work, base)
    return _drop_in_vain(search, ranked, best, is_late)


def _drop_in_vain(
    search: Search, ranked: RankedFront, order: MoveOrder, is_late: Callable[[], bool]
) -> MoveOrder:
    """The order to where another one ends that lost moves, without those that only made room for
    what was lost."""
    if is_late():
        return order
    work = search.work
    ended = _finish(search, work.placement(order.node_of), ranked)
    lean = order_moves(work, ended)
    if lean.blocked or new_breaks(work.problem, lean):
        return order
    (new, old), _ = search.measure(
        np.array([work.placement(lean.node_of), work.placement(order.node_of)])
    )
    asked = ranked.counted & (ranked.weights > 0.0)
    return lean if (new[asked] <= old[asked]).all() else order


def _is_worth(search: Search, ranked: RankedFront, order: MoveOrder, base: Indices) -> bool:
    """Whether what an order ends in is better than what there is, in anything that was asked for,
    or has more tasks placed. Moves that got lost on the way may have been all that was gained."""
    work, problem, ended = search.work, search.work.problem, order.node_of
    if (ended >= 0).sum() > (base >= 0).sum():
        return True
    if len(violations(problem, ended)) < len(violations(problem, base)):
        return True
    both = np.array([work.placement(ended), work.placement(base)])
    (ends, starts), (bad_end, bad_start) = search.measure(both)
    asked = ranked.counted & (ranked.weights > 0.0)
    return bool(bad_end < bad_start or (ends[asked] < starts[asked]).any())


def new_breaks(problem: Problem, order: MoveOrder) -> list[Violation]:
    """What an order of moves ends in that is not allowed and was not there before. A task that
    could not leave a removed node is still on it."""
    return new_violations(problem, problem.with_leaving(order.node_of), problem.present)


def _finish(search: Search, placement: Placement, ranked: RankedFront) -> Indices:
    """A placement without moves that buy nothing, and with room made for whoever has no node."""
    work = search.work
    built_in = all(objective.index >= 0 for objective in search.objectives)
    if built_in and (work.problem.node_of >= 0).any():
        columns = search.columns[ranked.counted]
        lean = keep_at_home(work.packed, placement, columns)
        placement = lean if search.is_allowed(lean) else placement
    node_of = work.restore(placement)
    return node_of if search.settings.limits else place_rest(work.problem, node_of)


def place_rest(problem: Problem, node_of: Indices) -> Indices:
    """Make room for tasks the search left without a node, by chains of moves, where that can be
    done."""
    if (node_of >= 0).all():
        return node_of
    with_room = make_room(pack(replace(problem, node_of=node_of))).node_of
    fewer = (with_room < 0).sum() < (node_of < 0).sum()
    return with_room if fewer and not new_violations(problem, with_room) else node_of
