"""Whom to revoke, in bulk and by the master: the same tasks from the same cluster."""

from __future__ import annotations

from collections import Counter
from typing import cast

import numpy as np
import pytest

from murmuration.base.arrays import Amounts
from murmuration.base.jit import loop_kernel
from murmuration.schedulers.offers.ledger import Ledger
from murmuration.schedulers.offers.messages import Filters, Task
from murmuration.schedulers.offers.revocation import choose_victims
from murmuration.simulation.architectures.offers.revocation import make_room
from murmuration.simulation.architectures.offers.world import OfferWorld
from murmuration.simulation.engine import run as engine
from murmuration.simulation.engine import world as wd
from murmuration.simulation.scenarios import scenario as sc

NEEDY = 0
Revoked = Counter[tuple[str, str]]


@loop_kernel
def clear_one(w: OfferWorld, framework: int, wanted: Amounts) -> int:
    """Make room for one task of a framework; returns the node."""
    return make_room(w, framework, wanted, False)


def crowded(seed: int) -> engine.Run:
    """Three frameworks on a few nodes, at a time when no offer is out; the first has a guarantee it
    does not reach."""
    streams = {
        name: {
            "arrivals_per_s": rate,
            "tasks_per_job": 4,
            "task_duration_s": 2000,
            "task_cpu": 1,
            "task_memory": "1G",
            "spread": 0.5,
        }
        for name, rate in (("a", 0.002), ("b", 0.2), ("c", 0.1))
    }
    guarantees = {"a": {"guaranteed": 0.5}, "b": {"guaranteed": 0.1}, "c": {"guaranteed": 0.2}}
    tables = {
        "seed": seed,
        "days": 0.02,
        "cluster": {"nodes": 5, "cpu": 8, "memory": "8G"},
        "workload": streams,
        "scheduler": {"kind": "offers", "offers": {"framework": guarantees}},
    }
    run = engine.prepare(sc.check(tables))
    until = 200.0
    engine.advance(run, until)
    while (run.world.schedulers["job"] >= 0).any():
        until += 0.01
        engine.advance(run, until)
    return run


def running(world: wd.World) -> list[tuple[float, int, list[int]]]:
    """Start, job and nodes of every run, oldest first; nodes in the order of their slots."""
    events = world.event_queue[: world.state["scheduled"][0]]
    ends = events["what"][events["what"] & wd.KIND_MASK == wd.TASKS_END] >> wd.KIND_BITS
    rows = []
    for run in ends:
        nodes, slot = [], int(world.runs["slot"][run])
        while slot >= 0:
            nodes.append(int(world.slots["node"][slot]))
            slot = int(world.slots["next"][slot])
        rows.append((float(world.runs["started"][run]), int(world.runs["job"][run]), nodes))
    return sorted(rows)


def ledger_of(run: engine.Run) -> Ledger:
    """The same cluster as the master keeps it. Tasks of one run start at the same time; they are
    entered last slot first, so that the newest is the one the bulk loop meets first."""
    world, names = run.world, run.setup.jobs.workloads
    ledger = Ledger(world.total.shape[1])
    for name in names:
        ledger.add_framework(name)
    for node, total in enumerate(world.total):
        ledger.add_node(f"n{node}", tuple(total.tolist()))
    for _, job, nodes in running(world):
        name, request = names[world.jobs["workload"][job]], tuple(world.request[job].tolist())
        for node in reversed(nodes):
            ledger.start(name, Task(f"{job}.{len(ledger.tasks)}", f"n{node}", request))
    assert (ledger.allocated == world.held).all(), "both hold the same"
    return ledger


def by_the_master(run: engine.Run, wanted: Amounts) -> Revoked:
    ledger, guaranteed = ledger_of(run), cast(OfferWorld, run.world).guarantee
    needy = run.setup.jobs.workloads[NEEDY]
    keys = choose_victims(ledger, guaranteed, (), needy, Filters(at_least=tuple(wanted.tolist())))
    return Counter((task.split(".")[0], ledger.tasks[name, task].task.node) for name, task in keys)


def in_bulk(run: engine.Run, wanted: Amounts) -> Revoked:
    world = cast(OfferWorld, run.world)
    world.offer_mask[:] = True
    before = Counter((str(job), f"n{node}") for _, job, nodes in running(world) for node in nodes)
    clear_one(world, NEEDY, wanted)
    after = Counter((str(job), f"n{node}") for _, job, nodes in running(world) for node in nodes)
    return before - after


@pytest.mark.timeout(1800)  # It compiles the loop of offers and one kernel more.
def test_the_bulk_loop_and_the_master_revoke_the_same_tasks() -> None:
    sizes = Counter[int]()
    for seed in range(12):
        run = crowded(seed)
        room = run.world.free.max(axis=0)
        for share in (0.0, 0.5, 1.0):
            # More than any node has free, so that somebody must go; the whole node at most.
            size = (run.world.total[0] * share).astype(np.int64)
            wanted = np.minimum(np.maximum(room + 1, size), run.world.total[0])
            expected = by_the_master(run, wanted)
            assert in_bulk(run, wanted) == expected
            sizes[sum(expected.values())] += 1
            room = run.world.free.max(axis=0)
    assert sizes[0] >= 3 and len(sizes) >= 4, f"none, few and many: {sizes}"
