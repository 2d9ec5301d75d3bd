"""What is wrong with a part, a store or a request is a sentence, and nothing is lost."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.runtime.clusters import CPU, WAIT_S, LiveCluster, live_cluster, until
from tests.schedulers.central.clusters import Cluster, spec

from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import AnswerError, ApiClient, Reach
from murmuration.runtime.folder import STORE
from murmuration.runtime.master.api import ROUTES
from murmuration.runtime.options import AgentOptions, MasterOptions
from murmuration.runtime.store import schema
from murmuration.runtime.store.sqlite import SqliteStore
from murmuration.schedulers.agent import Wake
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentJoined,
    Ended,
    RunEnded,
    Running,
    SubmitJob,
)
from murmuration.schedulers.offers.messages import Status

HOUR_S = 3600.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path_factory.mktemp("bad") / "cluster", agents=1) as made:
        yield made


def start(module: str, options: msgspec.Struct, *, wall_s: float = 0.0) -> Any:
    """A part as a process of its own, on a host whose clock is off by so much."""
    code = (
        "import sys, time; real = time.time; "
        f"time.time = lambda: real() + {wall_s}; "
        "import msgspec; from murmuration.base.errors import InputError; "
        f"from murmuration.runtime.{module} import process; "
        f"options = msgspec.json.decode(sys.argv[1], type=process.{type(options).__name__})\n"
        "try: process.main(options)\n"
        "except InputError as problem: print(f'murmur: {problem}', file=sys.stderr); sys.exit(2)"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [sys.executable, "-c", code, msgspec.json.encode(options).decode()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": path},
    )


def outcome(process: Any) -> tuple[int, str]:
    output, _ = process.communicate(timeout=WAIT_S)
    return process.returncode, output.decode()


def test_a_second_master_of_one_folder_leaves_the_first_alone(cluster: LiveCluster) -> None:
    before = cluster.pid("master")
    code, output = outcome(start("master", MasterOptions(folder=str(cluster.folder))))
    assert code == 2 and "a master" in output and "Traceback" not in output
    assert cluster.pid("master") == before
    cluster.submit("after-that", "true")
    assert cluster.wait("after-that")["code"] == 0


def test_a_store_of_a_later_version_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir(mode=0o700)
    SqliteStore(folder / STORE).close()
    with sqlite3.connect(folder / STORE) as db:
        later = str(schema.VERSION + 1)
        db.execute("UPDATE meta SET value = ? WHERE key = 'version'", (later,))
    db.close()
    (folder / ".murmur").write_text("")
    before = (folder / STORE).read_bytes()
    code, output = outcome(start("master", MasterOptions(folder=str(folder))))
    assert code == 2, output
    assert f"expected a store of version {schema.VERSION} or older, got {later}" in output
    assert (folder / STORE).read_bytes() == before


def test_a_job_of_a_newer_client_is_refused_by_the_field_that_is_new(
    cluster: LiveCluster,
) -> None:
    body = {"name": "newer", "command": ["true"], "telepathy": {"level": 3}}
    with pytest.raises(AnswerError) as error:
        cluster.client.post("jobs", body=body)
    assert error.value.status == 422 and error.value.field == "telepathy"
    assert "unknown field" in str(error.value) and "newer" not in cluster.master_jobs()


@pytest.mark.parametrize("wall_s", [HOUR_S, -HOUR_S], ids=["fast", "slow"])
def test_a_node_whose_clock_is_an_hour_off_serves_as_any_other(
    tmp_path: Path, cluster: LiveCluster, wall_s: float
) -> None:
    """Messages say how old something is, not when it was: nobody's clock matters to others."""
    name = "fast" if wall_s > 0 else "slow"
    options = AgentOptions(
        folder=str(cluster.folder),
        name=name,
        resources={"cpu": CPU, "memory": 2**30},
        attributes={"node": name},
        isolation="process",
    )
    agent = start("node", options, wall_s=wall_s)
    try:
        until(lambda: _is_up(cluster, name))
        for k in range(2):
            cluster.submit(f"{name}-{k}", "true", constraints=[f"node = {name}"])
            assert cluster.wait(f"{name}-{k}")["code"] == 0
            (row,) = cluster.tasks(f"{name}-{k}")
            assert row["node"] == name and 0 <= row["ended_s"] - row["started_s"] < WAIT_S
            if k == 0:
                # And when its clock was set right: another agent, with a connection that is newer.
                agent.send_signal(signal.SIGHUP)
                agent.communicate()
                agent = start("node", options)
                until(lambda: _is_up(cluster, name))
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.communicate()
        supervisor.sweep(cluster.folder / "nodes" / name)


def _is_up(cluster: LiveCluster, name: str) -> bool:
    rows = cluster.client.get("nodes")["nodes"]
    return any(row["node"] == name and row["state"] == "up" for row in rows)


@pytest.mark.parametrize(("cpu", "more"), [(2, 0), (3, 1), (50, 2)])
def test_a_node_that_counts_its_tasks_for_less_gets_no_more(cpu: int, more: int) -> None:
    """After a restart it says that what it runs takes nothing; its memory is for four tasks."""
    story = Cluster()
    story.join("n0", cpu=2)
    story.submit(spec("job", count=2))
    runs = sorted(story.launched)
    assert len(runs) == 2
    story.join("n0", cpu=cpu, running=tuple(Running(JOBS, run, (0, 0)) for run in runs))
    row = story.master.resource_manager.ledger.nodes["n0"]
    assert row.available[0] == (cpu - 2) * CPU, "two tasks of one CPU each run there"
    story.submit(spec("more", count=60))
    assert len(story.launched) - 2 == more
    for run in runs:
        story.end(run)


@pytest.mark.parametrize("by_offers", [False, True])
def test_a_node_that_has_become_smaller_gets_nothing_until_what_runs_fits(by_offers: bool) -> None:
    story = Cluster(by_offers=by_offers)
    story.join("n0", cpu=3)
    story.submit(spec("job", count=3))
    first, second, third = sorted(story.launched)
    running = tuple(Running(JOBS, run, (CPU, 10**9)) for run in (first, second, third))
    total = {"cpu": 2 * CPU, "memory": 4 * 10**9}
    # Not by the story's own door, which allows no node to be over-committed.
    story.master.handle(AgentJoined("n0", "n0", 9, total, running=running), 1.0)
    story.master.handle(SubmitJob(spec("more", count=2)), 2.0)
    assert story.master.jobs.runs.keys() == {first, second, third}, "nothing is ended for it"
    left = [*running]
    for at, expected in ((3.0, 2), (4.0, 2)):
        ended = left.pop().run
        story.master.handle(RunEnded("n0", Ended(JOBS, ended, Status.FINISHED, 0), 9), at)
        while story.master.due <= at:
            story.master.handle(Wake(), at)
        assert len(story.master.jobs.runs) == expected
    assert any(run.startswith("more.") for run in story.master.jobs.runs)
    story.master.resource_manager.check()


def test_what_belongs_to_a_job_is_refused_to_others_whatever_the_route(
    cluster: LiveCluster, tmp_path: Path
) -> None:
    """Every route that changes something of a job or a task, those of today and those to come."""
    cluster.submit("theirs", "sleep", "600", user="anna", kind="service")
    cluster.running("theirs", 1)
    token = cluster.client.post("tokens", body={"name": "mallory"})["token"]
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(token)
    mallory = ApiClient(tmp_path, Reach((cluster.url.removeprefix("http://"),), file))
    asked = 0
    for route in ROUTES:
        if not ("{job}" in route.path or "{task}" in route.path):
            continue
        if route.method == "GET" and not route.private:
            continue
        path = route.path.format(job="theirs", task="theirs.0", session="1")
        with pytest.raises(AnswerError) as error:
            mallory._ask(route.method, tuple(path.split("/")[2:]), {}, {})
        assert error.value.status == 403, route
        assert "is anna's" in str(error.value)
        asked += 1
    assert asked >= 5
    assert cluster.running("theirs", 1)
