"""What a run of measured usage leaves behind: its files agree with each other, and with a run that
was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration.base.errors import InputError
from murmuration.cluster.allocation_types import NAMES
from murmuration.cluster.reasons import Never
from murmuration.experiments import runs
from murmuration.experiments.specs import make_spec
from murmuration.simulation.engine import run as engine
from murmuration.simulation.results import explain, outputs, snapshots
from murmuration.simulation.scenarios import scenario as sc

NODES, MINUTES = 12, 216
USAGE = {"cpu": 0.6, "memory": 0.7, "noise": 0.5, "spikes_per_hour": 1}


def stream(**more: Any) -> dict[str, Any]:
    return {"tasks_per_job": 2, "task_memory": "1Gi", "usage": USAGE, **more}


TABLES: dict[str, Any] = {
    "name": "restless",
    "seed": 2,
    "days": MINUTES / 1440,
    "cluster": {"nodes": NODES, "cpu": 8, "memory": "16Gi"},
    "workload": {
        "service": stream(
            initial=20,
            arrivals_per_s=0.001,
            task_duration_s=20000,
            task_cpu=1.5,
            production=True,
            spread=0.4,
        ),
        "batch": stream(initial=30, arrivals_per_s=0.01, task_duration_s=2000, task_cpu=0.8),
    },
    "scheduler": {"kind": "negotiation", "reclaim": True},
}


@pytest.fixture(scope="module")
def run() -> engine.Run:
    return engine.simulate(TABLES)


def tables_of(run: engine.Run) -> dict[str, Any]:
    return {
        name: table for name, table in outputs.outputs(run).items() if not isinstance(table, str)
    }


def test_a_tick_each_minute(run: engine.Run) -> None:
    ticks = tables_of(run)[snapshots.TICKS]
    assert ticks["time_s"] == pytest.approx(np.arange(MINUTES + 1) * 60.0)
    assert sum(ticks[f"nodes.{name}"] for name in NAMES).tolist() == [NODES] * (MINUTES + 1)
    for name, counted in (("migrations", "migrations"), ("migrations_forced", "forced")):
        assert (np.diff(ticks[name]) >= 0).all() and ticks[name][0] == 0
        assert ticks[name][-1] <= run.world.state[counted][0]
    assert ticks["migrations"][-1] > 0 and ticks["migrated_mb"][-1] > 0


def test_usage_of_the_nodes_adds_up_to_that_of_the_cluster(run: engine.Run) -> None:
    """Nodes are alike, so the cluster's shares are the means of theirs; a tick knows the same by
    other sums."""
    written = tables_of(run)
    ticks, usage = written[snapshots.TICKS], written[snapshots.USAGE]
    assert sorted(set(usage["time_s"])) == [6000.0, 12000.0]
    for at in (6000.0, 12000.0):
        rows, tick = usage["time_s"] == at, int(at / 60)
        assert sorted(usage["node"][rows]) == sorted(run.setup.nodes.names)
        assert usage["tasks"][rows].sum() == ticks["tasks_running"][tick] > 0
        for share in ("used.cpu", "used.memory", "guaranteed.cpu", "guaranteed.memory"):
            assert usage[share][rows].mean() == pytest.approx(ticks[share][tick], abs=2e-6)


def test_decisions_are_sampled_at_their_rates(run: engine.Run) -> None:
    assert run.state is not None
    rows, heard = tables_of(run)[snapshots.DECISIONS], run.state.progress["heard"][0]
    for kind, (name, rate) in enumerate(
        (("selection", 50), ("candidates", 5000), ("target", 5000))
    ):
        assert (rows["decision"] == name).sum() == -(-int(heard[kind]) // rate)
    assert (np.diff(rows["time_s"]) >= 0).all()
    for decision, node, job, target in zip(
        *(rows[k] for k in ("decision", "node", "job_id", "target")), strict=True
    ):
        assert (target in run.setup.nodes.names) == (decision == "target")
        assert (job in run.setup.jobs.job_id) == (decision != "selection")
        assert node in run.setup.nodes.names or (node == "" and decision != "selection")


def test_an_interrupted_run_leaves_the_same_files(run: engine.Run, tmp_path: Path) -> None:
    again = engine.prepare(sc.check(TABLES))
    for stop in (0.0, 2999.5, 6000.0, 7777.7):
        engine.advance(again, stop)
        snapshots.save_run(tmp_path / snapshots.SNAPSHOT, again, "mine")
        again = engine.prepare(sc.check(TABLES))
        snapshots.load_run(tmp_path / snapshots.SNAPSHOT, again, "mine")
    assert engine.finish(again)
    for folder, one in (("whole", run), ("pieces", again)):
        spec = make_spec("x", TABLES, str(tmp_path / folder))
        runs.write_run(
            tmp_path / folder, spec, runs.RunOutcome({"timing": {}}, runs.result_tables(one))
        )
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert {snapshots.TICKS, snapshots.USAGE, snapshots.DECISIONS} < set(
        names
    ) and snapshots.ERRORS not in names
    for name in names:
        assert (tmp_path / "whole" / name).read_bytes() == (
            tmp_path / "pieces" / name
        ).read_bytes(), name


def test_a_snapshot_of_another_architecture_is_refused(tmp_path: Path) -> None:
    simple = sc.override(TABLES, {"scheduler.kind": "monolithic"})
    snapshots.save_run(tmp_path / snapshots.SNAPSHOT, engine.prepare(sc.check(simple)), "mine")
    with pytest.raises(InputError, match=r"snapshot\.npz: expected a snapshot of a run"):
        snapshots.load_run(tmp_path / snapshots.SNAPSHOT, engine.prepare(sc.check(TABLES)), "mine")


def test_why_shows_where_the_tasks_of_a_job_went() -> None:
    run = engine.prepare(sc.check(TABLES))
    late = int(
        np.flatnonzero((run.setup.jobs.submit_s > 4000.0) & (run.setup.jobs.duration_s > 500.0))[0]
    )
    found = explain.explain(run, str(run.setup.jobs.job_id[late]), 1)
    assert 0 <= found.at_s - run.setup.jobs.submit_s[late] <= 20.0, "the first round after it came"
    assert found.tasks == run.setup.jobs.tasks[late] and found.considered == NODES
    assert found.feasible + sum(found.filtered.values()) == NODES
    assert (
        sum(count for _, count in found.chosen) == found.placed == found.tasks
        and found.verdict is None
    )
    with pytest.raises(InputError, match=r"had its round 1 time before the end of the run, not 2"):
        explain.explain(run, str(run.setup.jobs.job_id[late]), 2)


def test_the_log_names_what_can_never_run(tmp_path: Path) -> None:
    header = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task"
    (tmp_path / "jobs.csv").write_text(f"{header}\ngood,a,0,1,10,1,1\nhuge,a,0,1,10,100,1\n")
    tables = {
        "days": 0.001,
        "cluster": {"nodes": 2},
        "workload": {"trace": str(tmp_path / "jobs.csv")},
    }
    run = engine.simulate(tables)
    assert isinstance(explain.explain(engine.prepare(sc.check(tables)), "huge", 1).verdict, Never)
    log = outputs.outputs(run)
    assert list(log) == [snapshots.ERRORS]
    assert str(log[snapshots.ERRORS]).startswith("job huge can never run: ")
    assert "good" not in log[snapshots.ERRORS]
