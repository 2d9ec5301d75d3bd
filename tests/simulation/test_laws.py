"""Laws that hold whatever the workload."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.simulation.scenarios import SHARED_STATE, random_tables

from murmuration.base.errors import InputError
from murmuration.simulation.engine import run as engine


@pytest.mark.parametrize("seed", range(12))
def test_one_optimistic_scheduler_alone_never_conflicts(seed: int, tmp_path: Path) -> None:
    """Nobody else changes the table between its look and its commit; tasks that end only make
    room."""
    tables = random_tables(seed, SHARED_STATE, tmp_path)
    text = (tmp_path / "jobs.csv").read_text()
    (tmp_path / "jobs.csv").write_text(text.replace(",service,", ",batch,"))
    tables["scheduler"] |= {"agents": {"batch": 1}, "policy": {}}
    tables["scheduler"]["decision"].pop("service", None)
    try:
        world = engine.simulate(tables).world
    except InputError as error:
        assert "no job can ever run" in str(error)
        return
    assert world.workloads["commits_failed"].sum() == 0
    assert world.busy[:, :, 1].sum() == 0.0
    assert world.workloads["commits_ok"].sum() > 0
