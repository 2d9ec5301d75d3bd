"""Two fidelities, one set of rules: the master that exchanges messages and the bulk kernel give the
same schedule.

Jobs of one task each, nodes that are alike, decisions and offers that take no time: whenever a slot
comes free both must give it to the framework furthest below its share, and that framework to its
oldest job. So every task starts at the same time in both.
"""

from __future__ import annotations

import numpy as np
import pytest

from murmuration.schedulers.offers.allocators import ALLOCATORS
from murmuration.schedulers.offers.frameworks import ElasticFramework, Job, TaskSpec
from murmuration.schedulers.offers.master import Rules
from murmuration.schedulers.offers.messages import LaunchTask, Register, Submit
from murmuration.simulation.engine import run as engine
from murmuration.simulation.messages.offers import assemble
from murmuration.simulation.scenarios import scenario as sc

NODES, CPUS = 5, 4
WEIGHTS = {"a": 1.0, "b": 2.0}


def crowded(allocator: str, seed: int) -> engine.Run:
    """Two frameworks that together want more than the twenty slots there are."""
    workload = {
        "arrivals_per_s": 0.09,
        "tasks_per_job": 0.01,
        "task_duration_s": 150.0,
        "task_cpu": 1,
    }
    tables = {
        "name": "crowded",
        "seed": seed,
        "days": 0.05,
        "cluster": {"nodes": NODES, "cpu": CPUS, "memory": "1G"},
        "workload": {name: dict(workload) for name in WEIGHTS},
        "scheduler": {
            "kind": "offers",
            "decision": {"default": {"job_time_s": 0.0, "task_time_s": 0.0}},
            "offers": {
                "allocator": allocator,
                "offer_time_s": 0.0,
                "framework": {name: {"weight": weight} for name, weight in WEIGHTS.items()},
            },
        },
    }
    return engine.prepare(sc.check(tables))


def starts_by_messages(run: engine.Run, allocator: str) -> dict[tuple[str, str], float]:
    """When the message-level master starts each job's task."""
    jobs, started = run.setup.jobs, {}
    names = [jobs.workloads[w] for w in jobs.workload]

    def note(launch: LaunchTask, now: float) -> None:
        duration = launch.task.payload
        started[launch.framework, repr(duration)] = now

    loop = assemble(
        nodes={f"node-{i}": (CPUS,) for i in range(NODES)},
        registrations=[Register(name, weight) for name, weight in WEIGHTS.items()],
        frameworks=[ElasticFramework(name) for name in WEIGHTS],
        rules=Rules(allocator=ALLOCATORS[allocator]),
        rng=np.random.default_rng(0),
        watch={LaunchTask: note},
    )
    for name, submit, duration in zip(names, jobs.submit_s, jobs.duration_s, strict=True):
        job = Job(f"{name}-{submit}", ((TaskSpec((1,), payload=float(duration)),),))
        loop.post(Submit(name, job), float(submit))
    loop.run(run.horizon_s)
    return started


@pytest.mark.parametrize("allocator", ["drf", "priority"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_master_and_the_kernel_start_every_task_at_the_same_time(
    allocator: str, seed: int
) -> None:
    run = crowded(allocator, seed)
    engine.finish(run)
    jobs, rows = run.setup.jobs, run.world.jobs
    by_kernel = {
        (jobs.workloads[jobs.workload[j]], repr(float(jobs.duration_s[j]))): float(rows["full"][j])
        for j in np.flatnonzero(~np.isnan(rows["full"]))
    }
    by_messages = starts_by_messages(run, allocator)
    waits = rows["full"] - rows["submit"]
    assert np.nanmean(waits) > 10.0, "the cluster must be crowded for this to show anything"
    assert by_kernel.keys() == by_messages.keys()
    worst = max(abs(by_kernel[key] - by_messages[key]) for key in by_kernel)
    assert worst < 1e-6
