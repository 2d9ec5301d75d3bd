"""Random fault schedules for negotiation: a small, restless cluster in which messages are lost and
agents, disks and clocks fail for a while; then calm.

The checkers look at every step; in the end every task must run on exactly one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from murmuration.base.random import generator
from murmuration.schedulers.negotiation.messages import MobileTask
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.simulation.messages.negotiation.cluster import (
    ENTRY,
    Arrival,
    BrokenError,
    NegotiatingCluster,
)
from murmuration.simulation.messages.network import Jump, draw_faults

#: Faults until the first; then calm, with tasks still moving; nothing new from the second on;
#: looked at in the third.
FAULTS_S, RESTLESS_S, END_S = 600.0, 660.0, 1500.0
GIB = 2**30


def draw_cluster(seed: int) -> NegotiatingCluster:
    """A cluster and what goes wrong in it, all from one seed."""
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
    faults, clock_rng = draw_faults(rng, list(nodes), others, FAULTS_S), generator(seed, "clocks")
    names = [*nodes, *others]
    clocks = {name: float(clock_rng.uniform(-3600, 3600)) for name in names}
    faults = msgspec.structs.replace(faults, jumps=draw_jumps(clock_rng, names))
    return NegotiatingCluster(
        nodes,
        arrivals,
        settings,
        brokers,
        seed,
        faults,
        monitor_s=20.0,
        checked=True,
        write_s=float(rng.choice([0.0, 0.05, 2.0])),
        clocks=clocks,
    )


def draw_jumps(rng: np.random.Generator, names: Sequence[str]) -> tuple[Jump, ...]:
    """Clocks that jump. A jump back is a minute at most: an agent that nobody talks to is woken
    that much later, and the end of the schedule does not wait for hours."""
    return tuple(
        Jump(
            float(rng.uniform(0, FAULTS_S)),
            names[int(rng.integers(len(names)))],
            float(rng.choice([-60.0, -1.0, 1.0, 60.0, 3600.0])),
        )
        for _ in range(int(rng.integers(0, 5)))
    )


def draw_arrival(rng: np.random.Generator, name: str) -> Arrival:
    """A task that uses now little, now too much of what it asked for."""
    request = (int(rng.integers(1, 5)) * 1_000_000, int(rng.integers(1, 9)) * GIB)
    shares = rng.uniform(0.1, 1.4, (12, 1)) * rng.uniform(0.8, 1.2, (12, 2))
    duration = float(rng.choice([np.inf, rng.uniform(60, 900)]))
    task = MobileTask(name, request, bool(rng.random() < 0.2))
    return Arrival(
        task, float(rng.uniform(0, FAULTS_S / 2)), duration, shares, step_s=30.0, cyclic=True
    )


def run_schedule(seed: int) -> dict[str, Any]:
    """One schedule; `BrokenError` says what went wrong and which command repeats it."""
    cluster = draw_cluster(seed)
    try:
        cluster.run(RESTLESS_S)
        cluster.calm()
        cluster.run(END_S)
        cluster.check_settled()
    except (AssertionError, LookupError) as error:
        command = f"murmur faults --protocol negotiation --schedules 1 --seed {seed}"
        raise BrokenError(
            f"{error!s} (at {cluster.driver.now:.3f} s; repeat with: {command})"
        ) from error
    counts, faults = cluster.counts(), cluster.network.faults
    return {
        "seed": seed,
        "nodes": len(cluster.nodes),
        "tasks": len(cluster.arrivals),
        "crashes": len(faults.crashes),
        "partitions": len(faults.partitions),
        "messages": cluster.network.sent,
        "messages_lost": cluster.network.lost,
        "migrations": int(counts.get("migrations", 0)),
        "tasks_lost_with_nodes": len(cluster.hosts.lost),
        "tasks_ended": len(cluster.hosts.ended),
    }
