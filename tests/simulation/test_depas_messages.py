"""DEPAS nodes under random faults: one overlay again, capacity in the band, no request answered
twice."""

from __future__ import annotations

import pytest

from murmuration.autoscaling.agents.messages import ReplyToClient
from murmuration.simulation.messages.depas import DepasWorld, System, find_reached
from murmuration.simulation.messages.depas_faults import SETTINGS, run_schedule
from murmuration.simulation.messages.drive import BrokenError


@pytest.mark.parametrize("seed", range(1, 7))
def test_random_fault_schedules(seed: int) -> None:
    figures = run_schedule(seed)
    assert figures["requests"] > 0 and figures["messages"] > 0


def test_the_checker_notices_a_second_answer() -> None:
    world = DepasWorld(System({"small": 1}, [(0.0, "small")], {"small": 3}, [(0.0, 2.0)], SETTINGS))
    world.reply(ReplyToClient(1, True))
    with pytest.raises(BrokenError, match="answered twice"):
        world.reply(ReplyToClient(1, True))


def test_reached_follows_links_both_ways() -> None:
    assert find_reached({"a": {"b"}, "b": set(), "c": {"b"}, "d": {"e"}, "e": set()}) == {
        "a",
        "b",
        "c",
    }
    assert find_reached({}) == set()
