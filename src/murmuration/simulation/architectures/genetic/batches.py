"""Batches: every so often what waits is placed as a whole, and running tasks are moved where that
makes room.

A batch begins at a multiple of `batch_s` with the jobs that wait then, and ends when the time is
over that deciding on them takes; the table is read at the end. What becomes of it is decided in
`schedulers/genetic/batch_round`; here it is done.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from murmuration.base.arrays import Amounts, Indices, Records, SmallIntegers
from murmuration.cluster.migration import migration_mb
from murmuration.placement.ranking import make_index
from murmuration.placement.room import JobRoom
from murmuration.schedulers.genetic.batch_round import STEPS_MAX, Batch, Place
from murmuration.schedulers.genetic.settings import GeneticSettings
from murmuration.schedulers.genetic.steps import STEP, BatchTable
from murmuration.simulation.architectures.genetic.kernels import gather, move_task, start_jobs
from murmuration.simulation.engine import world as wd
from murmuration.simulation.engine.build import grow_world
from murmuration.simulation.engine.event_queue import EVENTS_MAX
from murmuration.simulation.engine.policies import compile_policy
from murmuration.simulation.engine.setup import Setup

MEMORY = 1

SETTINGS = np.dtype(
    [
        ("begun", "f8"),  # when the batch under way began, NaN for none
        ("jobs", "i8"),
        ("steps", "i8"),
        ("batches", "i8"),
        ("evaluations", "i8"),
        ("plans", "i8"),
        ("dropped", "i8"),
    ],
    align=True,
)


class Batches(NamedTuple):
    """What a run has besides its world: counts, the jobs of the batch under way, and the steps that
    are still to do."""

    settings: Records
    jobs: SmallIntegers
    steps: Records


def batches(world: wd.World) -> Batches:
    """No batch yet."""
    settings = np.zeros(1, SETTINGS)
    settings["begun"] = np.nan
    return Batches(settings, np.zeros(len(world.jobs), np.int32), np.zeros(STEPS_MAX, STEP))


def table_of(world: wd.World) -> BatchTable:
    """What a batch reads of the world, by name."""
    return BatchTable(**{name: getattr(world, name) for name in BatchTable._fields})


def act(setup: Setup, world: wd.World, b: Batches) -> wd.World:
    """A batch begins or ends; returns the world, which may have grown."""
    settings = setup.scenario.scheduler.settings_of(GeneticSettings)
    record, now = b.settings[0], float(world.state["now"][0])
    if np.isnan(record["begun"]):
        record["jobs"], lasts = gather(world, settings.batch_s, b.jobs)
        record["begun"] = now
        if lasts > 0.0:
            set_turn(world, now + lasts)
            return world
    if record["jobs"] or record["steps"]:
        world = with_room(world, b)
        place_batch(setup, settings, world, b)
    record["begun"], record["jobs"] = np.nan, 0
    set_turn(world, next_multiple(now, settings.batch_s))
    return world


def next_multiple(now: float, step: float) -> float:
    """The first multiple after now."""
    count = np.floor(now / step) + 1.0
    return float(count * step if count * step > now else (count + 1.0) * step)


def set_turn(world: wd.World, time: float) -> None:
    """The next turn comes at this time. A sorted queue of events is a heap too."""
    notes = world.event_queue[: world.state["scheduled"][0]]
    notes["time"][notes["what"] & wd.KIND_MASK == wd.AGENTS_ACT] = time
    notes[:] = notes[np.lexsort((notes["order"], notes["time"]))]


def with_room(world: wd.World, b: Batches) -> wd.World:
    """The world with room for everything a batch may start."""
    jobs = b.jobs[: b.settings["jobs"][0]]
    tasks = int(world.jobs["left"][jobs].sum())
    while True:
        state = world.state[0]
        # Every run that is not over has its end among the events, a job that returns its return, a
        # move its end.
        notes = (
            state["scheduled"] + 2 * len(jobs) + len(world.slots) - state["slots_left"] + EVENTS_MAX
        )
        if state["slots_left"] >= tasks and notes <= min(len(world.event_queue), len(world.runs)):
            return world
        world = grow_world(world)


def place_batch(setup: Setup, settings: GeneticSettings, world: wd.World, b: Batches) -> None:
    """Do what a batch decides, part by part: each part reads the table as the last one left it."""
    record = b.settings[0]
    batch = Batch(
        table=table_of(world),
        settings=settings,
        jobs=b.jobs[: record["jobs"]].copy(),
        steps=b.steps[: record["steps"]].copy(),
        place=placement_of(setup, world),
        seed=(setup.scenario.seed << 32) + int(record["batches"]),
    )
    begin_moves(batch.begin(), world, settings.mb_per_s)
    nodes = batch.decide()
    counts = np.array([len(x) for x in nodes], np.int64)
    everything = np.concatenate([np.zeros(0, np.int64), *nodes])
    start_jobs(world, batch.jobs, counts, everything, float(record["begun"]))
    begin_moves(batch.finish(), world, settings.mb_per_s)
    batch.drop_stuck()
    b.steps[: len(batch.steps)] = batch.steps
    record["steps"] = len(batch.steps)
    record["batches"] += 1
    for name in ("evaluations", "plans", "dropped"):
        record[name] += getattr(batch, name)


def placement_of(setup: Setup, world: wd.World) -> Place:
    """The scenario's placement as a batch calls it, with the scheduler's generator."""
    place, score = compile_policy(setup.placement)
    index = make_index(0, len(setup.resources))

    def place_tasks(room: Amounts, job: int, wanted: int) -> Indices:
        nodes, mask = np.zeros(wanted, np.int32), world.jobs["mask"][job]
        allowed = world.masks[mask] if mask >= 0 else world.masks[0][:0]
        rows = JobRoom(world.total, room, allowed, world.changes[:1], int(mask))
        count = place.compiled(rows, world.request[job], wanted, world.rng[0], nodes, score, index)
        return nodes[:count].astype(np.int64)

    return place_tasks


def begin_moves(steps: Records, world: wd.World, mb_per_s: float) -> None:
    """Tasks set out; each takes as long as its memory takes to copy."""
    now = float(world.state["now"][0])
    for job, slot, _, node in steps.tolist():
        memory = (
            world.task_used[slot, MEMORY] if len(world.task_used) else world.request[job, MEMORY]
        )
        move_task(world, slot, node, now + migration_mb(float(memory)) / mb_per_s)
