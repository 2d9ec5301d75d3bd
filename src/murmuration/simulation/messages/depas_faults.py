"""Random fault schedules for DEPAS: a small system under a steady workload, everything going wrong
for a while, then calm.

The invariants are checked at every step. While messages are lost or late by half a minute
nodes see loads that are not there, and leave or add others; in the end the overlay must be
connected again and the capacity inside the band.
"""

from __future__ import annotations

from typing import Any

from murmuration.autoscaling.agents.settings import DepasSettings
from murmuration.base.random import generator
from murmuration.simulation.messages.depas import ENTRY, DepasChecker, DepasWorld, System
from murmuration.simulation.messages.drive import BrokenError
from murmuration.simulation.messages.network import draw_faults

#: Faults until the first; the capacity is looked at between the second and the third.
FAULTS_S, CALM_S, END_S = 240.0, 600.0, 720.0
#: A write takes up to this long.
WRITE_S = 0.05
SETTINGS = DepasSettings(
    cycle_s=20.0,
    window_s=20,
    degree=8,
    overlay_s=2.0,
    exchange=3,
    probes=3,
    entry_min=20,
    entry_s=40.0,
    introduce_s=20.0,
    outcome_s=30.0,
)


def draw_world(seed: int) -> DepasWorld:
    """A system and what goes wrong in it, all from one seed."""
    rng = generator(seed, "faults")
    kinds = {"small": 1, "large": int(rng.choice([2, 4]))}
    initial = {"small": int(rng.integers(6, 12)), "large": int(rng.integers(0, 3))}
    capacity = sum(kinds[kind] * count for kind, count in initial.items())
    rate = capacity * SETTINGS.target_load * float(rng.choice([0.6, 1.0, 1.5]))
    offers = [(0.0, str(rng.choice(list(kinds)))), (FAULTS_S / 2.0, "small")]
    system = System(
        kinds, offers, initial, [(0.0, rate)], SETTINGS, nodes_min=2, nodes_max=40, seed=seed
    )
    names = [f"{kind}-{k}" for kind, count in initial.items() for k in range(count)]
    faults = draw_faults(rng, names, [ENTRY], FAULTS_S, deaths=3)
    world = DepasWorld(system, faults, WRITE_S)
    world.driver.checkers.append(DepasChecker(world, CALM_S))
    return world


def run_schedule(seed: int) -> dict[str, Any]:
    """One schedule; `BrokenError` says what went wrong and which command repeats it."""
    world = draw_world(seed)
    try:
        world.driver.run(END_S)
        world.driver.finish()
    except AssertionError as error:
        command = f"murmur faults --protocol depas --schedules 1 --seed {seed}"
        raise BrokenError(
            f"{error} (at {world.driver.now:.3f} s; repeat with: {command})"
        ) from error
    return {
        "seed": seed,
        "nodes": len(world.hosts),
        "crashes": len(world.network.faults.crashes),
        "partitions": len(world.network.faults.partitions),
        "messages": world.network.sent,
        "messages_lost": world.network.lost,
        "nodes_added": world.counts["added"],
        "nodes_removed": world.counts["removed"],
        "additions_refused": world.counts["refused"],
        "requests": world.issued,
        "requests_done": sum(world.answered.values()),
    }
