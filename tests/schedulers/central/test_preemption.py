"""Tasks that make way for a job of higher priority: who, what for, and what becomes of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedulers.central.clusters import CPU, Cluster, facts, sent, spec

from murmuration.base.errors import InputError
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.options import MasterOptions
from murmuration.schedulers.agent import Wake
from murmuration.schedulers.central.explain import PREEMPTION, why
from murmuration.schedulers.central.jobs import CentralTaskState
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.memory import MasterMemory
from murmuration.schedulers.central.messages import JOBS, Launch, Running, Stop, TaskStopping
from murmuration.schedulers.central.queue.preemption import PREEMPTED
from murmuration.schedulers.offers.messages import Status
from murmuration.schedulers.queues.discipline import QueueSettings, find_discipline
from murmuration.schedulers.queues.victims import SPARED, HeldRoom, choose_victims

RUNNING, WAITING = CentralTaskState.RUNNING, CentralTaskState.WAITING


def preempting(nodes: int = 1, queue: str = "", cpu: int = 2) -> Cluster:
    """A master that lets tasks make way, with nodes of two processors."""
    cluster = Cluster()
    cluster.master = CentralMaster(
        replace(
            cluster.master.settings,
            queue=find_discipline(queue) if queue else None,
            queue_settings=QueueSettings(preempt="requeue"),
        ),
        1,
    )
    for k in range(nodes):
        cluster.join(f"n{k}", cpu=cpu, memory=64)
    return cluster


def begin(cluster: Cluster, now: float, **jobs: dict[str, object]) -> None:
    """Submit jobs and have their tasks run."""
    for name, fields in jobs.items():
        for launch in sent(cluster.submit(spec(name, **fields), now), Launch):
            cluster.start(launch.run)


def stopped(said: list[object]) -> dict[str, str]:
    """The runs that were told to stop, and what for."""
    return {stop.run: stop.reason for stop in sent(said, Stop)}


def end_all(cluster: Cluster, runs: dict[str, str], now: float) -> list[object]:
    said: list[object] = []
    for run, reason in runs.items():
        said += cluster.end(run, 1, now, status=Status.KILLED, signal=15, reason=reason)
    return said


def test_the_lowest_makes_way_and_waits_again() -> None:
    cluster = preempting()
    begin(cluster, 0.0, middle={"priority": 1}, low={})
    said = cluster.submit(spec("high", priority=2), 1.0)
    assert stopped(said) == {"low.0.1": "preempted: made way for high"}
    assert [fact.reason for fact in facts(said, TaskStopping)] == [PREEMPTED + "high"]
    assert not sent(said, Launch), "its room is not free yet"
    launches = sent(end_all(cluster, stopped(said), 2.0), Launch)
    assert [launch.run for launch in launches] == ["high.0.1"]
    assert cluster.states("low") == [WAITING] and cluster.job("low").tasks[0].failures == 0
    assert "it made way for high" in why(cluster.master, cluster.job("low"), 2.0).reason
    assert sent(cluster.end("high.0.1", now=3.0), Launch)[0].run == "low.0.2"


def test_nobody_makes_way_unless_it_is_asked_for() -> None:
    cluster = Cluster(1)
    begin(cluster, 0.0, low={"count": 2})
    assert not stopped(cluster.submit(spec("high", priority=9), 1.0))


def test_equals_and_betters_stay() -> None:
    cluster = preempting()
    begin(cluster, 0.0, same={"priority": 3}, better={"priority": 4})
    assert not stopped(cluster.submit(spec("job", priority=3), 1.0))


def test_nobody_makes_way_in_vain() -> None:
    """Two processors on two nodes are no room for one task of two; and neither is all of a
    node."""
    cluster = preempting(2)
    begin(cluster, 0.0, low={"spread": "node", "count": 2}, rest={"count": 2, "priority": 7})
    wide = spec("wide", priority=5, resources={"cpu": 2, "memory": "1G"})
    assert not stopped(cluster.submit(wide, 1.0)), "rest stays, and low alone is not enough"
    huge = spec("huge", priority=9, resources={"cpu": 3, "memory": "1G"})
    assert not stopped(cluster.submit(huge, 1.0))


def test_nobody_makes_way_for_a_job_whose_rules_keep_it_out_all_the_same() -> None:
    """Two nodes of one host share its ports: there is room for two tasks, but not for two with the
    same port."""
    cluster = preempting(0)
    for node in ("n0", "n1"):
        cluster.join(node, memory=64, attributes={"host": "h"})
    begin(cluster, 0.0, low={"count": 4})
    pair = spec("pair", count=2, gang=True, ports=[4000], priority=1)
    assert not stopped(cluster.submit(pair, 1.0))
    assert len(stopped(cluster.submit(spec("one", ports=[4000], priority=1), 1.0))) == 1


def test_no_more_make_way_while_some_do() -> None:
    """What is about to be free is counted: asking again, and another master, end nobody else."""
    cluster = preempting()
    begin(cluster, 0.0, low={"count": 2})
    first = stopped(cluster.submit(spec("high", priority=2), 1.0))
    assert len(first) == 1
    assert not stopped(cluster.tell(Wake(), 2.0))
    assert not stopped(cluster.submit(spec("late", priority=-1), 3.0))
    reason = why(cluster.master, cluster.job("high"), 3.0)
    assert reason.tier == PREEMPTION and reason.reason.endswith("make way for it: low.1")
    assert len(stopped(cluster.submit(spec("second", priority=1), 4.0))) == 1


def test_room_that_is_made_is_kept_from_those_behind() -> None:
    """A job of two processors waits for two ends. After the first of them one processor is free,
    and the task that has just left it does not get it back."""
    cluster = preempting()
    begin(cluster, 0.0, low={"count": 2})
    wide = spec("wide", priority=2, resources={"cpu": 2, "memory": "1G"})
    runs = stopped(cluster.submit(wide, 1.0))
    assert len(runs) == 2
    one, other = runs
    assert not sent(end_all(cluster, {one: runs[one]}, 2.0), Launch)
    assert not sent(cluster.submit(spec("small", priority=1), 2.0), Launch)
    assert [each.run for each in sent(end_all(cluster, {other: ""}, 3.0), Launch)] == ["wide.0.1"]


def test_what_is_not_needed_of_it_is_for_others() -> None:
    """Of the three processors that come free and the one that is, the gang needs two."""
    cluster = preempting(cpu=4)
    begin(cluster, 0.0, low={"resources": {"cpu": 3, "memory": "1G"}})
    runs = stopped(cluster.submit(spec("high", count=2, priority=1, gang=True), 1.0))
    assert list(runs) == ["low.0.1"]
    assert [each.run for each in sent(cluster.submit(spec("tiny"), 1.0), Launch)] == ["tiny.0.1"]
    assert not sent(cluster.submit(spec("more", count=1), 1.0), Launch), "all is held or kept"


def test_a_gang_makes_way_whole() -> None:
    cluster = preempting(2)
    begin(cluster, 0.0, gang={"count": 4, "gang": True})
    assert len(stopped(cluster.submit(spec("high", priority=1), 1.0))) == 4


def test_tasks_of_a_bag_go_one_by_one() -> None:
    """Only as many as are needed; and for a bag that cannot have room for all, as many as can."""
    cluster = preempting(2)
    begin(cluster, 0.0, low={"count": 3}, top={"priority": 9})
    assert len(stopped(cluster.submit(spec("high", count=2, priority=1), 1.0))) == 2
    assert len(stopped(cluster.submit(spec("bag", count=9, priority=2), 2.0))) == 1


def test_a_master_that_starts_again_goes_on() -> None:
    cluster, memory = preempting(), MasterMemory()
    for event in (spec("low", count=2), spec("high", priority=1)):
        said = cluster.submit(event, 1.0)
        for fact in said:
            if type(fact).__name__ in ("JobSubmitted", "TaskPlaced", "TaskStopping"):
                memory.apply(fact, 1.0)
    again = preempting(0)
    again.tell(memory.recover(1, 1), 2.0)
    again.sessions = 5
    again.launched = dict(cluster.launched)
    running = tuple(Running(JOBS, f"low.{k}.1", (CPU, 10**9)) for k in range(2))
    said = again.join("n0", memory=64, running=running)
    assert list(stopped(said)) == ["low.1.1"], "the same one is told again, and no other"
    launched = sent(end_all(again, {"low.1.1": PREEMPTED + "high"}, 3.0), Launch)
    assert [launch.run for launch in launched] == ["high.0.1"]


@pytest.mark.parametrize("queue", ["fcfs", "easy", "priority-easy"])
def test_under_a_discipline_whole_jobs_make_way(queue: str) -> None:
    """The one that others made way for starts before them, also where they came first."""
    cluster = preempting(2, queue)
    begin(cluster, 0.0, old={"count": 2, "time_limit_s": 9.0}, low={"count": 2})
    runs = stopped(cluster.submit(spec("high", count=2, priority=1, time_limit_s=9.0), 1.0))
    assert sorted(runs) == ["low.0.1", "low.1.1"], "what was placed last"
    one, other = sorted(runs)
    assert not sent(end_all(cluster, {one: runs[one]}, 2.0), Launch)
    launches = sent(end_all(cluster, {other: runs[other]}, 3.0), Launch)
    assert [launch.run for launch in launches] == ["high.0.1", "high.1.1"]
    assert cluster.states("low") == [WAITING] * 2


def test_preemption_is_refused_where_it_means_nothing() -> None:
    def ask(*texts: str, **options: Any) -> None:
        live_settings(MasterOptions(folder="", settings=list(texts), **options))

    key = "scheduler.queue_settings.preempt"
    ask(f"{key}=requeue")
    ask(f"{key}=suspend", queue="easy")
    with pytest.raises(InputError, match="expected 'no' with queue = 'conservative'"):
        ask(f"{key}=requeue", queue="conservative")
    with pytest.raises(InputError, match="offers has no queue"):
        ask(f"{key}=requeue", scheduler="offers")
    with pytest.raises(InputError, match="preempt: "):
        ask(f"{key}=perhaps")
    with pytest.raises(InputError, match=r"did you mean 'scheduler\.queue_settings\.preempt'"):
        ask("scheduler.queue_settings.premept=requeue")


# What holds for every choice.

Unit = tuple[int, tuple[tuple[int, int], ...]]
UNITS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=2),
    ),
    max_size=6,
)


def fits(room: list[int], request: int, row_max: int) -> int:
    return sum(min(row_max, free // request) for free in room)


@settings(max_examples=300, deadline=None)
@given(
    units=UNITS,
    free=st.lists(st.integers(0, 4), min_size=3, max_size=3),
    request=st.integers(1, 5),
    tasks=st.integers(1, 4),
    row_max=st.integers(1, 3),
)
def test_a_choice_is_enough_and_no_more(
    units: list[Unit], free: list[int], request: int, tasks: int, row_max: int
) -> None:
    """Against all subsets: there is a choice if there is one at all, none of it is needless, and no
    other avoids the highest priority in it."""
    units = sorted(units, key=lambda unit: unit[0])
    entries = [(k, row, size) for k, unit in enumerate(units) for row, size in unit[1]]
    held = HeldRoom(
        np.array([k for k, _, _ in entries], dtype=np.int64),
        np.array([row for _, row, _ in entries], dtype=np.int64),
        np.array([[size] for _, _, size in entries], dtype=np.int64).reshape(-1, 1),
    )
    missing = tasks - fits(free, request, row_max)
    if missing <= 0:
        return
    order, room = np.arange(len(entries)), np.array(free, dtype=np.int64)[:, None]
    need = np.array([request], dtype=np.int64)
    looked_at = choose_victims(room, need, missing, held, order, row_max)
    chosen = {int(held.unit[k]) for k in order[:looked_at] if k != SPARED}

    def is_enough(some: set[int]) -> bool:
        after = list(free)
        for k, row, size in entries:
            after[row] += size if k in some else 0
        return fits(after, request, row_max) >= tasks

    every = [
        set(some) for n in range(len(units) + 1) for some in combinations(range(len(units)), n)
    ]
    enough = [some for some in every if is_enough(some)]
    assert bool(chosen) == bool(enough)
    if chosen:
        assert is_enough(chosen)
        assert not any(is_enough(chosen - {k}) for k in chosen), "somebody went in vain"
        worst = min(max(units[k][0] for k in some) for some in enough)
        assert max(units[k][0] for k in chosen) == worst
    for k, row, size in entries:
        free[row] += size if k in chosen else 0
    assert not chosen or room[:, 0].tolist() == free


JOBS_ST = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.booleans()
    ),
    min_size=2,
    max_size=10,
)


@settings(max_examples=80, deadline=None)
@given(jobs=JOBS_ST, queue=st.sampled_from(["", "fcfs", "priority-easy"]))
def test_no_equal_makes_way_none_needlessly_and_nothing_is_booked_twice(
    jobs: list[tuple[int, int, int, bool, bool]], queue: str
) -> None:
    """Jobs come and some end, on three nodes of four processors. The ledger adds up after every
    event (`Cluster.tell`); whoever makes way has a lower priority, and without any one of them the
    job would not find room."""
    cluster = preempting(3, queue, cpu=4)
    for k, (priority, count, cpu, gang, ends) in enumerate(jobs):
        asked = spec(
            f"j{k}",
            priority=priority,
            count=count,
            gang=gang,
            resources={"cpu": cpu, "memory": "1G"},
            time_limit_s=50.0,
        )
        said = cluster.submit(asked, float(k))
        for launch in sent(said, Launch):
            cluster.start(launch.run)
        for run, reason in stopped(said).items():
            other = cluster.job(reason.removeprefix(PREEMPTED))
            assert cluster.job(run.rsplit(".", 2)[0]).spec.priority < other.spec.priority
        check_need(cluster, set(stopped(said)), bool(queue))
        stopping = {
            run: task.stopped_for
            for run, (_, task) in cluster.master.jobs.runs.items()
            if task.state is CentralTaskState.STOPPING
        }
        end_all(cluster, stopping if ends else {}, k + 0.5)


def check_need(cluster: Cluster, runs: set[str], whole: bool) -> None:
    """With all that makes way for one job but one unit gone, it would find less room. Only where
    these were all told just now: what happens later may make somebody's room needless."""
    jobs, ledger = cluster.master.jobs, cluster.master.resource_manager.ledger
    making_way = [(job, task) for job, task in jobs.runs.values() if task.stopped_for]
    names = {task.stopped_for.removeprefix(PREEMPTED) for _, task in making_way}
    if len(names) != 1 or len(runs) != len(making_way):
        return
    other = cluster.job(*names)
    if not other.waiting:
        return

    def count(spared: object) -> int:
        room = {name: ledger.available(name).unlimited[0] for name in ledger.nodes}
        for job, task in making_way:
            unit = (job.name,) if whole or job.spec.gang else (job.name, task.index)
            room[task.node] += job.request[0] if unit != spared else 0
        return sum(free // other.request[0] for free in room.values())

    wanted = min(count(None), len(other.waiting))
    units = {
        (job.name,) if whole or job.spec.gang else (job.name, task.index)
        for job, task in making_way
    }
    assert all(count(unit) < wanted for unit in units)
