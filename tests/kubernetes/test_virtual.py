"""The scheduler of pods in virtual time: whatever is lost, late, refused or suspended, no node
holds more than it has, every pod that fits is bound, and a deposed leader binds nothing."""

from __future__ import annotations

import pytest
from tests.kubernetes.virtual_api import RENEW_S, Api, Trouble, make, small

from murmuration.schedulers.pods.messages import TellPending

BAD = Trouble(lost_before=0.1, lost_after=0.1, refused=0.1, request_s=2.0, watch_s=3.0)


def unbound(api: Api) -> list[str]:
    return [key for key, pod in api.pods.items() if not pod["spec"].get("nodeName")]


def stale(api: Api) -> list[tuple[float, int, str, str]]:
    """Bindings of a turn that were carried out after the next turn had begun."""
    return [
        binding
        for binding in api.bindings
        if any(turn > binding[1] and began <= binding[0] for turn, began in api.turns.items())
    ]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_lost_or_late_neither_overfills_a_node_nor_leaves_a_pod(seed: int) -> None:
    """Pods fill the nodes to the last thousandth; some go, and others take their room."""
    driver, api = make(seed, BAD)
    for k in range(16):
        driver.at(0.5 * k, api.add_pod, small(f"p{k}"))
        for at in range(12):
            driver.at(0.5 * k + 0.5 * at, api.touch, f"default/p{k}")
    driver.run(400.0)
    assert unbound(api) == [] and api.overfull() == []
    for k in range(0, 16, 2):
        api.remove_pod(f"default/p{k}")
        api.add_pod(small(f"q{k}"))
    driver.run(800.0)
    assert unbound(api) == [] and api.overfull() == []


@pytest.mark.parametrize("seed", range(20))
def test_a_scheduler_that_crashes_begins_again(seed: int) -> None:
    driver, api = make(seed, BAD)
    for k in range(16):
        driver.at(1.0 * k, api.add_pod, small(f"p{k}"))
    for at in (3.0, 9.0, 14.0):
        driver.at(at, driver.crash, "a", 1.5)
    driver.run(400.0)
    # What a scheduler had sent when it crashed may be carried out after the next life began.
    assert unbound(api) == []


def led_through_pauses(seed: int, renew_s: float = RENEW_S) -> Api:
    """Two schedulers; each is suspended now and then, for longer than a lease lasts."""
    trouble = Trouble(0.02, 0.02, 0.02, 4.0, 3.0)
    driver, api = make(seed, trouble, nodes=10, names=("a", "b"), renew_s=renew_s)
    for k in range(40):
        driver.at(5.0 * k, api.add_pod, small(f"p{k}"))
    for k, at in enumerate(range(20, 200, 30)):
        driver.at(float(at), driver.pause, "ab"[k % 2], 25.0)
    driver.run(600.0)
    return api


@pytest.mark.parametrize("seed", range(20))
def test_a_deposed_leader_binds_nothing(seed: int) -> None:
    api = led_through_pauses(seed)
    assert len(api.turns) > 1, "nobody was deposed"
    assert stale(api) == []
    assert unbound(api) == [] and api.overfull() == []


def test_without_the_fence_it_would() -> None:
    """The same with leaders who believe in their lease for too long: the check above sees it."""
    assert any(stale(led_through_pauses(seed, renew_s=60.0)) for seed in range(5))


def test_a_gang_is_all_or_none_through_losses() -> None:
    """Three gangs of four on room for two: whenever nothing is under way, a gang has all its nodes
    or none; when one has gone the third gets its turn."""
    for seed in range(10):
        driver, api = make(seed, Trouble(0.05, 0.05, 0.05, 0.5, 0.5))
        for gang in ("x", "y", "z"):
            labels = {"murmuration/gang": gang, "murmuration/gang-size": "4"}
            for k in range(4):
                api.add_pod(small(f"{gang}-{k}", "900m", metadata={"labels": labels}))
        driver.run(300.0)
        lying = {key.split("/")[1][0] for key in api.pods if key not in unbound(api)}
        counts = {g: sum(k.startswith(f"default/{g}") for k in unbound(api)) for g in "xyz"}
        assert len(lying) == 2 and sorted(counts.values()) == [0, 0, 4]
        for k in range(4):
            api.remove_pod(f"default/{min(lying)}-{k}")
        driver.run(600.0)
        assert unbound(api) == [] and api.overfull() == []


def test_the_more_important_goes_first_and_the_reason_is_told_once() -> None:
    driver, api = make(1, Trouble(watch_s=0.0), nodes=1)
    for k, priority in enumerate((0, 5, 9, 1)):
        api.add_pod(small(f"p{k}", "1500m", priority=priority))
    driver.run(100.0)
    assert [pod for _, _, pod, _ in api.bindings] == ["default/p2"]
    told = [event for event in api.events if isinstance(event, TellPending)]
    assert sorted(event.pod for event in told) == [f"default/p{k}" for k in (0, 1, 3)]
    assert {event.sentence for event in told} == {
        "0/1 nodes are available: 1 have less than 1.5 CPU free"
    }
    api.remove_pod("default/p2")
    driver.run(200.0)
    assert [pod for _, _, pod, _ in api.bindings] == ["default/p2", "default/p1"]
