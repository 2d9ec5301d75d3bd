"""A small cluster of a scenario, message by message: the same nodes, tasks and start as the bulk
engine, to compare both.

The bulk engine places the tasks that are there at time 0; the message-level cluster starts from
that
placement.
"""

from __future__ import annotations

import numpy as np

from murmuration.base.arrays import Records, Times
from murmuration.base.errors import InputError
from murmuration.base.jit import loop_kernel
from murmuration.schedulers.negotiation.messages import MobileTask, Vector
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.simulation.engine import run as engine
from murmuration.simulation.engine.usage import phase
from murmuration.simulation.messages.negotiation.cluster import (
    Arrival,
    Compiled,
    NegotiatingCluster,
)


def small_cluster(run: engine.Run, seed: int) -> NegotiatingCluster:
    """The cluster of a negotiation run at time 0; the run is advanced to where its first tasks are
    placed."""
    if run.setup.scenario.scheduler.settings_of(NegotiationSettings).initial == "recorded":
        raise InputError(
            "scheduler.negotiation.initial: message by message tasks are placed by a score, not "
            "where they were recorded"
        )
    engine.advance(run, 0.0)
    setup, settings = run.setup, run.setup.scenario.scheduler.settings_of(NegotiationSettings)
    nodes = {
        name: vector(row) for name, row in zip(setup.nodes.names, run.world.total, strict=True)
    }
    return NegotiatingCluster(
        nodes,
        [*initial_tasks(run), *later_tasks(run)],
        settings,
        settings.broker_count(len(nodes)),
        seed,
        attributes={
            name: dict(a) for name, a in zip(setup.nodes.names, setup.nodes.attributes, strict=True)
        },
        monitor_s=settings.report_s,
        functions=Compiled.make(),
    )


def vector(row: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Vector:
    return tuple(row.tolist())


def arrival(run: engine.Run, job: int, name: str, offset_s: float, node: str | None) -> Arrival:
    """One task of a job."""
    jobs = run.setup.jobs
    constraints = tuple(map(str, jobs.constraint_sets[jobs.constraint[job]]))
    task = MobileTask(name, vector(jobs.request[job]), bool(jobs.production[job]), constraints)
    at, lasts = float(jobs.submit_s[job]), float(jobs.duration_s[job])
    curves, curve = jobs.curves, int(jobs.curve[job])
    if curves is None or curve < 0:
        return Arrival(task, at, lasts, node=node)
    return Arrival(
        task, at, lasts, curves.share[curve], curves.step_s, offset_s, curves.cyclic, node
    )


def initial_tasks(run: engine.Run) -> list[Arrival]:
    """The tasks that run at time 0, where they run."""
    world, nodes = run.world, run.setup.nodes.names
    slots = np.flatnonzero(world.tasks["job"][: int(world.state["slots_high"][0])] >= 0)
    return [
        arrival(
            run,
            int(world.tasks["job"][slot]),
            f"found-{slot}",
            -float(world.tasks["began"][slot]),
            nodes[world.slots["node"][slot]],
        )
        for slot in slots
    ]


def later_tasks(run: engine.Run) -> list[Arrival]:
    """The tasks that come after time 0, or had no place then. Each uses what it would in bulk: what
    differs between both fidelities is where tasks are, never what they use."""
    jobs, state = run.setup.jobs, run.world.state
    points = 0 if jobs.curves is None else jobs.curves.share.shape[1]
    offsets = np.zeros(int(jobs.tasks.max(initial=0)))
    placed = run.world.tasks["job"]
    left = jobs.tasks - np.bincount(placed[placed >= 0], minlength=len(jobs))
    arrivals = []
    for job in map(int, np.flatnonzero(left > 0)):
        fill_phases(state, points, job, offsets)
        for k in range(left[job]):
            name = f"{jobs.job_id[job]}-{k}"
            arrivals.append(arrival(run, job, name, float(offsets[k]), None))
    return arrivals


@loop_kernel
def fill_phases(state: Records, points: int, job: int, offsets: Times) -> None:
    """How far along its curve each task of a job begins."""
    for k in range(offsets.shape[0]):
        offsets[k] = phase(state, points, job, k)
