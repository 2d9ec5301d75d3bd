"""Figures for papers: the numbers in them by formula, and files that can be opened and repeated."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from murmuration.base.errors import InputError
from murmuration.experiments.figures.choose import choose_figure
from murmuration.experiments.figures.data import (
    FIGURES,
    PaperCurve,
    PaperFigure,
    group_runs,
    usual_figure,
)
from murmuration.experiments.figures.draw import check_output, write_figure
from murmuration.experiments.python.stored import RunInFolder
from murmuration.experiments.specs import Spec, make_spec

TABLES = {"cluster": {"nodes": 4}, "workload": {"batch": {"arrivals_per_s": 0.1}}}
#: Student's t for 95 % and two degrees of freedom.
T2 = 4.303


def run(folder: Path, label: str, seed: int, wait_s: float, load: float) -> RunInFolder:
    """A run that leaves the files of one: three jobs, two samples."""
    place = folder / f"{label}-{seed}"
    place.mkdir()
    waits = pl.DataFrame({"submit_s": [0.0, 1.0, 2.0], "start_s": [wait_s, 1.0 + wait_s, None]})
    waits.write_parquet(place / "jobs.parquet")
    series = {"time_s": [0.0, 7200.0 * 2], "required.cpu": [0.5, load]}
    pl.DataFrame(series).write_parquet(place / "series.parquet")
    spec: Spec = make_spec(label, {**TABLES, "seed": seed}, str(place))
    workloads = {"batch": {"wait_s_mean": wait_s}, "service": {"wait_s_mean": 100.0 * wait_s}}
    return RunInFolder(spec, {"scheduler": label, "days": 1.0, "workloads": workloads})


@pytest.fixture
def groups(tmp_path: Path) -> dict[str, list[RunInFolder]]:
    waits = {"offers": (1.0, 2.0, 6.0), "shared-state": (1.0, 1.0, 1.0)}
    return group_runs(
        [
            run(tmp_path, label, seed, wait, 0.5 + wait / 100)
            for label, values in waits.items()
            for seed, wait in enumerate(values)
        ]
    )


def half_width(values: list[float]) -> float:
    return T2 * statistics.stdev(values) / math.sqrt(len(values))


def test_a_workload_without_jobs_is_left_out(groups: dict[str, list[RunInFolder]]) -> None:
    for runs in groups.values():
        for each in runs:
            each.summary["workloads"]["service"]["wait_s_mean"] = None
    groups["offers"][0].summary["workloads"]["batch"]["wait_s_mean"] = None
    (curve,) = FIGURES["waits"](groups).curves
    # Of offers two seeds are left, with waits of 2 and 6.
    assert curve.name == "batch" and curve.y.tolist() == [4.0, 1.0]
    for each in [run for runs in groups.values() for run in runs]:
        each.summary["workloads"]["batch"]["wait_s_mean"] = None
    with pytest.raises(InputError, match="no run has a job"):
        FIGURES["waits"](groups)


def test_waits_have_students_interval(groups: dict[str, list[RunInFolder]]) -> None:
    figure = FIGURES["waits"](groups)
    assert figure.categories == ("offers", "shared-state") and figure.log_y
    batch = figure.curves[0]
    assert batch.name == "batch" and batch.high is not None and batch.low is not None
    assert batch.y.tolist() == [3.0, 1.0]
    assert batch.high[0] - 3.0 == pytest.approx(half_width([1.0, 2.0, 6.0]))
    assert batch.low[1] == batch.high[1] == 1.0


def test_curves_over_time_have_a_band(groups: dict[str, list[RunInFolder]]) -> None:
    figure = FIGURES["cpu"](groups)
    offers = figure.curves[0]
    assert figure.x_label == "time (hours)" and offers.x.tolist() == [0.0, 4.0]
    assert offers.y[1] == pytest.approx(0.53) and offers.high is not None
    assert offers.high[1] - offers.y[1] == pytest.approx(half_width([0.01, 0.02, 0.06]))


def test_jobs_that_never_started_wait_until_the_end(
    groups: dict[str, list[RunInFolder]],
) -> None:
    shared = FIGURES["cdf"](groups).curves[1]
    assert shared.y[-1] == 1.0 and shared.x[-1] == 86_400.0 - 2.0
    assert shared.x[0] == 1.0 and np.all(np.diff(shared.x) >= 0.0)


def test_a_sweep_is_drawn_against_its_key(tmp_path: Path) -> None:
    runs = [
        run(tmp_path, f"nodes={n}", seed, n / 10, 0.6) for n in (30, 10, 300) for seed in (1, 2)
    ]
    groups = group_runs(runs)
    assert usual_figure(groups) == "sweep"
    figure = FIGURES["sweep"](groups)
    assert figure.x_label == "nodes" and figure.log_x
    assert figure.curves[0].x.tolist() == [10.0, 30.0, 300.0]
    assert figure.curves[0].y.tolist() == [1.0, 3.0, 30.0]


@pytest.mark.parametrize("suffix", ["pdf", "svg", "png"])
def test_the_same_figure_is_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    x = np.linspace(0.0, 1.0, 30)
    figure = PaperFigure(
        "x", "y", (PaperCurve("a", x, x, x - 0.1, x + 0.1), PaperCurve("b", x, 1 - x))
    )
    for name in ("one", "two"):
        write_figure(figure, tmp_path / f"{name}.{suffix}", "column")
    one, two = (tmp_path / f"{name}.{suffix}" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    begins = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}[suffix]
    assert one.read_bytes().startswith(begins)
    if suffix == "svg":
        # 3.33 inches are 239.76 points, and text can be searched.
        assert 'width="239.76pt"' in one.read_text() and ">a</text>" in one.read_text()


def test_bad_words_get_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(InputError, match=r"ends in \.pdf, \.png, \.svg"):
        check_output(tmp_path / "figure.jpeg")
    with pytest.raises(InputError, match="there is no folder"):
        check_output(tmp_path / "nowhere" / "figure.pdf")
    with pytest.raises(InputError, match="did you mean 'waits'"):
        choose_figure([tmp_path], "wait")
    with pytest.raises(InputError, match="expected runs of murmur autoscale"):
        choose_figure([tmp_path], "capacity")
    with pytest.raises(InputError, match="expected the folder of a run"):
        choose_figure([tmp_path], None)
