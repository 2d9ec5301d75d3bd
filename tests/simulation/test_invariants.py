"""What must hold of a world at any time holds all along, in every architecture with every
placement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from tests.simulation.scenarios import (
    HORIZON_S,
    MONOLITHIC,
    OFFERS,
    PARTITIONED,
    ROOMY,
    SHARED_STATE,
    Tables,
    random_tables,
)

from murmuration.placement.registry import NAMES
from murmuration.simulation.architectures.offers.world import OfferWorld
from murmuration.simulation.engine import loop
from murmuration.simulation.engine import run as engine
from murmuration.simulation.engine import world as wd
from murmuration.simulation.results import invariants
from murmuration.simulation.scenarios import scenario as sc

PIECES = 12
GUARANTEED = {"service": {"guaranteed": 0.5}, "batch": {"guaranteed": 0.2}}
RULES: list[Tables] = [
    {"optimistic": True},
    {"double_booked": True},
    {"timeout_s": 0.5},
    {"min_cpu": 1},
    {"framework": GUARANTEED},
    {"short_share": 0.5, "short_max_s": 5},
    {"period_s": 1.0, "framework": {"batch": {"filter": ["zone = a"], "short": True}}},
    {"framework": GUARANTEED, "offer_time_s": 0.0, "short_share": 0.25},
    {"optimistic": True, "framework": GUARANTEED},
]
KINDS = {
    "monolithic": MONOLITHIC,
    "partitioned": PARTITIONED,
    "shared-state": SHARED_STATE,
    "offers": OFFERS,
    **{f"offers-{k}": [{"kind": "offers", "offers": rules}] for k, rules in enumerate(RULES)},
}


def run_in_pieces(tables: Tables) -> engine.Run:
    run = engine.prepare(sc.check(tables))
    for piece in range(1, PIECES):
        engine.advance(run, HORIZON_S * piece / PIECES)
        invariants.check(run)
    assert engine.advance(run) == loop.FINISHED
    invariants.check(run)
    return run


def running(world: wd.World) -> int:
    """Tasks that still run: those of the runs whose end is on the event_queue."""
    whats = world.event_queue["what"][: world.state["scheduled"][0]]
    runs = whats[whats & wd.KIND_MASK == wd.TASKS_END] >> wd.KIND_BITS
    return int(world.runs["count"][runs].sum())


def check_counts(run: engine.Run) -> None:
    """Every job, attempt and task is counted once."""
    world, jobs = run.world, run.world.jobs
    placed = int(world.workloads["tasks_placed"].sum())
    assert placed - world.state["tasks_revoked"][0] == (jobs["tasks"] - jobs["left"]).sum()
    for index in range(len(world.workloads)):
        mine = jobs[jobs["workload"] == index]
        revoked = placed if world.state["tasks_revoked"][0] else 0
        assert (
            0
            <= world.workloads["tasks_placed"][index] - (mine["tasks"] - mine["left"]).sum()
            <= revoked
        )
    under_way = int((world.schedulers["job"] >= 0).sum())
    ended = int(jobs["attempts"].sum()) - under_way
    assert world.state["events"][0] == len(jobs) + ended + placed - running(world)
    assert world.state["running"][0] == running(world)
    assert world.workloads["commits_failed"].sum() == jobs["conflicts"].sum()
    commits = int(world.workloads["commits_ok"].sum() + world.workloads["commits_failed"].sum())
    assert (
        commits + world.workloads["empty_attempts"].sum() + world.state["offers_rescinded"][0]
        >= ended
    )


@pytest.mark.parametrize("placement", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_architecture_with_every_placement(kind: str, placement: str, tmp_path: Path) -> None:
    for seed in range(2):
        tables = random_tables(
            100 * NAMES.index(placement) + seed, KINDS[kind], tmp_path, jobs_max=80
        )
        tables["cluster"]["group"].append(ROOMY)
        tables["scheduler"] |= {"placement": placement}
        check_counts(run_in_pieces(tables))


def crowded(kind: str, tmp_path: Path) -> engine.Run:
    """A run stopped in the middle, with jobs queued, tasks running and attempts under way."""
    tables = random_tables(3, KINDS[kind], tmp_path, jobs_max=80)
    run = engine.prepare(sc.check(tables))
    engine.advance(run, HORIZON_S / 3)
    invariants.check(run)
    assert running(run.world) > 0 and run.world.schedulers["queued"].sum() > 0
    return run


def _less_free(world: wd.World) -> None:
    world.free[world.free[:, 1].argmax(), 1] -= 1


def _forgotten_job(world: wd.World) -> None:
    world.schedulers["queued"][np.flatnonzero(world.schedulers["queued"])[0]] -= 1


def _lost_task(world: wd.World) -> None:
    whats = world.event_queue["what"][: world.state["scheduled"][0]]
    world.runs["count"][whats[whats & wd.KIND_MASK == wd.TASKS_END][0] >> wd.KIND_BITS] -= 1


def _wrong_sum(world: wd.World) -> None:
    world.held[0, 0] += 1


def _wrong_guarantee(world: wd.World) -> None:
    world.guaranteed[0, 0] += 1


def _negative(world: wd.World) -> None:
    world.free[0, 1] = -1


DAMAGES = [_less_free, _forgotten_job, _lost_task, _wrong_sum, _wrong_guarantee, _negative]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("kind", ["monolithic", "offers"])
def test_the_check_notices_what_is_wrong(
    kind: str, damage: Callable[[wd.World], None], tmp_path: Path
) -> None:
    run = crowded(kind, tmp_path)
    damage(run.world)
    with pytest.raises(AssertionError):
        invariants.check(run)


def test_the_check_notices_an_offer_of_what_is_not_there(tmp_path: Path) -> None:
    run = crowded("offers", tmp_path)
    world = cast(OfferWorld, run.world)
    world.set_amount[0, 0, 0] += 10**9
    world.set_sum[0, 0] += 10**9
    with pytest.raises(AssertionError, match="more is offered than there is"):
        invariants.check(run)
