"""Jobs that run after others, and arrays whose tasks start one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedulers.central.clusters import Cluster, facts, sent, spec

from murmuration.base.errors import InputError
from murmuration.schedulers.central.explain import DEPENDENCY, why
from murmuration.schedulers.central.jobs import CentralTaskState
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.memory import MasterMemory
from murmuration.schedulers.central.messages import (
    JobEnded,
    JobSubmitted,
    KillJob,
    Launch,
    TaskEnded,
    TaskPlaced,
)
from murmuration.schedulers.central.queue.dependencies import check_after
from murmuration.schedulers.queues.discipline import QueueSettings, find_discipline
from murmuration.workload.formats.job_files import read_jobs
from murmuration.workload.job_spec import FieldError, job_from_tables, split_task, task_name

WAITING, FAILED = CentralTaskState.WAITING, CentralTaskState.FAILED


def runs(said: list[Any]) -> list[str]:
    return [launch.run for launch in sent(said, Launch)]


def test_a_job_runs_when_those_before_it_have_ended_well() -> None:
    cluster = Cluster(2)
    cluster.submit(spec("build", count=2), 0.0)
    cluster.submit(spec("lint"), 0.0)
    assert not runs(cluster.submit(spec("test", after=["build", "lint"]), 1.0))
    reason = why(cluster.master, cluster.job("test"), 1.0)
    assert reason.tier == DEPENDENCY
    assert reason.reason == "it runs after build, which is starting and lint, which is starting"
    assert not runs(cluster.end("build.0.1")) and not runs(cluster.end("lint.0.1"))
    assert runs(cluster.end("build.1.1")) == ["test.0.1"]


def test_one_that_failed_ends_those_after_it_and_theirs() -> None:
    cluster = Cluster(2)
    cluster.submit(spec("build"), 0.0)
    cluster.submit(spec("test", after=["build"], count=2), 1.0)
    cluster.submit(spec("ship", after=["test"]), 1.0)
    cluster.submit(spec("clean", after_any=["build", "ship"]), 1.0)
    said = cluster.end("build.0.1", code=3)
    assert [fact.job for fact in facts(said, JobEnded)] == ["build", "test", "ship"]
    assert cluster.states("test") == [FAILED] * 2
    assert cluster.job("test").tasks[1].reason == (
        "it was to run after build, which has failed with code 3"
    )
    assert runs(said) == ["clean.0.1"], "in any way is this way too"


def test_one_that_is_killed_has_not_ended_well() -> None:
    cluster = Cluster()
    cluster.submit(spec("build"), 0.0)
    cluster.submit(spec("test", after=["build"]), 0.0)
    said = cluster.tell(KillJob("build"))
    assert "has been killed" in facts(said, TaskEnded)[0].reason and cluster.job("test").status


def test_a_long_chain_ends_at_once() -> None:
    cluster = Cluster(1)
    cluster.submit(spec("j0"), 0.0)
    for k in range(1, 2000):
        cluster.submit(spec(f"j{k}", after=[f"j{k - 1}"]), 0.0)
    cluster.end("j0.0.1", code=1)
    assert all(job.status == FAILED for job in cluster.master.jobs.jobs.values())


def test_a_job_that_waits_for_another_holds_up_nobody() -> None:
    cluster = Cluster()
    settings_ = replace(cluster.master.settings, queue=find_discipline("fcfs"))
    cluster.master = CentralMaster(settings_, 1)
    cluster.join("n0")
    cluster.submit(spec("build"), 0.0)
    cluster.submit(spec("test", after=["build"]), 1.0)
    assert runs(cluster.submit(spec("other"), 2.0)) == ["other.0.1"]


@pytest.mark.parametrize("code", [0, 1])
def test_a_master_that_starts_again_knows_what_waits_for_what(code: int) -> None:
    """Also if it went between the end of one job and that of its dependents."""
    cluster, memory = Cluster(1), MasterMemory()
    said = [
        *cluster.submit(spec("build"), 0.0),
        *cluster.submit(spec("test", after=["build"]), 0.0),
    ]
    said += cluster.end("build.0.1", code=code)
    for fact in said:
        if getattr(fact, "job", "") == "build" or type(fact).__name__ == "JobSubmitted":
            memory.apply(fact, 0.0)
    again = Cluster()
    again.tell(memory.recover(1, 1), 5.0)
    assert bool(again.job("test").status) == bool(code)
    again.sessions = 9
    assert runs(again.join("n0")) == ([] if code else ["test.0.1"])


def test_a_name_means_the_job_that_had_it() -> None:
    """The next job of that name has nothing to do with those that waited for the last."""
    cluster = Cluster(1)
    cluster.submit(spec("build"), 0.0)
    cluster.submit(spec("test", after=["build"], resources={"cpu": 2, "memory": "1G"}), 0.0)
    assert runs(cluster.end("build.0.1")) == ["test.0.1"]
    cluster.submit(spec("build"), 1.0)
    cluster.tell(KillJob("build"))
    assert not cluster.job("test").status


def test_a_master_that_starts_again_waits_for_no_later_job_of_the_name() -> None:
    """The one before it ended well, and its name was given away while the dependent had no room."""
    cluster, memory = Cluster(1), MasterMemory()
    said = cluster.submit(spec("build"), 0.0)
    said += cluster.submit(spec("test", after=["build"], resources={"cpu": 2, "memory": "1G"}), 0.0)
    said += cluster.submit(spec("other"), 0.0)
    said += cluster.end("build.0.1") + cluster.submit(spec("build"), 1.0)
    for fact in said:
        if isinstance(fact, JobSubmitted | TaskPlaced | TaskEnded):
            memory.apply(fact, 0.0)
    again = Cluster()
    again.tell(memory.recover(1, 1), 5.0)
    assert not again.job("build").status and not again.job("test").pending


def test_what_nobody_could_run_after_is_refused() -> None:
    cluster = Cluster(1)
    cluster.submit(spec("web", kind="service"), 0.0)
    cluster.submit(spec("bad"), 0.0)
    cluster.end("bad.0.1", code=2)

    def check(**fields: Any) -> None:
        check_after(spec("job", **fields), cluster.master.jobs.jobs)

    check(after_any=["web", "bad"])
    with pytest.raises(FieldError, match=r"after\[0\]: there is no job 'buidl' to run after"):
        check(after=["buidl"])
    with pytest.raises(FieldError, match=r"after\[0\]: job 'bad' has failed with code 2"):
        check(after=["bad"])
    with pytest.raises(FieldError, match="'web' is a service, which does not end by itself"):
        check(after=["web"])


def write(folder: Path, *jobs: tuple[str, list[str]]) -> Path:
    path = folder / "jobs.toml"
    lines = [
        f'[[jobs]]\nname = "{name}"\ncommand = ["true"]\nafter = {after!r}\n'
        for name, after in jobs
    ]
    path.write_text("\n".join(lines))
    return path


def test_jobs_of_a_file_are_submitted_in_order(tmp_path: Path) -> None:
    path = write(tmp_path, ("ship", ["test"]), ("test", ["build"]), ("build", []))
    assert [job.name for job in read_jobs(path)] == ["build", "test", "ship"]
    with pytest.raises(
        InputError, match="after: expected no circle, got a after c after b after a"
    ):
        read_jobs(write(tmp_path, ("a", ["c"]), ("b", ["a"]), ("c", ["b"]), ("d", ["a"])))
    with pytest.raises(InputError, match="'a' cannot run after itself"):
        read_jobs(write(tmp_path, ("a", ["a"])))
    with pytest.raises(InputError, match="expected different names, got 'a' twice"):
        read_jobs(write(tmp_path, ("a", []), ("a", [])))
    path.write_text('[[jobs]]\nname = "a"\ncommand = ["true"]\ncuont = 3\n')
    with pytest.raises(InputError, match=r"jobs\[0\]\.cuont: unknown field"):
        read_jobs(path)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sets(st.integers(0, 7), max_size=3), min_size=8, max_size=8))
def test_an_order_is_found_if_there_is_one(after: list[set[int]]) -> None:
    """Against Kahn's count of those that can be taken away one by one."""
    from murmuration.workload.formats.job_files import order_jobs

    made = [
        spec(f"j{k}", after=[f"j{n}" for n in sorted(names - {k})]) for k, names in enumerate(after)
    ]
    left = {k: names - {k} for k, names in enumerate(after)}
    while free := [k for k, names in left.items() if not names & left.keys()]:
        del left[free[0]]
    if left:
        with pytest.raises(FieldError, match="expected no circle"):
            order_jobs(made)
        return
    names = [job.name for job in order_jobs(made)]
    assert sorted(names) == sorted(job.name for job in made)
    assert all(names.index(n) < names.index(job.name) for job in made for n in job.after)


# Arrays.


def test_an_array_has_tasks_of_its_own_names() -> None:
    made = job_from_tables({"name": "scan", "command": ["x"], "array": 5})
    assert made.count == 5 and task_name(made, 3) == "scan[3]"
    assert split_task("scan[3]") == split_task("scan.3") == ("scan", 3)
    assert split_task("scan") == ("scan", None) and split_task("scan[x]") == ("scan[x]", None)
    for fields, sentence in (
        ({"array": -1}, "array: expected a number from 1"),
        ({"array": 5, "count": 3}, "array: expected one of array and count"),
        ({"array": 5, "gang": True}, "got a gang"),
        ({"array": 5, "kind": "service"}, "got a service"),
    ):
        with pytest.raises(FieldError, match=sentence):
            job_from_tables({"name": "scan", "command": ["x"], **fields})


def test_tasks_of_an_array_start_one_by_one_where_jobs_start_whole() -> None:
    cluster = Cluster()
    settings_ = replace(
        cluster.master.settings,
        queue=find_discipline("priority-easy"),
        queue_settings=QueueSettings(preempt="requeue"),
    )
    cluster.master = CentralMaster(settings_, 1)
    cluster.join("n0", cpu=3, memory=64)
    said = cluster.submit(spec("scan", array=5, count=5, time_limit_s=10.0), 0.0)
    assert runs(said) == ["scan.0.1", "scan.1.1", "scan.2.1"]
    order = sent(said, Launch)[1].order
    assert (
        order.environment["MURMUR_INDEX"] == "1" and order.environment["MURMUR_TASK"] == "scan[1]"
    )
    assert not runs(cluster.submit(spec("other", time_limit_s=1.0), 1.0)), "the fourth is before it"
    assert runs(cluster.end("scan.1.1", now=2.0)) == ["scan.3.1"]
    cluster.submit(spec("high", priority=1), 3.0)
    told = [run for run, (_, task) in cluster.master.jobs.runs.items() if task.stopped_for]
    assert told == ["scan.3.1"], "what was placed last, and it alone"
