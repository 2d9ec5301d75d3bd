"""Claims of chapter 4 about the master itself: small clusters driven message by message. Times are
in units of T."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from murmuration.base.random import generator
from murmuration.experiments.papers.mesos.partitioning_slots import Floats
from murmuration.schedulers.offers.allocators import lottery, priority
from murmuration.schedulers.offers.frameworks import (
    ElasticFramework,
    Framework,
    GangFramework,
    GangJob,
    Job,
    TaskSpec,
)
from murmuration.schedulers.offers.master import Rules
from murmuration.schedulers.offers.messages import (
    Filters,
    JobFinished,
    LaunchTask,
    Register,
    SetFilters,
    Submit,
    Vector,
)
from murmuration.simulation.messages.offers import assemble, lasts_payload

SLOT: Vector = (10**6, 10**9)
#: A framework's own tasks where the model takes its work to be divisible at will.
GRAIN = 0.1


def slots(count: int) -> Vector:
    return (count * SLOT[0], count * SLOT[1])


def backlog(durations: Iterable[float], size: Vector = SLOT) -> Job:
    """More work than will be done."""
    return Job("backlog", (tuple(TaskSpec(size, float(s)) for s in durations),))


@dataclass(frozen=True)
class Entered:
    """The fate of a framework that joins a full cluster of k slots."""

    ramp_up: float
    completion: float
    #: Of a rigid framework: the part of the slot-time it held that it used. Of an elastic one: of
    #: all slot-time.
    utilisation: float


def enter(
    seed: int, k: int, beta: float, constant: bool, rigid: bool, grain: float = GRAIN
) -> Entered:
    """A framework entitled to k single-slot nodes enters when all of them are busy with tasks of
    another (4.6)."""
    rng = generator(seed, "enter", str(constant), str(rigid))
    taken: dict[str, float] = {}
    ended: list[float] = []
    runs: list[tuple[float, float]] = []

    def on_launch(launch: LaunchTask, now: float) -> None:
        runs.append((now, lasts_payload(launch)))
        if launch.framework == "entrant":
            taken.setdefault(launch.task.node, now)

    entrant: Framework = GangFramework("entrant") if rigid else ElasticFramework("entrant")
    loop = assemble(
        {f"node-{i}": SLOT for i in range(k)},
        [Register("others"), Register("entrant", weight=2.0, guaranteed=1.0)],
        [ElasticFramework("others"), entrant],
        Rules(allocator=priority),
        rng,
        watch={LaunchTask: on_launch, JobFinished: lambda finished, now: ended.append(now)},
    )
    job = GangJob("job", k, SLOT, beta) if rigid else backlog([grain] * round(beta * k / grain))
    loop.post(Submit("others", backlog(_others(rng, k, constant))), 0.0)
    # Just after the others have filled the cluster.
    loop.post(Submit("entrant", job), 1e-9)
    while not ended:
        loop.run(loop.now + 1.0)
    if rigid:
        used = beta * k / sum(ended[0] - at for at in taken.values())
    else:
        used = sum(min(at + lasts, ended[0]) - at for at, lasts in runs if at < ended[0]) / (
            k * ended[0]
        )
    return Entered(max(taken.values()), ended[0], used)


def _others(rng: np.random.Generator, k: int, constant: bool) -> Floats:
    """Durations of the tasks in the way; those that run first are met at a random point of their
    lives."""
    durations = np.ones(40 * k) if constant else rng.exponential(1.0, 40 * k)
    if constant:
        durations[:k] = rng.uniform(0.0, 1.0, k)
    return durations


def lottery_shares(
    seed: int, contested: int, weights: tuple[float, ...], horizon: float
) -> tuple[float, ...]:
    """Mean contested slots of each framework under lottery scheduling (4.7); one more framework
    prefers other nodes."""
    rng = generator(seed, "lottery")
    nodes = {f"node-{i}": SLOT for i in range(2 * contested)}
    preferred = frozenset(list(nodes)[:contested])
    names = [f"framework-{i}" for i in range(len(weights))]
    held = dict.fromkeys([*names, "elsewhere"], 0.0)
    warm_up = 0.1 * horizon

    def on_launch(launch: LaunchTask, now: float) -> None:
        assert isinstance(launch.task.payload, float)
        held[launch.framework] += max(
            0.0, min(now + launch.task.payload, horizon) - max(now, warm_up)
        )

    loop = assemble(
        nodes,
        [
            Register("elsewhere", weight=sum(weights)),
            *(Register(n, w) for n, w in zip(names, weights, strict=True)),
        ],
        [ElasticFramework(name) for name in held],
        Rules(allocator=lottery),
        rng,
        watch={LaunchTask: on_launch},
    )
    for name in held:
        choice = frozenset(nodes) - preferred if name == "elsewhere" else preferred
        loop.post(SetFilters(name, Filters(choice)), 0.0)
        loop.post(Submit(name, backlog(rng.exponential(1.0, round(2 * contested * horizon)))), 0.0)
    loop.run(horizon)
    return tuple(held[name] / (horizon - warm_up) for name in names)


def short_wait(seed: int, short_share: float, horizon: float) -> float:
    """How long tasks of length 1 wait for a slot on the node of their data where tasks of length
    100 fill all eight slots of every node, with a share of each node reserved for short tasks or
    none (4.8)."""
    rng = generator(seed, "short")
    nodes = [f"node-{i}" for i in range(20)]
    submitted: dict[str, float] = {}
    waits: list[float] = []

    def on_submit(submit: Submit, now: float) -> None:
        assert isinstance(submit.job, Job)
        submitted[submit.job.name] = now

    def on_finished(finished: JobFinished, now: float) -> None:
        waits.append(now - submitted[finished.job] - 1.0)

    loop = assemble(
        dict.fromkeys(nodes, slots(8)),
        [Register("long"), Register("short")],
        [ElasticFramework("long"), ElasticFramework("short", delay_s=math.inf)],
        Rules(short_share=short_share, short_max_s=2.0),
        rng,
        watch={Submit: on_submit, JobFinished: on_finished},
    )
    loop.post(
        Submit("long", backlog(rng.exponential(100.0, round(160 * (3 + horizon / 100))))), 0.0
    )
    for i, at in enumerate(np.arange(10.0, horizon, 1.0)):
        where = frozenset([nodes[int(rng.integers(len(nodes)))]])
        loop.post(
            Submit("short", Job(f"short {i}", ((TaskSpec(SLOT, 1.0, where, short=True),),))),
            float(at),
        )
    loop.run(horizon)
    return float(np.mean(waits))


def measure_waste(seed: int, largest: float, horizon: float) -> tuple[float, float]:
    """Mean and greatest share of a node that lies idle under three frameworks with more to run,
    whose tasks take up to `largest` of a node (4.10)."""
    rng = generator(seed, "wasted", str(largest))
    node = slots(16)
    names = [f"framework-{i}" for i in range(3)]
    loop = assemble(
        {f"node-{i}": node for i in range(12)},
        [Register(name) for name in names],
        [ElasticFramework(name) for name in names],
        Rules(),
        rng,
    )
    for name in names:
        count = round(12 * horizon / largest)
        sizes = rng.uniform(0.1 * largest, largest, count)
        lasts = rng.exponential(1.0, count)
        specs = (
            TaskSpec((int(x * node[0]), 0), float(s)) for x, s in zip(sizes, lasts, strict=True)
        )
        loop.post(Submit(name, Job("mixed", (tuple(specs),))), 0.0)
    idle = []
    for at in np.arange(2.0, horizon, 0.25):
        loop.run(float(at))
        idle += [row.available[0] / row.columns[0] for row in loop.master.ledger.nodes.values()]
    return float(np.mean(idle)), max(idle)


@dataclass(frozen=True)
class Large:
    """How a framework of large tasks fared."""

    started: int
    share: float
    in_use: float


def large_tasks(seed: int, min_offer: Vector, horizon: float) -> Large:
    """A framework whose tasks fill a node comes into a cluster full of small tasks (4.10)."""
    rng = generator(seed, "large")
    nodes, node = 10, slots(4)
    held = {"small": 0.0, "large": 0.0}
    started: list[str] = []

    def on_launch(launch: LaunchTask, now: float) -> None:
        assert isinstance(launch.task.payload, float)
        held[launch.framework] += launch.task.request[0] * (
            min(now + launch.task.payload, horizon) - now
        )
        started.append(launch.framework)

    loop = assemble(
        {f"node-{i}": node for i in range(nodes)},
        [Register("small"), Register("large")],
        [ElasticFramework("small"), ElasticFramework("large")],
        Rules(min_offer=min_offer),
        rng,
        watch={LaunchTask: on_launch},
    )
    loop.post(Submit("small", backlog(rng.exponential(1.0, round(8 * nodes * horizon)))), 0.0)
    loop.post(
        Submit("large", backlog(rng.exponential(1.0, round(2 * nodes * horizon)), node)), 1e-9
    )
    loop.run(horizon)
    capacity = nodes * node[0] * horizon
    return Large(started.count("large"), held["large"] / capacity, sum(held.values()) / capacity)
