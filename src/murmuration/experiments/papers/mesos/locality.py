"""Data locality through delay scheduling (5.5.3): sixteen Hadoop instances scan files spread over
one cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from murmuration.base.random import generator
from murmuration.experiments.replicates import draw_against_paper, interval, measure_row, replicate
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.reports.figures import Bars
from murmuration.schedulers.offers.frameworks import ElasticFramework, Job, TaskSpec
from murmuration.schedulers.offers.master import Rules
from murmuration.schedulers.offers.messages import (
    Filters,
    JobFinished,
    LaunchTask,
    Register,
    SetFilters,
    Submit,
)
from murmuration.simulation.messages.offers import assemble

NODES, INSTANCES = 93, 16
NODE = (4 * 10**6, 15 * 10**9)
TASK = (10**6, 2 * 10**9)
REPLICAS = 3
#: 100 GiB in blocks of 64 MiB, as was usual then.
BLOCKS, BLOCKS_QUICK = 1600, 300
LOCAL_S, REMOTE_FACTOR, VARIATION = 10.0, 2.0, 0.3
START_EVERY_S = 1.0
#: The delay of each scenario; None stands for static partitions.
SCENARIOS: dict[str, float | None] = {
    "static": None,
    "no delay": 0.0,
    "1 s delay": 1.0,
    "5 s delay": 5.0,
}

NOTES = (
    "Locality holds within 3 points of the paper's number, or on its side of a bound. The "
    "speed-up holds within 15 %.",
    "Chosen, since the paper does not say: a file of its own for each instance in 1,600 blocks "
    "of 64 MiB, three "
    "replicas on random nodes; instances start 1 s apart; a local task takes 10 s on average "
    "(log-normal, coefficient "
    "of variation 0.3), a remote one twice as long. "
    "The speed-up follows from locality and that factor; locality hardly depends on it. 1 CPU "
    "per task.",
    "Delays do better here than in the paper, so its 0.95 is a lower bound (less 3 points): an "
    "offer takes no time and a rejected slot is offered on at once, so a framework that waits "
    "sees every slot that comes free. What the paper's cluster loses to slow nodes, repeated "
    "tasks and uneven blocks it does not describe, and any number could be had.",
)
QUICK_NOTE = (
    "A quick run: files of {} blocks. So short a job is mostly beginning and end; its "
    "speed-up is not judged."
)


@dataclass(frozen=True, slots=True)
class Block:
    """What a task scans: how long it takes where the data is, and where that is."""

    local_s: float
    nodes: frozenset[str]


@dataclass(frozen=True)
class LocalityRun:
    """One run of one scenario."""

    local: float
    job_s: float


def run(settings: ReproductionSettings) -> Reproduction:
    """Figure 5.7."""
    blocks, runs = (BLOCKS_QUICK, 1) if settings.quick else (BLOCKS, 3)
    results = replicate(settings, "locality", partial(run_once, blocks=blocks), runs)
    title = "Data locality and job duration with delay scheduling (Figure 5.7)"
    notes = NOTES if blocks == BLOCKS else (*NOTES, QUICK_NOTE.format(blocks))
    return Reproduction(
        "locality", title, _rows(results, blocks == BLOCKS), _figures(results), notes
    )


def run_once(seed: int, blocks: int = BLOCKS) -> dict[str, LocalityRun]:
    """All scenarios on the same files."""
    rng = generator(seed, "files")
    names = [f"node-{i}" for i in range(NODES)]
    jobs = [Job("scan", (_file(names, blocks, rng),)) for _ in range(INSTANCES)]
    return {name: _scan(names, jobs, delay_s, seed) for name, delay_s in SCENARIOS.items()}


def _file(names: list[str], blocks: int, rng: np.random.Generator) -> tuple[TaskSpec, ...]:
    spread = math.sqrt(math.log(1.0 + VARIATION**2))
    tasks = []
    for local_s in LOCAL_S * rng.lognormal(-(spread**2) / 2, spread, blocks):
        nodes = frozenset(names[i] for i in rng.choice(NODES, REPLICAS, replace=False))
        tasks.append(TaskSpec(TASK, Block(float(local_s), nodes), nodes))
    return tuple(tasks)


def _scan(names: list[str], jobs: list[Job], delay_s: float | None, seed: int) -> LocalityRun:
    """Run the scans; how many tasks were local and how long a job took."""
    local: list[bool] = []
    ends: list[float] = []

    def lasts(launch: LaunchTask) -> float:
        block = launch.task.payload
        assert isinstance(block, Block)
        local.append(launch.task.node in block.nodes)
        return block.local_s * (1.0 if local[-1] else REMOTE_FACTOR)

    instances = [f"hadoop-{i}" for i in range(INSTANCES)]
    loop = assemble(
        dict.fromkeys(names, NODE),
        [Register(name) for name in instances],
        [ElasticFramework(name, delay_s or 0.0) for name in instances],
        Rules(),
        generator(seed, "master"),
        lasts,
        watch={JobFinished: lambda finished, now: ends.append(now)},
    )
    for i, (name, job) in enumerate(zip(instances, jobs, strict=True)):
        if delay_s is None:
            loop.post(SetFilters(name, Filters(frozenset(names[i::INSTANCES]))), 0.0)
        loop.post(Submit(name, job), i * START_EVERY_S)
    loop.run()
    started = START_EVERY_S * (INSTANCES - 1) / 2
    return LocalityRun(sum(local) / len(local), sum(ends) / len(ends) - started)


def _rows(results: Sequence[dict[str, LocalityRun]], whole: bool) -> tuple[Row, ...]:
    local = {name: [result[name].local for result in results] for name in SCENARIOS}
    faster = {
        name: [result["static"].job_s / result[name].job_s for result in results]
        for name in SCENARIOS
    }
    static, free, one_s, five_s = (interval(values).mean for values in local.values())
    close = abs(interval(faster["5 s delay"]).mean / 1.7 - 1.0) <= 0.15
    return (
        measure_row(
            "local tasks, static partitions", 0.18, local["static"], abs(static - 0.18) <= 0.03
        ),
        measure_row(
            "local tasks, offers without delay",
            "more than static",
            local["no delay"],
            free > static,
        ),
        measure_row("local tasks, 1 s delay", "above 0.90", local["1 s delay"], one_s > 0.90),
        measure_row(
            "local tasks, 5 s delay", "0.95: at least 0.92", local["5 s delay"], five_s >= 0.92
        ),
        measure_row(
            "jobs faster than static, 5 s delay", 1.7, faster["5 s delay"], close if whole else None
        ),
        measure_row("jobs faster than static, 1 s delay", None, faster["1 s delay"]),
        measure_row("jobs faster than static, no delay", None, faster["no delay"]),
    )


def _figures(results: Sequence[dict[str, LocalityRun]]) -> tuple[Bars, Bars]:
    local = [[result[name].local for result in results] for name in SCENARIOS]
    took = [interval([result[name].job_s for result in results]) for name in SCENARIOS]
    paper = dict(zip(SCENARIOS, (0.18, None, 0.90, 0.95), strict=True))
    note = "The paper gives no number without delay, and for 1 s says above 90 %."
    bars = (("here", tuple(value.mean for value in took)),)
    return (
        draw_against_paper(
            "Tasks that run where their data is", "local tasks", paper, local, note, y_percent=True
        ),
        Bars("Mean duration of a job", "seconds", tuple(SCENARIOS), bars),
    )
