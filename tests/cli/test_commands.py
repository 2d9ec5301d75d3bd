"""Every command from end to end: what it prints, what it writes, and that the same seed gives the
same files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.cli.conftest import Murmur

from murmuration.placement.registry import NAMES

KINDS = ("monolithic", "partitioned", "offers", "shared-state")
SUMMARY = {
    "version",
    "scenario",
    "scheduler",
    "seed",
    "days",
    "path",
    "events",
    "makespan_s",
    "workloads",
    "schedulers",
    "cluster",
    "timing",
}
WORKLOAD = {
    "jobs_submitted",
    "jobs_scheduled",
    "jobs_abandoned",
    "jobs_queued",
    "jobs_finished",
    "jobs_not_started",
    "tasks_submitted",
    "tasks_placed",
    "tasks_left",
    "attempts_mean",
    "wait_s_mean",
    "wait_s_p50",
    "wait_s_p90",
    "wait_s_p95",
    "wait_s_p99",
    "wait_first_attempt_s_mean",
    "wait_first_attempt_s_p90",
    "wait_full_jobs",
    "wait_full_s_mean",
    "wait_full_s_p90",
    "turnaround_s_mean",
    "turnaround_s_p95",
    "slowdown_mean",
    "slowdown_p95",
    "busy_fraction",
    "busy_wasted_fraction",
    "conflict_fraction",
    "saturated",
}
CLUSTER = {
    "nodes_mean",
    "nodes_in_use_mean",
    "imbalance_mean",
    "fragmentation_mean",
    "tasks_running_mean",
    "required",
    "guaranteed",
    "used",
    "offered_fraction",
    "allocation_types",
    "migrations_per_min",
    "migrations_forced_per_min",
    "migrated_mb_per_min",
    "collision_fraction",
}
TYPES = {"idle", "sta", "ta", "pa", "da", "overloaded"}


NO_RESULTS = ("timing.json", "report.html", "command.json")


def results(folder: Path) -> dict[str, bytes]:
    """Every result file below a folder but the times, the pages that show them, and the command
    lines that made them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    kept = [path for path in files if path.name not in NO_RESULTS]
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def has_the_keys_of_a_summary(summary: dict[str, Any]) -> None:
    assert set(summary) == SUMMARY
    assert set(summary["workloads"]) == {"batch", "service"}
    assert all(set(workload) == WORKLOAD for workload in summary["workloads"].values())
    assert set(summary["cluster"]) >= CLUSTER
    assert set(summary["cluster"]["required"]) == {"cpu", "memory"}
    assert set(summary["cluster"]["allocation_types"]) == TYPES
    assert set(summary["timing"]) == {"wall_s", "cpu_s"}


def test_simulate(murmur: Murmur, tmp_path: Path) -> None:
    answer = murmur("simulate", "small.toml", "--out", "run")
    assert answer.code == 0
    assert "shared-state" in answer.out and "service" in answer.out
    assert f"report: {Path('run') / 'report.html'}" in answer.err
    names = {
        "command.json",
        "jobs.parquet",
        "report.html",
        "scenario.json",
        "series.parquet",
        "summary.json",
        "timing.json",
    }
    assert {path.name for path in (tmp_path / "run").iterdir()} == names
    jobs, series = (
        pl.read_parquet(tmp_path / "run" / f"{name}.parquet") for name in ("jobs", "series")
    )
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert len(jobs) == sum(
        workload["jobs_submitted"] for workload in summary["workloads"].values()
    )
    assert series["time_s"][0] == 0.0 and series["time_s"][-1] == pytest.approx(0.02 * 86_400)


@pytest.mark.parametrize("kind", KINDS)
def test_simulate_as_json(murmur: Murmur, tmp_path: Path, kind: str) -> None:
    """One document on standard output, nothing written without --out."""
    answer = murmur("simulate", "small.toml", "-s", kind, "--json")
    summary = json.loads(answer.out)
    has_the_keys_of_a_summary(summary)
    assert (summary["scenario"], summary["scheduler"], summary["seed"], summary["days"]) == (
        "small",
        kind,
        3,
        0.02,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]
    workload = summary["workloads"]["batch"]
    assert workload["jobs_submitted"] == sum(
        workload[f"jobs_{k}"] for k in ("scheduled", "abandoned", "queued")
    )
    assert sum(summary["cluster"]["allocation_types"].values()) == pytest.approx(30)


def test_the_default_folder_is_named_after_the_run(murmur: Murmur, tmp_path: Path) -> None:
    murmur("simulate", "small.toml", "-s", "machine", "--seed", "9")
    assert (tmp_path / "runs" / "small-machine-seed9" / "summary.json").exists()


def test_set_seed_and_days_override_the_scenario(murmur: Murmur) -> None:
    settings = (
        "--set",
        "cluster.nodes=50",
        "--set",
        "scheduler.placement=best-fit",
        "--seed",
        "7",
        "--days",
        "0.01",
    )
    summary = json.loads(murmur("simulate", "small.toml", "--json", *settings).out)
    assert (summary["seed"], summary["days"], summary["cluster"]["nodes_mean"]) == (7, 0.01, 50.0)


def test_the_same_seed_leaves_the_same_bytes(murmur: Murmur, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        assert (
            murmur(
                "compare", "small.toml", "-s", ",".join(KINDS), "--jobs", "1", "--out", folder
            ).code
            == 0
        )
    assert (
        murmur("compare", "small.toml", "-s", ",".join(KINDS), "--jobs", "2", "--out", "three").code
        == 0
    )
    first = results(tmp_path / "one")
    assert len(first) == 1 + 4 * len(KINDS), (
        "a summary of all, and of each a summary, a scenario and two tables"
    )
    assert results(tmp_path / "two") == first
    assert results(tmp_path / "three") == first, "on two processes"


def test_another_seed_leaves_others(murmur: Murmur, tmp_path: Path) -> None:
    for seed in ("1", "2"):
        murmur("simulate", "small.toml", "--seed", seed, "--out", seed)
    assert results(tmp_path / "1")["jobs.parquet"] != results(tmp_path / "2")["jobs.parquet"]


def test_one_more_scheduler_changes_nothing_for_the_others(murmur: Murmur, tmp_path: Path) -> None:
    murmur("compare", "small.toml", "-s", "machine,offers", "--jobs", "1", "--out", "two")
    murmur(
        "compare",
        "small.toml",
        "-s",
        "monolithic,machine,partitioned,offers",
        "--jobs",
        "1",
        "--out",
        "four",
    )
    for name in ("machine-seed3", "offers-seed3"):
        assert results(tmp_path / "two" / name) == results(tmp_path / "four" / name)


def test_compare_as_json(murmur: Murmur) -> None:
    document = json.loads(
        murmur("compare", "small.toml", "-s", "machine,offers,offers", "--json", "--jobs", "1").out
    )
    assert set(document) == {"runs", "verdict", "warnings"}
    assert [run["scheduler"] for run in document["runs"]] == ["machine", "offers"], (
        "named twice it runs once"
    )
    for run in document["runs"]:
        has_the_keys_of_a_summary(run)


def test_compare_runs_the_scenario_and_its_variants(murmur: Murmur) -> None:
    runs = json.loads(murmur("compare", "small.toml", "--json", "--jobs", "1").out)["runs"]
    assert [run["scheduler"] for run in runs] == ["shared-state", "machine"]


def test_replicas_give_intervals(murmur: Murmur) -> None:
    """Each figure of three seeds as mean, bounds and count: the mean is that of the runs one by
    one."""
    alone = [
        json.loads(murmur("simulate", "small.toml", "--json", "--seed", str(seed)).out)[
            "workloads"
        ]["batch"]
        for seed in (3, 4, 5)
    ]
    replicated = json.loads(
        murmur("simulate", "small.toml", "--replicas", "3", "--json", "--jobs", "1").out
    )
    (summary,) = replicated["runs"]
    assert summary["seed"] == [3, 4, 5]
    figure = summary["workloads"]["batch"]["tasks_placed"]
    assert set(figure) == {"mean", "low", "high", "n"} and figure["n"] == 3
    assert figure["mean"] == pytest.approx(sum(one["tasks_placed"] for one in alone) / 3)
    assert figure["low"] < figure["mean"] < figure["high"]
    assert summary["workloads"]["batch"]["saturated"] is False
    assert set(summary["timing"]["cpu_s"]) == {"mean", "low", "high", "n"}


def test_sweep(murmur: Murmur, tmp_path: Path) -> None:
    axes = (
        "--vary",
        "scheduler.decision.service.job_time_s=0.1,100",
        "--vary",
        "scheduler.conflict=resource,machine",
    )
    answer = murmur(
        "sweep", "small.toml", *axes, "--replicas", "2", "--jobs", "1", "--out", "grid", "--json"
    )
    runs = json.loads(answer.out)["runs"]
    assert [tuple(run["vary"].values()) for run in runs] == [
        (0.1, "resource"),
        (0.1, "machine"),
        (100, "resource"),
        (100, "machine"),
    ]
    assert (
        runs[2]["workloads"]["service"]["busy_fraction"]["mean"]
        > 10 * (runs[0]["workloads"]["service"]["busy_fraction"]["mean"])
    )
    assert len(list((tmp_path / "grid").glob("*/summary.json"))) == 8
    first = results(tmp_path / "grid")
    again = murmur(
        "sweep",
        "small.toml",
        *axes,
        "--replicas",
        "2",
        "--jobs",
        "2",
        "--out",
        "grid",
        "--json",
        "--resume",
    )
    assert json.loads(again.out) == json.loads(answer.out), (
        "what is there is not run again, times included"
    )
    assert results(tmp_path / "grid") == first


def test_resume_runs_what_is_missing_or_of_another_scenario(murmur: Murmur, tmp_path: Path) -> None:
    sweep = (
        "sweep",
        "small.toml",
        "--vary",
        "cluster.nodes=20,30,40",
        "--jobs",
        "1",
        "--out",
        "grid",
        "--resume",
    )
    murmur(*sweep)
    whole = results(tmp_path / "grid")
    (tmp_path / "grid" / "nodes=30-seed3" / "summary.json").unlink()
    other = tmp_path / "grid" / "nodes=40-seed3" / "scenario.json"
    other.write_text(other.read_text().replace('"days": 0.02', '"days": 0.03'))
    (tmp_path / "grid" / "nodes=40-seed3" / "summary.json").write_text("{}")
    assert murmur(*sweep).code == 0
    assert results(tmp_path / "grid") == whole


def test_keys_with_the_same_last_part_are_told_apart(murmur: Murmur) -> None:
    axes = ("--vary", "workload.batch.task_cpu=1,2", "--vary", "workload.service.task_cpu=1")
    runs = json.loads(murmur("sweep", "small.toml", *axes, "--json", "--jobs", "1").out)["runs"]
    assert runs[0]["scheduler"] == "workload.batch.task_cpu=1, workload.service.task_cpu=1"


def test_stop_and_resume_leaves_the_same_bytes(murmur: Murmur, tmp_path: Path) -> None:
    for kind in KINDS:
        murmur("simulate", "small.toml", "-s", kind, "--out", "whole")
        stopped = murmur(
            "simulate",
            "small.toml",
            "-s",
            kind,
            "--out",
            "parts",
            "--stop-after",
            "0.005",
            "--json",
        )
        assert (stopped.code, stopped.out) == (0, "") and "--resume goes on" in stopped.err
        assert {path.name for path in (tmp_path / "parts").iterdir()} >= {
            "snapshot.npz",
            "scenario.json",
        }
        assert not (tmp_path / "parts" / "summary.json").exists()
        again = murmur(
            "simulate",
            "small.toml",
            "-s",
            kind,
            "--out",
            "parts",
            "--stop-after",
            "0.013",
            "--resume",
        )
        assert again.code == 0 and "stopped at day 0.01" in again.err
        assert murmur("simulate", "small.toml", "-s", kind, "--out", "parts", "--resume").code == 0
        assert results(tmp_path / "parts") == results(tmp_path / "whole")
        assert not (tmp_path / "parts" / "snapshot.npz").exists()


def test_a_snapshot_of_another_scenario_is_refused(murmur: Murmur) -> None:
    murmur("simulate", "small.toml", "--out", "run", "--stop-after", "0.005")
    answer = murmur(
        "simulate", "small.toml", "--out", "run", "--resume", "--set", "cluster.nodes=31"
    )
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(
        "murmur: run/snapshot.npz: expected a snapshot of this version and scenario"
    )


def test_a_finished_run_is_not_run_again(murmur: Murmur, tmp_path: Path) -> None:
    first = murmur("simulate", "small.toml", "--out", "run", "--json")
    assert murmur("simulate", "small.toml", "--out", "run", "--json", "--resume").out == first.out


def test_check_holds_for_every_placement(murmur: Murmur) -> None:
    for placement in NAMES:
        assert (
            murmur(
                "simulate",
                "small.toml",
                "--check",
                "--json",
                "--set",
                f"scheduler.placement={placement}",
            ).code
            == 0
        )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_generated_list_replays_as_the_same_run(
    murmur: Murmur, tmp_path: Path, suffix: str
) -> None:
    """One list, made once and replayed in every architecture, with constraints, priorities and
    gangs in it."""
    text = (tmp_path / "small.toml").read_text()
    text = text.replace(
        "[workload.service]",
        "[workload.service]\npriority = 2\nconstraints = ['zone != b']\ngang = true",
    )
    text = text.replace("[workload.batch]", '[cluster.attributes]\nzone = "a"\n[workload.batch]')
    # Named so that the order in the file and that of the names differ.
    (tmp_path / "mixed.toml").write_text(text.replace("batch", "zebra"))
    made = murmur("trace", "generate", "mixed.toml", f"jobs.{suffix}", "--seed", "5")
    assert made.code == 0 and f"jobs.{suffix}: " in made.err and made.out == ""
    for kind in KINDS:
        command = ("simulate", "mixed.toml", "-s", kind, "--seed", "5")
        for answer in (
            murmur(*command, "--out", "drawn"),
            murmur(*command, "--out", "read", "--set", f"workload.trace=jobs.{suffix}"),
        ):
            assert answer.code == 0, answer.err
        drawn, read = results(tmp_path / "drawn"), results(tmp_path / "read")
        for name in ("summary.json", "jobs.parquet", "series.parquet"):
            assert drawn[name] == read[name], kind


def test_generate_takes_days_seed_and_settings(murmur: Murmur, tmp_path: Path) -> None:
    sizes = []
    for more in (
        (),
        ("--days", "0.1"),
        ("--seed", "8"),
        ("--set", "workload.batch.arrivals_per_s=1"),
    ):
        assert murmur("trace", "generate", "small.toml", "jobs.csv", *more).code == 0
        sizes.append(len((tmp_path / "jobs.csv").read_text().splitlines()))
    assert len(set(sizes)) == 4 and sizes[1] > 3 * sizes[0]
    info = json.loads(murmur("trace", "info", "jobs.csv", "--json").out)
    assert info["jobs"]["jobs"] == sizes[-1] - 1


def test_generate_says_what_a_list_cannot_hold(murmur: Murmur) -> None:
    answer = murmur(
        "trace", "generate", "small.toml", "jobs.csv", "--set", "workload.batch.picky=0.5"
    )
    assert "left out: picky" in answer.err


def test_reproduce_lists_what_there_is(murmur: Murmur) -> None:
    names = [
        "mss-single",
        "mss-multi",
        "mss-arrivals",
        "dps",
        "rss",
        "rss-modes",
        "dps-model",
        "sharing",
        "locality",
    ]
    listed = json.loads(murmur("reproduce", "--list", "--json").out)["experiments"]
    assert [entry["name"] for entry in listed][: len(names)] == names
    shown = murmur("reproduce", "--list").out
    assert all(name in shown for name in names)


def test_reproduce_quickly(murmur: Murmur, tmp_path: Path) -> None:
    answer = murmur(
        "reproduce",
        "mss-single",
        "--quick",
        "--days",
        "0.02",
        "--jobs",
        "1",
        "--json",
        "--out",
        "fig",
    )
    document = json.loads(answer.out)
    assert {"experiment", "seconds", "rows", "title", "quick", "days", "seed", "notes"} == set(
        document
    ) and document["experiment"] == "mss-single"
    for row in document["rows"]:
        figures = {"quantity", "paper", "measured", "low", "high", "holds"}
        assert set(row) == figures | {"where", "basis", "tolerance"}
    assert {path.name for path in (tmp_path / "fig").iterdir()} >= {"report.html", "rows.json"}
    verdicts = [row["holds"] for row in document["rows"] if row["holds"] is not None]
    headline = f"{verdicts.count(True)} of {len(verdicts)} claims hold."
    assert headline in (tmp_path / "fig" / "report.html").read_text()


def test_why(murmur: Murmur) -> None:
    murmur("simulate", "small.toml", "--out", "run")
    shown = murmur("why", "batch-3", "--in", "run")
    assert shown.code == 0 and "batch-3" in shown.out and "30 nodes considered" in shown.out
    found = json.loads(murmur("why", "batch-3", "--in", "run", "--json").out)
    assert (found["job"], found["workload"], found["verdict"], found["verdict_kind"]) == (
        "batch-3",
        "batch",
        None,
        None,
    )
    assert sum(count for _, count in found["chosen"]) == found["tasks"] == found["placed"]
    assert "batch-3: submitted at" in shown.out and "drawn at random" in shown.out
    assert found["story"]["attempts"] == found["attempt"] and found["story"]["start_s"] is not None
    gone = murmur("why", "batch-99999", "--in", "run")
    assert gone.code == 2 and gone.err.startswith("murmur: no job 'batch-99999'; ids run from ")
    assert "service" not in gone.err, "the id names its workload"
    strange = murmur("why", "nobody", "--in", "run")
    assert strange.code == 2
    for name in ("batch", "service"):
        assert re.search(rf"from '{name}-0' to '{name}-\d+'", strange.err)


def test_why_of_a_comparison_names_the_runs_below_it(murmur: Murmur) -> None:
    murmur("compare", "small.toml", "-s", "machine,monolithic", "--jobs", "1", "--out", "several")
    answer = murmur("why", "batch-3", "--in", "several")
    assert answer.code == 2
    assert (
        "expected the folder of one run, such as several/machine-seed3, this one holds 2"
        in answer.err
    )


def test_why_shows_names_as_they_are(murmur: Murmur, tmp_path: Path) -> None:
    """An id in brackets is no mark-up."""
    header = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task\n"
    (tmp_path / "jobs.csv").write_text(header + "job[red],[bold],0,1,5,1,1\n")
    murmur(
        "simulate",
        "small.toml",
        "--set",
        "workload.trace=jobs.csv",
        "--set",
        "scheduler.decision={}",
        "--out",
        "run",
    )
    assert "job[red] ([bold])" in murmur("why", "job[red]", "--in", "run").out


def test_help_of_each_command(murmur: Murmur) -> None:
    for command in (
        "",
        "simulate",
        "compare",
        "sweep",
        "reproduce",
        "trace",
        "trace info",
        "trace generate",
        "why",
    ):
        answer = murmur(*command.split(), "--help")
        assert answer.code == 0 and answer.err == ""
        assert f"Usage: murmur {command}".strip() in answer.out
        assert murmur(*command.split(), "-h").out == answer.out


def test_the_version(murmur: Murmur) -> None:
    assert murmur("--version").out.startswith("murmur, version 0.")


def test_help_imports_nothing_heavy() -> None:
    """`murmur --help` answers at once: it loads no compiler, no tables and no plots."""
    code = "import sys; sys.argv = ['murmur', '--help']\nfrom murmuration.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    code += (
        "print([m for m in ('numba', 'numpy', 'polars', 'matplotlib', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_arguments_show_the_help(murmur: Murmur) -> None:
    answer = murmur()
    assert answer.code == 2 and "Usage: murmur" in answer.err + answer.out
