"""The best that so many moves can do for a table that is seen whole: relieve overloaded nodes, the
cheapest first, and spend what is left on an even use of CPU and memory.

Plain NumPy, and outside every kernel of the simulation. A node is relieved by the fewest of its
tasks: one if any one does, a pair if any pair does, otherwise the largest help first. Each goes
where the gap between CPU and memory becomes least, of the nodes that stay within their capacity.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from murmuration.assignment import objectives as of
from murmuration.assignment.packed import pack
from murmuration.assignment.problem import Problem, sum_requests
from murmuration.assignment.search.gains import best_moves
from murmuration.base.arrays import Amounts, Floats, Indices

#: Tasks that are taken from a node at most, where no pair is enough.
TASKS_MAX = 8


def search_within(problem: Problem, moves: int) -> Indices:
    """A placement that at most so many moves lead to."""
    node_of = relieve_within(problem, moves)
    left = moves - int((node_of != problem.node_of).sum())
    return even_out(problem, node_of, left) if left > 0 else node_of


def even_out(problem: Problem, node_of: Indices, moves: int) -> Indices:
    """The best single moves for an even use of CPU and memory, of all tasks to all nodes."""
    work, weights = pack(problem), np.zeros(of.COUNT)
    weights[of.IMBALANCE] = 1.0
    start, counted = work.placement(node_of), np.array([of.IMBALANCE], dtype=np.int64)
    path = [start, *best_moves(work.packed, start, weights, counted, float(moves))]
    return work.restore(path[-1])


def relieve_within(problem: Problem, moves: int) -> Indices:
    """Overloaded nodes relieved, those that need the fewest moves first, while moves are left."""
    node_of, left = problem.node_of.copy(), moves
    nodes = find_overloaded(problem)
    nodes.sort(key=lambda node: len(relieve_node(problem, node_of, node) or range(TASKS_MAX + 1)))
    for node in nodes:
        # What was moved before may have taken the room, so every node is looked at again.
        relief = relieve_node(problem, node_of, node)
        if relief is not None and len(relief) <= left:
            node_of[list(relief)] = list(relief.values())
            left -= len(relief)
    return node_of


def find_overloaded(problem: Problem) -> list[int]:
    over = sum_requests(problem, problem.node_of) > problem.total
    return [int(node) for node in np.flatnonzero(over.any(axis=1))]


def relieve_node(problem: Problem, node_of: Indices, node: int) -> dict[int, int] | None:
    """The fewest tasks without which a node is not overloaded, and where each goes; None if there
    is no way."""
    amounts = sum_requests(problem, node_of)
    for tasks in _list_choices(problem, node_of, node):
        targets = _find_targets(problem, node_of, amounts, tasks)
        if targets is not None:
            return dict(zip(tasks, targets, strict=True))
    return None


def _list_choices(problem: Problem, node_of: Indices, node: int) -> Iterator[list[int]]:
    """Tasks whose leaving is enough: single ones, pairs, then more."""
    tasks = np.flatnonzero(node_of == node)
    excess = problem.request[tasks].sum(axis=0) - problem.total[node]
    for size in (1, 2):
        for chosen in combinations(tasks.tolist(), size):
            if (problem.request[list(chosen)].sum(axis=0) >= excess).all():
                yield list(chosen)
    more = _choose_by_help(problem, tasks, excess)
    if more:
        yield more


def _choose_by_help(problem: Problem, tasks: Indices, excess: Amounts) -> list[int]:
    chosen: list[int] = []
    scale = np.maximum(excess, 1)
    while (excess > 0).any() and len(chosen) < min(TASKS_MAX, len(tasks)):
        rest = [int(t) for t in tasks if t not in chosen]
        after = np.maximum(excess - problem.request[rest], 0) / scale
        best = rest[int(after.sum(axis=1).argmin())]
        chosen.append(best)
        excess = excess - problem.request[best]
    return [] if (excess > 0).any() else chosen


def _find_targets(
    problem: Problem, node_of: Indices, amounts: Amounts, tasks: list[int]
) -> list[int] | None:
    """Where each task goes; None if one of them has nowhere to go."""
    held, targets = amounts.copy(), []
    for task in tasks:
        after = held + problem.request[task]
        fits = (after <= problem.total).all(axis=1)
        fits[node_of[task]] = False
        if not fits.any():
            return None
        gap = np.where(fits, _gap(problem, after) - _gap(problem, held), np.inf)
        target = int(gap.argmin())
        held[target] = after[target]
        targets.append(target)
    return targets


def _gap(problem: Problem, amounts: Amounts) -> Floats:
    share = amounts[:, :2] / np.maximum(problem.total[:, :2], 1)
    gap: Floats = np.abs(share[:, 0] - share[:, 1])
    return gap
