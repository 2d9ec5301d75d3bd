"""Policies of the benchmarks: a class that decides by itself (the nodes with room in a random block
of rows), the README's score in plain Python, and the same score compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

import murmuration


def pack(total: Any, free: Any, request: Any) -> Any:
    return -((free - request) / total).min(axis=1)


@murmuration.kernel
def tight(total: Any, free: Any, request: Any) -> Any:
    scores = np.zeros(total.shape[0])
    for i in range(total.shape[0]):
        left = 1.0
        for r in range(total.shape[1]):
            left = min(left, (free[i, r] - request[r]) / total[i, r])
        scores[i] = -left
    return scores


class FirstRoom:
    """A task on each node with room from a random row on; every node is looked at only if a block
    was not enough."""

    def decide(self, view: Any, job: Any, rng: Any) -> Any:
        start = int(rng.random() * max(len(view.free) - 8 * job.tasks, 1))
        block = slice(start, start + 8 * job.tasks)
        rows = start + np.flatnonzero(
            (view.free[block] >= job.request).all(axis=1) & view.allowed[block]
        )
        if len(rows) < job.tasks:
            rows = np.flatnonzero(view.feasible(job.request))
        nodes = np.full(job.tasks, -1)
        nodes[: len(rows)] = rows[: job.tasks]
        return nodes
