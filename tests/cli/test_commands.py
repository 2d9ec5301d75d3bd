"""The commands end to end: what they print, what they leave behind, and that one seed explains all of it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Murmur

WORKLOAD_KEYS = {
    "jobs_submitted", "jobs_scheduled", "jobs_abandoned", "jobs_queued", "tasks_placed", "attempts_mean", "wait_s_mean",
    "wait_s_p90", "wait_full_s_mean", "wait_full_s_p90", "busy_fraction", "busy_wasted_fraction", "conflict_fraction",
    "saturated",
}  # fmt: skip
CLUSTER_KEYS = {
    "nodes_mean", "tasks_running_mean", "required", "guaranteed", "used", "offered_fraction", "allocation_types",
    "migrations_per_min", "migrations_forced_per_min", "migrated_mb_per_min", "collision_fraction",
}  # fmt: skip
POLICY = """
import numpy as np
import murmuration

def pack(total, free, request):
    return -((free - request) / total).min(axis=1)

@murmuration.kernel
def pack_fast(total, free, request):
    scores = np.empty(total.shape[0])
    for i in range(total.shape[0]):
        scores[i] = -min((free[i, 0] - request[0]) / total[i, 0], (free[i, 1] - request[1]) / total[i, 1])
    return scores

class Emptiest:
    def decide(self, view, job, rng):
        rows = np.flatnonzero(view.feasible(job.request))
        best = rows[np.argsort(-view.free[rows, 0], kind="stable")][: job.tasks]
        return np.concatenate([best, np.full(job.tasks - len(best), -1)])
"""


def document(answer: Any) -> Any:
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def digests(folder: Path) -> dict[str, str]:
    """The content of every result file; times are kept apart and do not count."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "timing.json"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_summary_has_the_stable_names(murmur: Murmur) -> None:
    run = document(murmur("simulate", "small.toml", "--json"))
    assert {
        "scenario",
        "scheduler",
        "seed",
        "days",
        "path",
        "events",
        "workloads",
        "schedulers",
        "cluster",
        "timing",
    } == set(run)
    assert set(run["workloads"]) == {"batch", "service"}
    assert set(run["workloads"]["batch"]) == WORKLOAD_KEYS
    assert set(run["cluster"]) >= CLUSTER_KEYS
    assert set(run["timing"]) == {"wall_s", "cpu_s"}
    assert run["path"] == "compiled" and run["seed"] == 3


def test_json_without_a_folder_writes_nothing(murmur: Murmur, tmp_path: Path) -> None:
    document(murmur("simulate", "small.toml", "--json"))
    assert {path.name for path in tmp_path.iterdir()} == {"small.toml"}


def test_a_run_leaves_its_results_and_a_report(murmur: Murmur, tmp_path: Path) -> None:
    answer = murmur("simulate", "small.toml", "--out", "out")
    assert answer.code == 0 and "batch" in answer.out and "out/report.html" in answer.err
    names = {"summary.json", "timing.json", "scenario.json", "jobs.parquet", "series.parquet", "report.html"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    assert "timing" not in json.loads((tmp_path / "out" / "summary.json").read_text())


def test_compare_puts_every_architecture_on_the_same_jobs(murmur: Murmur) -> None:
    names = ["monolithic", "partitioned", "offers", "shared-state", "machine"]
    runs = document(murmur("compare", "small.toml", "-s", ",".join(names), "--jobs", "1", "--json"))["runs"]
    assert [run["scheduler"] for run in runs] == names
    submitted = {tuple(w["jobs_submitted"] for w in run["workloads"].values()) for run in runs}
    assert len(submitted) == 1
    assert all(set(run["workloads"]["batch"]) == WORKLOAD_KEYS for run in runs)


def test_replicas_turn_figures_into_intervals(murmur: Murmur) -> None:
    run = document(murmur("compare", "small.toml", "-s", "offers", "--replicas", "3", "--jobs", "1", "--json"))["runs"][
        0
    ]
    wait = run["workloads"]["batch"]["wait_full_s_mean"]
    assert set(wait) == {"mean", "low", "high", "n"} and wait["n"] == 3
    assert wait["low"] <= wait["mean"] <= wait["high"]
    assert run["seed"] == [3, 4, 5]


def test_the_same_seed_gives_the_same_bytes_on_one_worker_and_on_two(murmur: Murmur, tmp_path: Path) -> None:
    grid = ("--vary", "scheduler.kind=monolithic,offers", "--vary", "scheduler.decision.service.job_time_s=1,10")
    assert murmur("sweep", "small.toml", *grid, "--jobs", "1", "--out", "one").code == 0
    assert murmur("sweep", "small.toml", *grid, "--jobs", "2", "--out", "two").code == 0
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert murmur("sweep", "small.toml", *grid, "--jobs", "1", "--seed", "4", "--out", "other").code == 0
    assert digests(tmp_path / "one") != digests(tmp_path / "other")


def test_a_sweep_runs_unchanged_on_ray(murmur: Murmur, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    grid = ("--vary", "scheduler.conflict=resource,machine")
    assert murmur("sweep", "small.toml", *grid, "--jobs", "1", "--out", "here").code == 0
    try:
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        assert murmur("sweep", "small.toml", *grid, "--on", "ray", "--out", "there").code == 0
    finally:
        ray.shutdown()
    assert digests(tmp_path / "here") == digests(tmp_path / "there")


def test_a_stopped_run_goes_on_to_the_same_bytes(murmur: Murmur, tmp_path: Path) -> None:
    for kind in ("offers", "shared-state"):
        whole, parts = f"whole-{kind}", f"parts-{kind}"
        assert murmur("simulate", "small.toml", "-s", kind, "--out", whole).code == 0
        assert murmur("simulate", "small.toml", "-s", kind, "--out", parts, "--stop-after", "0.007").code == 0
        assert not (tmp_path / parts / "summary.json").exists()
        assert (
            murmur("simulate", "small.toml", "-s", kind, "--out", parts, "--stop-after", "0.013", "--resume").code == 0
        )
        assert murmur("simulate", "small.toml", "-s", kind, "--out", parts, "--resume").code == 0
        assert digests(tmp_path / whole) == digests(tmp_path / parts)


def test_a_snapshot_of_another_scenario_is_refused(murmur: Murmur) -> None:
    assert murmur("simulate", "small.toml", "--out", "out", "--stop-after", "0.01").code == 0
    answer = murmur("simulate", "small.toml", "--out", "out", "--resume", "--set", "cluster.nodes=31")
    assert answer.code == 2 and "snapshot" in answer.err


def test_ctrl_c_keeps_finished_runs_and_resume_goes_on(murmur: Murmur, tmp_path: Path) -> None:
    values = ",".join(str(k) for k in range(1, 13))
    grid = ("sweep", "small.toml", "--vary", f"scheduler.decision.service.job_time_s={values}", "--days", "3")
    command = [sys.executable, "-c", "from murmuration.cli import main; main()", *grid, "--jobs", "1", "--out", "swept"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list((tmp_path / "swept").glob("*/summary.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "swept").glob("*/summary.json")}
    assert process.returncode == 130 and "Traceback" not in said
    assert 0 < len(kept) < 12
    assert murmur(*grid, "--jobs", "1", "--out", "swept", "--resume").code == 0
    assert len(list((tmp_path / "swept").glob("*/summary.json"))) == 12
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())


@pytest.mark.parametrize(
    ("options", "path"),
    [
        (("--set", "scheduler.placement=mine:pack"), "python"),
        (("--set", "scheduler.placement=mine:pack_fast"), "compiled"),
        (("-s", "mine:Emptiest"), "python"),
    ],
)
def test_a_policy_of_ones_own_is_named_by_its_module(
    murmur: Murmur, tmp_path: Path, options: tuple[str, ...], path: str
) -> None:
    sys.modules.pop("mine", None)
    (tmp_path / "mine.py").write_text(POLICY)
    run = document(murmur("simulate", "small.toml", *options, "--json"))
    assert run["path"] == path and run["workloads"]["batch"]["jobs_scheduled"] > 0


def test_a_score_decides_alike_compiled_and_in_python(murmur: Murmur, tmp_path: Path) -> None:
    sys.modules.pop("mine", None)
    (tmp_path / "mine.py").write_text(POLICY)
    slow = murmur("simulate", "small.toml", "--set", "scheduler.placement=mine:pack", "--out", "slow")
    fast = murmur("simulate", "small.toml", "--set", "scheduler.placement=mine:pack_fast", "--out", "fast")
    assert slow.code == fast.code == 0
    for name in ("jobs.parquet", "series.parquet"):
        assert (tmp_path / "slow" / name).read_bytes() == (tmp_path / "fast" / name).read_bytes()


def test_a_generated_list_replays_to_the_same_results(murmur: Murmur, tmp_path: Path) -> None:
    assert murmur("trace", "generate", "small.toml", "jobs.parquet").code == 0
    text = (tmp_path / "small.toml").read_text()
    head, tail = text[: text.index("[workload.batch]")], text[text.index("[scheduler]") :]
    (tmp_path / "replay.toml").write_text(f'{head}\n[workload]\ntrace = "jobs.parquet"\n{tail}')
    made = document(murmur("simulate", "small.toml", "--json"))
    replayed = document(murmur("simulate", "replay.toml", "--json"))
    assert made["workloads"] == replayed["workloads"] and made["cluster"] == replayed["cluster"]


def test_why_shows_one_decision(murmur: Murmur) -> None:
    assert murmur("simulate", "small.toml", "--out", "out").code == 0
    told = murmur("why", "--in", "out", "batch-1")
    assert told.code == 0 and "nodes considered" in told.out and "placed" in told.out
    found = document(murmur("why", "--in", "out", "batch-1", "--json"))
    assert found["considered"] == 30 and found["placed"] == found["tasks"]
    assert murmur("why", "--in", "out", "batch-99999").code == 2


def test_reproduce_lists_and_runs(murmur: Murmur) -> None:
    listed = document(murmur("reproduce", "--list", "--json"))["experiments"]
    names = {"mss-single", "mss-multi", "mss-arrivals", "dps", "rss", "rss-modes", "dps-model", "sharing", "locality"}
    assert names <= {entry["name"] for entry in listed}
    result = document(murmur("reproduce", "mss-single", "--quick", "--days", "0.02", "--jobs", "1", "--json"))
    assert result["experiment"] == "mss-single" and result["seconds"] > 0
    assert all(set(row) == {"quantity", "paper", "measured", "low", "high", "holds"} for row in result["rows"])


def test_help_answers_for_every_command(murmur: Murmur) -> None:
    assert murmur("--help").code == 0
    for command in ("simulate", "compare", "sweep", "reproduce", "trace", "why"):
        assert command in murmur("--help").out
        assert "Usage" in murmur(command, "--help").out
