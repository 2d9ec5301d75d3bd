"""How far negotiation is from a search that sees the whole table and may make as many moves.

A minute of a run is looked at twice: when its measurement has been taken, and just before the next
one. The tasks that are there both times are what both sides have to place, with what they used at
the first look. Negotiation's answer is where they lie at the second look; so many of them have
moved. The search is given the table of the first look and the same number of moves. Nothing of the
run is changed by it, so every minute is compared on the cell that negotiation has made of it, and
what a better minute would spare the next ones is not seen.

The search is `assignment`'s greedy one: the best single move on the whole table first, then the
next, the last ones exchanged for better pairs. It counts what a node is above its capacity in any
resource, used or guaranteed to production; when no node is, it evens out CPU and memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from murmuration.assignment.problem import Problem, problem_of, sum_requests
from murmuration.base.arrays import Amounts, Flags, Indices
from murmuration.cluster.allocation_types import NAMES, count_types
from murmuration.experiments.papers.masb import google
from murmuration.experiments.papers.masb.relief import search_within
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.simulation.engine import run as engine
from murmuration.simulation.scenarios import scenario as sc

#: Minutes that are looked at: after the cell has settled, this many, so far apart.
SETTLED_MIN, MINUTES, APART_MIN = 30, 12, 5
QUICK_MINUTES = 4
#: Seconds after the measurement and before the next one.
INSTANT_S = 0.001


@dataclass(frozen=True)
class TableLook:
    """The tasks of a cell at one moment: by slot, the run of the slot, the node, what is used and
    what is guaranteed."""

    slots: Indices
    serial: Indices
    node_of: Indices
    used: Amounts
    guaranteed: Amounts
    total: Amounts


@dataclass(frozen=True)
class Minute:
    """One minute: the moves made, and nodes per type as they were, by negotiation and by the
    search."""

    moves: int
    before: dict[str, int]
    negotiated: dict[str, int]
    searched: dict[str, int]


def look_at(run: engine.Run, owned_by_source: bool) -> TableLook:
    """The tasks that run now. While a task moves it is its source's until it has arrived."""
    world = run.world
    slots = np.flatnonzero(world.tasks["job"][: int(world.state["slots_high"][0])] >= 0)
    job, node = world.tasks["job"][slots], world.slots["node"][slots].astype(np.int64)
    source = world.tasks["source"][slots].astype(np.int64)
    if owned_by_source:
        node = np.where(source >= 0, source, node)
    production = run.setup.jobs.production[job].astype(np.bool_)
    request = run.setup.jobs.request[job]
    return TableLook(
        slots,
        job.astype(np.int64),
        node,
        world.task_used[slots].copy(),
        np.where(production[:, None], request, 0),
        world.total.copy(),
    )


def compare_minute(run: engine.Run, minute: int) -> Minute:
    """The minute that begins with this measurement."""
    engine.advance(run, 60.0 * minute + INSTANT_S)
    first = look_at(run, True)
    engine.advance(run, 60.0 * (minute + 1) - INSTANT_S)
    second = look_at(run, False)
    stayed, place = match(first, second)
    problem = make_problem(first, stayed)
    negotiated = second.node_of[place]
    moves = int((negotiated != problem.node_of).sum())
    searched = search_within(problem, moves)
    return Minute(
        moves,
        *(name_types(problem, node_of) for node_of in (problem.node_of, negotiated, searched)),
    )


def match(first: TableLook, second: TableLook) -> tuple[Flags, Indices]:
    """Which tasks of the first look are there at the second, and where in it."""
    place = np.searchsorted(second.slots, first.slots)
    inside = np.minimum(place, len(second.slots) - 1)
    same = (second.slots[inside] == first.slots) & (second.serial[inside] == first.serial)
    return same, inside[same]


def make_problem(look: TableLook, keep: Flags) -> Problem:
    """The table as the search sees it: what is used, and beside it what is guaranteed, each within
    the node's total."""
    total = np.concatenate([look.total, look.total], axis=1)
    request = np.concatenate([look.used, look.guaranteed], axis=1)[keep]
    return problem_of(total, request, node_of=look.node_of[keep])


def name_types(problem: Problem, node_of: Indices) -> dict[str, int]:
    kinds = problem.total.shape[1] // 2
    amounts = sum_requests(problem, node_of)
    total = problem.total[:, :kinds]
    idle = np.bincount(node_of, minlength=len(total)) == 0
    return count_types(total, total - amounts[:, :kinds], amounts[:, kinds:], idle)


def run(settings: ReproductionSettings) -> Reproduction:
    """Negotiation beside the search, minute by minute, on Google's own cell."""
    count = QUICK_MINUTES if settings.quick else MINUTES
    days = (SETTLED_MIN + APART_MIN * count + 2) / (24.0 * 60.0)
    tables = google.make_cell(settings)
    simulation = engine.prepare(sc.check(sc.override(tables, {"days": days}), google.PRESET))
    minutes = []
    for k in range(count):
        minutes.append(compare_minute(simulation, SETTLED_MIN + APART_MIN * k))
        settings.progress("minutes", (k + 1) / count)
    title = "Negotiation beside a search that sees the whole table"
    nodes = simulation.world.total.shape[0]
    notes = (
        f"{count} minutes of a cell of {nodes:,} nodes, each from the placement negotiation had "
        f"come to; {sum(m.moves for m in minutes) / count:.1f} moves a minute on both sides. "
        "`paper` is the search: here there is nothing of the paper.",
        "Tasks that came or ended within the minute are left out on both sides, and what is used "
        "is that of the minute's beginning.",
    )
    return Reproduction("masb-optimum", title, tuple(list_rows(minutes)), (), notes)


def list_rows(minutes: list[Minute]) -> list[Row]:
    """Nodes per type, means over the minutes: before, negotiated, searched."""

    def mean(name: str, side: str) -> float:
        counts: list[int] = [getattr(minute, side)[name] for minute in minutes]
        return sum(counts) / len(counts)

    rows = []
    for name in NAMES:
        before, negotiated, searched = (
            mean(name, side) for side in ("before", "negotiated", "searched")
        )
        words = f"{negotiated:.2f} (before: {before:.2f})"
        quantity = f"{name} nodes after a minute, negotiation beside the search"
        rows.append(Row(quantity, round(searched, 2), words))
    relieved, could = (
        mean("overloaded", "before") - mean("overloaded", side)
        for side in ("negotiated", "searched")
    )
    share = f"{relieved / could:.0%}" if could > 0 else "none was to be relieved"
    rows.append(Row("overloaded nodes relieved, share of what the search relieves", "100%", share))
    return rows
