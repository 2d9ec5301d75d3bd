"""A node's own links, and the overlay's functions applied to them.

The functions of `overlay.py` and `balancer.py` work on rows of numbers, one row per node. An agent
has one row, under names; here it is written as rows for a call and read back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from murmuration.autoscaling import balancer, overlay
from murmuration.autoscaling.agents.messages import Link
from murmuration.autoscaling.views import ABOUT, Views
from murmuration.base.arrays import RandomState
from murmuration.base.random import next_double

#: Rows of the two nodes that exchange links.
OWNER, OTHER = 0, 1


class _Rows:
    """Links of one or two nodes as rows; the nodes themselves have the first numbers."""

    def __init__(self, names: Sequence[str], degree: int) -> None:
        self.names = list(names)
        self._numbers = {name: k for k, name in enumerate(self.names)}
        self.capacities: list[int] = [0] * len(self.names)
        rows = (len(self.names), max(degree, 1))
        self._columns = np.zeros(rows, ABOUT)
        self.views = Views(
            np.zeros(rows, np.int32),
            # Kernels write `about[k].created`; plain Python needs a record array for that.
            self._columns.view(np.recarray),
            np.zeros(len(self.names), np.int32),
            np.zeros(len(self.names), np.int32),
        )

    def number(self, node: str, capacity: int) -> int:
        if node not in self._numbers:
            self._numbers[node] = len(self.names)
            self.names.append(node)
            self.capacities.append(capacity)
        number = self._numbers[node]
        self.capacities[number] = self.capacities[number] or capacity
        return number

    def fill(self, row: int, links: Sequence[Link]) -> None:
        """Rounds count backwards from now, so a link's birth is its age, negative."""
        links = links[: self.views.node.shape[1]]
        count = len(links)
        self.views.node[row, :count] = [self.number(k.node, k.capacity) for k in links]
        self._columns["created"][row, :count] = [-k.age for k in links]
        self._columns["work"][row, :count] = [k.work for k in links]
        self.views.size[row] = count

    def read(self, row: int) -> list[Link]:
        count = int(self.views.size[row])
        created, work = (self._columns[name][row, :count].tolist() for name in ("created", "work"))
        numbers = self.views.node[row, :count].tolist()
        return [
            Link(self.names[k], self.capacities[k], w, -b)
            for k, b, w in zip(numbers, created, work, strict=True)
        ]


#: A node as it describes itself, and its links.
View = tuple[Link, Sequence[Link]]


def swap_links(
    owner: View, other: View, degree: int, length: int, rng: RandomState
) -> tuple[list[Link], list[Link]]:
    """The exchange of a round: the links of the owner, who asked, and of the other, afterwards."""
    rows = _Rows((owner[0].node, other[0].node), degree)
    rows.capacities[:] = [owner[0].capacity, other[0].capacity]
    rows.fill(OWNER, owner[1])
    rows.fill(OTHER, other[1])
    work = np.array([owner[0].work, other[0].work], np.float32)
    with np.errstate(over="ignore"):
        overlay.swap(rows.views, work, OWNER, OTHER, length, 0, rng)
    return rows.read(OWNER), rows.read(OTHER)


def oldest_link(links: Sequence[Link]) -> int:
    """Where the oldest link stands."""
    rows = _Rows(("",), len(links))
    rows.fill(0, links)
    return overlay.oldest(rows.views.about[0], len(links))


def estimate_load(own: Link, links: Sequence[Link]) -> float:
    """The load of a node and its neighbours, averaged by capacity (equation 1)."""
    rows = _Rows((own.node,), len(links))
    rows.capacities[0] = own.capacity
    rows.fill(0, links)
    capacity = np.array(rows.capacities, np.int64)
    return float(overlay.neighbourhood_load(rows.views, np.array([own.work]), capacity, 0))


def draw_by_capacity(links: Sequence[Link], rng: RandomState) -> int:
    """Where a link stands that was drawn with a probability in proportion to its capacity."""
    capacity = np.array([link.capacity for link in links], np.int64)
    candidates = np.arange(len(links))
    with np.errstate(over="ignore"):
        return balancer.draw_weighted(candidates, len(links), capacity, int(capacity.max()), rng)


def draw_index(count: int, rng: RandomState) -> int:
    """One of so many, each alike."""
    with np.errstate(over="ignore"):
        return int(next_double(rng) * count)


def draw_share(rng: RandomState) -> float:
    """A number in [0, 1)."""
    with np.errstate(over="ignore"):
        return next_double(rng)
