"""The steps of plans that make room: running tasks that are to move, and the nodes promised to
tasks that wait for it.

Steps stand in the order in which they can be done. One begins when its node has room for it and no
earlier step waits for the same node; so nothing is overloaded, and nobody takes what an earlier
step needs.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.cluster.migration import migration_mb
from murmuration.simulation.architectures.genetic.kernels import move_task
from murmuration.simulation.engine import world as wd

Array = NDArray[Any]
#: The task that a job is promised a node for has no slot yet.
NEW = -1
STEP = np.dtype([("job", "i4"), ("slot", "i4"), ("origin", "i4"), ("node", "i4")], align=True)
MEMORY = 1


class Due(NamedTuple):
    """Steps by what becomes of them: moves that begin, tasks that start, and those that wait on."""

    moves: list[int]
    starts: list[int]
    rest: list[int]


def table_of(world: wd.World) -> Array:
    """The rows that tasks' requests are counted in."""
    return world.firm if len(world.firm) else world.free


def due(steps: Array, world: wd.World, jobs: Collection[int]) -> Due:
    """What can be done now, where only these jobs may start tasks; steps whose task is gone are in
    no list."""
    have, waiting = table_of(world).copy(), set()
    moves: list[int] = []
    starts: list[int] = []
    rest: list[int] = []
    for k, (job, slot, origin, node) in enumerate(steps.tolist()):
        request = world.request[job]
        if is_void(world, job, slot, node):
            continue
        mine = job in jobs if slot == NEW else is_settled(world, slot, origin)
        if mine and node not in waiting and (request <= have[node]).all():
            have[node] -= request
            (starts if slot == NEW else moves).append(k)
        else:
            waiting.add(node)
            rest.append(k)
    return together(Due(moves, starts, rest), steps, world)


def is_void(world: wd.World, job: int, slot: int, node: int) -> bool:
    """Whether the task of a step is gone, or its node."""
    if (world.total[node] < world.request[job]).any():
        return True
    return bool(
        world.jobs["status"][job] != wd.WAITING if slot == NEW else world.tasks["job"][slot] != job
    )


def is_settled(world: wd.World, slot: int, origin: int) -> bool:
    return bool(world.slots["node"][slot] == origin and world.tasks["source"][slot] < 0)


def together(found: Due, steps: Array, world: wd.World) -> Due:
    """A gang starts whole or waits on."""
    starting, whole = steps["job"][found.starts], []
    for k in found.starts:
        job = steps["job"][k]
        if not world.jobs["gang"][job] or (starting == job).sum() == world.jobs["left"][job]:
            whole.append(k)
    return Due(found.moves, whole, sorted({*found.rest, *found.starts} - {*whole}))


def reserved(steps: Array, world: wd.World) -> Array:
    """What steps will need of each node."""
    amounts = np.zeros_like(world.total)
    np.add.at(amounts, steps["node"], world.request[steps["job"]])
    return amounts


def begin_moves(steps: Array, world: wd.World, mb_per_s: float) -> None:
    """Tasks set out; each takes as long as its memory takes to copy."""
    now = float(world.state["now"][0])
    for job, slot, _, node in steps.tolist():
        memory = (
            world.task_used[slot, MEMORY] if len(world.task_used) else world.request[job, MEMORY]
        )
        move_task(world, slot, node, now + migration_mb(float(memory)) / mb_per_s)


def under_way(world: wd.World) -> bool:
    """Whether any task is between two nodes."""
    return bool((world.tasks["source"][: world.state["slots_high"][0]] >= 0).any())


def possible(steps: Array, world: wd.World) -> Array:
    """Where nothing is under way that could still make room: the promises that can be kept as
    things are. A plan whose moves are stuck by then has been overtaken."""
    kept = due(steps, world, {*steps["job"].tolist()})
    return steps[kept.starts]
