"""A batch of arrivals: better nodes for new tasks by a short search, and room for those that fit
nowhere.

Both look at a limited part of the cluster, so that a batch takes no longer in a large one: the
search at the nodes chosen so far and others drawn at random, the making of room at the nodes that
lack the least room and those that have the most. What else lies on a node (tasks that may not move,
tasks under way, room promised to others) counts as one task that stays there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from murmuration.assignment.moves import order_moves
from murmuration.assignment.objectives import Objective, power_of
from murmuration.assignment.packed import pack
from murmuration.assignment.problem import Problem, problem_of
from murmuration.assignment.search.construct import RECIPES
from murmuration.assignment.search.ejection import make_room
from murmuration.assignment.search.search import Search, Settings
from murmuration.assignment.search.selection import choose_best
from murmuration.base.arrays import Flags, Integers
from murmuration.base.random import generator

#: Nodes looked at in the search for a chain of moves, for each number of moves; a step looks at all
#: of them.
CHAIN_NODES, CHAIN_STEPS = 200_000, 2_000
#: Placements a search begins with: what is given, and what greedy recipes make.
SEEDS = 2 + len(RECIPES)


class BatchTasks(NamedTuple):
    """Tasks by column: their node (−1: none), their job, what they ask for, and the row of masks
    they must obey."""

    node: Integers
    job: Integers
    request: Integers
    mask: Integers

    def some(self, which: Integers | Flags) -> BatchTasks:
        return BatchTasks(*(column[which] for column in self))


def join_tasks(first: BatchTasks, second: BatchTasks) -> BatchTasks:
    return BatchTasks(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))


class BatchCluster(NamedTuple):
    """The cluster as a batch sees it: what each node has, what of it may be taken now, the masks
    (one row per kind of task, by node), and the tasks that run where they shall stay or may be
    moved."""

    total: Integers
    room: Integers
    masks: Flags
    running: BatchTasks


@dataclass(frozen=True)
class Limits:
    """How far a search goes."""

    objectives: tuple[Objective, ...]
    population: int
    evaluations: int
    nodes_max: int


class BetterNodes(NamedTuple):
    """A better node for each new task, and the placements that were evaluated."""

    node: Integers
    evaluations: int


class Move(NamedTuple):
    """A running task (by its row), or a new one (−1), goes from a node (−1: from none) to
    another."""

    running: int
    new: int
    origin: int
    node: int


def problem_on(
    cluster: BatchCluster, rows: Integers, new: BatchTasks, movable: bool
) -> tuple[Problem, Integers]:
    """The problem of some nodes: the tasks that run there, what else is taken of each, then the new
    tasks. Also the rows of the running tasks in it."""
    place = np.full(len(cluster.total), -1)
    place[rows] = np.arange(len(rows))
    local = np.flatnonzero(place[cluster.running.node] >= 0)
    running = cluster.running.some(local)
    taken = cluster.total[rows] - cluster.room[rows]
    np.subtract.at(taken, place[running.node], running.request)
    taken = np.maximum(taken, 0)
    # The rest of a node becomes one pinned task that may run anywhere, of a job of its own
    # (negative, so that it meets no real one).
    full = np.flatnonzero(taken.any(axis=1))
    rest = BatchTasks(
        rows[full], -1 - full, taken[full], np.full(len(full), len(cluster.masks) - 1)
    )
    tasks = join_tasks(join_tasks(running, rest), new)
    idle, peak = power_of(cluster.total[rows, 0] / 1e6, cluster.total[rows, 1] / 1e6)
    pinned = np.arange(len(tasks.node)) < len(local) + len(full)
    pinned[: len(local)] = not movable
    problem = problem_of(
        cluster.total[rows],
        tasks.request,
        np.where(tasks.node >= 0, place[tasks.node], -1),
        tasks.job,
        nodes=("",) * len(rows),
        tasks=("",) * len(tasks.node),
        allowed=cluster.masks[:, rows],
        class_of=tasks.mask,
        pinned=pinned,
        idle_watts=idle,
        peak_watts=peak,
    )
    return problem, local


def improve(cluster: BatchCluster, new: BatchTasks, limits: Limits, seed: int) -> BetterNodes:
    """Nodes for new tasks that are better than those they have been given, by a search that moves
    nothing else."""
    rows = _rows_around(cluster, new, limits.nodes_max, seed)
    problem, _ = problem_on(
        cluster, rows, new._replace(node=np.full(len(new.node), -1)), movable=False
    )
    work = pack(problem)
    given = np.append(problem.node_of[: -len(new.node)], np.searchsorted(rows, new.node))
    # A few tasks have few placements.
    evaluations = min(limits.evaluations, SEEDS + len(rows) * len(new.node))
    search = Search(work, limits.objectives, Settings(limits.population, evaluations, seed))
    search.seed([work.placement(given)])
    search.run()
    reference, _ = search.measure(work.placement(given)[None])
    weights = np.array([objective.weight for objective in limits.objectives])
    counted = np.ones(len(weights), dtype=np.bool_)
    best = choose_best(search.archive.front, weights, reference[0], counted)
    node = work.restore(search.archive.placements[best])[-len(new.node) :]
    return BetterNodes(rows[node] if (node >= 0).all() else new.node, search.evaluations)


def _rows_around(cluster: BatchCluster, new: BatchTasks, count_max: int, seed: int) -> Integers:
    """The nodes new tasks have been given, and others with room for the smallest of them, drawn if
    there are many."""
    given = np.unique(new.node)
    others = np.setdiff1d(
        np.flatnonzero((cluster.room >= new.request.min(axis=0)).all(axis=1)), given
    )
    wanted = max(count_max - len(given), 0)
    if len(others) > wanted:
        others = generator(seed, "batch", "nodes").choice(others, wanted, replace=False)
    return np.union1d(given, others)


def repack_new(cluster: BatchCluster, new: BatchTasks, nodes_max: int) -> Integers | None:
    """Nodes for all these new tasks, of which some have been given one and others have none; None
    if there are none. Nothing that runs is moved."""
    lacking = new.some(new.node < 0)
    rows = np.union1d(np.unique(new.node[new.node >= 0]), rows_for(cluster, lacking, nodes_max))
    problem, _ = problem_on(cluster, rows, new, movable=False)
    node_of = make_room(pack(problem), _steps(rows)).node_of[-len(new.node) :]
    return rows[node_of] if (node_of >= 0).all() else None


def find_moves(cluster: BatchCluster, new: BatchTasks, nodes_max: int) -> list[Move] | None:
    """The steps, in order, after which all these new tasks have nodes; None if there are none. At
    no step is a node asked for more than it has."""
    rows = rows_for(cluster, new, nodes_max)
    if not _could_hold(cluster, rows, new):
        return None
    problem, local = problem_on(cluster, rows, new, movable=True)
    work = pack(problem)
    target = make_room(work, _steps(rows)).node_of
    first = len(problem.request) - len(new.node)
    if (target[first:] < 0).any():
        return None
    # A placement that fits is not enough: tasks that swap nodes may need room neither has. Only an
    # order in which every step fits counts.
    steps = order_moves(work, target)
    if (steps.node_of[first:] < 0).any():
        return None
    return [
        Move(
            int(local[step.task]) if step.task < first else -1,
            step.task - first if step.task >= first else -1,
            int(rows[step.origin]) if step.origin >= 0 else -1,
            int(rows[step.node]),
        )
        for step in steps.steps
    ]


def _steps(rows: Integers) -> int:
    """How many steps the search for a chain of moves may take among these nodes."""
    return min(CHAIN_STEPS, CHAIN_NODES // max(len(rows), 1))


def rows_for(cluster: BatchCluster, new: BatchTasks, count_max: int) -> Integers:
    """The nodes among which room is made: those allowed that lack least for the largest new task,
    and those with the most room for what must leave them."""
    size = np.maximum(cluster.total.max(axis=0), 1)
    largest = int((new.request / size).max(axis=1).argmax())
    request, allowed = new.request[largest], cluster.masks[new.mask[largest]]
    usable = allowed & (cluster.total >= request).all(axis=1)
    lacking = (np.maximum(request - cluster.room, 0) / size).max(axis=1)
    present = cluster.total.any(axis=1)
    if present.sum() <= count_max:
        return np.flatnonzero(present)
    closest = np.argsort(np.where(usable, lacking, np.inf), kind="stable")[: max(count_max // 2, 1)]
    roomy = np.argsort(-(cluster.room / size).min(axis=1), kind="stable")[: max(count_max // 2, 1)]
    return np.union1d(closest, roomy)


def _could_hold(cluster: BatchCluster, rows: Integers, new: BatchTasks) -> bool:
    """Whether there is as much room in all as the new tasks ask for: moves make none."""
    return bool((cluster.room[rows].sum(axis=0) >= new.request.sum(axis=0)).all())
