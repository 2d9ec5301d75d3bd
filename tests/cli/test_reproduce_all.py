"""`murmur reproduce --all` goes on where an experiment cannot be run."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Murmur

from murmuration.experiments import catalogue
from murmuration.experiments.papers.swarm import figures
from murmuration.experiments.result import Reproduction, ReproductionSettings
from murmuration.simulation.scenarios import scenario as sc

KEPT = ("swarm-three-nodes", "swarm-model", "masb-google")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three experiments, and nowhere to find Google's data."""
    for name in list(catalogue.EXPERIMENTS):
        if name not in KEPT:
            monkeypatch.delitem(catalogue.EXPERIMENTS, name)
    monkeypatch.delenv(sc.DATA_FOLDER, raising=False)


def test_missing_data_is_skipped_with_the_reason(murmur: Murmur, few: None, tmp_path: Path) -> None:
    answer = murmur("reproduce", "--all", "--quick", "--jobs", "1", "--out", "all")
    assert answer.code == 0
    assert "masb-google: skipped:" in answer.err + answer.out
    page = (tmp_path / "all" / "index.md").read_text()
    assert "Not run: masb-google." in page and "MURMUR_DATA" in page
    assert "swarm-model, quick form" in page and "swarm-three-nodes, quick form" in page
    assert not (tmp_path / "all" / "masb-google" / "rows.json").exists()


def test_a_failure_is_named_and_the_others_are_run(
    murmur: Murmur, few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(settings: ReproductionSettings) -> Reproduction:
        raise ZeroDivisionError("three nodes")

    monkeypatch.setattr(figures, "three_nodes", fail)
    answer = murmur("reproduce", "--all", "--quick", "--jobs", "1", "--out", "all")
    assert answer.code == 1
    page = (tmp_path / "all" / "index.md").read_text()
    assert "swarm-three-nodes. failed: ZeroDivisionError: three nodes" in page
    assert "swarm-model, quick form" in page
