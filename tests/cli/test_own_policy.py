"""The user's own policy, from a module in the current folder: a score, a compiled score, a class,
an architecture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import SMALL, Murmur

MODULE = """
import numpy as np
import murmuration

def tightest(total, free, request):
    return -(free - request).sum(axis=1) * 1.0

@murmuration.kernel
def tightest_compiled(total, free, request):
    scores = np.zeros(total.shape[0])
    for i in range(total.shape[0]):
        for r in range(total.shape[1]):
            scores[i] -= free[i, r] - request[r]
    return scores

class Emptiest:
    def decide(self, view, job, rng):
        order = np.argsort(-view.free[:, 0], kind="stable")
        rows = [int(i) for i in order if view.feasible(job.request)[i]][: job.tasks]
        return rows + [-1] * (job.tasks - len(rows))

class Shared(Emptiest):
    architecture = "shared-state"

class Offered(Emptiest):
    architecture = "offers"

class Nowhere(Emptiest):
    architecture = "mesos"

class Needs:
    def __init__(self, something): ...
    def decide(self, view, job, rng): ...

def last_first(allocated, offered, total, weight, wants, draw):
    for framework in range(wants.shape[0] - 1, -1, -1):
        if wants[framework]:
            return framework
    return -1

def beyond(allocated, offered, total, weight, wants, draw):
    return 99

SETTING = 3
"""


@pytest.fixture
def here(murmur: Murmur, tmp_path: Path) -> Murmur:
    """The command in a folder with a module of the user's own, under a name no other test has
    imported."""
    (tmp_path / f"{name_of(tmp_path)}.py").write_text(MODULE)
    return murmur


def name_of(folder: Path) -> str:
    return f"mine_{abs(hash(str(folder)))}"


@pytest.mark.parametrize(
    ("arguments", "path", "schedulers"),
    [
        (["--set", "scheduler.placement=MINE:tightest"], "python", {"batch", "service"}),
        (["--set", "scheduler.placement=MINE:tightest_compiled"], "compiled", {"batch", "service"}),
        (["--set", "scheduler.placement=MINE:Emptiest"], "python", {"batch", "service"}),
        (["-s", "MINE:Emptiest"], "python", {"all"}),
        (["-s", "MINE:tightest"], "python", {"all"}),
        (["-s", "MINE:tightest_compiled"], "compiled", {"all"}),
        (["-s", "MINE:Shared"], "python", {"batch", "service"}),
        (["-s", "MINE:Offered"], "python", {"batch", "service"}),
    ],
)
def test_a_policy_by_module_path(
    here: Murmur, tmp_path: Path, arguments: list[str], path: str, schedulers: set[str]
) -> None:
    mine = [argument.replace("MINE", name_of(tmp_path)) for argument in arguments]
    answer = here("simulate", "small.toml", "--json", *mine)
    assert answer.code == 0, answer.err
    summary = json.loads(answer.out)
    assert (summary["path"], set(summary["schedulers"])) == (path, schedulers)
    assert summary["workloads"]["batch"]["jobs_scheduled"] > 0


def test_an_allocator_of_ones_own(here: Murmur, tmp_path: Path) -> None:
    """The last framework first, as by strict priority to the other; one that names nobody offers
    nothing."""
    rules = ("-s", "offers", "--set", "scheduler.offers.offer_time_s=5", "--json", "--set")
    own = f"scheduler.offers.allocator={name_of(tmp_path)}"
    mine = json.loads(here("simulate", "small.toml", *rules, f"{own}:last_first").out)
    heavy = (
        "scheduler.offers.allocator=priority",
        "--set",
        "scheduler.offers.framework.service.weight=2",
    )
    priority = json.loads(here("simulate", "small.toml", *rules, *heavy).out)
    assert mine["workloads"] == priority["workloads"]
    nobody = json.loads(here("simulate", "small.toml", *rules, f"{own}:beyond", "--check").out)
    assert nobody["workloads"]["batch"]["tasks_placed"] == 0


def test_the_compiled_score_is_the_plain_one(here: Murmur, tmp_path: Path) -> None:
    found = []
    for name in ("tightest", "tightest_compiled"):
        answer = here(
            "simulate",
            "small.toml",
            "--json",
            "--set",
            f"scheduler.placement={name_of(tmp_path)}:{name}",
        )
        found.append(
            {k: v for k, v in json.loads(answer.out).items() if k not in ("path", "timing")}
        )
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("tightst", "unknown name 'tightst'; did you mean 'tightest'?"),
        ("SETTING", "expected a score function or a class with decide(view, job, rng), got 3"),
        ("Needs", "cannot be made without arguments"),
        ("Nowhere", "unknown architecture 'mesos'; known: "),
    ],
)
def test_what_is_no_policy(here: Murmur, tmp_path: Path, name: str, sentence: str) -> None:
    answer = here("simulate", "small.toml", "-s", f"{name_of(tmp_path)}:{name}", "--out", "run")
    assert (answer.code, answer.out) == (2, "")
    assert (
        answer.err.startswith("murmur: ") and sentence in answer.err and answer.err.count("\n") == 1
    )
    assert not (tmp_path / "run").exists()


def test_a_module_that_is_broken(here: Murmur, tmp_path: Path) -> None:
    (tmp_path / "broken_module.py").write_text("def f(:\n")
    answer = here("simulate", "small.toml", "-s", "broken_module:f")
    assert answer.code == 2 and "broken_module" in answer.err and "Traceback" not in answer.err


def test_in_processes_of_their_own(tmp_path: Path) -> None:
    """A comparison on two processes finds the module in the current folder, wherever the package
    lies."""
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "mine.py").write_text(MODULE)
    command = [
        "compare",
        "small.toml",
        "-s",
        "mine:Emptiest,mine:tightest_compiled",
        "--jobs",
        "2",
        "--json",
    ]
    code = "from murmuration.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert [(run["scheduler"], run["path"]) for run in runs] == [
        ("mine:Emptiest", "python"),
        ("mine:tightest_compiled", "compiled"),
    ]
