"""The overlay under gossip: full views, level in-degrees, dead links gone in a few rounds, one
piece after a crash."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from murmuration.autoscaling.overlay import GossipRules, OverlayNodes
from murmuration.autoscaling.views import Averages, Views, connect, empty_averages, empty_views
from murmuration.base import random
from murmuration.simulation.autoscale.kernels import gossip

DEGREE, EXCHANGE, PROBES = 50, 5, 10


@dataclass
class Net:
    """Nodes on an overlay, and the rounds they gossip."""

    nodes: int
    degree: int = DEGREE
    loss: float = 0.0
    epoch_rounds: int = 0
    rounds: int = 0
    views: Views = field(init=False)
    averages: Averages = field(init=False)

    def __post_init__(self) -> None:
        self.views, self.averages = empty_views(self.nodes, self.degree), empty_averages(self.nodes)
        self.up = np.ones(self.nodes, np.bool_)
        self.work = np.full(self.nodes, 0.7, np.float32)
        self.capacity = np.ones(self.nodes, np.int32)
        self.rng = random.state(3, "net")
        connect(self.views, self.nodes, self.work, random.generator(3, "links"))

    @property
    def live(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        return np.flatnonzero(self.up).astype(np.int32)

    def gossip(self, rounds: int) -> None:
        for _ in range(rounds):
            peers = OverlayNodes(self.up, self.work, self.capacity, self.live, len(self.live))
            rules = GossipRules(min(EXCHANGE, self.degree), PROBES, self.epoch_rounds, self.loss)
            gossip(self.views, self.averages, peers, rules, self.rounds, self.rng)
            self.rounds += 1

    def crash(self, share: float) -> None:
        gone = random.generator(4, "crash").permutation(self.nodes)[: round(share * self.nodes)]
        self.up[gone] = False

    def links(self, node: int) -> list[int]:
        return [int(other) for other in self.views.node[node, : self.views.size[node]]]

    def dead_share(self) -> float:
        links = [other for node in self.live for other in self.links(int(node))]
        return sum(not self.up[other] for other in links) / len(links)

    def in_degrees(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        counts = np.zeros(self.nodes, np.int64)
        for node in self.live:
            np.add.at(counts, self.links(int(node)), 1)
        return counts[self.up]

    def reached_from(self, start: int) -> int:
        """How many nodes can be reached over links of live nodes."""
        seen, front = {start}, [start]
        while front:
            for other in self.links(front.pop()):
                if self.up[other] and other not in seen:
                    seen.add(other)
                    front.append(other)
        return len(seen)

    def check(self) -> None:
        for node in self.live:
            links = self.links(int(node))
            assert len(set(links)) == len(links), "no link twice"
            assert int(node) not in links, "no link to oneself"


@pytest.mark.parametrize("nodes", [300, 2000])
def test_views_stay_full_and_in_degrees_level(nodes: int) -> None:
    net = Net(nodes)
    assert set(net.in_degrees()) == {DEGREE}, "at first everyone is known by exactly as many"
    net.gossip(150)
    net.check()
    assert net.views.size[:nodes].tolist() == [DEGREE] * nodes
    # Links drawn at random would give a deviation of √50 ≈ 7.
    assert net.in_degrees().mean() == DEGREE
    assert net.in_degrees().std() < 5.0


def test_dead_links_vanish_within_a_few_rounds_and_the_rest_stay_connected() -> None:
    net = Net(1000)
    net.gossip(60)
    net.crash(0.3)
    assert net.dead_share() == pytest.approx(0.3, abs=0.02)
    assert net.reached_from(int(net.live[0])) == 700
    net.gossip(5)
    assert net.dead_share() < 0.1
    net.gossip(10)
    assert net.dead_share() < 0.005
    net.check()
    assert net.reached_from(int(net.live[0])) == 700
    assert net.views.size[net.live].mean() > DEGREE - 1, "what was lost has been filled up"


def test_lost_messages_cost_links_but_not_the_overlay() -> None:
    net = Net(500, loss=0.2)
    net.gossip(120)
    net.check()
    assert net.views.size[:500].mean() > 0.9 * DEGREE
    assert net.reached_from(0) == 500


@pytest.mark.parametrize("nodes", [1, 2, 3, 10])
def test_a_small_system_keeps_its_links(nodes: int) -> None:
    net = Net(nodes)
    net.gossip(50)
    net.check()
    assert net.reached_from(0) == nodes


def test_what_is_heard_of_neighbours_is_fresh() -> None:
    """Ten probes a round on fifty links: after a few rounds everybody knows the new load of
    everybody."""
    net = Net(400)
    net.gossip(20)
    net.work[:] = 1.2
    net.gossip(25)
    heard = net.views.about["work"][:400]
    assert np.mean(np.isclose(heard, 1.2)) > 0.98


def test_averaging_finds_the_load_of_the_whole_system() -> None:
    net = Net(500, epoch_rounds=30)
    rng = random.generator(9, "loads")
    net.capacity[:] = rng.integers(1, 6, 500)
    net.work[:] = rng.random(500) * net.capacity
    net.gossip(31)
    true = float(net.work.sum()) / float(net.capacity.sum())
    assert np.allclose(net.averages.load, true, rtol=1e-3)
