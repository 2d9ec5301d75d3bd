"""What becomes of a batch: nodes for its tasks, and plans of moves for those that fit nowhere.

Tasks go where the scenario's placement puts them, then where a short search finds better. For a
task that fits nowhere a plan is made: moves, and the node it will start on. Each of these *steps*
begins when its node has room (`steps`), so nothing is ever overloaded; room that steps need is
given to nobody else.

A `Batch` only decides. Whoever runs it does what it says in between: `begin` names the moves that
have become possible, `decide` gives nodes to jobs, `finish` names the first moves of new plans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from murmuration.assignment.objectives import parse_objective
from murmuration.base.arrays import Amounts, Indices, Records, SmallIntegers
from murmuration.schedulers.genetic.batch import (
    BatchCluster,
    BatchTasks,
    Limits,
    find_moves,
    improve,
    join_tasks,
    repack_new,
)
from murmuration.schedulers.genetic.settings import GeneticSettings
from murmuration.schedulers.genetic.steps import (
    NEW,
    STEP,
    BatchTable,
    has_moving_tasks,
    keep_possible,
    room_table,
    split_due,
    sum_reserved,
)

#: How often a batch tries to fit what does not, in each of the two ways; steps that may be under
#: way at once.
TRIES_MAX, STEPS_MAX = 10, 4096
#: Nodes for so many tasks of a job, taken from this room: as many as there is room for.
Place = Callable[[Amounts, int, int], Indices]


@dataclass
class Batch:
    """A batch that ends, with the jobs in it and the steps that are still to do."""

    table: BatchTable
    settings: GeneticSettings
    jobs: SmallIntegers
    steps: Records
    #: The scenario's placement.
    place: Place
    #: Of the search of this batch.
    seed: int

    def __post_init__(self) -> None:
        table = self.table
        #: The nodes each job has been given, and those that were promised to it and are free now.
        self.nodes: list[Indices] = [np.zeros(0, np.int64) for _ in self.jobs]
        self.promised = list(self.nodes)
        #: What new tasks may take of each node.
        self.room: Amounts = np.zeros_like(table.total)
        # The last row of masks allows every node.
        self.masks = np.concatenate([table.masks, np.ones((1, len(table.total)), np.bool_)])
        self.mask_of = np.where(
            table.jobs["mask"] >= 0, table.jobs["mask"], len(table.masks)
        ).astype(np.int64)
        self.plans, self.evaluations, self.dropped = 0, 0, 0

    def begin(self) -> Records:
        """Steps that have become possible: tasks of the batch may start where it was promised to
        them; returns the moves that begin."""
        ready = split_due(self.steps, self.table, {*self.jobs.tolist()})
        moves, starts = self.steps[ready.moves], self.steps[ready.starts]
        self.promised = [starts["node"][starts["job"] == job].astype(np.int64) for job in self.jobs]
        self.steps = self.steps[ready.rest]
        return moves

    def decide(self) -> list[Indices]:
        """The nodes of each job: promises first, then what fits beside the others, then what fits
        in another way; what needs moves gets a plan."""
        self.room = free_room(self)
        for k in range(len(self.jobs)):
            put_beside(self, k)
        left = [k for k in range(len(self.jobs)) if self.missing(k) > 0]
        make_fit(self, left, repack)
        if self.settings.move:
            make_fit(self, left, plan)
        search(self)
        return [np.concatenate(pair) for pair in zip(self.promised, self.nodes, strict=True)]

    def finish(self) -> Records:
        """The first moves of new plans, which begin now."""
        ready = split_due(self.steps, self.table, ())
        moves, self.steps = self.steps[ready.moves], self.steps[ready.rest]
        return moves

    def drop_stuck(self) -> None:
        """Drop the steps that nothing can help any more."""
        if len(self.steps) and not has_moving_tasks(self.table):
            left = keep_possible(self.steps, self.table)
            self.dropped += len(self.steps) - len(left)
            self.steps = left

    def missing(self, k: int) -> int:
        """Tasks of the batch's k-th job that have neither a node nor a promise of one."""
        promised = int(((self.steps["job"] == self.jobs[k]) & (self.steps["slot"] == NEW)).sum())
        given = len(self.nodes[k]) + len(self.promised[k])
        return int(self.table.jobs["left"][self.jobs[k]]) - given - promised

    def tasks(self, job: Indices, node: Indices) -> BatchTasks:
        return BatchTasks(node, job, self.table.request[job], self.mask_of[job])

    def lacking(self, k: int, count: int) -> BatchTasks:
        """So many tasks of the k-th job, without nodes."""
        return self.tasks(np.full(count, self.jobs[k], np.int64), np.full(count, -1))

    def given(self) -> BatchTasks:
        """The tasks that have been given nodes in this batch, but not by promise."""
        job = np.repeat(self.jobs.astype(np.int64), [len(x) for x in self.nodes])
        return self.tasks(job, np.concatenate([np.zeros(0, np.int64), *self.nodes]))

    def give(self, node: Indices) -> None:
        """Other nodes for the tasks that have been given one."""
        ends = np.cumsum([len(x) for x in self.nodes])
        self.nodes = np.split(node, ends[:-1])

    def cluster(self, room: Amounts, slots: Indices) -> BatchCluster:
        """The nodes with these running tasks on them."""
        job = self.table.tasks["job"][slots].astype(np.int64)
        running = self.tasks(job, self.table.slots["node"][slots].astype(np.int64))
        return BatchCluster(self.table.total, room, self.masks, running)


def free_room(batch: Batch) -> Amounts:
    """What new tasks may take: what is free, unless steps will need it and no migration under way
    will free it."""
    table = batch.table
    have = room_table(table).copy()
    for job, nodes in zip(batch.jobs, batch.promised, strict=True):
        np.subtract.at(have, nodes, table.request[job])
    # Two limits. Nothing may be taken that is not free now; and once the migrations under way have
    # left, what remains must cover the steps still to do.
    left = have + table.reserved_outgoing - sum_reserved(batch.steps, table)
    return np.ascontiguousarray(np.minimum(have, left).clip(0))


def put_beside(batch: Batch, k: int) -> None:
    """Nodes for the tasks of a job by the scenario's placement, as if it were alone; all or none
    for a gang."""
    job, wanted = int(batch.jobs[k]), batch.missing(k)
    if wanted <= 0:
        return
    nodes = batch.place(batch.room, job, wanted)
    if batch.table.jobs["gang"][job] and len(nodes) < wanted:
        np.add.at(batch.room, nodes, batch.table.request[job])
        nodes = nodes[:0]
    batch.nodes[k] = nodes


def repack(batch: Batch, k: int, count: int) -> bool:
    """Whether so many tasks of a job fit after all if the other new ones, none of which has
    started, go elsewhere."""
    given = batch.given()
    if not 0 < len(given.node) <= batch.settings.tasks_max:
        return False
    room = batch.room.copy()
    np.add.at(room, given.node, given.request)
    job = int(batch.jobs[k])
    allowed = batch.masks[batch.mask_of[job]]
    if not (room[allowed] >= batch.table.request[job]).all(axis=1).any():
        return False
    new = join_tasks(given, batch.lacking(k, count))
    cluster = batch.cluster(room, np.zeros(0, np.int64))
    nodes = repack_new(cluster, new, batch.settings.nodes_max)
    if nodes is None:
        return False
    batch.give(nodes[: len(given.node)])
    batch.nodes[k] = np.concatenate([batch.nodes[k], nodes[len(given.node) :]])
    renew_room(batch, room)
    return True


def renew_room(batch: Batch, room: Amounts) -> None:
    """What is left of the room once the new tasks have theirs."""
    given = batch.given()
    np.subtract.at(room, given.node, given.request)
    batch.room = room


def make_fit(batch: Batch, left: list[int], way: Callable[[Batch, int, int], bool]) -> None:
    """Try one way to fit what does not: task by task, a gang whole. A job that asks for no less
    than one that failed is not tried, and the tries of a batch are limited."""
    failed: list[tuple[int, Amounts]] = []
    tries = TRIES_MAX
    for k in left:
        job = int(batch.jobs[k])
        mask, request = int(batch.mask_of[job]), batch.table.request[job]
        while (missing := batch.missing(k)) > 0 and tries > 0:
            count = missing if batch.table.jobs["gang"][job] else 1
            asked = np.append(request, count)
            # A try is a search, so what asks for as much as one that failed, or more, is taken to
            # fail too.
            if any(mask == other and (smaller <= asked).all() for other, smaller in failed):
                break
            tries -= 1
            if not way(batch, k, count):
                failed.append((mask, asked))


def plan(batch: Batch, k: int, count: int) -> bool:
    """Whether there are moves after which so many tasks of a job have nodes: they are then added to
    the steps."""
    slots = movable(batch)
    new = batch.lacking(k, count)
    moves = find_moves(batch.cluster(batch.room, slots), new, batch.settings.nodes_max)
    if moves is None or len(batch.steps) + len(moves) > STEPS_MAX:
        return False
    rows = np.zeros(len(moves), STEP)
    for row, move in zip(rows, moves, strict=True):
        slot = int(slots[move.running]) if move.running >= 0 else NEW
        job = batch.jobs[k] if slot == NEW else batch.table.tasks["job"][slot]
        row["job"], row["slot"], row["origin"], row["node"] = job, slot, move.origin, move.node
    batch.steps = np.concatenate([batch.steps, rows])
    np.subtract.at(batch.room, rows["node"], batch.table.request[rows["job"]])
    batch.room = batch.room.clip(0)
    batch.plans += 1
    return True


def movable(batch: Batch) -> Indices:
    """The slots of tasks that may be moved: those that stand where they are, on nodes that hold no
    more than they have, and for which there is no plan yet."""
    table = batch.table
    high = int(table.state["slots_high"][0])
    tasks, node = table.tasks[:high], table.slots["node"][:high]
    free = (tasks["job"] >= 0) & (tasks["source"] < 0) & (room_table(table)[node] >= 0).all(axis=1)
    free[batch.steps["slot"][batch.steps["slot"] >= 0]] = False
    return np.flatnonzero(free)


def search(batch: Batch) -> None:
    """Better nodes for all new tasks of the batch, unless they are too many to be searched."""
    settings, given, table = batch.settings, batch.given(), batch.table
    if not 0 < len(given.node) <= settings.tasks_max or settings.evaluations == 0:
        return
    room = batch.room.copy()
    np.add.at(room, given.node, given.request)
    high = int(table.state["slots_high"][0])
    slots = np.flatnonzero((table.tasks["job"][:high] >= 0) & (table.tasks["source"][:high] < 0))
    objectives = tuple(parse_objective(text) for text in settings.objectives)
    limits = Limits(objectives, settings.population, settings.evaluations, settings.nodes_max)
    better = improve(batch.cluster(room, slots), given, limits, batch.seed)
    batch.evaluations += better.evaluations
    batch.give(better.node)
    renew_room(batch, room)
