"""The cell of MASB that Google recorded: what is judged, and that the runs behind it are what they
claim to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from murmuration.experiments.papers.masb import google
from murmuration.experiments.papers.masb.tables import MASB, UNPLACED
from murmuration.experiments.result import ReproductionSettings
from murmuration.simulation.scenarios import scenario as sc

QUICK = ReproductionSettings(seed=1, quick=True, workers=1)


@pytest.mark.parametrize(
    ("shares", "at"),
    [
        ({1.0: 0.001, 1.02: 0.004, 1.04: 0.006}, 1.03),
        ({1.0: 0.001, 0.99: 0.003, 0.98: 0.007}, 0.985),
        ({1.0: 0.006, 1.02: 0.007}, None),
        ({1.0: 0.001, 1.02: 0.002}, None),
        # Once above, a dip below changes nothing.
        ({1.0: 0.004, 1.02: 0.006, 1.04: 0.004, 1.06: 0.006}, 1.01),
    ],
)
def test_the_limit_is_crossed_between_two_runs(shares: dict[float, float], at: float) -> None:
    crossing = google.find_crossing(shares)
    assert crossing is None if at is None else crossing == pytest.approx(at)


def cluster_of(shares: tuple[float, ...], collisions: float) -> dict[str, Any]:
    names = ("idle", "sta", "ta", "pa", "da", "overloaded")
    types = {name: 1000 * share for name, share in zip(names, shares, strict=True)}
    return {
        "allocation_types": types,
        "nodes_mean": 1000.0,
        "collision_fraction": collisions,
        "overloaded_seen": 7.0,
        UNPLACED: "",
    }


@pytest.mark.parametrize(("points", "holds"), [(0.0, True), (0.029, True), (-0.031, False)])
def test_each_share_of_table_3_is_judged(
    points: float, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every type can fail alone, and so can the collisions."""
    off = tuple(share + points for share in MASB)
    runs = {"day 1": cluster_of(off, 0.07), "day 2": cluster_of(off, 0.07)}
    monkeypatch.setattr(google, "execute", lambda settings, specs: runs)
    rows = google.table_3(QUICK).rows
    shares = [row for row in rows if "within 3 points" in row.quantity]
    assert [row.holds for row in shares] == [holds] * 6
    assert [row.holds for row in rows if "room gone" in row.quantity] == [True]
    for run in runs.values():
        run["collision_fraction"] = 0.7
    rows = google.table_3(QUICK).rows
    assert [row.holds for row in rows if "room gone" in row.quantity] == [False]


def test_a_share_of_the_cell_has_a_share_of_the_load() -> None:
    tables = google.make_cell(QUICK, day=3, nodes=0.98, load=1.02)
    scenario = sc.check(tables)
    assert scenario.cluster.keep == pytest.approx(0.16 * 0.98)
    assert sc.find_multiple(scenario) == pytest.approx(0.16 * 1.02)
    assert sc.replay(scenario).arrivals_from_s == 600.0 + 3 * 86_400.0
    assert sc.replay(scenario).copies == "tasks"


def test_files_of_a_preset_lie_where_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(sc.DATA_FOLDER, str(tmp_path))
    assert sc.load("masb-google")["workload"]["trace"].startswith(str(tmp_path))
    monkeypatch.delenv(sc.DATA_FOLDER)
    assert sc.load("masb-google")["workload"]["trace"].startswith("google2011")
