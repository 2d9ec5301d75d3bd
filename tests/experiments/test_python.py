"""Studies from Python: the same runs as the commands', with results as data frames."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import murmuration
from murmuration.base.errors import InputError
from murmuration.experiments.python.stored import read_runs
from murmuration.reports.figures import Chart, Parallel

TABLES: dict[str, Any] = {
    "name": "tiny",
    "days": 0.02,
    "cluster": {"nodes": 6},
    "workload": {
        "batch": {
            "arrivals_per_s": 0.05,
            "tasks_per_job": 4.0,
            "task_duration_s": 60.0,
            "task_memory": "1G",
        }
    },
}


def pack(total: Any, free: Any, request: Any) -> Any:
    """A score of one's own."""
    return -((free - request) / total).min(axis=1)


@pytest.fixture(scope="module")
def run() -> murmuration.RunResult:
    return murmuration.simulate(TABLES, detail=True)


@pytest.fixture(scope="module")
def comparison() -> murmuration.Comparison:
    schedulers = ["monolithic", "partitioned"]
    return murmuration.compare(TABLES, schedulers, replicas=3, workers=1)


def test_a_run_is_its_summary_and_its_jobs_say_the_same(run: murmuration.RunResult) -> None:
    """Waits added up from the jobs are those of the summary."""
    batch = run["workloads"]["batch"]
    jobs = run.jobs
    horizon = TABLES["days"] * 86_400
    waits = jobs["start_s"].fill_nan(horizon).to_numpy() - jobs["submit_s"].to_numpy()
    assert len(jobs) == batch["jobs_submitted"]
    assert waits.mean() == pytest.approx(batch["wait_s_mean"], rel=1e-9)
    assert run.frame["wait_s_mean"].item() == batch["wait_s_mean"]


def test_jobs_have_the_nodes_of_their_tasks(run: murmuration.RunResult) -> None:
    nodes = {row["job_id"]: set(row["nodes"] or ()) for row in run.jobs.iter_rows(named=True)}
    for job, tasks in run.tasks.group_by("job_id"):
        assert nodes[str(job[0])] == set(tasks["node"])
    assert set().union(*nodes.values()) <= {f"node-{k}" for k in range(6)}


def test_tasks_of_a_run_that_was_not_recorded_are_those_of_the_same_run(
    run: murmuration.RunResult,
) -> None:
    again = murmuration.simulate(TABLES)
    assert "nodes" not in again.jobs.columns
    assert again.tasks.equals(run.tasks)


def test_replicas_have_the_intervals_that_scipy_has(comparison: murmuration.Comparison) -> None:
    runs = [each for each in comparison if each.spec.label == "monolithic"]
    waits = np.array([each["workloads"]["batch"]["wait_s_mean"] for each in runs])
    low, high = stats.t.interval(0.95, len(waits) - 1, waits.mean(), stats.sem(waits))
    row = comparison.frame.filter(scheduler="monolithic").row(0, named=True)
    assert row["seeds"] == 3 and row["wait_s_mean"] == pytest.approx(waits.mean())
    assert row["wait_s_mean_low"] == pytest.approx(low, rel=1e-3)
    assert row["wait_s_mean_high"] == pytest.approx(high, rel=1e-3)


def test_a_comparison_is_looked_up_by_scheduler(comparison: murmuration.Comparison) -> None:
    assert comparison["partitioned"]["scheduler"] == "partitioned"
    with pytest.raises(InputError, match="monolithic"):
        comparison["monolitic"]
    jobs = comparison.jobs
    assert set(jobs["seed"].to_list()) == {1, 2, 3}
    assert len(jobs) == sum(len(each.jobs) for each in comparison)


def test_a_notebook_shows_verdict_table_and_plots(comparison: murmuration.Comparison) -> None:
    shown = comparison._repr_html_()
    assert "seed by seed" in shown and "<table" in shown
    assert shown.count("<iframe") == 1 and "sandbox=" in shown
    assert "<iframe" in comparison.figures[0]._repr_html_()


def test_a_plot_is_saved_as_a_page_and_for_paper(
    comparison: murmuration.Comparison, tmp_path: Path
) -> None:
    plot = comparison.figures[0]
    assert plot.save(tmp_path / "wait.html").read_text().startswith("<!doctype html>")
    pytest.importorskip("matplotlib")
    assert "partitioned" in plot.save(tmp_path / "wait.svg").read_text()
    with pytest.raises(InputError, match="ends in"):
        plot.save(tmp_path / "wait.gif")


def test_frames_for_pandas(comparison: murmuration.Comparison) -> None:
    pandas = pytest.importorskip("pandas")
    frame = comparison.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["wait_s_mean"].tolist() == comparison.frame["wait_s_mean"].to_list()


def test_a_policy_may_be_given_itself() -> None:
    """By its own name, or under one that is given; both are the same run."""
    named = murmuration.compare(TABLES, ["monolithic", pack], workers=1)
    mapped = murmuration.compare(TABLES, {"mine": {"scheduler.placement": pack}}, workers=1)
    assert [each.spec.label for each in named] == ["monolithic", "pack"]
    assert mapped["mine"].jobs.equals(named["pack"].jobs)


def test_a_sweep_has_a_column_for_what_it_varies() -> None:
    sweep = murmuration.sweep(TABLES, {"cluster.nodes": [3, 6]}, workers=1)
    assert sweep.frame["nodes"].to_list() == [3, 6]
    assert sweep.cluster["nodes_mean"].to_list() == [3.0, 6.0]


def test_a_sweep_is_lines_over_all_that_was_varied_and_measured() -> None:
    axes: dict[str, Any] = {
        "cluster.nodes": [3, 6],
        "scheduler.placement": ["first-fit", "best-fit"],
    }
    sweep = murmuration.sweep(TABLES, axes, workers=1)
    parallel, waits = (plot._figure for plot in sweep.figures[:2])
    assert isinstance(parallel, Parallel) and isinstance(waits, Chart)
    assert parallel.axes[:2] == ("nodes", "placement")
    assert parallel.labels[:2] == ((), ("first-fit", "best-fit"))
    assert [tuple(row[:2]) for row in parallel.rows] == [(3, 0), (3, 1), (6, 0), (6, 1)]
    k = parallel.axes.index("wait s")
    assert [row[k] for row in parallel.rows] == sweep.frame["wait_s_mean"].to_list()
    # Small multiples: one panel for each placement, with a point for each size.
    assert waits.apart and [series.panel for series in waits.series] == [
        "placement=first-fit",
        "placement=best-fit",
    ]
    assert all(list(series.x) == [3.0, 6.0] for series in waits.series)


def test_runs_in_folders_are_compared_as_they_were(
    tmp_path: Path, comparison: murmuration.Comparison
) -> None:
    """The same runs, read back, give the same verdict; other jobs give none."""
    made = murmuration.compare(TABLES, ["monolithic", "partitioned"], workers=1, out=tmp_path)
    stored = read_runs([tmp_path])
    assert stored.same_jobs and stored.name == "tiny"
    assert [each.spec.label for each in stored.runs] == ["monolithic", "partitioned"]
    apart = read_runs([made["monolithic"].path, comparison[4].path])
    assert not apart.same_jobs and apart.notes
    with pytest.raises(InputError, match="expected the folder of a run"):
        read_runs([tmp_path / "nothing"])


def test_a_script_without_a_guard_may_use_worker_processes(tmp_path: Path) -> None:
    """Workers do not run the script again from its first line."""
    script = tmp_path / "study.py"
    script.write_text(
        "import murmuration\n"
        f"runs = murmuration.compare({TABLES!r}, ['monolithic', 'partitioned'], workers=2)\n"
        "print(len(runs))\n"
    )
    answer = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stdout) == (0, "2\n"), answer.stderr


@pytest.mark.timeout(1800)  # the planner's kernels may have to be compiled first
def test_a_plan_as_frames() -> None:
    example = Path(__file__).parents[2] / "examples" / "cluster.toml"
    plan = murmuration.plan(example, ["nodes"], evaluations=300)
    moved = plan.moves.filter(pl.col("kind") == "move")["task"].n_unique()
    assert moved == plan.document["moved"]
    nodes = plan.objectives.filter(objective="nodes").row(0, named=True)
    assert nodes["chosen"] <= nodes["before"]


def test_every_public_name_is_there_and_listed() -> None:
    assert dir(murmuration) == sorted(murmuration.__all__)
    for name in murmuration.__all__:
        assert getattr(murmuration, name) is not None
