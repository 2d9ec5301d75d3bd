"""The seams of the engine: prepare, advance and finish; worlds of different width; the event
queue."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest

from murmuration.base.arrays import Integers, Records, Times
from murmuration.base.jit import compiled
from murmuration.simulation.architectures.offers.world import OfferWorld
from murmuration.simulation.architectures.table import BUILT_IN, architecture_of, settings_tables
from murmuration.simulation.engine import loop
from murmuration.simulation.engine import run as engine
from murmuration.simulation.engine import world as wd
from murmuration.simulation.engine.event_queue import pop, schedule
from murmuration.simulation.engine.python_decision import pending_job, pending_view
from murmuration.simulation.scenarios import scenario as sc


def prepared(kind: str = "monolithic", **scheduler: Any) -> engine.Run:
    stream = {"arrivals_per_s": 0.05, "tasks_per_job": 3, "task_duration_s": 200, "task_cpu": 1}
    tables = {
        "days": 0.02,
        "cluster": {"nodes": 8, "cpu": 4, "memory": "16G"},
        "workload": {"batch": stream, "service": stream},
        "scheduler": {"kind": kind, **scheduler},
    }
    return engine.prepare(sc.check(tables))


def copies(run: engine.Run) -> dict[str, Any]:
    return {name: array.copy() for name, array in run.world._asdict().items()}


def differing(run: engine.Run, arrays: dict[str, Any]) -> list[str]:
    """The arrays of a run that differ from these; of records, the fields that do."""
    different = []
    for name, array in arrays.items():
        other = run.world._asdict()[name]
        for field in array.dtype.names or (None,):
            a, b = (array, other) if field is None else (array[field], other[field])
            if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
                different.append(f"{name}.{field}" if field else name)
    return different


@pytest.mark.parametrize("kind", BUILT_IN)
def test_a_prepared_run_is_at_time_zero_and_nothing_has_happened(kind: str) -> None:
    run = prepared(kind)
    state = run.world.state[0]
    assert run.now_s == 0.0 and run.horizon_s == pytest.approx(0.02 * 86_400)
    assert (state["events"], state["arrived"], state["running"]) == (0, 0, 0)
    assert (run.world.free == run.world.total).all()
    assert run.setup.architecture is architecture_of(kind)
    assert {s.name for s in run.setup.schedulers}, "somebody has a queue"
    # Every job has a scheduler that serves its workload.
    for job, row in enumerate(run.world.jobs["scheduler"] // run.setup.slots):
        name = run.setup.jobs.workloads[run.setup.jobs.workload[job]]
        assert name in run.setup.schedulers[row].workloads


def test_two_preparations_give_the_same_world() -> None:
    assert differing(prepared(), copies(prepared())) == []


def test_pausing_leaves_no_trace() -> None:
    whole, pieces = prepared(), prepared()
    assert engine.advance(whole) == loop.FINISHED
    for until in (0.0, 1.0, 1.0, 333.3, 900.0):
        assert engine.advance(pieces, until) == loop.PAUSED
        assert pieces.now_s <= until
    assert engine.advance(pieces) == loop.FINISHED
    assert differing(pieces, copies(whole)) == []


def test_finish_says_whether_the_horizon_was_reached_and_how_far_it_is() -> None:
    run, told = prepared(), list[float]()
    assert not engine.finish(run, told.append, until_s=600.0)
    assert run.now_s <= 600.0 and told == sorted(told) and told[-1] <= 600.0 / run.horizon_s
    assert engine.finish(run, told.append)
    assert told[-1] == pytest.approx(1.0, abs=0.05)


def test_watching_a_job_stops_at_each_of_its_attempts() -> None:
    run = prepared()
    assert engine.advance(run, watch=5) == loop.DECIDE
    assert pending_job(run) == 5
    view, job, rows = pending_view(run)
    assert job.id == str(run.setup.jobs.job_id[5]) and job.attempt == 1
    assert len(view.names) == len(rows) == 8 and view.now_s == run.now_s
    with pytest.raises(ValueError, match="read-only"):
        view.free[0, 0] = 0


def test_only_an_architecture_with_offers_has_arrays_of_offers() -> None:
    plain, offers = prepared("monolithic").world, prepared("offers").world
    assert isinstance(plain, wd.World) and "set_rows" not in plain._fields
    assert isinstance(offers, OfferWorld)
    assert offers._fields[: len(wd.World._fields)] == wd.World._fields
    assert {*offers._fields} - {*wd.World._fields} >= {"set_rows", "offer_free"}


def test_a_wider_world_wants_all_of_its_arrays() -> None:
    world = prepared().world
    with pytest.raises(AssertionError, match="every array once"):
        wd.extend_world(world, OfferWorld, {"set_rows": world.free})


def test_the_table_keeps_its_word() -> None:
    """Each line leads to a value of its kind; settings stand with the value they belong to."""
    for kind in BUILT_IN:
        value = architecture_of(kind)
        assert value.kind == kind and value.summary
        if value.settings is not None:
            assert settings_tables()[value.settings.name] is value.settings


@compiled
def through_the_queue(
    event_queue: Records, state: Records, times: Times, pops: Integers, order: Integers
) -> None:
    """Schedule an event for each time, and before it take so many off."""
    at = 0
    for k in range(times.shape[0]):
        for _ in range(pops[k]):
            order[at] = pop(event_queue, state) >> wd.KIND_BITS
            at += 1
        schedule(event_queue, state, times[k], wd.TASKS_END, k)
    while state[0].scheduled > 0:
        order[at] = pop(event_queue, state) >> wd.KIND_BITS
        at += 1


def test_events_come_by_time_and_equal_times_in_the_order_they_were_scheduled() -> None:
    """Against the standard library's heap of (time, serial)."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        count = int(rng.integers(1, 60))
        times = rng.integers(0, 8, count).astype(np.float64)
        pops = np.zeros(count, np.int64)
        heap: list[tuple[float, int]] = []
        expected: list[int] = []
        for k in range(count):
            pops[k] = rng.integers(0, len(heap) + 1) if rng.random() < 0.4 else 0
            expected += [heapq.heappop(heap)[1] for _ in range(pops[k])]
            heapq.heappush(heap, (times[k], k))
        expected += [heapq.heappop(heap)[1] for _ in range(len(heap))]
        order = np.full(count, -1, np.int64)
        queue, state = np.zeros(count, wd.EVENT), np.zeros(1, wd.STATE)
        through_the_queue(queue, state, times, pops, order)
        assert order.tolist() == expected
