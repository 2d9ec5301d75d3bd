"""What nodes know of each other: the arrays of the overlay, apart from the kernels that maintain
them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DEGREE_MAX = 128
#: What a node knows about a neighbour: the round of the link's birth, and the work it heard of
#: (requests/s).
ABOUT = np.dtype([("created", "i4"), ("work", "f4")], align=True)


class Views(NamedTuple):
    """What each node knows of others, one row per node: its neighbours and what it heard of
    each."""

    node: Array
    about: Array
    size: Array
    cursor: Array


class Averages(NamedTuple):
    """Gossip averaging: each node's share of work and capacity, the epoch they belong to, and the
    result of the last."""

    work: Array
    capacity: Array
    epoch: Array
    load: Array


def empty_views(nodes: int, degree: int) -> Views:
    shape = (nodes, degree)
    return Views(
        np.empty(shape, np.int32),
        np.empty(shape, ABOUT),
        np.zeros(nodes, np.int32),
        np.zeros(nodes, np.int32),
    )


def empty_averages(nodes: int) -> Averages:
    return Averages(
        np.zeros(nodes), np.zeros(nodes), np.full(nodes, -1, np.int64), np.full(nodes, np.nan)
    )


def connect(views: Views, nodes: int, work: Array, rng: np.random.Generator) -> None:
    """A first overlay of the nodes 0 … n − 1: random, and everyone is known by exactly as many as
    he knows."""
    degree = min(views.node.shape[1], nodes - 1)
    order = rng.permutation(nodes).astype(np.int32)
    shifts = 1 + rng.permutation(nodes - 1)[:degree] if nodes > 1 else np.empty(0, np.int64)
    for k, shift in enumerate(shifts):
        views.node[order, k] = np.roll(order, -shift)
    views.about["created"][:nodes] = -rng.integers(0, max(degree, 1), (nodes, views.about.shape[1]))
    views.size[:nodes] = degree
    if degree > 0:
        views.about["work"][:nodes, :degree] = work[views.node[:nodes, :degree]]
