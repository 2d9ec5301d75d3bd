"""Batches: every so often what waits is placed as a whole, and running tasks are moved where that
makes room.

A batch begins at a multiple of `batch_s` with the jobs that wait then, and ends when the time is
over that deciding on them takes; the table is read at the end. Its tasks go where the scenario's
placement puts them, then where a short search finds better. For a task that fits nowhere a plan is
made: moves, and the node it will start on. Each of these *steps* begins when its node has room, so
nothing is ever overloaded; room that steps need is given to nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.assignment.objectives import parse_objective
from murmuration.base.jit import FirstClass
from murmuration.schedulers.genetic.batch import (
    Cluster,
    Limits,
    Tasks,
    improved,
    joined,
    moves_for,
    repacked,
)
from murmuration.simulation.architectures.genetic.kernels import gather, start_jobs
from murmuration.simulation.architectures.genetic.settings import GeneticRules
from murmuration.simulation.architectures.genetic.steps import (
    NEW,
    STEP,
    begin_moves,
    due,
    possible,
    reserved,
    table_of,
    under_way,
)
from murmuration.simulation.engine import world as wd
from murmuration.simulation.engine.build import grow_world
from murmuration.simulation.engine.setup import Setup
from murmuration.simulation.engine.steps import NOTES_MAX

Array = NDArray[Any]
#: How often a batch tries to fit what does not, in each of the two ways; steps that may be under
#: way at once.
TRIES_MAX, STEPS_MAX = 10, 4096

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

    settings: Array
    jobs: Array
    steps: Array


def batches(world: wd.World) -> Batches:
    """No batch yet."""
    settings = np.zeros(1, SETTINGS)
    settings["begun"] = np.nan
    return Batches(settings, np.zeros(len(world.jobs), np.int32), np.zeros(STEPS_MAX, STEP))


def act(
    setup: Setup, world: wd.World, b: Batches, place: FirstClass, score: FirstClass
) -> wd.World:
    """A batch begins or ends; returns the world, which may have grown."""
    rules, now = setup.scenario.scheduler.settings_of(GeneticRules), float(world.state["now"][0])
    record = b.settings[0]
    if np.isnan(record["begun"]):
        record["jobs"], lasts = gather(world, rules.batch_s, b.jobs)
        record["begun"] = now
        if lasts > 0.0:
            set_turn(world, now + lasts)
            return world
    if record["jobs"] or record["steps"]:
        world = with_room(world, b)
        place_batch(Batch(setup, world, b, place, score))
    record["begun"], record["jobs"] = np.nan, 0
    set_turn(world, next_multiple(now, rules.batch_s))
    return world


def next_multiple(now: float, step: float) -> float:
    """The first multiple after now."""
    count = np.floor(now / step) + 1.0
    return float(count * step if count * step > now else (count + 1.0) * step)


def set_turn(world: wd.World, time: float) -> None:
    """The next turn comes at this time. A sorted agenda is in order for whoever pops it."""
    notes = world.agenda[: world.state["notes"][0]]
    notes["time"][notes["what"] & wd.KIND_MASK == wd.AGENTS_ACT] = time
    notes[:] = notes[np.lexsort((notes["order"], notes["time"]))]


def with_room(world: wd.World, b: Batches) -> wd.World:
    """The world with room for everything a batch may start."""
    jobs = b.jobs[: b.settings["jobs"][0]]
    tasks = int(world.jobs["left"][jobs].sum())
    while True:
        state = world.state[0]
        # Every run that is not over has its end on the agenda, a job that returns its return, a
        # move its end.
        notes = state["notes"] + 2 * len(jobs) + len(world.slots) - state["slots_left"] + NOTES_MAX
        if state["slots_left"] >= tasks and notes <= min(len(world.agenda), len(world.runs)):
            return world
        world = grow_world(world)


@dataclass
class Batch:
    """A batch that ends. `room` is what new tasks may take of each node; `nodes` has those each job
    has been given, and `kept` those that were promised to it and are free now."""

    setup: Setup
    world: wd.World
    b: Batches
    place: FirstClass
    score: FirstClass

    def __post_init__(self) -> None:
        world = self.world
        self.jobs = self.b.jobs[: self.b.settings["jobs"][0]].copy()
        self.nodes = [np.zeros(0, np.int64) for _ in self.jobs]
        self.kept = list(self.nodes)
        self.room = np.zeros_like(world.total)
        # The last row of masks allows every node.
        self.masks = np.concatenate([world.masks, np.ones((1, len(world.total)), np.bool_)])
        self.mask_of = np.where(
            world.jobs["mask"] >= 0, world.jobs["mask"], len(world.masks)
        ).astype(np.int64)

    @property
    def rules(self) -> GeneticRules:
        return self.setup.scenario.scheduler.settings_of(GeneticRules)

    @property
    def steps(self) -> Array:
        return self.b.steps[: self.b.settings["steps"][0]]

    def set_steps(self, steps: Array) -> None:
        self.b.steps[: len(steps)] = steps
        self.b.settings["steps"] = len(steps)

    def missing(self, k: int) -> int:
        """Tasks of the batch's k-th job that have neither a node nor a promise of one."""
        promised = int(((self.steps["job"] == self.jobs[k]) & (self.steps["slot"] == NEW)).sum())
        return (
            int(self.world.jobs["left"][self.jobs[k]])
            - len(self.nodes[k])
            - len(self.kept[k])
            - promised
        )

    def tasks(self, job: Array, node: Array) -> Tasks:
        return Tasks(node, job, self.world.request[job], self.mask_of[job])

    def lacking(self, k: int, count: int) -> Tasks:
        """So many tasks of the k-th job, without nodes."""
        return self.tasks(np.full(count, self.jobs[k], np.int64), np.full(count, -1))

    def given(self) -> Tasks:
        """The tasks that have been given nodes in this batch, but not by promise."""
        job = np.repeat(self.jobs.astype(np.int64), [len(x) for x in self.nodes])
        return self.tasks(job, np.concatenate([np.zeros(0, np.int64), *self.nodes]))

    def give(self, node: Array) -> None:
        """Other nodes for the tasks that have been given one."""
        ends = np.cumsum([len(x) for x in self.nodes])
        self.nodes = np.split(node, ends[:-1])

    def cluster(self, room: Array, slots: Array) -> Cluster:
        """The nodes with these running tasks on them."""
        job = self.world.tasks["job"][slots].astype(np.int64)
        running = self.tasks(job, self.world.slots["node"][slots].astype(np.int64))
        return Cluster(self.world.total, room, self.masks, running)


def place_batch(batch: Batch) -> None:
    """Promises first, then what fits beside the others, then what fits in another way, then what
    needs moves."""
    go_on(batch)
    batch.room = free_room(batch)
    for k in range(len(batch.jobs)):
        put_beside(batch, k)
    left = [k for k in range(len(batch.jobs)) if batch.missing(k) > 0]
    make_fit(batch, left, repack)
    if batch.rules.move:
        make_fit(batch, left, plan)
    search(batch)
    commit(batch)
    finish_steps(batch)
    batch.b.settings["batches"] += 1


def go_on(batch: Batch) -> None:
    """Steps that have become possible: moves begin, and tasks of the batch may start where it was
    promised to them."""
    steps = batch.steps.copy()
    found = due(steps, batch.world, {*batch.jobs.tolist()})
    begin_moves(steps[found.moves], batch.world, batch.rules.mb_per_s)
    starts = steps[found.starts]
    batch.kept = [starts["node"][starts["job"] == job].astype(np.int64) for job in batch.jobs]
    batch.set_steps(steps[found.rest])


def free_room(batch: Batch) -> Array:
    """What new tasks may take: what is free, unless steps will need it and no migration under way
    will free it."""
    have = table_of(batch.world).copy()
    for job, nodes in zip(batch.jobs, batch.kept, strict=True):
        np.subtract.at(have, nodes, batch.world.request[job])
    left = have + batch.world.firm_outgoing - reserved(batch.steps, batch.world)
    return np.ascontiguousarray(np.minimum(have, left).clip(0))


def put_beside(batch: Batch, k: int) -> None:
    """Nodes for the tasks of a job by the scenario's placement, as if it were alone; all or none
    for a gang."""
    world, job, wanted = batch.world, int(batch.jobs[k]), batch.missing(k)
    if wanted <= 0:
        return
    nodes, mask = np.zeros(wanted, np.int32), world.jobs["mask"][job]
    allowed = world.masks[mask] if mask >= 0 else world.masks[0][:0]
    request = world.request[job]
    count = batch.place.compiled(
        world.total, batch.room, allowed, request, wanted, world.rng[0], nodes, batch.score
    )
    if world.jobs["gang"][job] and count < wanted:
        np.add.at(batch.room, nodes[:count], request)
        count = 0
    batch.nodes[k] = nodes[:count].astype(np.int64)


def repack(batch: Batch, k: int, count: int) -> bool:
    """Whether so many tasks of a job fit after all if the other new ones, none of which has
    started, go elsewhere."""
    given = batch.given()
    if not 0 < len(given.node) <= batch.rules.tasks_max:
        return False
    room = batch.room.copy()
    np.add.at(room, given.node, given.request)
    job = int(batch.jobs[k])
    if not (room[batch.masks[batch.mask_of[job]]] >= batch.world.request[job]).all(axis=1).any():
        return False
    new = joined(given, batch.lacking(k, count))
    found = repacked(batch.cluster(room, np.zeros(0, np.int64)), new, batch.rules.nodes_max)
    if found is None:
        return False
    batch.give(found[: len(given.node)])
    batch.nodes[k] = np.concatenate([batch.nodes[k], found[len(given.node) :]])
    renew_room(batch, room)
    return True


def renew_room(batch: Batch, room: Array) -> None:
    """What is left of the room once the new tasks have theirs."""
    given = batch.given()
    np.subtract.at(room, given.node, given.request)
    batch.room = room


def make_fit(batch: Batch, left: list[int], way: Callable[[Batch, int, int], bool]) -> None:
    """Try one way to fit what does not: task by task, a gang whole. Who asks for no less than one
    that failed is not tried, and the tries of a batch are counted."""
    failed: list[tuple[int, Array]] = []
    tries = TRIES_MAX
    for k in left:
        job = int(batch.jobs[k])
        mask, request = int(batch.mask_of[job]), batch.world.request[job]
        while (missing := batch.missing(k)) > 0 and tries > 0:
            count = missing if batch.world.jobs["gang"][job] else 1
            asked = np.append(request, count)
            if any(mask == other and (least <= asked).all() for other, least in failed):
                break
            tries -= 1
            if not way(batch, k, count):
                failed.append((mask, asked))


def plan(batch: Batch, k: int, count: int) -> bool:
    """Whether moves were found after which so many tasks of a job have nodes: then they are steps
    to do."""
    slots = movable(batch)
    new = batch.lacking(k, count)
    found = moves_for(batch.cluster(batch.room, slots), new, batch.rules.nodes_max)
    if found is None or len(batch.steps) + len(found) > STEPS_MAX:
        return False
    rows = np.zeros(len(found), STEP)
    for row, move in zip(rows, found, strict=True):
        slot = int(slots[move.running]) if move.running >= 0 else NEW
        job = batch.jobs[k] if slot == NEW else batch.world.tasks["job"][slot]
        row["job"], row["slot"], row["origin"], row["node"] = job, slot, move.origin, move.node
    batch.set_steps(np.concatenate([batch.steps, rows]))
    np.subtract.at(batch.room, rows["node"], batch.world.request[rows["job"]])
    batch.room = batch.room.clip(0)
    batch.b.settings["plans"] += 1
    return True


def movable(batch: Batch) -> Array:
    """The slots of tasks that may be moved: those that stand where they are, on nodes that hold no
    more than they have, and for which there is no plan yet."""
    world = batch.world
    high = int(world.state["slots_high"][0])
    tasks, node = world.tasks[:high], world.slots["node"][:high]
    free = (tasks["job"] >= 0) & (tasks["source"] < 0) & (table_of(world)[node] >= 0).all(axis=1)
    steps = batch.steps
    free[steps["slot"][steps["slot"] >= 0]] = False
    return np.flatnonzero(free)


def search(batch: Batch) -> None:
    """Better nodes for all new tasks of the batch, unless they are too many to be searched."""
    rules, given = batch.rules, batch.given()
    if not 0 < len(given.node) <= rules.tasks_max or rules.evaluations == 0:
        return
    room = batch.room.copy()
    np.add.at(room, given.node, given.request)
    world = batch.world
    high = int(world.state["slots_high"][0])
    slots = np.flatnonzero((world.tasks["job"][:high] >= 0) & (world.tasks["source"][:high] < 0))
    objectives = tuple(parse_objective(text) for text in rules.objectives)
    limits = Limits(objectives, rules.population, rules.evaluations, rules.nodes_max)
    seed = (batch.setup.scenario.seed << 32) + int(batch.b.settings["batches"][0])
    found = improved(batch.cluster(room, slots), given, limits, seed)
    batch.b.settings["evaluations"] += found.evaluations
    batch.give(found.node)
    renew_room(batch, room)


def commit(batch: Batch) -> None:
    """Every job of the batch has had its attempt: what has a node starts."""
    nodes = [np.concatenate(pair) for pair in zip(batch.kept, batch.nodes, strict=True)]
    counts = np.array([len(x) for x in nodes], np.int64)
    everything = np.concatenate([np.zeros(0, np.int64), *nodes])
    start_jobs(batch.world, batch.jobs, counts, everything, float(batch.b.settings["begun"][0]))


def finish_steps(batch: Batch) -> None:
    """The first moves of new plans begin; what nothing can help any more is dropped."""
    steps = batch.steps.copy()
    found = due(steps, batch.world, ())
    begin_moves(steps[found.moves], batch.world, batch.rules.mb_per_s)
    rest = steps[found.rest]
    if len(rest) and not under_way(batch.world):
        kept = possible(rest, batch.world)
        batch.b.settings["dropped"] += len(rest) - len(kept)
        rest = kept
    batch.set_steps(rest)
