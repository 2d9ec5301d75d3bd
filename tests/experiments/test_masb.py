"""The paper's orderings on a twelfth of its cell, for a tenth of a day."""

from __future__ import annotations

import pytest

from murmuration.experiments.papers.masb import tables as masb
from murmuration.experiments.result import ReproductionSettings

QUICK = ReproductionSettings(seed=1, quick=True, workers=1)


@pytest.mark.parametrize("experiment", [masb.spikes, masb.compaction])
def test_every_row_holds(experiment: masb.Experiment) -> None:
    assert [row.quantity for row in experiment(QUICK).rows if row.holds is False] == []


def test_more_load_overloads_more_nodes_and_few_of_them() -> None:
    rows = [row for row in masb.performance(QUICK).rows if "overloaded" in row.quantity]
    assert len(rows) == 5 and not any(row.holds is False for row in rows)


def test_nodes_are_filled_more_evenly_than_without_migration_and_fewer_are_overloaded() -> None:
    rows = {row.quantity: row for row in masb.benchmark(QUICK).rows}
    above = [row for name, row in rows.items() if "negotiation above" in name]
    # Every baseline ran its workload, or its row would not be judged.
    assert [row.holds for row in above] == [True] * len(masb.BASELINES)
    least = min(
        float(str(row.measured)[:-1])
        for name, row in rows.items()
        if name.endswith(": overloaded nodes")
    )
    assert float(str(rows["negotiation, overloaded nodes"].measured)[:-1]) < least
