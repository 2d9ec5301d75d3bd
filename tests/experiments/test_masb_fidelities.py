"""The bulk engine beside the message-level agents on a cell of 200 nodes."""

from __future__ import annotations

import math

import numpy as np

from murmuration.cluster.allocation_types import OVERLOADED
from murmuration.experiments.papers.masb import fidelities as masb_fidelities
from murmuration.experiments.papers.masb.fidelities import (
    MOVED,
    NODES,
    QUANTITIES,
    bulk_figures,
    compare,
    message_figures,
    small_scenario,
)
from murmuration.experiments.papers.masb.tables import PRESET, scale_cell
from murmuration.experiments.result import ReproductionSettings, Row
from murmuration.simulation.scenarios import scenario as sc


def test_the_small_cell_is_the_large_one_made_smaller() -> None:
    scenario = small_scenario(seed=1, hours=6.0)
    assert abs(sum(group.count for group in scenario.cluster.group) - 200) <= 3
    assert scenario.days == 0.25


def all_rows(bulk: list[float], agents: list[float]) -> list[Row]:
    width = len(QUANTITIES)
    return compare({"bulk": [[x] * width for x in bulk], "messages": [[x] * width for x in agents]})


def rows_of(bulk: list[float], agents: list[float]) -> list[bool | None]:
    """The verdicts on a quantity of nodes and on one that is moved, for these seeds."""
    rows = all_rows(bulk, agents)
    return [rows[0].holds, rows[len(QUANTITIES) - 1].holds]


def test_both_are_judged_by_their_differences_on_each_cell() -> None:
    # Ranges that meet say nothing: on every cell the bulk engine has half as much.
    assert rows_of([10.0, 40.0, 20.0, 30.0], [20.0, 80.0, 40.0, 60.0]) == [False, False]
    # Cells that differ much from each other do not matter if both see each of them alike: 50 on
    # average; 5 nodes (a tenth) may be between them, or a factor of 1.2.
    assert rows_of([10.0, 90.0, 30.0, 70.0], [11.0, 89.0, 30.5, 69.5]) == [True, True]
    # Four differences of 20 and −20 are none on average, and prove nothing.
    assert rows_of([30.0, 70.0, 30.0, 70.0], [50.0, 50.0, 50.0, 50.0]) == [None, None]


def test_nodes_and_moves_have_margins_of_their_own() -> None:
    # 7 of 50: more than a tenth, less than a fifth.
    assert rows_of([43.0, 43.1, 42.9, 43.0], [50.0] * 4) == [False, True]


def test_one_cell_that_moves_much_does_not_decide_alone() -> None:
    """Eleven cells that agree and one that moves thirty times as much and differs by a third: the
    mean differs by a quarter, the cells as a whole by 3 %."""
    agents = [1.0] * 11 + [30.0]
    bulk = [1.0, 1.1, 0.9, 1.05, 0.95, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 20.0]
    row = all_rows(bulk, agents)[len(QUANTITIES) - 1]
    ratios = [math.log(b / a) for b, a in zip(bulk, agents, strict=True)]
    assert math.isclose(row.measured, math.exp(sum(ratios) / 12))  # type: ignore[arg-type]
    assert row.holds is True
    assert rows_of([x * 0.75 for x in bulk], agents)[1] is False


def test_overfull_cells_are_shown_apart() -> None:
    """Cells with more than one overloaded node in a hundred: 2 of 200."""
    rows = all_rows([1.0, 1.0, 5.0, 6.0, 7.0], [1.0, 2.0, 5.0, 6.0, 7.0])
    apart = [row.quantity for row in rows if "overfull" in row.quantity]
    assert [name.split(",")[0] for name in apart] == list(MOVED)
    assert all("mean of 3 cells" in name for name in apart)
    # None is overfull: there is nothing to say.
    assert all_rows([1.0] * 4, [1.0] * 4)[-1].measured is None


def moves_per_overloaded_node(seed: int) -> tuple[float, float]:
    """Tasks moved for each overloaded node a minute, in bulk and by agents, on a cell with 15 %
    more to do than it has room for."""
    tables = sc.override(sc.load(PRESET), {"seed": seed, "days": 1.0 / 24.0})
    share = NODES / sum(group["count"] for group in tables["cluster"]["group"])
    scenario = sc.check(scale_cell(tables, share, 1.15 * share, smallest=0), "an overfull cell")
    both = bulk_figures(scenario)[0], message_figures(scenario, seed, 1.0)[0]
    moved = QUANTITIES.index("migrations per minute")
    bulk, agents = (figures[moved] / figures[OVERLOADED] for figures in both)
    return bulk, agents


def test_what_is_forced_on_a_node_is_passed_on_as_soon_in_bulk_as_by_agents() -> None:
    """An agent looks at a time of its own, half a minute after a task was forced on it on average.
    Were all to look at once, it would be a minute, and a quarter less would be moved."""
    bulk, agents = np.mean([moves_per_overloaded_node(seed) for seed in (1, 2, 3)], axis=0)
    assert abs(bulk / agents - 1.0) < 0.15


def test_a_reproduction_compares_every_quantity() -> None:
    """The share of each type and the moves, on cells of both; what differs is said, not hidden."""
    result = masb_fidelities.run(ReproductionSettings(seed=1, quick=True))
    for row, quantity in zip(result.rows, QUANTITIES, strict=False):
        assert row.quantity.startswith(quantity)
    moved = result.rows[QUANTITIES.index("migrations per minute")]
    assert isinstance(moved.measured, float) and moved.measured > 0
