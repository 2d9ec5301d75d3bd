"""Each rule of offers, seen at work: what happens without it, and what happens with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.simulation.stories import Story


def small_and_large(folder: Path) -> Story:
    """A stream of small tasks that takes every CPU as it comes free, and one job that needs a node
    to itself."""
    story = Story(folder, nodes=2, cpu=4, seconds=200)
    for k in range(400):
        story.job(f"small-{k}", "small", at=k / 4, lasts=10 + k % 7)
    story.job("large", "large", at=5.0, cpu=4.0)
    return story


def test_large_tasks_starve_without_a_minimum_offer_size(tmp_path: Path) -> None:
    """4.10: whatever comes free goes to whoever can use it, and a whole node never does."""
    ended = small_and_large(tmp_path).run(job_time_s=0.01)
    assert ended["large"]["status"] == "waiting" and ended["large"]["attempts"] == 0


def test_large_tasks_run_with_a_minimum_offer_size(tmp_path: Path) -> None:
    ended = small_and_large(tmp_path).run(job_time_s=0.01, offers={"min_cpu": 4})
    assert ended["large"]["status"] == "scheduled"
    assert ended["small-0"]["status"] == "scheduled"


def test_all_that_is_free_is_locked_until_the_framework_answers(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.job("a", "a")
    story.job("b", "b", at=1.0)
    ended = story.run(job_time_s=10.0)
    assert ended["a"]["scheduled_s"] == pytest.approx(10.001)
    # Nothing is offered to b while a decides, though seven of eight CPUs stay free.
    assert ended["b"]["first_attempt_s"] == pytest.approx(10.002)


def test_optimistic_offers_lock_nothing(tmp_path: Path) -> None:
    """6.2.2: the same resources go to both; who answers second finds them taken and tries again."""
    story = Story(tmp_path, nodes=1)
    story.job("a", "a", tasks=3)
    story.job("b", "b", tasks=3)
    ended = story.run(job_time_s=10.0, offers={"optimistic": True})
    assert ended["b"]["first_attempt_s"] == pytest.approx(0.002)
    assert (ended["a"]["conflicts"], ended["a"]["tasks_placed"]) == (0, 3)
    assert (ended["b"]["conflicts"], ended["b"]["tasks_placed"]) == (1, 1)
    assert ended.summary["cluster"]["offered_fraction"] == 0.0


def test_an_offer_in_which_nothing_fits_is_rejected_at_once(tmp_path: Path) -> None:
    """And the next framework has it a moment later, not after a decision time."""
    story = Story(tmp_path, nodes=2, cpu=4)
    story.job("filler", "a", tasks=2, cpu=3.0)
    story.job("large", "a", at=20.0, cpu=4.0)
    story.job("small", "b", at=20.0)
    ended = story.run(job_time_s=10.0)
    assert ended.count("offers_rejected") >= 1
    assert ended["large"]["attempts"] == 0
    assert ended["small"]["first_attempt_s"] == pytest.approx(20.0, abs=0.01)


def test_a_rejected_offer_is_tried_on_the_next_job_of_the_queue(tmp_path: Path) -> None:
    story = Story(tmp_path, nodes=1, cpu=4)
    story.job("filler", "a", cpu=2.0)
    story.job("large", "a", at=20.0, cpu=4.0)
    story.job("small", "a", at=20.0)
    ended = story.run(job_time_s=1.0)
    assert ended["small"]["status"] == "scheduled" and ended["large"]["status"] == "waiting"


def test_fair_shares_count_what_is_held(tmp_path: Path) -> None:
    """a holds half the cluster when both want the four CPUs that come free: b gets them, then they
    take turns."""
    story = Story(tmp_path, nodes=2, cpu=4, seconds=60)
    story.job("a-old", "a", tasks=4)
    story.job("b-old", "b", at=0.5, tasks=4, lasts=20.0)
    for k in range(4):
        story.job(f"a{k}", "a", at=5.0)
        story.job(f"b{k}", "b", at=5.0)
    ended = story.run(job_time_s=0.1)
    assert [ended[f"b{k}"]["status"] for k in range(4)] == ["scheduled"] * 4
    assert [ended[f"a{k}"]["status"] for k in range(4)] == ["waiting"] * 4


def test_weights_make_shares(tmp_path: Path) -> None:
    """Twelve CPUs, more wanted than there are: a framework of weight 3 ends up with three times the
    other's."""
    story = Story(tmp_path, nodes=3, cpu=4)
    for k in range(20):
        story.job(f"a{k}", "a")
        story.job(f"b{k}", "b")
    ended = story.run(job_time_s=0.1, offers={"framework": {"a": {"weight": 3.0}}})
    placed = [sum(ended[f"{w}{k}"]["tasks_placed"] for k in range(20)) for w in "ab"]
    assert placed == [9, 3]


def test_strict_priority_serves_the_heavier_first(tmp_path: Path) -> None:
    story = Story(tmp_path, nodes=3, cpu=4)
    for k in range(20):
        story.job(f"a{k}", "a")
        story.job(f"b{k}", "b")
    ended = story.run(
        job_time_s=0.0, offers={"allocator": "priority", "framework": {"b": {"weight": 2.0}}}
    )
    assert [sum(ended[f"{w}{k}"]["tasks_placed"] for k in range(20)) for w in "ab"] == [0, 12]


def test_a_filter_keeps_nodes_out(tmp_path: Path) -> None:
    """The filter names the zone; without it first fit uses the other node as well."""
    story = Story(tmp_path)
    story.nodes(zone=["a", "b"])
    story.job("j", "w", tasks=8)
    free, kept = story.run(), story.run(offers={"framework": {"w": {"filter": ["zone = b"]}}})
    assert set(free.nodes_of(0)) == {0, 1}
    assert set(kept.nodes_of(0)) == {1} and kept["j"]["tasks_placed"] == 4


def test_a_filter_on_what_must_be_free(tmp_path: Path) -> None:
    """At least three CPUs free: the node that has two is not offered, though the task would fit."""
    story = Story(tmp_path, nodes=1, cpu=4)
    story.job("first", "a", cpu=2.0)
    story.job("second", "w", at=10.0)
    assert story.run()["second"]["status"] == "scheduled"
    ended = story.run(offers={"framework": {"w": {"filter_cpu": 3}}})
    assert (ended["second"]["status"], ended["second"]["attempts"]) == ("waiting", 0)


def test_a_rescinded_offer_is_wasted_time_and_the_job_is_tried_again(tmp_path: Path) -> None:
    story = Story(tmp_path, seconds=38)
    story.job("slow", "slow")
    story.job("quick", "quick", at=1.0)
    times = {
        "quick": {"job_time_s": 1.0, "task_time_s": 0.0},
        "default": {"job_time_s": 10.0, "task_time_s": 0.0},
    }
    ended = story.run(offers={"timeout_s": 5.0}, decision=times)
    # The offer goes back after five seconds, and quick has it then.
    assert ended["quick"]["first_attempt_s"] == pytest.approx(5.002)
    # Begun at 0, 10, 20 and 30 seconds, each time rescinded five seconds later; three of them
    # ended.
    assert ended.count("offers_rescinded") == 4
    slow = ended.summary["workloads"]["slow"]
    assert (ended["slow"]["attempts"], slow["tasks_placed"]) == (4, 0)
    assert slow["busy_fraction"] == slow["busy_wasted_fraction"] == pytest.approx(30 / 38, rel=1e-3)
    assert story.run(decision=times)["slow"]["status"] == "scheduled", (
        "without a time-out it is placed at once"
    )


def test_a_share_of_every_node_is_kept_for_short_tasks(tmp_path: Path) -> None:
    """4.8: half of a node of four CPUs is for tasks of up to five seconds."""
    story = Story(tmp_path, nodes=1, cpu=4, seconds=50)
    story.job("long", "a", tasks=4)
    story.job("short", "b", at=10.0, tasks=2, lasts=5.0)
    ended = story.run(offers={"short_share": 0.5, "short_max_s": 5.0})
    assert (ended["long"]["tasks_placed"], ended["short"]["tasks_placed"]) == (2, 2)
    assert story.run()["short"]["tasks_placed"] == 0, (
        "without the reservation the long job takes all four"
    )


def test_a_task_declared_short_is_killed_at_the_limit(tmp_path: Path) -> None:
    story = Story(tmp_path, nodes=1, cpu=4, seconds=50)
    story.job("liar", "a", tasks=4, lasts=1000.0)
    story.job("next", "b", at=1.0, tasks=2, lasts=1000.0)
    rules = {"short_share": 0.5, "short_max_s": 5.0, "framework": {"a": {"short": True}}}
    ended = story.run(offers=rules)
    assert ended["liar"]["tasks_placed"] == 4, "declared short, it may use the whole node"
    assert ended.count("tasks_killed") == 4
    # Decided from 0.001 to 1.001 s, killed five seconds later; the next one's offer is made a
    # millisecond after.
    assert ended["next"]["first_attempt_s"] == pytest.approx(6.002)


def test_a_guaranteed_share_is_had_by_revoking(tmp_path: Path) -> None:
    """5.2.3: half the cluster is b's, but a has all of it. Four of a's tasks are killed, and wait
    to run again."""
    story = Story(tmp_path, nodes=2, cpu=4, seconds=60)
    story.job("a", "a", tasks=8, lasts=1000.0)
    story.job("b", "b", at=20.0, tasks=4, lasts=20.0)
    without = story.run()
    assert without["b"]["tasks_placed"] == 0
    ended = story.run(offers={"framework": {"b": {"guaranteed": 0.5}}})
    assert ended.count("tasks_revoked") == 4
    assert (ended["b"]["tasks_placed"], ended["b"]["first_attempt_s"]) == (
        4,
        pytest.approx(20.0, abs=0.01),
    )
    assert ended["a"]["status"] == "scheduled", "when b's tasks end, a's come back"
    assert ended.summary["workloads"]["a"]["tasks_placed"] == 12, (
        "eight placed once, four of them twice"
    )
    assert ended["a"]["attempts"] == 2


def test_revocation_goes_no_further_than_the_guarantee(tmp_path: Path) -> None:
    """a may keep six of its eight CPUs, b is guaranteed half: it can have two."""
    story = Story(tmp_path, nodes=2, cpu=4, seconds=60)
    story.job("a", "a", tasks=8)
    story.job("b", "b", at=20.0, tasks=8)
    ended = story.run(offers={"framework": {"a": {"guaranteed": 0.5}, "b": {"guaranteed": 0.25}}})
    assert ended.count("tasks_revoked") == 2 and ended["b"]["tasks_placed"] == 2
    assert ended["a"]["tasks_placed"] == 6


def test_a_framework_keeps_what_it_was_guaranteed(tmp_path: Path) -> None:
    """a has three CPUs of each node, six of eight in all, and is guaranteed more than five: one may
    not be killed."""
    story = Story(tmp_path, nodes=2, cpu=4, seconds=60)
    story.job("a", "a", tasks=6)
    story.job("b", "b", at=20.0, cpu=2.0)
    rules = {"a": {"guaranteed": 0.7}, "b": {"guaranteed": 0.3}}
    ended = story.run(placement="worst-fit", offers={"framework": rules})
    assert ended.count("tasks_revoked") == 0 and ended["b"]["status"] == "waiting"
    rules["a"] = {"guaranteed": 0.6}
    ended = story.run(placement="worst-fit", offers={"framework": rules})
    assert ended.count("tasks_revoked") == 1 and ended["b"]["status"] == "scheduled"


def test_revocation_makes_room_on_one_node_for_a_large_task(tmp_path: Path) -> None:
    """Four tasks must go from one node; one each from four nodes would help nobody."""
    story = Story(tmp_path, nodes=4, cpu=4, seconds=60)
    story.job("a", "a", tasks=16)
    story.job("b", "b", at=20.0, cpu=4.0)
    ended = story.run(offers={"framework": {"a": {"guaranteed": 0.5}, "b": {"guaranteed": 0.5}}})
    assert ended.count("tasks_revoked") == 4
    assert ended["b"]["status"] == "scheduled"


def test_revocation_ends_even_where_nothing_takes_any_time(tmp_path: Path) -> None:
    """b's gang can never have all its room at once: a's tasks are not killed and restarted for
    ever."""
    story = Story(tmp_path, nodes=2, cpu=4, seconds=60)
    story.job("a", "a", tasks=8, lasts=30.0)
    story.job("b", "b", at=20.0, tasks=2, cpu=4.0)
    rules = {"offer_time_s": 0.0, "framework": {"a": {"guaranteed": 0.6}, "b": {"guaranteed": 0.4}}}
    ended = story.run(job_time_s=0.0, offers=rules)
    assert ended["a"]["tasks_placed"] == 8


def test_offers_are_made_once_a_period(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.job("j", "w", at=12.0)
    assert story.run(offers={"period_s": 5.0})["j"]["first_attempt_s"] == pytest.approx(15.001)


def test_double_booking_makes_busyness_exceed_one(tmp_path: Path) -> None:
    """The reference simulator let a framework take offers while it was deciding (peers, quirk
    1)."""
    story = Story(tmp_path, nodes=50, cpu=4, seconds=100)
    for k in range(50):
        story.job(f"j{k}", "w", at=float(k), lasts=1.0)
    right, double = (
        story.run(job_time_s=10.0, offers={"double_booked": flag, "min_cpu": 4})
        for flag in (False, True)
    )
    # One attempt after the other from the first second on: nine ended within a hundred seconds.
    assert right.summary["workloads"]["w"]["busy_fraction"] == pytest.approx(0.9, abs=0.01)
    assert double.summary["workloads"]["w"]["busy_fraction"] > 1.0
