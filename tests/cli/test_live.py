"""The commands of a live cluster, as a user types them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import SMALL, Murmur

from murmuration.experiments.specs import read_study
from murmuration.runtime import supervisor
from murmuration.simulation.scenarios.inputs import make_jobs, make_nodes

#: How long a test waits for what must come before it fails; it passes as soon as it came.
LIMIT_S = 200.0
HELLO = """name = "hello"
kind = "terminating"            # or "service"
count = 3
command = ["sh", "-c", "echo $MURMUR_TASK"]
[resources]
cpu = 0.1
memory = "32Mi"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster of two nodes that the commands find by MURMUR_DIR."""
    place = tmp_path_factory.mktemp("cli") / "cluster"
    command = [sys.executable, "-c", "from murmuration.cli import main; main()"]
    options = [
        "--agents",
        "2",
        "--cpu",
        "2",
        "--memory",
        "2Gi",
        "--isolation",
        "process",
        "--attribute",
        "zone=a",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*command, "up", "--dir", str(place), "--detach", "--json", *options],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        timeout=LIMIT_S,
    )
    assert json.loads(done.stdout)["url"].startswith("http://127.0.0.1:")
    yield place
    supervisor.bring_down(place, keep=False)
    assert not place.exists()


@pytest.fixture
def live(murmur: Murmur, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Murmur:
    monkeypatch.setenv("MURMUR_DIR", str(folder))
    (tmp_path / "hello.toml").write_text(HELLO)
    return murmur


def test_a_job_from_file_to_output(live: Murmur) -> None:
    assert "3 tasks submitted" in live("run", "hello.toml").out
    assert live("wait", "hello").code == 0
    listing = live("ps").out.splitlines()
    assert listing[0].split() == ["JOB", "KIND", "STATE", "TASKS", "CODE", "AGE", "REASON"]
    assert listing[-1].split()[:5] == ["hello", "terminating", "finished", "3/3", "0"]
    assert [line.split()[0] for line in live("ps", "hello").out.splitlines()[1:]] == [
        "hello.0",
        "hello.1",
        "hello.2",
    ]
    assert live("logs", "hello.2").out == "hello.2\n"
    # All tasks of a job, each line with the name of its task.
    assert live("logs", "hello").out == "".join(f"hello.{k} | hello.{k}\n" for k in range(3))
    assert live("logs", "hello.2", "--tail", "0").out == ""
    told = live("why", "hello").out
    assert "hello is finished" in told and "hello.1  placed on node-" in told
    assert "drawn at random" in told and "placed 3 of 3" in told
    story = json.loads(live("why", "hello", "--json").out)
    placed = {line["what"] for line in story["history"] if line["what"].startswith("placed on")}
    chosen = {f"placed on {node}" for node, _ in story["decisions"][-1]["chosen"]}
    assert story["history_note"] == "" and placed == chosen, "decisions are those that were made"


def test_the_log_of_a_cluster_is_a_scenario(
    live: Murmur, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its jobs on its nodes, each for as long as its tasks took."""
    monkeypatch.setenv("MURMUR_CACHE", str(tmp_path / "cache"))
    live("run", "hello.toml", "--wait", "--name", "again")
    study = read_study(str(folder), {})
    jobs = make_jobs(study.base.scenario, make_nodes(study.base.scenario.cluster).resources)
    row = jobs.job_row("again")
    assert int(jobs.tasks[row]) == 3 and 0.0 < float(jobs.duration_s[row]) < LIMIT_S
    nodes = {node["node"] for node in json.loads(live("status", "--json").out)["nodes"]}
    assert set(make_nodes(study.base.scenario.cluster).names) == nodes


@pytest.mark.parametrize(
    "command", [("ps",), ("ps", "--tasks"), ("status",), ("top",), ("events",)]
)
def test_every_listing_is_one_json_document(live: Murmur, command: tuple[str, ...]) -> None:
    assert json.loads(live(*command, "--json").out)


def test_the_status_says_how_nodes_run_tasks(live: Murmur, tmp_path: Path) -> None:
    """And a job can ask for nodes that run it in containers, of which there are none here."""
    assert "isolation = process" in live("status").out
    (tmp_path / "boxed.toml").write_text('constraints = ["isolation = runc"]\n' + HELLO)
    assert "isolation" in live("run", "--dry-run", "boxed.toml").out


def test_the_exit_code_of_a_job_is_that_of_wait(live: Murmur, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('name = "bad"\ncommand = ["sh", "-c", "exit 9"]\n')
    answer = live("run", "bad.toml", "--wait")
    assert answer.code == 9
    again = live("wait", "bad", "--json")
    assert again.code == 9 and json.loads(again.out)["reason"] == "bad.0: exit code 9"


def test_a_dry_run_reserves_nothing(live: Murmur, tmp_path: Path) -> None:
    (tmp_path / "wide.toml").write_text(
        'name = "wide"\ncommand = ["true"]\ncount = 6\n[resources]\ncpu = 1\n'
    )
    answer = live("run", "--dry-run", "wide.toml")
    assert (
        answer.code == 1
        and "not now: 2 of 6 tasks would wait" in answer.out
        and "placed 4 of 6" in answer.out
    )
    (tmp_path / "huge.toml").write_text(
        'name = "huge"\ncommand = ["true"]\n[resources]\ncpu = 1000\n'
    )
    impossible = live("run", "--dry-run", "huge.toml")
    assert impossible.code == 1 and "infeasible" in impossible.out
    assert "feasible now" not in impossible.out and "TASK" not in impossible.out
    assert "wide" not in live("ps", "-a").out
    document = json.loads(live("run", "--dry-run", "wide.toml", "--json").out)
    assert document["unplaced"] == 2 and len(document["placed"]) == 4


def test_a_service_waits_is_explained_and_killed(live: Murmur, tmp_path: Path) -> None:
    (tmp_path / "web.toml").write_text(
        'name = "web"\nkind = "service"\ncommand = ["sleep", "300"]\ncount = 5\n'
        "[resources]\ncpu = 1\n"
    )
    live("run", "web.toml")
    explained = live("why", "web").out
    assert (
        "resources: 1 of 1 tasks found no node" in explained
        and "position 1 in the queue" in explained
    )
    assert "would help: asking for less cpu" in explained
    assert live("wait", "web", "--timeout", "0.2").code == 124
    assert "draining" in live("drain", "node-1").out
    deadline = time.monotonic() + LIMIT_S
    while "node-1" in live("ps", "web").out and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "node-1" not in live("ps", "web").out
    live("drain", "node-1", "--undo")
    assert live("kill", "web").code == 0
    assert live("wait", "web").code == 143


def test_following_a_task_until_it_ends(live: Murmur, tmp_path: Path) -> None:
    script = "for i in 1 2 3; do echo line $i; sleep 0.2; done"
    (tmp_path / "slow.toml").write_text(f'name = "slow"\ncommand = ["sh", "-c", "{script}"]\n')
    live("run", "slow.toml")
    assert live("logs", "-f", "slow").out == "line 1\nline 2\nline 3\n"


def test_jobs_in_python(live: Murmur, tmp_path: Path) -> None:
    text = 'jobs = [{"name": f"py-{k}", "command": ["true"]} for k in range(2)]\n'
    (tmp_path / "jobs.py").write_text(text)
    assert live("run", "jobs.py", "--wait").code == 0
    assert "expected a file with one job" in live("run", "jobs.py", "--name", "x").err


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('memory = "32Mi"', "memory = true"), ["line 7", "resources.memory"]),
        (('memory = "32Mi"', 'memory = "32Mo"'), ["line 7", "resources.memory", "unit"]),
        (("cpu = 0.1", "cup = 0.1"), ["line 6", "resources.cup", "did you mean 'cpu'"]),
        (("count = 3", 'constraints = ["zone ~ a"]'), ["line 3", "constraints[0]"]),
        (("cpu = 0.1", "cpu = 64"), ["can never run here", "2 CPU"]),
        (("count = 3", 'constraints = ["zone = b"]'), ["can never run here", "constraints"]),
    ],
)
def test_a_bad_job_file(
    live: Murmur, tmp_path: Path, change: tuple[str, str], says: list[str]
) -> None:
    (tmp_path / "bad-file.toml").write_text(HELLO.replace(*change))
    answer = live("run", "bad-file.toml")
    assert answer.code == 2 and answer.out == "" and len(answer.err.splitlines()) == 1
    for word in ["bad-file.toml", *says]:
        assert word in answer.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("wait", "hallo"), "no job 'hallo'"),
        (("logs", "../../etc/passwd"), "no job"),
        (("logs", "hello.77"), "tasks 0 to 2"),
        (("kill", "nobody"), "no job"),
        (("drain", "node-7"), "did you mean 'node-"),
        (("run", "nothing.toml"), "no such file"),
        (("why", "hello", "--attempt", "2"), "--in RUN"),
        (("ps", "--dir", "/nowhere"), "no cluster runs here"),
        (("down", "--dir", "/nowhere"), "no cluster is here"),
        (("up", "--isolation", "magic", "--dir", "x"), "unknown isolation"),
        (("up", "--resource", "gpu", "--dir", "x"), "gpu=2"),
        (("up", "--memory", "lots", "--dir", "x"), "--memory"),
        (("up", "--detach", "-s", "swarm", "--dir", "x"), "monolithic, shared-state, offers"),
        (("agent", "--name", "../x", "--dir", "x"), "--name"),
    ],
)
def test_what_is_asked_wrongly(live: Murmur, arguments: tuple[str, ...], says: str) -> None:
    if "hello" not in live("ps", "-a").out:
        live("run", "hello.toml", "--wait")
    answer = live(*arguments)
    assert answer.code == 2 and says in answer.err, answer


def test_the_log_of_the_cluster_replays(live: Murmur, folder: Path) -> None:
    answer = live("simulate", "--replay", str(folder), "--json")
    assert answer.code == 0 and json.loads(answer.out)["agrees"]
    assert "facts came out again" in live("simulate", "--replay", str(folder / "store.db")).out
    assert live("simulate", "--replay", "nothing").code == 2


def test_a_scenario_with_faults_and_one_at_real_speed(murmur: Murmur, tmp_path: Path) -> None:
    text = SMALL.replace('kind = "shared-state"', 'kind = "monolithic"')
    (tmp_path / "calm.toml").write_text(text)
    found = json.loads(murmur("simulate", "calm.toml", "--faults", "5", "--json").out)
    assert found["tasks_run_twice"] == 0 and found["jobs"] == {"finished": found["jobs_submitted"]}
    # Tasks so short that those of one job have ended before the next one comes: nothing can
    # overtake anything.
    (tmp_path / "short.toml").write_text(
        re.sub(r"task_duration_s = \d+", "task_duration_s = 1", text)
    )
    live = json.loads(
        murmur(
            "simulate", "short.toml", "--live", "--days", "0.005", "--speed", "100", "--json"
        ).out
    )
    assert (
        live["replay_agrees"]
        and live["same_as_simulated"] == live["decisions"] == live["replayed"] > 0
    )


def test_listings_import_nothing_heavy(folder: Path) -> None:
    """What a user types all day answers at once: no NumPy, no rich, no asyncio."""
    heavy = ["numpy", "numba", "polars", "rich", "asyncio", "ssl", "http.client", "starlette"]
    probe = (
        "import sys\nsys.argv = ['murmur', 'ps']\nfrom murmuration.cli import main\n"
        f"try: main()\nexcept SystemExit: pass\nprint(sorted(set({heavy}) & set(sys.modules)), "
        "file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "MURMUR_DIR": str(folder)}
    found = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, env=environment, check=True
    )
    assert found.stderr.splitlines()[-1] == "[]"


def test_a_node_agent_imports_neither_numpy_nor_numba() -> None:
    probe = (
        "import sys, murmuration.runtime.node.process; print(sorted({'numpy', 'numba', "
        "'polars', 'click', 'starlette', 'uvicorn', 'httptools'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, env=environment, check=True
    )
    assert found.stdout.strip() == "[]"
