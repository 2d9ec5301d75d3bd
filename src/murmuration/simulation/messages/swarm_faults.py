"""Random fault schedules for a swarm: a small cluster, everything going wrong for a while, then
calm.

The invariants are checked at every step; in the end every container runs on exactly one
node and the cluster is at rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from murmuration.base.random import generator
from murmuration.schedulers.agent import Effect, Message
from murmuration.schedulers.swarm.messages import (
    Amounts,
    ContainerSent,
    HandedOver,
    HandOver,
    SwarmContainer,
)
from murmuration.schedulers.swarm.pheromone import BIN_PACK, LINEAR, QUADRATIC, SPREAD
from murmuration.schedulers.swarm.settings import SwarmSettings
from murmuration.simulation.messages.drive import BrokenError, Checker, VirtualDriver
from murmuration.simulation.messages.network import draw_faults
from murmuration.simulation.messages.swarm import SwarmChecker, SwarmCluster, SwarmSimulation

#: Faults until the first; nothing new comes or ends after it; looked at in the second.
FAULTS_S, END_S = 600.0, 3000.0
GIB = 2**30
#: A write takes up to this long, so that crashes fall before, between and after writes.
WRITE_S = 0.05


class CrashAtHandOver(Checker):
    """Crashes where they hurt most: around a hand-over, before, between and after the writes."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._share = float(rng.choice([0.0, 0.0, 0.02, 0.1]))

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        at_hand_over = isinstance(event, ContainerSent | HandOver | HandedOver)
        if driver.now < FAULTS_S and at_hand_over and self._rng.random() < self._share:
            later = driver.now + 2 * WRITE_S * float(self._rng.random())
            driver.at(later, driver.crash, name, 0.1 + float(self._rng.exponential(5.0)))


def draw_world(seed: int) -> SwarmSimulation:
    """A cluster and what goes wrong in it, all from one seed."""
    rng = generator(seed, "faults")
    alike = bool(rng.random() < 0.5)
    nodes = {f"node-{k}": _draw_node(rng, alike) for k in range(int(rng.integers(3, 8)))}
    overload = float(rng.choice([1.0, 0.8, 0.5]))
    settings = SwarmSettings(
        strategy=int(rng.choice([BIN_PACK, BIN_PACK, BIN_PACK, SPREAD])),
        form=int(rng.choice([QUADRATIC, LINEAR])),
        overload=overload,
        underload=overload,
        size_weighted=bool(rng.random() < 0.3),
    )
    start: dict[str, list[SwarmContainer]] = {name: [] for name in nodes}
    for k in range(int(rng.integers(3, 6)) * len(nodes)):
        _place(start, nodes, SwarmContainer(f"task-{k}", _draw_request(rng, alike)), rng)
    faults = draw_faults(rng, list(nodes), [], FAULTS_S)
    cluster = SwarmCluster(nodes, start, settings, float(rng.choice([1.0, 5.0, 20.0])), seed)
    world = SwarmSimulation(cluster, faults, WRITE_S)
    world.driver.checkers += [SwarmChecker(world), CrashAtHandOver(rng)]
    _disturb(world, rng, alike)
    return world


def _draw_node(rng: np.random.Generator, alike: bool) -> Amounts:
    return (8_000_000, 16 * GIB) if alike else (8_000_000, int(rng.choice([16, 32])) * GIB)


def _draw_request(rng: np.random.Generator, alike: bool) -> Amounts:
    if alike:
        return 1_000_000, 2 * GIB
    return int(rng.integers(1, 5)) * 500_000, int(rng.integers(1, 6)) * GIB


def _place(
    start: dict[str, list[SwarmContainer]],
    nodes: dict[str, Amounts],
    container: SwarmContainer,
    rng: np.random.Generator,
) -> None:
    """Put a container on a node drawn among those with room."""
    for name in rng.permutation(list(nodes)):
        row = [*start[str(name)], container]
        used = np.array([c.request for c in row]).sum(axis=0)
        if (used <= nodes[str(name)]).all():
            start[str(name)] = row
            return


def _disturb(world: SwarmSimulation, rng: np.random.Generator, alike: bool) -> None:
    """While the faults last some containers come and some end."""
    nodes = list(world.cluster.nodes)
    for k in range(int(rng.integers(0, 10)) * len(nodes)):
        at, node = float(rng.uniform(0.0, FAULTS_S)), nodes[int(rng.integers(len(nodes)))]
        container = SwarmContainer(f"late-{k}", _draw_request(rng, alike))
        world.driver.at(at, world.place, node, container)
        world.driver.at(at + float(rng.exponential(200.0)), world.end, container.name)
    for name in list(world.containers):
        if rng.random() < 0.3:
            world.driver.at(float(rng.uniform(0.0, FAULTS_S)), world.end, name)


def run_schedule(seed: int) -> dict[str, Any]:
    """One schedule; `BrokenError` says what went wrong and which command repeats it."""
    world = draw_world(seed)
    try:
        world.driver.run(END_S)
        world.driver.finish()
    except AssertionError as error:
        command = f"murmur faults --protocol swarm --schedules 1 --seed {seed}"
        raise BrokenError(
            f"{error} (at {world.driver.now:.3f} s; repeat with: {command})"
        ) from error
    counts = world.counts()
    return {
        "seed": seed,
        "nodes": len(world.cluster.nodes),
        "tasks": len(world.containers),
        "crashes": len(world.network.faults.crashes),
        "partitions": len(world.network.faults.partitions),
        "messages": world.network.sent,
        "messages_lost": world.network.lost,
        "migrations": counts["migrations"],
        "hand_overs_taken_back": counts["resumed"],
        "tasks_lost_with_nodes": len(world.lost),
        "tasks_ended": len(world.ended),
    }
