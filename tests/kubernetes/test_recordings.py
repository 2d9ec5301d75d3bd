"""A recorded cluster, replayed: by hand-made recordings whose outcome a sentence can tell, and by
those that a scheduler and an observer of a real control plane wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.kubernetes.commands import Command, bound, illegal, nodes_of, until
from tests.kubernetes.control_plane import ControlPlane, Object, real_node, real_pod

from murmuration.base.errors import InputError
from murmuration.cli.replay import replay
from murmuration.experiments.recordings.replay import (
    Stay,
    nodes_in_use,
    repeat_decisions,
    schedule_again,
)
from murmuration.kubernetes.api.client import BUDGETS
from murmuration.kubernetes.recording.log import FORMAT, ClusterLog, ClusterRecorder, RecordHeader
from murmuration.kubernetes.scheduling.options import SchedulerOptions
from murmuration.kubernetes.scheduling.serving import KINDS
from murmuration.schedulers.pods.messages import ThingLost, ThingSeen, ThingsListed


class Recording:
    """A recording written by hand: nodes first, then what happens to pods."""

    def __init__(self, folder: Path, nodes: list[Object]) -> None:
        self.folder = folder
        self.recorder = ClusterRecorder.create(folder, RecordHeader(FORMAT, "here", 0.0))
        for kind in (*KINDS, BUDGETS):
            things = nodes if kind.name == "Node" else []
            self.recorder.add_event(ThingsListed(kind.name, things), 100.0)

    def pod(self, at_s: float, name: str, node: str = "", phase: str = "", **more: Any) -> None:
        metadata = {"uid": f"u-{name}", **more.pop("metadata", {})}
        thing = real_pod(name, metadata=metadata, **more)
        thing["spec"] |= {"nodeName": node} if node else {}
        thing["status"] = {"phase": phase} if phase else {}
        self.recorder.add_event(ThingSeen("Pod", thing), 100.0 + at_s)

    def lose(self, at_s: float, name: str) -> None:
        thing = real_pod(name, metadata={"uid": f"u-{name}"})
        self.recorder.add_event(ThingLost("Pod", thing), 100.0 + at_s)

    def read(self) -> ClusterLog:
        self.recorder.close()
        return ClusterLog.open(self.folder)


def test_a_run_takes_as_long_wherever_it_runs(tmp_path: Path) -> None:
    """Recorded on two nodes side by side; replayed on one node, the second job begins when the
    first has run as long as it did."""
    recording = Recording(tmp_path, [real_node("n0", cpu="1")])
    for name in ("a", "b"):
        recording.pod(1.0, name, cpu="800m")
        recording.pod(2.0, name, "gone-by-now", cpu="800m")
    for name in ("a", "b"):
        recording.pod(12.0, name, "gone-by-now", "Succeeded", cpu="800m")
    recording.pod(40.0, "last", cpu="100m")
    again = schedule_again(recording.read(), SchedulerOptions())
    assert again.recorded.bound == 2 and again.replayed.bound == 3
    assert again.recorded.wait_max_s == 1.0
    # b waits for a, which runs for ten seconds from the moment it came.
    assert again.replayed.wait_max_s == pytest.approx(10.0, abs=1.01)
    assert again.same == 0 and again.nodes["default/b"] == ("gone-by-now", "n0")


def test_what_was_deleted_is_deleted_when_it_was(tmp_path: Path) -> None:
    """A pod that waits for room in the replay gets it the moment the other is deleted; one that
    was never scheduled by us stays where it was."""
    recording = Recording(tmp_path, [real_node("n0", cpu="1"), real_node("n1", cpu="1")])
    recording.pod(0.0, "fixed", "n1", cpu="900m")
    recording.pod(1.0, "first", cpu="900m")
    recording.pod(1.5, "first", "n0", cpu="900m")
    recording.pod(2.0, "second", cpu="900m")
    recording.lose(7.0, "first")
    recording.pod(30.0, "end", cpu="100m")
    again = schedule_again(recording.read(), SchedulerOptions())
    assert again.nodes == {
        "default/first": ("n0", "n0"),
        "default/second": ("", "n0"),
        "default/end": ("", again.nodes["default/end"][1]),
    }
    assert again.replayed.wait_max_s == pytest.approx(5.0, abs=1e-6)


def test_only_the_pods_of_one_scheduler_are_scheduled_anew(tmp_path: Path) -> None:
    recording = Recording(tmp_path, [real_node("n0"), real_node("n1")])
    recording.pod(1.0, "theirs", scheduler="other")
    recording.pod(2.0, "theirs", "n1", scheduler="other")
    recording.pod(3.0, "ours")
    log = recording.read()
    again = schedule_again(log, SchedulerOptions(), "murmuration")
    assert set(again.nodes) == {"default/ours"}
    # The least allocated of the two is the one without theirs.
    assert again.nodes["default/ours"] == ("", "n0")
    assert set(schedule_again(log, SchedulerOptions()).nodes) == {"default/ours", "default/theirs"}


def test_nodes_in_use() -> None:
    """Two pods share a node for 4 of 10 s, a third has one of its own for 5."""
    stays = [
        Stay(0.0, 1.0, 5.0, "a"),
        Stay(0.0, 2.0, 6.0, "a"),
        Stay(0.0, 5.0, 99.0, "b"),
    ]
    assert nodes_in_use(stays, 10.0) == ((5 + 5) / 10, 2)
    assert nodes_in_use([], 0.0) == (0.0, 0)


def test_what_is_no_recording(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "log", [real_node("n0")])
    recording.pod(1.0, "p")
    with pytest.raises(InputError, match="a recording is there already"):
        Recording(tmp_path / "log", [])
    log = recording.read()
    with pytest.raises(InputError, match="an observer wrote this"):
        repeat_decisions(log)
    text = log.path.read_text()
    log.path.write_text(text + '[101.0, "pods.ThingSeen", {"ki')
    assert len(list(ClusterLog.open(tmp_path / "log"))) == len(KINDS) + 2
    lines = text.splitlines()
    log.path.write_text("\n".join([*lines[:2], "[1]", *lines[2:]]))
    with pytest.raises(InputError, match=r"cluster.jsonl, line 3"):
        list(ClusterLog.open(tmp_path / "log"))
    log.path.write_text("{}")
    with pytest.raises(InputError, match="line 1: expected the header of a recording"):
        ClusterLog.open(tmp_path / "log")
    log.path.write_text("\n".join(lines[:3]))
    with pytest.raises(InputError, match="the recording ends before the nodes were listed"):
        log.path.write_text(lines[0])
        schedule_again(ClusterLog.open(tmp_path / "log"), SchedulerOptions())


def run_watch(plane: ControlPlane, folder: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", "from murmuration.cli import main; main()", "kube", "watch"]
    words += ["--record", str(folder), "--kubeconfig", str(plane.kubeconfig)]
    return subprocess.Popen(
        words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=plane.folder
    )


def knows_node(log: Path, name: str) -> bool:
    return any(
        f'"name":"{name}"' in line and '"nodeName"' in line for line in log.read_text().splitlines()
    )


def replayed(*words: str) -> Object:
    result = CliRunner().invoke(replay, [*words, "--json"])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_a_live_scheduler_decides_the_same_again(
    plane: ControlPlane, start: Callable[..., Command], tmp_path: Path
) -> None:
    """Pods of several sizes in bursts, a gang, pods that wait for room, others that go, a node that
    comes: every binding comes out again, in its order."""
    for k in range(5):
        plane.create(real_node(f"n{k}", cpu="2"))
    folder = tmp_path / "log"
    options = ("--record", str(folder), "--seed", "7", "--placement", "best-fit")
    command = start(*options).ready()
    for k in range(30):
        plane.create(real_pod(f"p{k}", cpu=f"{100 + 50 * (k % 7)}m"))
    gang = {"murmuration/gang": "g", "murmuration/gang-size": "3"}
    for k in range(3):
        plane.create(real_pod(f"g{k}", cpu="200m", metadata={"labels": gang}))
    plane.create(real_pod("wide", cpu="1900m"))
    bound(plane, 33)
    for k in range(0, 30, 3):
        plane.call("DELETE", f"/api/v1/namespaces/default/pods/p{k}?gracePeriodSeconds=0")
    for k in range(10):
        plane.create(real_pod(f"q{k}"))
    plane.create(real_node("late", cpu="2"))
    until(lambda: all(nodes_of(plane).values()), "all have a node")
    assert illegal(plane) == []
    where = nodes_of(plane)
    assert command.end() == 0
    document = replayed(str(folder))
    assert document["decisions"] >= 44 and document["agrees"] and document["same"] >= 44
    repeated = repeat_decisions(ClusterLog.open(folder))
    assert {key: node for key, node in repeated.decided if key in where} == where
    # A policy that spreads may leave no node empty enough for the wide pod.
    other = replayed(str(folder), "--placement", "least-allocated", "--seed", "3")
    assert other["recorded"]["bound"] == 44 and other["replayed"]["bound"] >= 43
    assert other["same"] < other["compared"] >= 43


def test_an_observer_records_what_any_policy_can_be_tried_on(
    plane: ControlPlane, start: Callable[..., Command], tmp_path: Path
) -> None:
    """Pods that come one after the other: the policy and seed of the live scheduler put every one
    where it went; another policy does not."""
    for k in range(6):
        plane.create(real_node(f"n{k}", cpu="2"))
    start("--seed", "5").ready()
    folder = tmp_path / "log"
    observer = run_watch(plane, folder)
    log = folder / "cluster.jsonl"
    until(lambda: log.exists() and log.read_text().count("ThingsListed") == 8, "it watches")
    for k in range(16):
        plane.create(real_pod(f"p{k}", cpu=f"{100 + 90 * (k % 5)}m"))
        bound(plane, k + 1 - k // 6)
        if k % 6 == 5:
            name = f"p{k - 5}"
            plane.call("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")
    until(lambda: knows_node(log, "p15"), "all was recorded")
    observer.terminate()
    told, said = observer.communicate()
    assert observer.returncode == 0, said
    assert "default/p3 waits for murmuration" in told and "default/p0 is gone" in told
    document = replayed(str(folder), "--seed", "5")
    assert document["compared"] == document["same"] == 16
    assert document["placement"] == "least-allocated"
    packed = replayed(str(folder), "--placement", "best-fit")
    assert (
        packed["same"] < 16 and packed["replayed"]["nodes_max"] < document["recorded"]["nodes_max"]
    )
