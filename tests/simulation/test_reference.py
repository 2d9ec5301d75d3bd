"""The compiled loop against a second simulator written in plain Python: every job's story is the
same, exactly."""

from __future__ import annotations

import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from tests.simulation.reference import Reference
from tests.simulation.reference_batched import BatchedReference
from tests.simulation.reference_offers import OffersReference
from tests.simulation.scenarios import (
    MONOLITHIC,
    OFFERS,
    PARTITIONED,
    ROOMY,
    SHARED_STATE,
    WORKLOADS,
    Draw,
    Tables,
    random_tables,
)

from murmuration.base.errors import InputError
from murmuration.simulation.engine import run as engine
from murmuration.simulation.engine.world import STATUS
from murmuration.simulation.scenarios import scenario as sc


def stories(run: engine.Run) -> list[tuple[Any, ...]]:
    """What became of each job."""
    found = []
    for row in run.world.jobs:
        times = tuple(
            None if math.isnan(row[name]) else float(row[name]) for name in ("first", "full")
        )
        counts = (
            int(row["attempts"]),
            int(row["conflicts"]),
            STATUS[row["status"]],
            int(row["left"]),
        )
        found.append((*times, *counts))
    return found


def must_agree(tables: Tables, expected: Reference) -> engine.Run | None:
    """Run both; None if no job can ever run, which must be said at once."""
    if not any(map(expected.can_ever_run, expected.jobs)):
        with pytest.raises(InputError, match="no job can ever run"):
            engine.prepare(sc.check(tables))
        return None
    results = expected.run()
    run = engine.prepare(sc.check(tables))
    engine.advance(run)
    assert stories(run) == results
    assert run.world.workloads["tasks_placed"].sum() == expected.placed
    assert run.world.state["events"][0] == expected.events
    busy = dict(zip(run.setup.jobs.workloads, run.world.busy[:, :, 0].sum(axis=1), strict=True))
    assert busy == pytest.approx(expected.busy)
    state = run.world.state[0]
    assert [state["running_s"], state["offered_s"], *run.world.sums_s[0]] == pytest.approx(
        expected.area.tolist()
    )
    return run


@pytest.mark.parametrize("seed", range(40))
def test_monolithic(seed: int, tmp_path: Path) -> None:
    tables = random_tables(seed, MONOLITHIC, tmp_path)
    must_agree(tables, Reference(tables))


@pytest.mark.parametrize("seed", range(40))
def test_partitioned(seed: int, tmp_path: Path) -> None:
    tables = random_tables(seed, PARTITIONED, tmp_path)
    must_agree(tables, Reference(tables))


@pytest.mark.parametrize("seed", range(100))
def test_shared_state(seed: int, tmp_path: Path) -> None:
    tables = random_tables(seed, SHARED_STATE, tmp_path)
    expected = Reference(tables)
    run = must_agree(tables, expected)
    if run is not None:
        assert (run.world.free == expected.free).all() and (
            run.world.sequence == expected.sequence
        ).all()


#: What may be switched on in a scenario of offers, each with a chance of its own.
OFFER_RULES: list[dict[str, Any]] = [
    {"timeout_s": 1.5},
    {"timeout_s": 0.5},
    {"min_cpu": 1},
    {"period_s": 1.0},
    {"optimistic": True},
    {"short_share": 0.5, "short_max_s": 5.0},
    {"double_booked": True},
    {"offer_time_s": 0.0},
]
FRAMEWORK_RULES: list[dict[str, Any]] = [
    {"short": True},
    {"filter": ["zone = a"]},
    {"filter_cpu": 2},
    {"weight": 4.0},
]


def offers_tables(seed: int, folder: Path) -> Tables:
    """A random scenario of offers, with a few of their rules."""
    tables, draw = random_tables(seed, OFFERS, folder), Draw(seed + 10**6)
    scheduler = deepcopy(tables["scheduler"])
    scheduler["placement"] = "tests.simulation.policies:InOrder"
    for _ in range(draw.upto(0, 2)):
        scheduler["offers"] |= draw.some(*OFFER_RULES)
    if scheduler["offers"].get("optimistic"):
        scheduler["offers"].pop("short_share", None)
    for _ in range(draw.upto(0, 2)):
        framework = scheduler["offers"]["framework"].setdefault(draw.some(*WORKLOADS), {})
        framework |= draw.some(*FRAMEWORK_RULES)
    # A filter that no node passes is refused.
    tables["cluster"]["group"].append({**ROOMY, "count": 1})
    return {**tables, "scheduler": scheduler}


@pytest.mark.parametrize("seed", range(120))
def test_offers(seed: int, tmp_path: Path) -> None:
    """Every allocator and rule but revocation. The policy draws nothing, so the order of a view's
    rows is free."""
    tables = offers_tables(seed, tmp_path)
    expected = OffersReference(tables)
    run = must_agree(tables, expected)
    if run is not None:
        counts = (expected.made, expected.rejected, expected.rescinded, expected.killed)
        names = ("offers_made", "offers_rejected", "offers_rescinded", "tasks_killed")
        assert tuple(int(run.world.state[name][0]) for name in names) == counts


@pytest.mark.parametrize("seed", range(60))
def test_batched_offers(seed: int, tmp_path: Path) -> None:
    """The rules of the simulator behind the paper, written down a second time."""
    tables, draw = random_tables(seed, OFFERS, tmp_path), Draw(seed + 10**7)
    tables["scheduler"]["placement"] = "tests.simulation.policies:InOrder"
    weights = {name: {"weight": draw.some(1.0, 3.0)} for name in WORKLOADS}
    tables["scheduler"]["offers"] = {
        "batch_s": draw.some(0.25, 1.0, 2.0),
        "offer_time_s": draw.some(0.0, 0.001, 0.5),
        "batch_min_cpu": draw.some(0, 0, 3),
        "framework": weights,
    }
    expected = BatchedReference(tables)
    run = must_agree(tables, expected)
    if run is not None:
        assert int(run.world.state["offers_made"][0]) == expected.made


def test_the_scenarios_show_what_they_should(tmp_path: Path) -> None:
    """The comparison is worth something: conflicts, abandoned and hopeless jobs, repeated attempts
    all occur."""
    seen: dict[str, int] = {}
    for seed in range(40):
        results = Reference(random_tables(seed, SHARED_STATE, tmp_path)).run()
        for _, _, attempts, conflicts, status, _ in results:
            seen[status] = seen.get(status, 0) + 1
            seen["again"] = seen.get("again", 0) + (attempts > 1)
            seen["conflicts"] = seen.get("conflicts", 0) + conflicts
    assert set(seen) == {*STATUS, "again", "conflicts"} and min(seen.values()) > 20, seen
