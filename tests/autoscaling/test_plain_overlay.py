"""The overlay's functions do the same in plain Python, where agents call them, and compiled."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration.autoscaling import overlay
from murmuration.autoscaling.agents.links import (
    draw_by_capacity,
    estimate_load,
    oldest_link,
    swap_links,
)
from murmuration.autoscaling.agents.messages import Link
from murmuration.autoscaling.overlay import GossipRules, OverlayNodes
from murmuration.autoscaling.views import Views, connect, empty_averages, empty_views
from murmuration.base import random
from murmuration.simulation.autoscale import kernels


def overlay_of(nodes: int) -> Views:
    views = empty_views(nodes, 8)
    connect(views, nodes, np.full(nodes, 0.7, np.float32), random.generator(2, "links"))
    return views


def test_rounds_of_gossip_plain_and_compiled() -> None:
    """Ten rounds of 30 nodes, five of which are dead, with losses and averaging."""
    nodes, results = 30, []
    up = np.arange(nodes) % 6 > 0
    live = np.flatnonzero(up).astype(np.int32)
    for gossip in (overlay.gossip, kernels.gossip):
        views, averages = overlay_of(nodes), empty_averages(nodes)
        if gossip is overlay.gossip:
            views = views._replace(about=views.about.view(np.recarray))
        work, rng = np.linspace(0.1, 1.0, nodes).astype(np.float32), random.state(3, "gossip")
        peers = OverlayNodes(up, work, np.ones(nodes, np.int32), live, len(live))
        with np.errstate(over="ignore", invalid="ignore"):
            for now in range(10):
                gossip(views, averages, peers, GossipRules(3, 2, 5, 0.2), now, rng)
        results.append((views, averages, rng))
    (plain, plain_averages, plain_rng), (fast, fast_averages, fast_rng) = results
    assert plain.size.tolist() == fast.size.tolist()
    assert plain_rng.tolist() == fast_rng.tolist()
    for row in range(nodes):
        size = plain.size[row]
        assert plain.node[row, :size].tolist() == fast.node[row, :size].tolist()
    np.testing.assert_array_equal(plain_averages.work, fast_averages.work)


def test_a_swap_loses_and_doubles_no_link() -> None:
    rng = random.state(5, "swap")
    ours = [Link(f"x{k}", 1, 0.5, k) for k in range(7)]
    theirs = [Link(f"y{k}", 2, 0.6, k) for k in range(8)]
    for _ in range(20):
        a, b = Link("a", 1, 0.1), Link("b", 1, 0.2)
        left, right = swap_links((a, ours), (b, theirs), 8, 4, rng)
        names = [link.node for link in left + right]
        # The owner had room where its link to the other was; the other now knows the owner.
        assert len(names) == len(set(names)) and "a" in [link.node for link in right]
        assert set(names) <= {link.node for link in ours + theirs} | {"a", "b"}
        assert len(left) == 8 and len(right) == 8


def test_ages_and_loads_travel_with_links() -> None:
    rng = random.state(5, "swap")
    left, right = swap_links(
        (Link("a", 3, 1.5), [Link("x", 2, 0.5, 7)]),
        (Link("b", 1), [Link("y", 4, 0.25, 9)]),
        4,
        3,
        rng,
    )
    known = {link.node: link for link in left + right}
    assert known["x"] == Link("x", 2, 0.5, 7) and known["y"] == Link("y", 4, 0.25, 9)
    assert known["a"] == Link("a", 3, 1.5, 0)


def test_small_questions() -> None:
    links = [Link("b", 1, 0.0, 3), Link("c", 9, 6.3, 8), Link("d", 1, 0.7, 5)]
    assert oldest_link(links) == 1
    assert estimate_load(Link("a", 1, 1.0), links) == pytest.approx(8.0 / 12.0)
    rng = random.state(1, "draws")
    draws = np.bincount([draw_by_capacity(links, rng) for _ in range(2200)], minlength=3)
    # In proportion 1 : 9 : 1; five standard deviations of a binomial with n = 2200, p = 9/11.
    assert abs(draws[1] - 1800) < 5 * np.sqrt(2200 * 9 / 11 * 2 / 11)
