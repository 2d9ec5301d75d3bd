"""Ctrl-C: a run stops where it can be gone on with, a sweep keeps what is finished, and --resume
goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import SMALL, Murmur
from tests.cli.test_commands import results

RUNS = 8
#: A limit for a process that hangs; a slow machine and a cold kernel cache stay below it.
LIMIT_S = 900
MURMUR = "from murmuration.cli import main; main()"
#: A policy that takes its time, so that there is a run to interrupt, and says when it has begun.
SLOW = """
import time
from pathlib import Path
from murmuration.placement.plain import FirstFit

class Slow(FirstFit):
    def decide(self, view, job, rng):
        Path("begun").touch()
        time.sleep(PAUSE)
        return super().decide(view, job, rng)
"""


def hear_interrupts() -> None:
    """What a shell runs in the background ignores Ctrl-C, and so would its children."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start the command in a process of its own, in a folder with `small.toml` and a slow
    policy."""
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "slow.py").write_text(SLOW.replace("PAUSE", "0.03"))

    def run(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", MURMUR, *arguments]
        return subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=hear_interrupts,
        )

    return run


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something the process does; a process that ends before is a failure."""
    while not condition():
        if process.poll() is not None:
            pytest.fail(f"ended too soon: {process.communicate()}")
        time.sleep(0.01)


def test_a_run_that_is_interrupted_goes_on(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Stopped in the middle of a plain Python policy, and resumed: the same bytes as a run that was
    left alone."""
    command = ("simulate", "small.toml", "--set", "scheduler.placement=slow:Slow", "--out")
    process = start(*command, "parts")
    until((tmp_path / "begun").exists, process)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, err
    assert out == "" and "--resume goes on" in err and err.rstrip().endswith("murmur: stopped")
    assert {path.name for path in (tmp_path / "parts").iterdir()} == {
        "command.json",
        "scenario.json",
        "snapshot.npz",
    }
    (tmp_path / "slow.py").write_text(SLOW.replace("PAUSE", "0"))
    for more in (("parts", "--resume"), ("whole",)):
        process = start(*command, *more)
        _, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, err
    assert results(tmp_path / "parts") == results(tmp_path / "whole")


def test_a_run_with_nowhere_to_go_just_stops(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = start("simulate", "small.toml", "--set", "scheduler.placement=slow:Slow", "--json")
    until((tmp_path / "begun").exists, process)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out, err.strip()) == (130, "", "murmur: stopped")
    assert not (tmp_path / "runs").exists()


def processes() -> dict[int, int]:
    """Every process that runs, and its parent."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            parents[int(stat.parent.name)] = int(parent)
    return parents


def children(pid: int) -> set[int]:
    return {child for child, parent in processes().items() if parent == pid}


def wait_until_gone(pids: set[int]) -> None:
    while pids & processes().keys():
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("jobs", "number"), [("1", signal.SIGINT), ("2", signal.SIGINT), ("2", signal.SIGTERM)]
)
def test_a_sweep_keeps_what_is_finished(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, jobs: str, number: signal.Signals
) -> None:
    """After Ctrl-C or SIGTERM the finished runs stay, no process does, and --resume makes the
    rest."""
    (tmp_path / "slow.py").write_text(SLOW.replace("PAUSE", "0.01"))
    values = ",".join(map(str, range(20, 20 + RUNS)))
    short = ("--days", "0.005", "--set", "scheduler.placement=slow:Slow")
    sweep = ("sweep", "small.toml", *short, "--vary", f"cluster.nodes={values}")
    process = start(*sweep, "--jobs", jobs, "--out", "grid")

    def finished() -> int:
        return len(list((tmp_path / "grid").glob("*/summary.json")))

    # A worker that has written its second run has told of its first.
    until(lambda: finished() > int(jobs), process)
    workers = children(process.pid)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + number, err
    assert "nodes=" in out, "what is finished is shown"
    wait_until_gone(workers)
    assert (
        "--resume goes on from there" in err
        and err.rstrip().endswith("murmur: stopped")
        and "Traceback" not in err
    )
    kept = {path: path.read_bytes() for path in (tmp_path / "grid").glob("*/summary.json")}
    assert 1 <= len(kept) < RUNS, "the rest is not waited for"
    times = {path: path.stat().st_mtime_ns for path in kept}
    process = start(*sweep, "--jobs", jobs, "--out", "grid", "--resume", "--json")
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert len(json.loads(out)["runs"]) == finished() == RUNS
    assert all(path.stat().st_mtime_ns == times[path] for path in kept), (
        "finished runs are not run again"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_search_for_a_size_shows_the_sizes_that_are_finished(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: signal.Signals
) -> None:
    # The first size runs through, the second waits to be stopped.
    first = "Path('walk/shared-state-100-seed3/summary.json')"
    slow = SLOW.replace("PAUSE", f"600 * {first}.exists()").replace(
        'Path("begun").touch()', f'{first}.exists() and Path("begun").touch()'
    )
    (tmp_path / "slow.py").write_text(slow)
    policy = ("--set", "scheduler.placement=slow:Slow", "--days", "0.005")
    command = ("compact", "small.toml", *policy, "--step", "0.4", "--jobs", "1", "--out", "walk")
    process = start(*command)
    until((tmp_path / "begun").exists, process)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + number, err
    assert "100 %" in out and "60 %" not in out
    sentences = [line for line in err.splitlines() if line]
    assert sentences == ["sizes finished: 1; --resume goes on from there", "murmur: stopped"]
    (tmp_path / "slow.py").write_text(SLOW.replace("PAUSE", "0"))
    process = start(*command, "--resume")
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert "60 %" in out and "report: " in err


def test_workers_end_when_their_parent_is_killed(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    placement = ("--set", "scheduler.placement=slow:Slow", "--days", "1")
    process = start(
        "sweep", "small.toml", *placement, "--vary", "cluster.nodes=20,21", "--jobs", "2"
    )
    until((tmp_path / "begun").exists, process)
    workers = children(process.pid)
    process.kill()
    process.communicate(timeout=LIMIT_S)
    wait_until_gone(workers)


def test_half_a_run_is_no_result(murmur: Murmur, tmp_path: Path) -> None:
    """A folder whose old summary belongs to another run is not taken for finished once a new run
    has begun there."""
    murmur("simulate", "small.toml", "--out", "run")
    murmur("simulate", "small.toml", "--seed", "9", "--stop-after", "0.005", "--out", "run")
    assert not (tmp_path / "run" / "summary.json").exists()
    document = json.loads(
        murmur("simulate", "small.toml", "--seed", "9", "--resume", "--json", "--out", "run").out
    )
    assert document["seed"] == 9
    assert (
        document["workloads"]
        == json.loads(murmur("simulate", "small.toml", "--seed", "9", "--json").out)["workloads"]
    )
