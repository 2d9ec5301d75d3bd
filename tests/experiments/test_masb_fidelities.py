"""The bulk engine beside the message-level agents on a cell of 200 nodes."""

from __future__ import annotations

from murmuration.experiments.papers.masb import fidelities as masb_fidelities
from murmuration.experiments.papers.masb.fidelities import QUANTITIES, compare, small_scenario
from murmuration.experiments.result import ReproductionSettings


def test_the_small_cell_is_the_large_one_made_smaller() -> None:
    scenario = small_scenario(seed=1, hours=6.0)
    assert abs(sum(group.count for group in scenario.cluster.group) - 200) <= 3
    assert scenario.days == 0.25


def rows_of(bulk: list[float], agents: list[float]) -> list[bool | None]:
    """The verdicts on a quantity of nodes and on one that is moved, for these seeds."""
    width = len(QUANTITIES)
    rows = compare({"bulk": [[x] * width for x in bulk], "messages": [[x] * width for x in agents]})
    return [rows[0].holds, rows[-1].holds]


def test_both_are_judged_by_their_differences_on_each_cell() -> None:
    # Ranges that meet say nothing: on every cell the bulk engine has half as much.
    assert rows_of([10.0, 40.0, 20.0, 30.0], [20.0, 80.0, 40.0, 60.0]) == [False, False]
    # Cells that differ much from each other do not matter if both see each of them alike: 50 on
    # average; 5 nodes (a tenth) or 10 (a fifth) may be between them.
    assert rows_of([10.0, 90.0, 30.0, 70.0], [11.0, 89.0, 30.5, 69.5]) == [True, True]
    # Four differences of 20 and −20 are none on average, and prove nothing.
    assert rows_of([30.0, 70.0, 30.0, 70.0], [50.0, 50.0, 50.0, 50.0]) == [None, None]


def test_nodes_and_moves_have_margins_of_their_own() -> None:
    # 7 of 50: more than a tenth, less than a fifth.
    assert rows_of([43.0, 43.1, 42.9, 43.0], [50.0] * 4) == [False, True]


def test_a_reproduction_compares_every_quantity() -> None:
    """The share of each type and the moves, on cells of both; what differs is said, not hidden."""
    result = masb_fidelities.run(ReproductionSettings(seed=1, quick=True))
    assert [row.quantity for row in result.rows] == list(QUANTITIES)
    moved = next(row for row in result.rows if row.quantity == "migrations per minute")
    assert isinstance(moved.measured, float) and moved.measured > 0
