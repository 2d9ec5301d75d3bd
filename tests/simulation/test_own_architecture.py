"""A new architecture is a value and a registration: it is checked, simulated, summed up, explained,
saved and verified without a change to any other file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.simulation import shards
from tests.simulation.shards import SHARDS, ShardSettings

from murmuration.base.errors import InputError
from murmuration.simulation.architectures import table
from murmuration.simulation.engine import run as engine
from murmuration.simulation.engine import world as wd
from murmuration.simulation.results import invariants, snapshots
from murmuration.simulation.results import summary as results
from murmuration.simulation.results.explain import explain
from murmuration.simulation.scenarios import scenario as sc


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    table.register(SHARDS)
    yield
    table.unregister("shards")


def tables(**settings: Any) -> dict[str, Any]:
    stream = {"arrivals_per_s": 0.05, "tasks_per_job": 2, "task_duration_s": 300, "task_cpu": 1}
    return {
        "days": 0.02,
        "cluster": {"nodes": 9, "cpu": 4, "memory": "16G"},
        "workload": {"batch": stream},
        "scheduler": {"kind": "shards", "shards": settings},
    }


def test_the_toy_is_short() -> None:
    """The promise of the checklist in the docs."""
    assert len(Path(shards.__file__).read_text().splitlines()) < 100


def test_its_settings_are_checked_like_any_other() -> None:
    scenario = sc.check(tables(count=3))
    assert scenario.scheduler.settings_of(ShardSettings).count == 3
    with pytest.raises(InputError, match=r"scheduler\.shards\.count: expected a number from 1"):
        sc.check(tables(count=0))
    with pytest.raises(InputError, match=r"unknown key 'scheduler.shards.cuont'.*'count'"):
        sc.check(tables(cuont=3))
    with pytest.raises(InputError, match=r"shards\.count: expected a whole number, got text"):
        sc.check(tables(count="many"))


def test_it_is_simulated_and_every_task_stays_in_its_shard() -> None:
    run = engine.prepare(sc.check(tables(count=3)))
    for until in np.linspace(0.0, run.horizon_s, 40):
        engine.advance(run, float(until))
        invariants.check(run)
        events = run.world.event_queue[: run.world.state["scheduled"][0]]["what"]
        for row in events[events & wd.KIND_MASK == wd.TASKS_END] >> wd.KIND_BITS:
            node = run.world.slots["node"][run.world.runs["slot"][row]]
            # Jobs are dealt out in turn, nodes too: both by their number.
            assert node % 3 == run.world.runs["job"][row] % 3
    summary = results.summary(run, "shards")
    assert [*summary["schedulers"]] == ["shard-0", "shard-1", "shard-2"]
    assert summary["cluster"]["shards"] == 3
    assert summary["workloads"]["batch"]["jobs_scheduled"] > 20


def test_a_check_of_its_own_is_made_with_the_others() -> None:
    run = engine.prepare(sc.check(tables(count=3)))
    engine.finish(run, until_s=600.0)
    world = run.world
    world.schedulers["job"][1], world.schedulers["claimed"][1] = 0, 1
    world.schedulers["optimistic"][1] = True
    world.claim[1, 0] = 3
    with pytest.raises(AssertionError, match="left its shard"):
        invariants.check(run)


def test_its_decisions_are_explained() -> None:
    run = engine.prepare(sc.check(tables(count=3)))
    job = str(run.setup.jobs.job_id[4])
    explanation = explain(run, job, 1)
    names = run.setup.nodes.names
    assert explanation.chosen and explanation.considered == 9
    assert {names.index(node) % 3 for node, _ in explanation.chosen} == {4 % 3}
    assert explanation.filtered == {"in another scheduler's partition": 6}


def test_its_state_is_part_of_a_snapshot(tmp_path: Path) -> None:
    file = tmp_path / snapshots.SNAPSHOT
    run, other = (engine.prepare(sc.check(tables(count=2))) for _ in range(2))
    engine.advance(run, 500.0)
    snapshots.save_run(file, run, "label")
    snapshots.load_run(file, other, "label")
    assert other.now_s == run.now_s
    assert int(other.state.calls[0]) == int(run.state.calls[0]) == 1
    assert "shards.calls" in np.load(file).files


def test_a_kind_nobody_knows_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"unknown scheduler 'shard'.*'shards'"):
        engine.prepare(sc.check({**tables(), "scheduler": {"kind": "shard"}}))


def test_what_comes_with_the_package_cannot_be_replaced() -> None:
    with pytest.raises(AssertionError, match="comes with the package"):
        table.register(table.architecture_of("monolithic"))
