"""Random fault schedules for negotiation: a small, restless cell, everything going wrong for a
while, then calm.

What must never happen is looked for at every step; in the end every task must run on exactly one
node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from murmuration.base.random import generator
from murmuration.schedulers.negotiation.messages import Task
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.simulation.messages.negotiation import ENTRY, Arrival, BrokenError, Cell
from murmuration.simulation.messages.network import draw_faults

#: Faults until the first; then calm, with tasks still moving; nothing new from the second on;
#: looked at in the third.
FAULTS_S, RESTLESS_S, END_S = 600.0, 660.0, 1500.0
GIB = 2**30


def draw_cell(seed: int) -> Cell:
    """A cell and what goes wrong in it, all from one seed."""
    rng = generator(seed, "faults")
    nodes = {
        f"node-{k}": (8_000_000, int(rng.choice([16, 32])) * GIB)
        for k in range(int(rng.integers(3, 8)))
    }
    brokers = int(rng.integers(1, 3))
    settings = NegotiationSettings(
        unanswered_max=int(rng.choice([0, 2])),
        proactive=60.0 / 90.0 * int(rng.choice([0, 1])),
        underused=int(rng.choice([0, 3])),
        underused_load=0.2,
        selection=rng.choice(["best", "best", "tabu"]).item(),
        initial=str(rng.choice(["sias", "sias-gain"])),
    )
    arrivals = [draw_arrival(rng, f"task-{k}") for k in range(4 * len(nodes))]
    others = [ENTRY, *(f"broker-{k}" for k in range(brokers))]
    faults = draw_faults(rng, list(nodes), others, FAULTS_S)
    return Cell(nodes, arrivals, settings, brokers, seed, faults, monitor_s=20.0, checked=True)


def draw_arrival(rng: np.random.Generator, name: str) -> Arrival:
    """A task that uses now little, now too much of what it asked for."""
    request = (int(rng.integers(1, 5)) * 1_000_000, int(rng.integers(1, 9)) * GIB)
    shares = rng.uniform(0.1, 1.4, (12, 1)) * rng.uniform(0.8, 1.2, (12, 2))
    duration = float(rng.choice([np.inf, rng.uniform(60, 900)]))
    task = Task(name, request, bool(rng.random() < 0.2))
    return Arrival(
        task, float(rng.uniform(0, FAULTS_S / 2)), duration, shares, step_s=30.0, cyclic=True
    )


def run_schedule(seed: int) -> dict[str, Any]:
    """One schedule; `BrokenError` says what went wrong and which command repeats it."""
    cell = draw_cell(seed)
    try:
        cell.run(RESTLESS_S)
        cell.calm()
        cell.run(END_S)
        cell.check_settled()
    except AssertionError as error:
        command = f"murmur faults --protocol negotiation --schedules 1 --seed {seed}"
        raise BrokenError(
            f"{error} (at {cell.timeline.now:.3f} s; repeat with: {command})"
        ) from error
    counts = cell.counts()
    return {
        "seed": seed,
        "nodes": len(cell.nodes),
        "tasks": len(cell.arrivals),
        "crashes": len(cell.network.faults.crashes),
        "partitions": len(cell.network.faults.partitions),
        "messages": cell.network.sent,
        "messages_lost": cell.network.lost,
        "migrations": int(counts.get("migrations", 0)),
        "tasks_lost_with_nodes": len(cell.lost),
        "tasks_ended": len(cell.ended),
    }
