"""What a run says of itself is what its tasks and attempts add up to, in every architecture; and
the check notices when it is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.simulation.scenarios import (
    MONOLITHIC,
    OFFERS,
    PARTITIONED,
    SHARED_STATE,
    Tables,
    random_tables,
)

from murmuration.base import files
from murmuration.base.errors import InputError
from murmuration.experiments.audit.check import RunAudit, check_folder, check_run
from murmuration.experiments.runs import execute, read_stored_scenario
from murmuration.experiments.specs import make_spec
from murmuration.schedulers.queues.discipline import BUILT_IN as DISCIPLINES
from murmuration.simulation.architectures.table import BUILT_IN as ARCHITECTURES
from murmuration.simulation.scenarios import scenario as sc

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
MINUTES = 40
USAGE = {
    "cpu": 0.7,
    "memory": 0.6,
    "spread": 0.5,
    "noise": 0.3,
    "spikes_per_hour": 4.0,
    "spike": 2.0,
}
COSTS = {"idle_watts": 90.0, "peak_watts": 250.0, "power_off": True}
CHURN = [
    {"count": 8, "cpu": 4, "memory": "16G"},
    {"count": 2, "cpu": 4, "memory": "16G", "join_s": 300.0, "leave_s": 1500.0},
    {"count": 2, "cpu": 8, "memory": "16G", "leave_s": 700.0},
]


def stream(**keys: Any) -> Tables:
    return {"tasks_per_job": 3.0, "task_memory": "1G", **keys}


def cell(scheduler: Tables, usage: bool = False, churn: bool = False) -> Tables:
    """A small cell that is full, so that jobs wait, tasks move and nodes are tight."""
    more = {"usage": USAGE} if usage else {}
    return {
        "name": "cell",
        "seed": 3,
        "days": MINUTES / 1440,
        "cluster": {"group": CHURN if churn else CHURN[:1], "costs": COSTS},
        "workload": {
            "service": stream(
                initial=6,
                arrivals_per_s=0.004,
                task_duration_s=900,
                task_cpu=1.5,
                production=True,
                spread=0.4,
                **more,
            ),
            "batch": stream(arrivals_per_s=0.02, task_duration_s=240, task_cpu=0.8, **more),
        },
        "scheduler": scheduler,
    }


FAILING = {"mtbf_h": 0.5, "repair_h": 0.1, "shape": 0.8}
FAILING_NODES = {"nodes": 8, "cpu": 4, "memory": "16G", "failures": FAILING, "costs": {}}
PREEMPTING = {"queue": "priority-easy", "queue_settings": {"preempt": "requeue"}}
SUSPENDING = {"queue": "priority", "queue_settings": {"preempt": "suspend"}}
GUARANTEED = {"framework": {"service": {"guaranteed": 0.5}}, "timeout_s": 2.0}
SHORT = {"short_share": 0.5, "short_max_s": 5.0, "framework": {"batch": {"short": True}}}
CELLS: dict[str, Tables] = {
    "monolithic-churn": cell({"kind": "monolithic"}, churn=True),
    "shared-state-usage": cell({"kind": "shared-state"}, usage=True),
    "shared-state-reclaim": cell({"kind": "shared-state", "reclaim": True}, usage=True, churn=True),
    "negotiation": cell({"kind": "negotiation"}, usage=True),
    "negotiation-churn": cell({"kind": "negotiation"}, usage=True, churn=True),
    "swarm": cell({"kind": "swarm"}),
    "swarm-churn": cell({"kind": "swarm", "swarm": {"migration_s": 9.0}}, churn=True),
    "genetic": cell({"kind": "genetic"}),
    "genetic-usage": cell({"kind": "genetic"}, usage=True),
    "monolithic-failures": cell({"kind": "monolithic"}) | {"cluster": FAILING_NODES},
    "queue-failures": cell(PREEMPTING) | {"cluster": FAILING_NODES},
    **{f"queue-{name}": cell({"queue": name}) for name in DISCIPLINES},
    "partitioned-queue": cell({"kind": "partitioned", "queue": "easy"}),
    "shared-state-queue": cell({"kind": "shared-state", "queue": "easy"}),
    "queue-suspend": cell(SUSPENDING),
}
RANDOM: dict[str, list[Tables]] = {
    "monolithic": MONOLITHIC,
    "partitioned": PARTITIONED,
    "shared-state": SHARED_STATE,
    "offers": OFFERS,
    "guaranteed": [{"kind": "offers", "offers": GUARANTEED}],
    "short": [{"kind": "offers", "offers": SHORT}],
    "batched": [{"kind": "offers", "offers": {"batch_s": 1.0}}],
    "optimistic": [{"kind": "offers", "offers": {"optimistic": True}}],
    "double-booked": [{"kind": "offers", "offers": {"double_booked": True}}],
}
PRESETS: dict[str, Tables] = {
    "omega-a": {"days": 0.004},
    "omega-b": {"days": 0.004},
    "omega-c": {"days": 0.004},
    "masb-12k": {"days": 0.003, "cluster.keep": 0.02},
    "masb-25k": {"days": 0.003, "cluster.keep": 0.01},
    "masb-50k": {"days": 0.003, "cluster.keep": 0.005},
    "masb-100k": {"days": 0.003, "cluster.keep": 0.0025},
    "masb-google": {"days": 0.003, "cluster.keep": 0.02, "workload.multiply": 0.02},
}
#: What `murmur simulate` does not run: its nodes scale themselves and serve requests, not tasks
#: (`test_audit_scaling.py`).
AUTOSCALED = {"depas"}


def record(tables: Tables, folder: Path) -> RunAudit:
    execute(replace(make_spec("x", tables, str(folder)), detail=True))
    return check_run(folder, read_stored_scenario(folder))


def must_hold(audit: RunAudit) -> None:
    assert audit.different == {} and audit.broken == ()
    assert len(audit.agreed) > 40


@pytest.mark.parametrize("name", CELLS)
def test_cells(name: str, tmp_path: Path) -> None:
    must_hold(record(CELLS[name], tmp_path / "run"))


@pytest.mark.parametrize("kind", RANDOM)
def test_small_random_scenarios(kind: str, tmp_path: Path) -> None:
    for seed in range(3):
        try:
            must_hold(record(random_tables(seed, RANDOM[kind], tmp_path), tmp_path / "run"))
        except InputError as error:
            assert "no job can ever run" in str(error)


def test_every_architecture_discipline_and_preset_is_checked() -> None:
    checked = [*CELLS.values(), *(tables for kind in RANDOM.values() for tables in kind)]
    kinds = {tables.get("scheduler", tables).get("kind", "monolithic") for tables in checked}
    assert kinds == set(ARCHITECTURES)
    assert {f"queue-{name}" for name in DISCIPLINES} <= set(CELLS)
    assert set(PRESETS) == set(sc.preset_names()) - AUTOSCALED


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "masb-google":
        if not (DATA / "google2011").exists():
            pytest.skip("Google's cluster data of 2011 are not there")
        monkeypatch.setenv(sc.DATA_FOLDER, str(DATA))
    must_hold(record(dict(sc.override(sc.load(name), preset_changes(name))), tmp_path / "run"))


def preset_changes(name: str) -> Tables:
    """Fewer nodes, and as much less work for them."""
    changes = dict(PRESETS[name])
    keep = changes.get("cluster.keep", 1.0)
    for workload, table in sc.load(name)["workload"].items():
        if keep < 1.0 and isinstance(table, dict) and "arrivals_per_s" in table:
            changes[f"workload.{workload}.initial"] = int(table.get("initial", 0) * keep)
            changes[f"workload.{workload}.arrivals_per_s"] = table["arrivals_per_s"] * keep
    return changes


def test_the_cells_show_what_they_should(tmp_path: Path) -> None:
    """The check is worth something: tasks move, are lost and cut short, and jobs wait."""
    seen: dict[str, int] = {}
    for name in ("monolithic-churn", "negotiation-churn", "swarm-churn"):
        record(CELLS[name], tmp_path / name)
        for why, count in (
            pl.read_parquet(tmp_path / name / "tasks.parquet")["why"].value_counts().rows()
        ):
            seen[why] = seen.get(why, 0) + count
    assert {"finished", "moved", "lost", "running"} <= set(seen), seen


def test_without_detail_the_same_bytes(tmp_path: Path) -> None:
    """Recording changes nothing of a run but the columns that jobs get besides."""
    tables = CELLS["swarm-churn"]
    execute(replace(make_spec("x", tables, str(tmp_path / "with")), detail=True))
    execute(make_spec("x", tables, str(tmp_path / "without")))
    for name in ("summary.json", "series.parquet"):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()
    plain = pl.read_parquet(tmp_path / "without" / "jobs.parquet")
    assert pl.read_parquet(tmp_path / "with" / "jobs.parquet").select(plain.columns).equals(plain)
    assert not (tmp_path / "without" / "tasks.parquet").exists()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "run"
    must_hold(record(CELLS["swarm-churn"], folder))
    return folder


def falsify(recorded: Path, folder: Path, name: str, change: Callable[[Any], Any]) -> RunAudit:
    """The verdict on a copy of a run with one file changed."""
    folder.mkdir()
    for path in recorded.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    if name.endswith(".json"):
        files.write_json(folder / name, change(files.read_json(folder / name)))
    else:
        change(pl.read_parquet(folder / name)).write_parquet(folder / name)
    return check_folder(folder)


def first_row(**values: Any) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Change the first row of a table."""
    at_first = pl.int_range(pl.len()) == 0
    return lambda frame: frame.with_columns(
        pl.when(at_first).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)
        for name, value in values.items()
    )


def shrink(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns((pl.col("total.cpu") // 2).alias("total.cpu"))


FORGERIES: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "a wait": (
        "jobs.parquet",
        first_row(submit_s=-50.0),
        "workloads.service.wait_s_mean",
    ),
    "an attempt": ("attempts.parquet", lambda frame: frame[1:], "jobs."),
    "a task": ("tasks.parquet", lambda frame: frame[1:], "cluster.required.cpu"),
    "a node": ("nodes.parquet", shrink, "its node has no room for it"),
    "a length": ("tasks.parquet", first_row(start_s=1.0), "did not run for its time"),
    "a number": ("tasks.parquet", first_row(index=99), "has no task of that number"),
    "a megabyte": (
        "jobs.parquet",
        lambda frame: frame.with_columns(pl.col("request.memory") + 2**20),
        "cluster.migrated_mb_per_min",
    ),
    "a type": (
        "summary.json",
        lambda summary: {
            **summary,
            "cluster": {**summary["cluster"], "allocation_types": {"idle": 0.0}},
        },
        "cluster.allocation_types.idle",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_falsified_run_is_noticed(name: str, recorded: Path, tmp_path: Path) -> None:
    file, change, complaint = FORGERIES[name]
    audit = falsify(recorded, tmp_path / "copy", file, change)
    assert not audit.holds
    assert any(complaint in text for text in (*audit.different, *audit.broken)), audit


def test_the_check_shares_nothing_with_the_kernels(recorded: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from murmuration.experiments.audit.check import check_run;"
        "from murmuration.experiments.runs import read_stored_scenario;"
        "folder = Path(sys.argv[1]);"
        "assert check_run(folder, read_stored_scenario(folder)).holds;"
        "strange = [name for name in sys.modules if name.startswith(('numba',"
        " 'murmuration.simulation.engine'))];"
        "assert not strange, strange"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(recorded)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_run_that_was_not_recorded_is_refused(tmp_path: Path) -> None:
    execute(make_spec("x", CELLS["swarm"], str(tmp_path)))
    with pytest.raises(InputError, match="made with --detail"):
        check_run(tmp_path, read_stored_scenario(tmp_path))
