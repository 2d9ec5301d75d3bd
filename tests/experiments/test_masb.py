"""The paper's orderings on a twelfth of its cell, for a tenth of a day."""

from __future__ import annotations

from murmuration.experiments.papers.masb import tables as masb
from murmuration.experiments.result import ReproductionSettings

QUICK = ReproductionSettings(seed=1, quick=True, workers=1)


def failures(experiment: masb.Experiment) -> set[str]:
    return {row.quantity for row in experiment(QUICK).rows if row.holds is False}


def test_usual_rises_hold_and_the_peaks_of_the_whole_cell_do_not() -> None:
    """The preset has no event of the whole cell; `docs/negotiation.md` says so."""
    assert failures(masb.spikes) <= {f"most in one minute, {share:.0%}" for share in masb.SPIKES}


def test_the_generated_cell_is_overloaded_less_than_the_papers() -> None:
    """Where the paper's cell is above its limit of 0.5 %, the preset, which is too even, is not."""
    assert failures(masb.compaction) == {"97% of the nodes: overloaded"}
    # So few nodes are not quite the mix of the cell: 72 % of the memory is guaranteed, at the
    # edge of what holds.
    rows = failures(masb.performance) - {"guaranteed memory"}
    assert rows == {"load 104%: overloaded nodes", "load 106%: overloaded nodes"}


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
