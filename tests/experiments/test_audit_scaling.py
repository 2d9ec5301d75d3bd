"""What an auto-scaling run says of itself is what its requests and nodes add up to, under every
scaler; and the check notices when it is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.experiments.test_audit import falsify

from murmuration.base.errors import InputError
from murmuration.experiments.audit.check import RunAudit, check_folder
from murmuration.experiments.audit.scaling import count_turns
from murmuration.experiments.autoscale import assign_folders, execute, read_specs
from murmuration.simulation.autoscale import build, detail, results
from murmuration.simulation.autoscale.scenario import check
from murmuration.simulation.autoscale.world import KINDS
from murmuration.simulation.scenarios import scenario as sc

Tables = dict[str, Any]
#: Small nodes that come and go, so that requests wait, are passed on, rejected and lost.
SMALL: Tables = {
    "name": "small",
    "seed": 3,
    "seconds": 260,
    "autoscaler": {
        "kind": "depas",
        "cycle_s": 10.0,
        "window_s": 10,
        "start_s": 2.5,
        "stabilise_s": 20.0,
        "nodes_min": 3,
        "nodes_max": 40,
        "type": [
            {"name": "small", "capacity": 1, "price": 1.0, "initial": 8, "from_s": 90.0},
            {"name": "large", "capacity": 3, "price": 2.5, "initial": 2},
        ],
    },
    "requests": {
        "rate": [[0, 9], [60, 40], [140, 6], [200, 0], [220, 12]],
        "hops_max": 2,
        "queue_max": 1.5,
        "entry_min": 4,
    },
    "faults": {"crash_s": 100.0, "crash_share": 0.4, "loss": 0.1},
}
CHANGES: dict[str, Tables] = {
    **{kind: {"autoscaler.kind": kind} for kind in KINDS},
    "gossip": {"autoscaler.estimate": "gossip", "sample_s": 7},
    "constant": {"requests.execution": "constant", "autoscaler.start_s": 0.0},
    "refused": {"autoscaler.nodes_max": 12},
    "refused-threshold": {"autoscaler.nodes_max": 12, "autoscaler.kind": "threshold"},
    "last": {"autoscaler.nodes_min": 9, "seed": 5},
    "nobody": {"requests.rate": [[0, 0], [259, 1e-6]], "autoscaler.nodes_min": 1},
    "preset": {},
}


def record(changes: Tables, folder: Path, name: str = "small.toml") -> RunAudit:
    tables = sc.override(SMALL if name == "small.toml" else sc.load(name), changes)
    spec = replace(_spec(tables), folder=str(folder), detail=True)
    execute(spec)
    return check_folder(folder)


def _spec(tables: Tables) -> Any:
    from murmuration.experiments.autoscale import AutoscaleSpec

    return AutoscaleSpec(check(tables), tables, "small.toml")


def must_hold(audit: RunAudit) -> None:
    assert audit.different == {} and audit.broken == () and audit.unknown == ()
    assert len(audit.agreed) > 45


@pytest.mark.parametrize("name", CHANGES)
def test_every_figure_and_every_sample_is_found_again(name: str, tmp_path: Path) -> None:
    if name == "preset":
        must_hold(record({"seconds": 300}, tmp_path / "run", "depas"))
    else:
        must_hold(record(CHANGES[name], tmp_path / "run"))


def test_the_runs_show_what_they_should(tmp_path: Path) -> None:
    """The check is worth something: requests wait, are rejected and lost, nodes crash, leave and
    are refused."""
    for name in ("depas", "refused"):
        record(CHANGES[name], tmp_path / name)
    requests = pl.read_parquet(tmp_path / "depas" / "requests.parquet")
    assert {"done", "rejected", "lost", "in flight"} == set(requests["why"])
    assert requests.filter(pl.col("start_s") > pl.col("issued_s")).height > 50
    assert requests.filter((pl.col("why") == "lost") & pl.col("start_s").is_nan()).height > 0
    whys = {
        why
        for name in ("depas", "refused")
        for why in pl.read_parquet(tmp_path / name / "nodes.parquet")["why"]
    }
    assert {"left", "crashed", "refused", "up"} <= whys


def test_without_detail_the_same_bytes(tmp_path: Path) -> None:
    """Recording changes nothing of a run."""
    record({}, tmp_path / "with")
    execute(replace(_spec(SMALL), folder=str(tmp_path / "without")))
    for name in ("summary.json", "series.parquet"):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()
    assert not (tmp_path / "without" / "requests.parquet").exists()


def test_full_logs_are_passed_on_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small the logs, and however often there is more room for requests, the tables are the
    same."""
    record({}, tmp_path / "large")
    pieces: list[str] = []
    monkeypatch.setattr(detail, "ROOM", 50)
    monkeypatch.setattr(build, "REQUESTS_FIRST", 8)
    run = build.prepare(check(SMALL))
    tables: dict[str, list[pl.DataFrame]] = {name: [] for name in detail.FILES}

    def keep(name: str, table: Any) -> None:
        pieces.append(name)
        tables[name].append(pl.DataFrame(dict(table)))

    build.record(run, keep)
    build.finish(run)
    assert pieces.count(detail.REQUESTS) > 20
    for name, key in ((detail.REQUESTS, "request"), (detail.NODES, "node")):
        order = [key, "why"] if key == "request" else [key, "ordered_s"]
        whole = pl.read_parquet(tmp_path / "large" / name)
        assert pl.concat(tables[name]).sort(order).equals(whole.sort(order))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "run"
    must_hold(record({}, folder))
    return folder


def where(condition: pl.Expr, **values: pl.Expr) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Change the first row of a table of which something holds."""
    first = condition & (condition.cum_sum() == 1)
    return lambda frame: frame.with_columns(
        pl.when(first).then(value).otherwise(pl.col(name)).alias(name)
        for name, value in values.items()
    )


def set_figure(part: str, name: str, value: float) -> Callable[[Tables], Tables]:
    return lambda summary: {**summary, part: {**summary[part], name: value}}


DONE, LEFT = pl.col("why") == "done", pl.col("why") == "left"
WAITED = DONE & (pl.col("start_s") > pl.col("issued_s") + 0.05)
FORGERIES: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "a request": ("requests.parquet", lambda frame: frame[1:], "are missing, or there twice"),
    "a request twice": (
        "requests.parquet",
        lambda frame: pl.concat([frame, frame[:1]]),
        "are missing, or there twice",
    ),
    "a length": (
        "requests.parquet",
        where(DONE, takes_s=pl.col("takes_s") + 1),
        "did not run for its time",
    ),
    "a hop": ("requests.parquet", where(DONE, hops=pl.lit(9)), "was passed on too often"),
    "an end": (
        "requests.parquet",
        where(DONE, end_s=pl.col("end_s") + 20, takes_s=pl.col("takes_s") + 20),
        "series.done at",
    ),
    "a wait": (
        "requests.parquet",
        where(WAITED, start_s=pl.col("issued_s"), takes_s=pl.col("end_s") - pl.col("issued_s")),
        "runs more than it can",
    ),
    "a longer wait": (
        "requests.parquet",
        where(
            DONE & (pl.col("start_s") == pl.col("issued_s")) & (pl.col("takes_s") > 0.5),
            start_s=pl.col("start_s") + 0.4,
            takes_s=pl.col("takes_s") - 0.4,
        ),
        "although it has room",
    ),
    "another node": ("requests.parquet", where(DONE, node=pl.lit(10_000)), "is on no node"),
    "a loss": (
        "requests.parquet",
        where(DONE, why=pl.lit("lost")),
        "got lost where no node crashed",
    ),
    "a crash": ("nodes.parquet", where(LEFT, why=pl.lit("crashed")), "nodes.crashed"),
    "an early end of a node": (
        "nodes.parquet",
        where(LEFT & (pl.col("left_s") > 20), left_s=pl.lit(1.0)),
        "was taken by a node that was not in service",
    ),
    "a start": (
        "nodes.parquet",
        where(pl.col("ordered_s").is_not_nan(), ordered_s=pl.col("ordered_s") - 1),
        "did not take its time to start",
    ),
    "a type": (
        "nodes.parquet",
        where(pl.col("type") == "large", type=pl.lit("small")),
        "series.nodes.large at",
    ),
    "a sample": (
        "series.parquet",
        where(pl.col("time_s") == 50, capacity=pl.col("capacity") + 1),
        "series.capacity at 50 s (1 samples)",
    ),
    "samples": ("series.parquet", lambda frame: frame[:-1], "series.capacity (samples)"),
    "a mean": ("summary.json", set_figure("response_s", "mean", 0.5), "response_s.mean"),
    "a quantile": ("summary.json", set_figure("response_s", "p95", 0.5), "response_s.p95"),
    "a cost": ("summary.json", set_figure("cost", "total", 1.0), "cost.total"),
    "a turn": ("summary.json", set_figure("capacity", "oscillations", 77), "oscillations"),
    "odds": ("summary.json", set_figure("one_cycle", "inside_down", 0.5), "one_cycle.inside_down"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_falsified_run_is_noticed(name: str, recorded: Path, tmp_path: Path) -> None:
    file, change, complaint = FORGERIES[name]
    audit = falsify(recorded, tmp_path / "copy", file, change)
    assert not audit.holds
    assert any(complaint in text for text in (*audit.different, *audit.broken)), audit


def test_turns_of_a_curve_are_those_of_the_summary() -> None:
    curves = np.random.default_rng(1).normal(size=(200, 60)).cumsum(axis=1) + 20
    for curve in np.maximum(curves, 0.0):
        assert count_turns(curve, 0.1) == results.turns(curve, 0.1)
    # Up, down, up: two turns, and a ripple that is none.
    assert count_turns(np.array([10.0, 20.0, 19.5, 8.0, 8.1, 16.0]), 0.1) == 2


def test_the_check_shares_nothing_with_the_kernels(recorded: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from murmuration.experiments.audit.check import check_folder;"
        "assert check_folder(Path(sys.argv[1])).holds;"
        "strange = [name for name in sys.modules if name.startswith(('numba',"
        " 'murmuration.simulation.autoscale.loop', 'murmuration.simulation.autoscale.build'))];"
        "assert not strange, strange"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(recorded)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_run_that_was_not_recorded_is_refused(tmp_path: Path) -> None:
    execute(replace(_spec(SMALL), folder=str(tmp_path)))
    with pytest.raises(InputError, match="made with --detail"):
        check_folder(tmp_path)


def test_a_run_without_its_requests_is_made_again(tmp_path: Path) -> None:
    from murmuration.experiments.autoscale import read_stored

    spec = assign_folders(read_specs("depas", {"seconds": 60}, None), tmp_path)[0]
    execute(spec)
    assert read_stored(spec) is not None
    assert read_stored(replace(spec, detail=True)) is None
