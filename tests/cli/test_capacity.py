"""`murmur compact` and `murmur grow` from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Murmur

HALVES = """
days = 0.01
cluster = { nodes = 8, cpu = 4, memory = "16G" }
workload.trace = "jobs.csv"
scheduler = { kind = "monolithic", decision.default = { job_time_s = 0.01 } }
variant.best-fit = { "scheduler.placement" = "best-fit" }
"""


@pytest.fixture
def halves(tmp_path: Path) -> None:
    """Eight tasks that each take half a node: four nodes do, and eight nodes take twice as many."""
    lines = [f"job{k},batch,{k},1,1000000,2,4" for k in range(8)]
    header = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task"
    (tmp_path / "jobs.csv").write_text("\n".join([header, *lines]) + "\n")
    (tmp_path / "halves.toml").write_text(HALVES)


@pytest.mark.usefixtures("halves")
def test_compact(murmur: Murmur, tmp_path: Path) -> None:
    asked = (
        "compact",
        "halves.toml",
        "-s",
        "best-fit",
        "--step",
        "0.125",
        "--jobs",
        "1",
        "--out",
        "few",
    )
    answer = murmur(*asked)
    assert answer.code == 0
    assert "best-fit: holds at 50 % of its nodes (4 nodes, 8 tasks running)" in answer.out
    assert "37.5 %" in answer.out and "fails: not placed" in answer.out
    assert "how few nodes" in (tmp_path / "few" / "report.html").read_text()
    summary = json.loads((tmp_path / "few" / "summary.json").read_text())
    sizes = [step["size"] for step in summary["schedulers"][0]["steps"]]
    assert sizes == [1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25]
    assert json.loads(murmur(*asked, "--resume", "--json").out) == summary


@pytest.mark.usefixtures("halves")
def test_compact_with_several_seeds(murmur: Murmur) -> None:
    """The jobs are a list, and any four nodes do: with every seed half of them, so the interval has
    no width."""
    asked = ("compact", "halves.toml", "-s", "best-fit", "--step", "0.125", "--jobs", "1")
    answer = murmur(*asked, "--replicas", "3", "--out", "few")
    assert "best-fit, seed 2: holds at 50 % of its nodes" in answer.out
    sentence = "best-fit: 50.0 % of its nodes on average, 95 % interval 50.0 % to 50.0 %, 3 seeds"
    assert sentence in " ".join(answer.out.split())
    document = json.loads(
        murmur(*asked, "--replicas", "3", "--out", "few", "--resume", "--json").out
    )
    assert document["farthest"]["best-fit"] == {"mean": 0.5, "low": 0.5, "high": 0.5}
    assert [walk["seed"] for walk in document["schedulers"]] == [1, 2, 3]


@pytest.mark.usefixtures("halves")
def test_grow(murmur: Murmur, tmp_path: Path) -> None:
    document = json.loads(
        murmur("grow", "halves.toml", "--step", "0.5", "--jobs", "1", "--json").out
    )
    (walk,) = document["schedulers"]
    assert (document["kind"], walk["scheduler"], walk["farthest"]) == ("grow", "monolithic", 2.0)
    assert not (tmp_path / "runs").exists(), "nothing is written without --out"


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["compact", "halves.toml", "--step", "0"],
            "--step: expected a share above 0 up to 0.5, got 0",
        ),
        (
            ["compact", "halves.toml", "--limit", "2"],
            "--limit: expected a share from 0 to below 1, got 2",
        ),
        (
            ["grow", "halves.toml", "--waiting", "-1"],
            "--waiting: expected a share from 0 to below 1, got -1",
        ),
        (["grow", "halves.toml", "-s", "best-fti"], "did you mean 'best-fit'"),
        (
            ["grow", "halves.toml", "--set", "cluster.keep=0"],
            "cluster.keep: expected a number above 0 up to 1, got 0",
        ),
        (
            ["grow", "small.toml", "--set", "workload.multiply=0"],
            "workload.multiply: expected a number above 0",
        ),
        (
            ["grow", "small.toml", "--set", "workload.multiply=much"],
            "workload.multiply: expected a number, got 'much'",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    murmur: Murmur, tmp_path: Path, arguments: list[str], words: str
) -> None:
    answer = murmur(*arguments)
    assert answer.code == 2 and words in answer.err and len(answer.err.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()
