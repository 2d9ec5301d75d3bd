"""The job manager: what becomes of a task whose run has ended."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.schedulers.central.clusters import Cluster, facts, sent, spec

from murmuration.schedulers.agent import Note, Wake
from murmuration.schedulers.central.endings import backoff_s
from murmuration.schedulers.central.jobs import KILLED_CODE, CentralTaskState, JobTable
from murmuration.schedulers.central.memory import MasterMemory
from murmuration.schedulers.central.messages import (
    Drain,
    JobEnded,
    JobForgotten,
    JobSubmitted,
    KillJob,
    NodeTriedAgain,
    NodeUnwell,
    Running,
    Stop,
    SubmitJob,
    TaskEnded,
    TaskStopping,
)
from murmuration.schedulers.central.queue.bounds import explain_full
from murmuration.schedulers.offers.messages import Status
from murmuration.workload.job_spec import Restart


def test_a_terminating_job_ends_when_its_last_task_has() -> None:
    cluster = Cluster(nodes=2)
    cluster.submit(spec(count=2))
    assert cluster.states() == [CentralTaskState.STARTING] * 2
    cluster.start("job.0.1")
    assert cluster.states() == [CentralTaskState.RUNNING, CentralTaskState.STARTING]
    assert not facts(cluster.end("job.0.1"), JobEnded)
    assert facts(cluster.end("job.1.1"), JobEnded) == [JobEnded("job", "finished", 0)]


def test_a_failed_task_is_retried_with_growing_pauses_and_then_fails_the_job() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec(restart=Restart(retries=2, backoff_s=1.0)))
    for run, fails_at, pause in (("job.0.1", 10.0, 1.0), ("job.0.2", 20.0, 2.0)):
        (ended,) = facts(cluster.end(run, code=3, now=fails_at), TaskEnded)
        assert ended.state == "waiting" and ended.reason == "exit code 3"
        assert cluster.master.due == fails_at + pause
        assert cluster.tell(Wake(), fails_at + pause - 0.1) == []
        cluster.tell(Wake(), fails_at + pause)
        assert cluster.states() == [CentralTaskState.STARTING]
    assert facts(cluster.end("job.0.3", code=3, now=30.0), JobEnded) == [
        JobEnded("job", "failed", 3)
    ]
    assert cluster.master.due == math.inf


def test_a_service_is_restarted_for_ever_and_forgets_failures_after_a_long_run() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec(kind="service", restart=Restart(backoff_s=1.0, backoff_max_s=8.0)))
    now, run = 0.0, 1
    for pause in (1.0, 2.0, 4.0, 8.0, 8.0):
        cluster.start(f"job.0.{run}")
        cluster.end(f"job.0.{run}", code=0, now=now)
        assert cluster.master.due == now + pause
        now, run = now + pause, run + 1
        cluster.tell(Wake(), now)
    cluster.start(f"job.0.{run}")
    cluster.end(f"job.0.{run}", code=1, now=now + 8.0)
    assert cluster.master.due == now + 8.0 + 1.0, (
        "a run as long as the longest pause starts the count again"
    )


@pytest.mark.parametrize("failures", range(1, 200))
def test_pauses_double_and_are_bounded(failures: int) -> None:
    assert backoff_s(spec(), failures) == min(2.0 ** (failures - 1), 60.0)


def test_a_lost_run_is_run_again_at_once_and_counts_as_no_failure() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec())
    said = cluster.end("job.0.1", status=Status.LOST)
    (ended,) = facts(said, TaskEnded)
    assert (ended.failures, ended.state) == (0, "waiting")
    assert "job.0.2" in cluster.launched


def test_a_killed_job_drops_what_waits_and_ends_when_its_runs_have() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec(count=3))
    assert cluster.states() == [
        CentralTaskState.STARTING,
        CentralTaskState.STARTING,
        CentralTaskState.WAITING,
    ]
    said = cluster.tell(KillJob("job"))
    assert [stop.run for stop in sent(said, Stop)] == ["job.0.1", "job.1.1"]
    assert cluster.states()[2] is CentralTaskState.KILLED
    cluster.end("job.0.1", code=143, status=Status.KILLED)
    said = cluster.end("job.1.1", code=0)
    assert facts(said, JobEnded) == [JobEnded("job", "killed", KILLED_CODE)]
    assert cluster.tell(KillJob("job")) == []


def test_killing_one_task_of_a_service_replaces_it() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec(kind="service", count=2))
    cluster.tell(KillJob("job", 1))
    cluster.end("job.1.1", code=143, status=Status.KILLED)
    assert (
        cluster.states() == [CentralTaskState.STARTING, CentralTaskState.STARTING]
        and "job.1.2" in cluster.launched
    )


def test_killing_one_task_of_a_terminating_job_leaves_the_others() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec(count=2))
    cluster.tell(KillJob("job", 0))
    cluster.end("job.0.1", code=143, status=Status.KILLED)
    assert cluster.states() == [CentralTaskState.KILLED, CentralTaskState.STARTING]


def test_an_end_told_twice_changes_nothing() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec())
    cluster.end("job.0.1", code=1)
    before = cluster.job()
    assert facts(cluster.end("job.0.1", code=1), TaskEnded) == []
    assert cluster.job() is before and before.tasks[0].failures == 1


def test_a_job_of_the_same_name_numbers_its_runs_on() -> None:
    """So that no run is ever started twice under one name."""
    cluster = Cluster(nodes=1)
    cluster.submit(spec())
    cluster.end("job.0.1")
    cluster.submit(spec())
    assert "job.0.2" in cluster.launched and len(cluster.launched) == 2
    order = cluster.launched["job.0.2"][1].order
    assert order.environment["MURMUR_RUN"] == "1", "a job counts its own runs from one"


def test_a_bounded_number_of_ended_jobs_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("murmuration.schedulers.central.queue.bounds.ENDED_MAX", 2)
    cluster = Cluster(nodes=1)
    cluster.submit(spec("stays"))
    forgotten = []
    for name in ("a", "b", "a", "c", "d"):
        cluster.submit(spec(name))
        (run,) = [run for run in cluster.master.jobs.runs if run.startswith(f"{name}.")]
        forgotten += [fact.job for fact in facts(cluster.end(run), JobForgotten)]
    assert forgotten == ["b", "a"], "the first a had made way for the second"
    assert set(cluster.master.jobs.jobs) == {"stays", "c", "d"}


def test_a_bounded_number_of_tasks_of_ended_jobs_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("murmuration.schedulers.central.queue.bounds.ENDED_TASKS_MAX", 5)
    cluster = Cluster(nodes=1)
    forgotten = []
    for name, count in (("a", 2), ("b", 2), ("c", 3), ("d", 9)):
        cluster.submit(spec(name, count=count))
        forgotten += [fact.job for fact in facts(cluster.tell(KillJob(name)), JobForgotten)]
        for run in [run for run in cluster.master.jobs.runs if run.startswith(f"{name}.")]:
            forgotten += [fact.job for fact in facts(cluster.end(run), JobForgotten)]
    assert forgotten == ["a", "b", "c"]
    assert set(cluster.master.jobs.jobs) == {"d"}, "the last to end stays, whatever its size"


def test_a_queue_is_full_beyond_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("murmuration.schedulers.central.queue.bounds.WAITING_MAX", 10)
    cluster = Cluster(nodes=0)
    cluster.submit(spec("a", count=4))
    cluster.submit(spec("b", count=3))
    queue = cluster.master.jobs.queue
    assert not explain_full(queue, 3)
    assert explain_full(queue, 4) == "7 tasks wait, and with 4 more there would be over 10"


def test_a_name_that_was_forgotten_is_taken_with_numbers_no_run_has_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a node keeps of a run is found by its number: it may be another user's."""
    monkeypatch.setattr("murmuration.schedulers.central.queue.bounds.ENDED_MAX", 1)
    cluster, memory = Cluster(nodes=1), MasterMemory()
    said: list[Any] = []
    for name in ("a", "a", "b", "c"):
        said += cluster.submit(spec(name))
        (run,) = cluster.master.jobs.runs
        said += cluster.end(run)
    assert "a" not in cluster.master.jobs.jobs and "a.0.2" in cluster.launched
    said += cluster.submit(spec("a"))
    assert set(cluster.master.jobs.runs) == {"a.0.3"}
    for fact in said:
        if isinstance(fact, JobSubmitted | JobForgotten):
            memory.apply(fact, 0.0)
    again = JobTable()
    again.recover([(job, (0, 0), ()) for job in memory.recover(1, 1).jobs], 0.0)
    again.submit(SubmitJob(spec("b")), (0, 0), (), 0.0)
    assert again.jobs["b"].first_run == 2, "a master that starts again knows it too"


def test_losses_in_a_row_wait_longer_each_time_and_are_counted() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec(restart=Restart(backoff_s=1.0, backoff_max_s=8.0)))
    now, run = 0.0, 1
    for losses, pause in enumerate((0.0, 1.0, 2.0, 4.0, 8.0, 8.0), 1):
        (ended,) = facts(cluster.end(f"job.0.{run}", 9, now, status=Status.LOST), TaskEnded)
        assert (ended.losses, ended.failures, ended.state) == (losses, 0, "waiting")
        if pause:
            assert cluster.master.due == now + pause
        now, run = now + pause, run + 1
        cluster.tell(Wake(), now)
        assert cluster.states() == [CentralTaskState.STARTING]
    cluster.start(f"job.0.{run}")
    (ended,) = facts(cluster.end(f"job.0.{run}", 9, now + 8.0, status=Status.LOST), TaskEnded)
    assert ended.losses == 1, "a run as long as the longest pause starts the count again"


def restarted(cluster: NotingCluster) -> Cluster:
    """The cluster under another master that knows what was noted, with what ran on its nodes."""
    again = Cluster()
    again.now = cluster.now
    again.tell(cluster.memory.recover(1, 1))
    for node in cluster.master.nodes:
        runs = cluster.master.jobs.runs_on(node)
        running = tuple(Running("jobs", run, cluster.launched[run][1].request) for run in runs)
        again.launched.update({run: cluster.launched[run] for run in runs})
        again.join(node, running=running)
    return again


class NotingCluster(Cluster):
    """A cluster whose facts are kept."""

    def __init__(self, nodes: int) -> None:
        self.memory = MasterMemory()
        super().__init__(nodes)
        handle = self.master.handle

        def noting(event, now):  # type: ignore[no-untyped-def]
            effects = handle(event, now)
            for effect in effects:
                if isinstance(effect, Note):
                    self.memory.apply(effect.fact, now)
            return effects

        self.master.handle = noting  # type: ignore[method-assign]


@pytest.mark.parametrize("code", [9, 143])
def test_a_run_that_was_moved_is_no_failure_to_the_next_master_either(code: int) -> None:
    cluster = NotingCluster(nodes=1)
    cluster.submit(spec())
    cluster.start("job.0.1")
    said = cluster.tell(Drain("n0", now=True))
    assert facts(said, TaskStopping) == [TaskStopping("job", 0, 1, "moved: n0 is draining")]
    again = restarted(cluster)
    assert again.states() == [CentralTaskState.STOPPING]
    (ended,) = facts(again.end("job.0.1", code), TaskEnded)
    assert (ended.state, ended.failures) == ("waiting", 0)


def test_an_acknowledged_kill_of_one_task_is_carried_out_by_the_next_master() -> None:
    cluster = NotingCluster(nodes=1)
    cluster.submit(spec(count=2))
    cluster.start("job.0.1")
    cluster.tell(KillJob("job", 0))
    again = Cluster()
    again.tell(cluster.memory.recover(1, 1))
    again.launched = cluster.launched
    requests = [Running("jobs", run, cluster.launched[run][1].request) for run in cluster.launched]
    said = again.join("n0", running=tuple(requests))
    assert [stop.run for stop in sent(said, Stop)] == ["job.0.1"]
    (ended,) = facts(again.end("job.0.1", 9), TaskEnded)
    assert ended.state == "killed"
    assert again.states()[1] is CentralTaskState.RUNNING


def test_killing_a_task_that_waits_is_kept() -> None:
    cluster = NotingCluster(nodes=1)
    cluster.submit(spec(count=3))
    assert cluster.states()[2] is CentralTaskState.WAITING
    cluster.tell(KillJob("job", 2))
    assert cluster.states()[2] is CentralTaskState.KILLED
    assert restarted(cluster).states()[2] is CentralTaskState.KILLED


def test_a_node_that_cannot_start_tasks_loses_them_and_rests() -> None:
    cluster = Cluster(nodes=2)
    cluster.submit(spec())
    sick = cluster.nodes_of()[0]
    said = cluster.end("job.0.1", 1, status=Status.LOST, node_fault=True, reason="disk full")
    assert facts(said, NodeUnwell) == [NodeUnwell(sick, "disk full", 5.0)]
    (other,) = cluster.nodes_of()
    assert other != sick and cluster.states() == [CentralTaskState.STARTING]
    cluster.join(sick)
    cluster.submit(spec("more", count=3))
    assert sick not in cluster.nodes_of("more")
    assert facts(cluster.tell(Wake(), 5.0), NodeTriedAgain) == [NodeTriedAgain(sick)]
    assert sick in cluster.nodes_of("more")


def test_a_name_that_is_taken_again_and_again_leaves_nothing_behind() -> None:
    cluster = Cluster(nodes=1)
    for _ in range(5):
        cluster.submit(spec(count=50))
        cluster.tell(KillJob("job"))
        for run in list(cluster.master.jobs.runs):
            cluster.end(run, 1, status=Status.KILLED)
    assert list(cluster.master.jobs.ended) == list(cluster.master.jobs.jobs) == ["job"]
    assert cluster.job().status == CentralTaskState.KILLED
