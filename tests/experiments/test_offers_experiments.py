"""Quick runs of the reproductions of chapters 4 and 5."""

from __future__ import annotations

import math

import pytest

from murmuration.experiments.papers.mesos import locality, sharing
from murmuration.experiments.papers.mesos import partitioning as offers_model
from murmuration.experiments.papers.mesos.sharing_workload import (
    FACEBOOK,
    HADOOP_TASK,
    LARGE,
    SPARK,
    Workload,
    run_once,
)
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.schedulers.offers.frameworks import Job, TaskSpec
from murmuration.schedulers.offers.messages import Submit


def check_numbers(result: Reproduction) -> dict[str, Row]:
    """Every number is finite and lies in its interval; the rows by name."""
    assert result.figures and result.notes
    for row in result.rows:
        if not isinstance(row.measured, str):
            assert row.measured is not None and math.isfinite(row.measured)
            if row.low is not None and row.high is not None:
                assert row.low - 1e-9 <= row.measured <= row.high + 1e-9
    return {row.quantity: row for row in result.rows}


def test_the_model_of_offers() -> None:
    rows = check_numbers(offers_model.run(ReproductionSettings(quick=True)))
    expected_to_fail = {
        name for name in rows if name.endswith("ln k") or "own tasks of length T" in name
    }
    assert {name for name, row in rows.items() if row.holds is False} == expected_to_fail


def test_sharing() -> None:
    rows = check_numbers(sharing.run(ReproductionSettings(quick=True)))
    assert rows["who gains"].holds
    assert rows["speed-up of Torque / MPI"].holds
    assert rows["more CPU allocated than in static partitions"].holds
    assert rows["speed-up of large Facebook jobs (4 to 8)"].holds
    calibrated = rows["static seconds of ALS, Spark (set)"]
    assert calibrated.measured == pytest.approx(calibrated.paper, rel=0.05)


def test_only_hadoop_waits_for_executors_and_only_where_it_has_none() -> None:
    """One task, then two on the same node while it runs: the first waits for the whole start, the
    others for what is left of it; Spark never."""
    work = Workload(kinds={})
    for at, framework, name in (
        (0.0, FACEBOOK, "cold"),
        (0.0, SPARK, "kept"),
        (100.0, FACEBOOK, "again"),
    ):
        job = Job(name, ((TaskSpec(HADOOP_TASK, 10.0),),))
        work.fixed.append((at, Submit(framework, job)))
    took = run_once(work, 1, shared=True).took_s
    assert took == pytest.approx({"cold": 15.0, "kept": 10.0, "again": 15.0})
    assert set(run_once(work, 1, shared=False).took_s.values()) == {10.0}
    wide = Job("wide", (tuple(TaskSpec(HADOOP_TASK, 10.0) for _ in range(96 * 4)),))
    full = run_once(Workload(fixed=[(0.0, Submit(LARGE, wide))]), 1, shared=True)
    assert full.took_s["wide"] == pytest.approx(15.0)


def test_a_figure_is_judged_as_one_more_draw() -> None:
    draws = [1.1, 1.15, 1.2, 1.25, 1.3]
    # 1.2 ± 2.776 · 0.079 · 1.095, that is 0.96 to 1.44.
    assert sharing.as_one_draw(1.43, draws) is True and sharing.as_one_draw(1.45, draws) is False
    assert sharing.as_one_draw(1.2, [1.2]) is None
    assert sharing.as_one_draw(1.2, [0.2, 2.2, 0.4, 2.0]) is None


def test_locality() -> None:
    rows = check_numbers(locality.run(ReproductionSettings(quick=True)))
    for name in ("static partitions", "offers without delay", "1 s delay", "5 s delay"):
        assert rows[f"local tasks, {name}"].holds


def test_the_same_seed_gives_the_same_rows() -> None:
    assert locality.run_once(4, blocks=50) == locality.run_once(4, blocks=50)
