"""The queue of a real cluster: a gang keeps its nodes while a short job passes it, tasks make way
and come back, jobs run after others."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.clusters import LiveCluster, live_cluster, until

from murmuration.experiments.execution.history import read_history
from murmuration.experiments.live import replay_log
from murmuration.runtime.node.isolation.container import missing

ONE, BOTH = {"cpu": 1, "memory": "16Mi"}, {"cpu": 2, "memory": "16Mi"}
#: It runs until the file is there.
WAIT = "until [ -e {} ]; do sleep 0.05; done"


def held(folder: Path, name: str) -> tuple[str, ...]:
    return "sh", "-c", WAIT.format(folder / name)


def why(cluster: LiveCluster, job: str) -> Any:
    return cluster.client.get("jobs", job, "why")


def test_small_jobs_pass_a_gang_only_if_they_have_gone_by_then(tmp_path: Path) -> None:
    """One of four processors is taken for an hour at most. A gang of both nodes waits for it; a
    job of a minute passes, one of two hours does not, and the gang goes before it."""
    with live_cluster(tmp_path / "c", queue="easy") as cluster:
        cluster.submit("hog", *held(tmp_path, "hog"), resources=ONE, time_limit_s=3600)
        cluster.running("hog", 1)
        gang = {"count": 2, "gang": True, "resources": BOTH, "time_limit_s": 60}
        cluster.submit("gang", *held(tmp_path, "gang"), **gang)
        cluster.submit("long", "true", resources=ONE, time_limit_s=7200)
        cluster.submit("brief", "true", resources=ONE, time_limit_s=60)
        assert cluster.wait("brief")["code"] == 0
        assert [row["state"] for row in cluster.tasks("long")] == ["waiting"]
        (tmp_path / "hog").touch()
        cluster.running("gang", 2)
        assert [row["state"] for row in cluster.tasks("long")] == ["waiting"]
        (tmp_path / "gang").touch()
        assert cluster.wait("long")["code"] == 0
        assert replay_log(cluster.folder).agrees


def test_tasks_make_way_with_a_grace_and_come_back(tmp_path: Path) -> None:
    """The one that makes way asks for its time, uses it, and is run again; a job that waits for it
    runs after that, in an array."""
    program = (
        f"trap 'echo saved; exit 3' TERM; echo run $MURMUR_RUN; {WAIT.format(tmp_path / 'end')}"
    )
    settings = ["scheduler.queue_settings.preempt=requeue"]
    with live_cluster(tmp_path / "c", agents=1, settings=settings) as cluster:
        cluster.submit("low", "sh", "-c", program, resources=BOTH, grace_s=600)
        cluster.submit("parts", "sh", "-c", "echo $MURMUR_TASK", array=2, after=["low"])
        until(lambda: cluster.output("low.0") == "run 1\n")
        cluster.submit("high", *held(tmp_path, "high"), resources=ONE, priority=1)
        cluster.running("high", 1)
        assert "it made way for high" in why(cluster, "low")["reason"]
        assert why(cluster, "parts")["tier"] == "dependency"
        (tmp_path / "high").touch()
        (tmp_path / "end").touch()
        assert cluster.wait("low")["code"] == 0 and cluster.output("low.0") == "run 2\n"
        assert cluster.wait("parts")["code"] == 0 and cluster.output("parts[1]") == "parts[1]\n"
        assert replay_log(cluster.folder).agrees
        lines = [line.what for line in read_history(cluster.folder, "low").lines]
    assert lines[2:5] == [
        "started on n1",
        "told to stop: preempted: made way for high",
        "ended on n1 (preempted: made way for high); to run again",
    ]


@pytest.mark.parametrize("isolation", ["process", "runc"])
def test_a_suspended_task_outlives_its_agent_and_its_master(tmp_path: Path, isolation: str) -> None:
    """It counts while it runs. Suspended, it stands still, though its agent and the master are
    killed; then it goes on where it was, and its time limit has stood still as well."""
    if isolation == "runc" and (reason := missing()):
        pytest.skip(reason)
    # What it is told by comes through its standard output alone: a container has its own files.
    program = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo $i; sleep 0.1; done"
    options: Any = {"settings": ["scheduler.queue_settings.preempt=suspend"], "agents": 1}
    with live_cluster(tmp_path / "c", isolation=isolation, **options) as cluster:
        cluster.submit("low", "sh", "-c", program, resources=BOTH, time_limit_s=600)
        until(lambda: cluster.output("low.0").startswith("1\n2\n3\n"))
        cluster.submit("high", "sleep", "600", resources=BOTH, priority=1)
        cluster.running("high", 1)
        assert [row["state"] for row in cluster.tasks("low")] == ["suspended"]
        answer = why(cluster, "low")
        assert answer["tier"] == "preemption" and "suspended on n1" in answer["reason"]
        until(lambda: stands_still(cluster))
        for part in ("n1", "master"):
            cluster.reborn(part, cluster.kill(part))
            assert stands_still(cluster), part
        assert [row["state"] for row in cluster.tasks("low")] == ["suspended"]
        cluster.client.delete("jobs", "high")
        assert cluster.wait("low")["code"] == 0
        assert cluster.output("low.0").split() == [str(k + 1) for k in range(40)]
        assert replay_log(cluster.folder).agrees
        lines = [line.what for line in read_history(cluster.folder, "low").lines]
    assert lines[3:5] == ["suspended on n1: preempted: made way for high", "goes on on n1"]


def stands_still(cluster: LiveCluster) -> bool:
    """Whether it says nothing more in ten times what it takes for a word."""
    before = cluster.output("low.0")
    time.sleep(1.0)
    return cluster.output("low.0") == before
