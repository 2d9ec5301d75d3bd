"""Parts of a real cluster are killed, stopped and starved: nothing is lost, nothing runs twice,
nothing is left."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.runtime.clusters import WAIT_S, LiveCluster, live_cluster, marked, until

from murmuration.base.errors import InputError
from murmuration.experiments.live import replay_log
from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import AnswerError
from murmuration.runtime.folder import NODES
from murmuration.runtime.locks import hold, holder
from murmuration.runtime.node.journal import Begun, Journal, Over, Settled
from murmuration.runtime.node.watchdog import WATCHDOG_LOCK
from murmuration.runtime.options import AgentOptions
from murmuration.schedulers.central.messages import Ended
from murmuration.schedulers.offers.messages import Status

#: A lease long enough that a starved agent does not lose it, short enough to wait for its end.
TIMEOUT_S = 10.0
#: A lease that no restart outlasts, however busy the machine is.
NEVER_S = 3600.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path_factory.mktemp("faults"), agent_timeout_s=NEVER_S) as made:
        yield made


def counter(path: Path) -> list[str]:
    """A job whose task writes one line when it starts and one when it ends well."""
    return [
        "sh",
        "-c",
        f"echo start $MURMUR_TASK >> {path}; sleep 1; echo end $MURMUR_TASK >> {path}",
    ]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


STEPS_S = (0.0, 0.02, 0.1, 0.4)
KILLS = [(part, signal.SIGKILL, delay_s) for part in ("master", "n1") for delay_s in STEPS_S]
KILLS += [(part, signal.SIGTERM, delay_s) for part in ("master", "n1") for delay_s in (0.02, 0.4)]


@pytest.mark.parametrize(("part", "number", "delay_s"), KILLS)
def test_a_part_killed_at_any_step_of_a_launch_loses_nothing(
    cluster: LiveCluster, tmp_path: Path, part: str, number: int, delay_s: float
) -> None:
    """Six tasks on both nodes; every one starts once and ends once, whoever dies meanwhile. Only an
    agent that was told to leave ends its tasks: those start again."""
    name, path = f"job-{part}-{number}-{int(delay_s * 1000)}", tmp_path / "lines"
    cluster.submit(name, *counter(path), count=6)
    time.sleep(delay_s)
    before = cluster.kill(part, number)
    assert cluster.wait(name)["code"] == 0
    cluster.reborn(part, before)
    expected = [f"{name}.{k}" for k in range(6)]
    started = sorted(line.split()[1] for line in lines(path) if line.startswith("start"))
    assert sorted(line.split()[1] for line in lines(path) if line.startswith("end")) == expected
    assert started == expected or (
        set(started) == set(expected) and part == "n1" and number == signal.SIGTERM
    )


def test_a_killed_master_touches_no_running_task(cluster: LiveCluster) -> None:
    cluster.submit("steady", "sleep", "300", kind="service", count=3)
    before = {row["task"]: (row["run"], row["node"]) for row in cluster.running("steady", 3)}
    # A task counts as running when its shim does, a moment before the command.
    until(lambda: len(task_pids(cluster)) == 6)
    pids = set(task_pids(cluster))
    killed = cluster.kill("master")
    cluster.reborn("master", killed)
    after = {row["task"]: (row["run"], row["node"]) for row in cluster.running("steady", 3)}
    assert after == before and set(task_pids(cluster)) == pids
    cluster.client.delete("jobs", "steady")
    assert cluster.wait("steady")["state"] == "killed"


def task_pids(cluster: LiveCluster) -> list[int]:
    return [
        pid
        for pid in marked(cluster.folder)
        if b"MURMUR_TASK=" in Path(f"/proc/{pid}/environ").read_bytes()
    ]


def test_a_restarted_agent_finds_its_tasks_and_how_they_ended(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    wait = f"until [ -e {go} ]; do sleep 0.05; done; exit 5"
    cluster.submit("outlives", "sh", "-c", wait, count=2)
    cluster.running("outlives", 2)
    for part in ("n1", "n2"):
        cluster.kill(part)
    go.touch()
    found = cluster.wait("outlives")
    assert (found["state"], found["code"]) == ("failed", 5), (
        "the exit code was kept by what outlives an agent"
    )


def test_an_agent_that_is_stopped_ends_its_tasks_and_they_run_elsewhere(
    cluster: LiveCluster,
) -> None:
    cluster.submit("moves", "sleep", "300", kind="service")
    (row,) = cluster.running("moves", 1)
    before = cluster.kill(row["node"], signal.SIGTERM)
    until(lambda: cluster.running("moves", 1)[0]["run"] == 2)
    assert any("node agent was stopped" in fact["reason"] for fact in cluster.facts("TaskEnded"))
    cluster.reborn(row["node"], before)
    cluster.client.delete("jobs", "moves")
    cluster.wait("moves")


def test_two_agents_of_one_name(cluster: LiveCluster, tmp_path: Path) -> None:
    """In the same folder the second is refused by a lock, in another one by the master."""
    options = cluster.parts.agents[0]
    found = run_agent(options)
    assert found.returncode == 2 and "runs already" in found.stderr
    elsewhere = tmp_path / "other"
    elsewhere.mkdir()
    for name in ("token", "api.json"):
        shutil.copy(cluster.folder / name, elsewhere / name)
    found = run_agent(msgspec.structs.replace(options, folder=str(elsewhere)))
    assert found.returncode == 2 and "connected already" in found.stderr


def run_agent(options: AgentOptions) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "murmuration.runtime.node.process",
        msgspec.json.encode(options).decode(),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT_S, env=environment, check=False
    )


def test_the_log_replays_across_restarts(cluster: LiveCluster) -> None:
    found = replay_log(cluster.folder)
    assert found.agrees, found.difference
    assert found.decisions >= 48


def test_the_tasks_of_a_frozen_agent_end_before_they_run_elsewhere(tmp_path: Path) -> None:
    """A frozen agent can end nothing: its watchdog does, before the task runs elsewhere."""
    with live_cluster(tmp_path / "c", agents=2, agent_timeout_s=TIMEOUT_S) as cluster:
        cluster.submit("web", "sleep", "300", kind="service")
        (row,) = cluster.running("web", 1)
        frozen = cluster.kill(row["node"], signal.SIGSTOP)
        began = time.monotonic()
        try:
            (again,) = until(lambda: [r for r in cluster.running("web", 1) if r["run"] > 1])
            waited = time.monotonic() - began
            assert again["node"] != row["node"] and waited > TIMEOUT_S
            assert len(set(task_nodes(cluster))) == 1, (
                "the first run was ended before the second began"
            )
        finally:
            os.kill(frozen, signal.SIGCONT)
        until(lambda: {n["state"] for n in cluster.client.get("nodes")["nodes"]} == {"up"})
        assert len(cluster.running("web", 1)) == 1


def test_without_a_master_tasks_end_in_time_and_run_again_when_one_is_back(tmp_path: Path) -> None:
    with live_cluster(tmp_path / "c", agents=1, agent_timeout_s=TIMEOUT_S) as cluster:
        cluster.submit("web", "sleep", "300", kind="service")
        cluster.running("web", 1)
        frozen = cluster.kill("master", signal.SIGSTOP)
        until(lambda: not task_pids(cluster))
        os.kill(frozen, signal.SIGCONT)
        until(lambda: cluster.running("web", 1)[0]["run"] > 1)


def task_nodes(cluster: LiveCluster) -> list[str]:
    found = []
    for pid in task_pids(cluster):
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        found += [value.decode() for value in environ if value.startswith(b"MURMUR_NODE=")]
    return found


def test_down_ends_what_a_killed_supervisor_has_left(tmp_path: Path) -> None:
    with live_cluster(tmp_path / "c", agents=1) as cluster:
        cluster.submit("web", "sleep", "300", kind="service")
        cluster.running("web", 1)
        pid = holder(cluster.folder / supervisor.LOCK)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: holder(cluster.folder / supervisor.LOCK) is None)
        assert marked(cluster.folder), "the parts and the task go on"


def test_what_was_kept_goes_on_when_the_cluster_is_up_again(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with live_cluster(folder, agents=1) as cluster:
        cluster.submit("web", "sleep", "300", kind="service")
        cluster.submit("done", "true")
        cluster.running("web", 1)
        assert cluster.wait("done")["code"] == 0
    with live_cluster(folder, agents=1) as cluster:
        assert cluster.running("web", 1)[0]["run"] == 2
        assert cluster.wait("done")["code"] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system to fill needs root")
def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", str(folder)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        with live_cluster(folder, agents=1) as cluster:
            cluster.submit("before", "true")
            assert cluster.wait("before")["code"] == 0
            fill(folder / "filler")
            with pytest.raises(AnswerError, match="full") as error:
                cluster.submit("refused", "true", environment={"A": "x" * 50_000})
            assert error.value.status == 507
            (folder / "filler").unlink(missing_ok=True)
            until(lambda: cluster.submit("after", "true"))
            assert cluster.wait("after")["code"] == 0
            assert "refused" not in cluster.master_jobs()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path: Path) -> None:
    with open(path, "wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(b"x" * 4096):
            pass


# The pieces.


def test_a_journal_forgets_what_is_settled_and_half_a_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    for run in ("a", "b", "c"):
        journal.write(Begun("jobs", run, (1, 2), None))
    journal.write(Over(Ended("jobs", "b", Status.FAILED, 3)))
    journal.write(Settled("c"))
    with open(tmp_path / "journal", "ab") as file:
        file.write(b'{"type":"Settled","run":"a')
    again = Journal(tmp_path / "journal")
    assert set(again.begun) == {"a", "b"} and again.over["b"].code == 3
    assert b"Settled" not in (tmp_path / "journal").read_bytes()


def test_a_lock_names_its_holder_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert holder(path) is None
    descriptor = hold(path, "a thing")
    assert holder(path) == os.getpid()
    with pytest.raises(InputError, match=f"a thing runs already .process {os.getpid()}"):
        hold(path, "a thing")
    os.close(descriptor)
    assert holder(path) is None


def test_watchdogs_go_with_their_agents(tmp_path: Path) -> None:
    with live_cluster(tmp_path / "c", agents=1) as cluster:
        watchdog = until(lambda: holder(cluster.folder / NODES / "n1" / WATCHDOG_LOCK))
        before = cluster.kill("n1")
        cluster.reborn("n1", before)
        until(lambda: holder(cluster.folder / NODES / "n1" / WATCHDOG_LOCK) not in (None, watchdog))
        # Supervisor, master, agent and one watchdog.
        until(lambda: len(marked(cluster.folder)) == 4)
        watchdog = until(lambda: holder(cluster.folder / NODES / "n1" / WATCHDOG_LOCK))
        os.kill(watchdog, signal.SIGKILL)
        until(lambda: holder(cluster.folder / NODES / "n1" / WATCHDOG_LOCK) not in (None, watchdog))
