"""One seed explains everything: the same seed leaves the same bytes, in one piece or in many, today
or after a stop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.simulation.scenarios import (
    HORIZON_S,
    MONOLITHIC,
    OFFERS,
    PARTITIONED,
    ROOMY,
    SHARED_STATE,
    Tables,
    random_tables,
)

from murmuration.base import files
from murmuration.base.errors import InputError
from murmuration.base.version import __version__
from murmuration.simulation.engine import loop
from murmuration.simulation.engine import run as engine
from murmuration.simulation.results import snapshots
from murmuration.simulation.results import summary as results
from murmuration.simulation.scenarios import scenario as sc

GUARANTEED = [
    {"kind": "offers", "offers": {"framework": {"service": {"guaranteed": 0.5}}, "timeout_s": 2.0}}
]
KINDS = {
    "monolithic": MONOLITHIC,
    "partitioned": PARTITIONED,
    "shared-state": SHARED_STATE,
    "offers": OFFERS,
    "guaranteed": GUARANTEED,
    "negotiation": [{"kind": "negotiation"}],
}


def left_behind(run: engine.Run, folder: Path) -> dict[str, bytes]:
    """The result files of a run that has ended."""
    files.write_json(folder / snapshots.SUMMARY, results.summary(run, "x"))
    files.write_table(folder / snapshots.JOBS, results.job_table(run))
    files.write_table(folder / snapshots.SERIES, results.series(run))
    return {
        name: (folder / name).read_bytes()
        for name in (snapshots.SUMMARY, snapshots.JOBS, snapshots.SERIES)
    }


def whole(tables: Tables, folder: Path) -> dict[str, bytes]:
    return left_behind(engine.simulate(tables), folder)


def in_pieces(tables: Tables, folder: Path, stops: list[float]) -> dict[str, bytes]:
    """The same run, saved at each stop and gone on with from the file in a run prepared anew."""
    run = engine.prepare(sc.check(tables))
    for stop in stops:
        engine.advance(run, stop)
        snapshots.save_run(folder / snapshots.SNAPSHOT, run, "story")
        run = engine.prepare(sc.check(tables))
        snapshots.load_run(folder / snapshots.SNAPSHOT, run, "story")
    assert engine.finish(run)
    return left_behind(run, folder)


@pytest.mark.parametrize(
    "placement", ["first-fit", "best-fit", "tests.simulation.policies:SlowFirstFit"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_in_pieces_leaves_the_same_bytes(kind: str, placement: str, tmp_path: Path) -> None:
    tables = random_tables(11, KINDS[kind], tmp_path)
    tables["scheduler"] = {**tables["scheduler"], "placement": placement}
    once = whole(tables, tmp_path)
    assert whole(tables, tmp_path) == once, "the same seed again"
    stops = [0.0, 3.25, 3.25, 17.0, HORIZON_S / 2, HORIZON_S - 0.001, HORIZON_S]
    assert in_pieces(tables, tmp_path, stops) == once


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_is_another_run(kind: str, tmp_path: Path) -> None:
    tables = random_tables(11, KINDS[kind], tmp_path)
    tables["scheduler"] = {**tables["scheduler"], "placement": "first-fit"}
    one, other = (engine.simulate({**tables, "seed": seed}) for seed in (1, 2))
    assert (one.world.rng != other.world.rng).any()


def test_a_world_that_must_grow_is_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays that start small and are enlarged on the way change nothing."""
    tables = random_tables(5, SHARED_STATE, tmp_path)
    tables["cluster"]["group"].append({**ROOMY, "count": 40})
    once = whole(tables, tmp_path)
    monkeypatch.setattr("murmuration.simulation.engine.build.ROWS_START", 16)
    monkeypatch.setattr("murmuration.simulation.engine.build.SLOTS_START", 8)
    run = engine.prepare(sc.check(tables))
    start = len(run.world.runs), len(run.world.slots)
    engine.finish(run)
    assert len(run.world.runs) > start[0] and len(run.world.slots) > start[1], (
        "it must grow for this to show anything"
    )
    assert left_behind(run, tmp_path) == once


def test_a_workload_of_its_own_changes_nobody_elses_jobs() -> None:
    """What a part of a run draws depends on the seed and its own name."""
    stream = {"arrivals_per_s": 0.1, "tasks_per_job": 5, "task_duration_s": 10, "task_cpu": 1}
    tables: Tables = {"days": 0.01, "cluster": {"nodes": 100}, "workload": {"b": stream}}
    alone = engine.prepare(sc.check(tables)).setup.jobs
    both = engine.prepare(
        sc.check({**tables, "workload": {"a": stream, "b": stream, "c": stream}})
    ).setup.jobs
    mine = both.select(np.flatnonzero(both.workload == both.workloads.index("b")))
    assert (
        mine.submit_s.tolist() == alone.submit_s.tolist()
        and mine.tasks.tolist() == alone.tasks.tolist()
    )


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    run = engine.prepare(sc.check(random_tables(1, MONOLITHIC, tmp_path)))
    assert engine.advance(run, 5.0) == loop.PAUSED
    snapshots.save_run(tmp_path / snapshots.SNAPSHOT, run, "mine")
    return tmp_path / snapshots.SNAPSHOT


def gone_on_with(snapshot: Path, label: str) -> engine.Run:
    run = engine.prepare(sc.check(random_tables(1, MONOLITHIC, snapshot.parent)))
    snapshots.load_run(snapshot, run, label)
    return run


def test_a_snapshot_of_another_scenario_is_refused(snapshot: Path) -> None:
    assert gone_on_with(snapshot, "mine").now_s > 0.0
    with pytest.raises(
        InputError, match=r"snapshot\.npz: expected a snapshot of this version and scenario"
    ):
        gone_on_with(snapshot, "another")


def test_a_snapshot_of_another_version_is_refused(snapshot: Path) -> None:
    with np.load(snapshot) as stored:
        arrays = dict(stored)
    assert arrays["_label"][0] == __version__
    arrays["_label"] = np.array(["0.0.0", "mine"])
    np.savez_compressed(snapshot, **arrays)
    with pytest.raises(InputError, match="expected a snapshot of this version and scenario"):
        gone_on_with(snapshot, "mine")


def test_a_damaged_snapshot_is_refused(snapshot: Path) -> None:
    data = snapshot.read_bytes()
    middle = len(data) // 2
    for damaged in (
        b"",
        b"PK",
        b"nonsense",
        data[:100],
        data[:middle],
        data[:-10],
        bytes(len(data)),
    ):
        snapshot.write_bytes(damaged)
        with pytest.raises(InputError, match=r"snapshot\.npz: expected a snapshot of a run"):
            gone_on_with(snapshot, "mine")
    snapshot.write_bytes(data[:middle] + bytes(200) + data[middle + 200 :])
    with pytest.raises(InputError, match=r"snapshot\.npz: expected a snapshot of a run"):
        gone_on_with(snapshot, "mine")
