"""What nodes know of each other: the arrays of the overlay, made and first filled without the kernels that keep them up."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DEGREE_MAX = 128


class Views(NamedTuple):
    """What each node knows of others, one row per node: neighbour, round of the link's birth, work heard of (requests/s)."""

    node: Array
    born: Array
    work: Array
    size: Array
    cursor: Array


class Averages(NamedTuple):
    """Gossip averaging: each node's share of all work and capacity, the epoch it belongs to, and the last epoch's result."""

    work: Array
    capacity: Array
    epoch: Array
    load: Array


def empty_views(nodes: int, degree: int) -> Views:
    return Views(
        np.empty((nodes, degree), np.int32), np.empty((nodes, degree), np.int32), np.empty((nodes, degree), np.float32),
        np.zeros(nodes, np.int32), np.zeros(nodes, np.int32),
    )  # fmt: skip


def empty_averages(nodes: int) -> Averages:
    return Averages(np.zeros(nodes), np.zeros(nodes), np.full(nodes, -1, np.int64), np.full(nodes, np.nan))


def connect(views: Views, nodes: int, work: Array, rng: np.random.Generator) -> None:
    """A first overlay of the nodes 0 … n − 1: random, and everyone is known by exactly as many as he knows."""
    degree = min(views.node.shape[1], nodes - 1)
    order = rng.permutation(nodes).astype(np.int32)
    shifts = 1 + rng.permutation(nodes - 1)[:degree] if nodes > 1 else np.empty(0, np.int64)
    # Shifts of one permutation would make neighbours know the same nodes; a second one breaks that up.
    second = rng.permutation(nodes)
    for k, shift in enumerate(shifts):
        views.node[order, k] = order[second[(np.argsort(second) + shift) % nodes]]
    views.born[:nodes] = -rng.integers(0, max(degree, 1), (nodes, views.born.shape[1]))
    views.size[:nodes] = degree
    if degree > 0:
        views.work[:nodes, :degree] = work[views.node[:nodes, :degree]]
