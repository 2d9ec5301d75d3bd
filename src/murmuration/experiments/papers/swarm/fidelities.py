"""Two fidelities of a swarm side by side: agents that exchange messages, and the bulk engine, on
one small cluster.

Identical containers on identical nodes, equally filled, as in section 5 of the paper; both start
from the same placement and run until every node is empty or full.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from murmuration.base.arrays import Counts
from murmuration.experiments.fidelity import Quantity, compare
from murmuration.experiments.replicates import each_seed, measure_each
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.schedulers.swarm.messages import SwarmContainer
from murmuration.schedulers.swarm.settings import SwarmSettings
from murmuration.simulation.engine import run as engine
from murmuration.simulation.messages.swarm import SwarmCluster, SwarmSimulation
from murmuration.simulation.results import summary
from murmuration.simulation.scenarios import scenario as sc

#: The paper's T: a step, and a migration.
STEP_S = 5.0
#: When all containers are placed and none has decided yet.
PLACED_S = 4.0
STEPS_MAX = 2000
HEADER = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task\n"
QUANTITIES = (
    "time to rest (T)",
    "migrations",
    "nodes asked per migration",
    "full nodes in the end",
)
#: What the moment at which containers decide changes in the paper's own simulator: 82 T where a
#: node's pheromone is fixed during a step, 76 T where it follows each decision.
TOLERANCE = 0.1


class Size(NamedTuple):
    """A cluster of this many nodes with room for so many containers each, and how many each has at
    the start."""

    nodes: int
    capacity: int
    filling: int


FULL = (Size(50, 50, 25), Size(50, 50, 49), Size(50, 50, 1))
QUICK = (Size(20, 20, 10), Size(20, 20, 19), Size(20, 20, 1))


def run(settings: ReproductionSettings) -> Reproduction:
    """Both fidelities on the same clusters."""
    sizes, seeds = (QUICK, 6) if settings.quick else (FULL, 20)
    rows: list[Row] = []
    pairs = [(size, seed) for size in sizes for seed in each_seed(settings, seeds)]
    measured = measure_each(settings, "clusters", _both, pairs)
    for k, size in enumerate(sizes):
        bulk, agents = zip(*measured[k * seeds : (k + 1) * seeds], strict=True)
        # Nearly empty nodes: every container decides to leave, and the order decides (see notes).
        judged = None if size.filling == 1 else TOLERANCE
        prefix = f"N = {size.nodes}, n0 = {size.capacity}, n(0) = {size.filling}"
        names = [
            Quantity(f"{prefix}: {name}", 0.0 if name == QUANTITIES[3] else judged)
            for name in QUANTITIES
        ]
        names[2] = Quantity(names[2].name, None)
        rows += compare(names, bulk, agents)
    notes = (
        f"{seeds} seeds; `paper` is the agents' mean and range. Means hold within "
        f"{TOLERANCE:.0%} and two standard errors of their difference; the end must be the same.",
        "From one container on each node every container decides to leave at once (p = 1), and "
        "the order in which they do decides: the bulk engine goes along the ring, so that the "
        "containers gather on their way; agents decide at moments of their own. In a model of "
        "section 5 with that one change, a random order takes 24 T instead of 14 T for N = 50; "
        "so this row judges the end only.",
        "A full search of the ring that fails is counted by both; agents also ask again after a "
        "refusal that a race caused. The row of nodes asked judges nothing.",
    )
    title = "A swarm in bulk and message by message"
    return Reproduction("swarm-fidelities", title, tuple(rows), (), notes)


def _both(where: tuple[Size, int]) -> tuple[list[float], list[float]]:
    return bulk_figures(*where), message_figures(*where)


def _run_to_rest(
    advance: Callable[[float], None], count: Callable[[], Counts | None], capacity: int
) -> float:
    """Step by step until nothing is under way and every node is empty or full; returns the
    steps."""
    for step in range(1, STEPS_MAX):
        advance(step * STEP_S + 0.5)
        containers = count()
        if containers is not None and ((containers == 0) | (containers == capacity)).all():
            return float(step)
    raise RuntimeError(f"a swarm is not at rest after {STEPS_MAX} steps; please report it")


def bulk_figures(size: Size, seed: int) -> list[float]:
    """The figures of the bulk engine."""
    with tempfile.TemporaryDirectory() as folder:
        simulation = engine.prepare(_scenario(size, seed, Path(folder)))

    engine.advance(simulation, PLACED_S)

    def count() -> Counts | None:
        """The containers of each node, None while some are under way."""
        # Read each time: the engine replaces the world when it needs room.
        world = simulation.world
        present = world.tasks["job"] >= 0
        if (world.tasks["source"][present] >= 0).any():
            return None
        return np.bincount(world.slots["node"][present], minlength=size.nodes)

    def advance(until: float) -> None:
        engine.advance(simulation, until)

    start = count()
    assert start is not None and (start == size.filling).all(), "not placed as expected"
    steps = _run_to_rest(advance, count, size.capacity)
    end = count()
    assert end is not None
    figures = summary.summary(simulation, "swarm")["cluster"]
    full = float((end == size.capacity).sum())
    return [steps, figures["migrations"], figures["messages_per_migration"], full]


def _scenario(size: Size, seed: int, folder: Path) -> sc.Scenario:
    """One job whose tasks are spread evenly at once and never end."""
    path = folder / "jobs.csv"
    path.write_text(f"{HEADER}a,web,0,{size.nodes * size.filling},999999,1,1\n")
    swift = {"job_time_s": 0.001, "task_time_s": 0.00001}
    scheduler = {
        "kind": "swarm",
        "placement": "worst-fit",
        "decision": {"web": swift},
        "swarm": {"step_s": STEP_S, "migration_s": STEP_S},
    }
    memory = f"{size.capacity}G"
    tables = {
        "name": "swarm-fidelities",
        "seed": seed,
        "days": STEPS_MAX * STEP_S / 86_400.0,
        "cluster": {"nodes": size.nodes, "cpu": size.capacity, "memory": memory},
        "workload": {"trace": str(path)},
        "scheduler": scheduler,
    }
    return sc.check(tables, "swarm-fidelities")


def message_figures(size: Size, seed: int) -> list[float]:
    """The same of the agents, message by message."""
    world = SwarmSimulation(_cluster(size, seed))

    def count() -> Counts | None:
        agents = list(world.agents())
        if any(agent.departures or agent.reserved for agent in agents):
            return None
        return np.array([len(agent.containers) for agent in agents], np.int64)

    steps = _run_to_rest(world.driver.run, count, size.capacity)
    end, counts = count(), world.counts()
    assert end is not None
    asked, full = counts["asked"] / counts["migrations"], float((end == size.capacity).sum())
    return [steps, counts["migrations"], asked, full]


def _cluster(size: Size, seed: int) -> SwarmCluster:
    names = [f"node-{k}" for k in range(size.nodes)]
    start = {
        name: [SwarmContainer(f"{name}-{k}", (1,)) for k in range(size.filling)] for name in names
    }
    nodes = dict.fromkeys(names, (size.capacity,))
    return SwarmCluster(nodes, start, SwarmSettings(step_s=STEP_S), STEP_S, seed)
