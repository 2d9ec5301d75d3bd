"""A job is scaled while it runs: more tasks are added, the newest end first, and a number of a run
is never used twice, not even when a task comes back."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.schedulers.central.clusters import Cluster, facts, sent, spec

from murmuration.schedulers.central.jobs import SCALED, CentralTaskState
from murmuration.schedulers.central.memory import MasterMemory
from murmuration.schedulers.central.messages import (
    JOBS,
    Fact,
    JobChanged,
    JobEnded,
    KillJob,
    Launch,
    Running,
    ScaleJob,
    Stop,
    TaskStopping,
)
from murmuration.schedulers.offers.messages import Status

RUNNING, KILLED = CentralTaskState.RUNNING, CentralTaskState.KILLED


def grown(count: int = 3, **fields: Any) -> Cluster:
    """A cluster with a job all of whose tasks run."""
    cluster = Cluster(nodes=6)
    cluster.submit(spec(count=count, **fields))
    for k in range(count):
        cluster.start(f"job.{k}.1")
    return cluster


def test_more_tasks_are_placed_as_those_of_a_new_job() -> None:
    cluster = grown(2, kind="service")
    told = cluster.tell(ScaleJob("job", 4))
    assert [launch.run for launch in sent(told, Launch)] == ["job.2.1", "job.3.1"]
    assert facts(told, JobChanged)[0].spec.count == 4
    assert cluster.tell(ScaleJob("job", 4)) == []


def test_the_newest_end_first_and_are_not_run_again() -> None:
    cluster = grown(4, kind="service")
    told = cluster.tell(ScaleJob("job", 2))
    assert [(stop.run, stop.reason) for stop in sent(told, Stop)] == [
        ("job.2.1", SCALED),
        ("job.3.1", SCALED),
    ]
    assert [fact.reason for fact in facts(told, TaskStopping)] == [SCALED] * 2
    # They are listed until they have ended.
    assert len(cluster.job().listed()) == 4
    for run in ("job.2.1", "job.3.1"):
        assert not sent(cluster.end(run, code=143, status=Status.KILLED, reason=SCALED), Launch)
    assert cluster.job().counts() == {RUNNING: 2} and not cluster.job().status


def test_a_task_that_comes_back_has_a_run_of_a_new_number() -> None:
    cluster = grown(2, kind="service")
    cluster.tell(ScaleJob("job", 1))
    # While it still stops it is wanted again: it is run again when it has.
    assert not sent(cluster.tell(ScaleJob("job", 2)), Launch)
    told = cluster.end("job.1.1", code=143, status=Status.KILLED, reason=SCALED)
    assert [launch.run for launch in sent(told, Launch)] == ["job.1.2"]
    cluster.start("job.1.2")
    cluster.tell(ScaleJob("job", 1))
    cluster.end("job.1.2", code=143, status=Status.KILLED, reason=SCALED)
    assert [launch.run for launch in sent(cluster.tell(ScaleJob("job", 2)), Launch)] == ["job.1.3"]


def test_a_job_that_was_scaled_down_ends_well() -> None:
    """What it has no longer says nothing about its outcome, whether it ran or waited."""
    cluster = Cluster(nodes=1)
    cluster.submit(spec(count=4))
    assert len(cluster.launched) == 2
    told = cluster.tell(ScaleJob("job", 1))
    assert [stop.run for stop in sent(told, Stop)] == ["job.1.1"]
    cluster.end("job.1.1", code=143, status=Status.KILLED, reason=SCALED)
    assert facts(cluster.end("job.0.1"), JobEnded) == [JobEnded("job", "finished", 0)]


def test_a_task_that_finished_before_it_was_taken_away_does_not_come_back() -> None:
    cluster = grown(2)
    cluster.end("job.1.1")
    cluster.tell(ScaleJob("job", 1))
    assert not sent(cluster.tell(ScaleJob("job", 2)), Launch)


def test_a_killed_or_ended_job_is_not_scaled() -> None:
    cluster = grown(1, kind="service")
    cluster.tell(KillJob("job"))
    assert cluster.tell(ScaleJob("job", 3)) == []
    cluster.end("job.0.1", code=143, status=Status.KILLED)
    assert cluster.tell(ScaleJob("job", 3)) == []


class Crashing(Cluster):
    """A cluster whose master is replaced, now and then, by one that knows what is on disk; its
    nodes go on."""

    def __init__(self, nodes: int) -> None:
        self.disk, self.epoch, self.up = MasterMemory(), 0, set[str]()
        self.names = [f"n{k}" for k in range(nodes)]
        super().__init__(nodes)

    def tell(self, event: Any, now: float | None = None) -> list[Any]:
        told = super().tell(event, now)
        for fact in told:
            if isinstance(fact, Fact):
                self.disk.apply(fact, self.now)
        self.up |= {launch.run for launch in sent(told, Launch)}
        return told

    def crash(self) -> None:
        self.epoch += 1
        settings, recover = self.master.settings, self.disk.recover(self.epoch, 1)
        self.master = type(self.master)(settings, 1)
        self.tell(recover)
        for name in self.names:
            runs = [run for run in sorted(self.up) if self.launched[run][0] == name]
            running = tuple(
                Running(JOBS, run, self.launched[run][1].request, starting=self.is_starting(run))
                for run in runs
            )
            self.join(name, running=running)

    def is_starting(self, run: str) -> bool:
        """Whether a node would say so of a run; a node starts what it gets at once."""
        return False


def test_a_task_that_came_back_and_waits_is_not_forgotten_by_a_restart() -> None:
    """On disk it has ended, taken away; the job's count alone says that it is wanted again."""
    cluster = Crashing(nodes=1)
    cluster.submit(spec(count=2, kind="service"))
    cluster.tell(ScaleJob("job", 1))
    cluster.end("job.1.1", code=143, status=Status.KILLED, reason=SCALED)
    cluster.up.discard("job.1.1")
    cluster.submit(spec("filler", count=1))
    assert not sent(cluster.tell(ScaleJob("job", 2)), Launch)
    cluster.crash()
    assert cluster.job().open_tasks == 2
    assert cluster.states()[1] is CentralTaskState.WAITING
    assert [launch.run for launch in sent(cluster.end("filler.0.1"), Launch)] == ["job.1.2"]


@pytest.mark.parametrize("seed", range(40))
def test_any_story_comes_to_the_count_that_was_asked_for_last(seed: int) -> None:
    """Scaled at random, with runs that end in any order and masters that crash: in the end there
    are as many tasks as were asked for last, those with the lowest numbers."""
    rng = random.Random(seed)
    cluster, count = Crashing(6), rng.randint(1, 4)
    cluster.submit(spec(count=count, kind="service"))
    for _ in range(30):
        match rng.randrange(4):
            case 0:
                count = rng.randint(1, 8)
                cluster.tell(ScaleJob("job", count))
            case 1:
                cluster.crash()
            case _:
                stopping = [run for run in sorted(cluster.up) if is_stopping(cluster, run)]
                for run in rng.sample(stopping, rng.randint(0, len(stopping))):
                    end(cluster, run)
    while stopping := [run for run in sorted(cluster.up) if is_stopping(cluster, run)]:
        for run in stopping:
            end(cluster, run)
    for run in sorted(cluster.up):
        cluster.start(run)
    assert cluster.job().counts() == {RUNNING: count}
    assert sorted(int(run.split(".")[1]) for run in cluster.up) == list(range(count))


def is_stopping(cluster: Cluster, run: str) -> bool:
    held = cluster.master.jobs.runs.get(run)
    return held is not None and held[1].state is CentralTaskState.STOPPING


def end(cluster: Crashing, run: str) -> None:
    cluster.up.discard(run)
    cluster.end(run, code=143, status=Status.KILLED, reason=SCALED)
