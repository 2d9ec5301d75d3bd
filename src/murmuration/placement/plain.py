"""The placements in plain Python: what the kernels compute, without compiling anything.

They draw the same numbers in the same order as the kernels, so both choose the same nodes; the
explainer relies on it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from murmuration.base.arrays import Amounts, Flags, Floats, Integers
from murmuration.placement.view import JobView, View

#: Draws in a row that find no room before first fit looks at every node. It changes speed, not the
#: odds of any node.
MISSES_MAX = 32
Nodes = Integers


class FirstFit:
    """Randomised first fit (3.2)."""

    def decide(self, view: View, job: JobView, rng: np.random.Generator) -> Nodes:
        free, n = view.free.copy(), len(view.total)
        nodes: list[int] = []
        misses = 0
        while len(nodes) < job.tasks and misses < MISSES_MAX:
            node = int(rng.random() * n)
            misses += 1
            if view.allowed[node] and (free[node] >= job.request).all():
                free[node] -= job.request
                nodes.append(node)
                misses = 0
        if len(nodes) < job.tasks:
            rows = [
                int(i) for i in np.flatnonzero(view.allowed & (free >= job.request).all(axis=1))
            ]
            nodes += draw_from(rows, free, job.request, job.tasks - len(nodes), rng)
        return _pad_nodes(nodes, job.tasks)


def draw_from(
    rows: list[int], free: Amounts, request: Amounts, count: int, rng: np.random.Generator
) -> list[int]:
    """Randomised first fit from a list of rows that all fit."""
    nodes: list[int] = []
    while len(nodes) < count and rows:
        at = int(rng.random() * len(rows))
        node = rows[at]
        free[node] -= request
        nodes.append(node)
        if (free[node] < request).any():
            rows[at] = rows[-1]
            rows.pop()
    return nodes


@dataclass(frozen=True)
class RankedPolicy:
    """Each task to the node with the best score; ties in the order from a random start."""

    score: Callable[..., Any]

    def decide(self, view: View, job: JobView, rng: np.random.Generator) -> Nodes:
        free, n = view.free.copy(), len(view.total)
        start = int(rng.random() * n)
        scores = np.asarray(self.score(view.total, free, job.request), dtype=np.float64)
        heap = [
            (-scores[i], (i - start) % n, i)
            for i in top(scores, view.feasible(job.request), job.tasks, start)
        ]
        heapq.heapify(heap)
        nodes: list[int] = []
        while len(nodes) < job.tasks and heap:
            _, rank, node = heap[0]
            free[node] -= job.request
            nodes.append(int(node))
            if (free[node] >= job.request).all():
                again = self.score(view.total[node : node + 1], free[node : node + 1], job.request)
                heapq.heapreplace(heap, (-float(np.asarray(again)[0]), rank, node))
            else:
                heapq.heappop(heap)
        return _pad_nodes(nodes, job.tasks)


def top(scores: Floats, feasible: Flags, count: int, start: int) -> Integers:
    """The `count` best feasible rows, ties by the order from `start`; no decision on `count` tasks
    needs more."""
    rows = np.flatnonzero(feasible)
    rows = np.concatenate((rows[rows >= start], rows[rows < start]))
    if len(rows) <= count:
        return rows
    worst = np.partition(scores[rows], len(rows) - count)[len(rows) - count]
    better, tied = rows[scores[rows] > worst], rows[scores[rows] == worst]
    return np.concatenate((better, tied[: count - len(better)]))


def _pad_nodes(nodes: list[int], tasks: int) -> Nodes:
    return np.array(nodes + [-1] * (tasks - len(nodes)), dtype=np.int64)
