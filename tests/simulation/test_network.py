"""The faulty network and its time."""

from __future__ import annotations

import math

import pytest

from murmuration.base.random import generator
from murmuration.simulation.messages.drive import EventQueue
from murmuration.simulation.messages.network import (
    FaultSettings,
    Network,
    Partition,
    draw_faults,
)


def network(faults: FaultSettings) -> Network:
    return Network(faults, generator(1, "network"))


def test_a_calm_network_delivers_once_and_in_order() -> None:
    calm = network(FaultSettings(delay_s=0.5))
    assert [calm.arrivals("a", "b", now) for now in (0.0, 1.0)] == [[0.5], [1.5]]


def test_loss_and_duplication_have_their_probabilities() -> None:
    bad = network(FaultSettings(loss=0.2, duplication=0.25))
    counts = [len(bad.arrivals("a", "b", 0.0)) for _ in range(20_000)]
    assert counts.count(0) / 20_000 == pytest.approx(0.2, abs=0.01)
    assert counts.count(2) / 20_000 == pytest.approx(0.8 * 0.25, abs=0.01)
    assert bad.sent == 20_000 and bad.lost == counts.count(0)


def test_messages_overtake_each_other_and_none_is_early() -> None:
    late = network(FaultSettings(delay_s=1.0, jitter_s=5.0))
    times = [late.arrivals("a", "b", float(k))[0] for k in range(200)]
    assert times != sorted(times)
    assert all(at >= k + 1.0 for k, at in enumerate(times))
    assert sum(at - k for k, at in enumerate(times)) / 200 == pytest.approx(6.0, abs=1.5)


def test_a_partition_cuts_between_its_sides_while_it_lasts() -> None:
    cut = network(FaultSettings(partitions=(Partition(10.0, 20.0, frozenset({"a", "b"})),)))
    for pair, passes in (
        (("a", "c"), False),
        (("c", "a"), False),
        (("a", "b"), True),
        (("c", "d"), True),
    ):
        assert bool(cut.arrivals(*pair, 15.0)) == passes
        assert cut.arrivals(*pair, 9.9) and cut.arrivals(*pair, 20.0)


def test_faults_end() -> None:
    ends = network(FaultSettings(loss=1.0, end_s=100.0))
    assert ends.arrivals("a", "b", 99.0) == [] and len(ends.arrivals("a", "b", 100.0)) == 1


def test_a_drawn_schedule_is_in_time_and_only_mortals_die() -> None:
    dead = 0
    for seed in range(50):
        faults = draw_faults(generator(seed, "x"), ["n0", "n1", "n2"], ["entry"], 300.0)
        assert faults == draw_faults(generator(seed, "x"), ["n0", "n1", "n2"], ["entry"], 300.0)
        assert all(0 <= part.start_s <= part.end_s <= 300.0 for part in faults.partitions)
        for crash in faults.crashes:
            assert crash.at_s <= 300.0
            assert crash.down_s < math.inf or crash.name != "entry"
            dead += crash.down_s == math.inf
    assert dead > 5


def test_equal_times_keep_the_order_in_which_they_were_posted() -> None:
    queue, seen = EventQueue(), list[tuple[str, float]]()
    for name, at in (("late", 2.0), ("first", 1.0), ("second", 1.0), ("never", 9.0)):
        queue.post(at, lambda n: seen.append((n, queue.now)), name)
    queue.run(5.0)
    assert seen == [("first", 1.0), ("second", 1.0), ("late", 2.0)] and queue.now == 5.0
