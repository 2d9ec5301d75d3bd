"""The small cloud of section 4, container by container, with any of the three ways to choose a
destination.

The fast simulator of large clouds rests on both destination rules; here full nodes may be
overfilled and empty ones refilled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from murmuration.base.jit import compiled, helper
from murmuration.base.rows import next_double
from murmuration.schedulers.swarm import pheromone
from murmuration.simulation.engine.world import Array

#: Any other node; one drawn at random if it has room (eq. 20); the next of the ring that is fuller
#: as well (eq. 21).
ANY, ROOM, FULLER = 0, 1, 2
QUEUE_MAX = 4096

spread = helper(pheromone.spread)
bin_pack = helper(pheromone.bin_pack)
repulsive = helper(pheromone.repulsive)


@helper
def choose(n: Array, capacity: int, rule: int, source: int, rng: Array) -> int:
    """A destination for one container of the source, −1 for none. `n` counts queues (n − Q + R)."""
    nodes: int = n.shape[0]
    if rule == FULLER:
        for step in range(1, nodes):
            node = (source + step) % nodes
            if n[source] <= n[node] < capacity:
                return node
        return -1
    node = (source + 1 + int(next_double(rng) * (nodes - 1))) % nodes
    if rule == ROOM and n[node] >= capacity:
        return -1
    return node


@compiled
def run(
    start: Array, capacity: int, form: int, rule: int, rng: Array, track: Array
) -> tuple[int, int]:
    """Steps and migrations until every node is empty or full and no container is under way; −1
    steps for never.

    `track` gets the containers on each node after every step, as far as it reaches."""
    nodes = start.shape[0]
    n, here = start.copy(), start.copy()
    queue = np.zeros((nodes, QUEUE_MAX), np.int64)
    head, tail = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    steps, migrations = 0, 0
    for steps in range(track.shape[0]):
        for i in range(nodes):
            p = repulsive(
                spread(n[i], capacity), bin_pack(n[i], capacity, 1.0, form), pheromone.BIN_PACK
            )
            for _ in range(here[i]):
                if next_double(rng) < p:
                    to = choose(n, capacity, rule, i, rng)
                    if to >= 0 and tail[i] - head[i] < QUEUE_MAX:
                        queue[i, tail[i] % QUEUE_MAX] = to
                        tail[i] += 1
                        n[i] -= 1
                        here[i] -= 1
                        n[to] += 1
                        migrations += 1
        for i in range(nodes):
            if tail[i] > head[i]:
                here[queue[i, head[i] % QUEUE_MAX]] += 1
                head[i] += 1
        rest = True
        for i in range(nodes):
            track[steps, i] = here[i] + tail[i] - head[i]
            rest &= tail[i] == head[i] and (n[i] == 0 or n[i] == capacity)
        if rest:
            return steps + 1, migrations
    return -1, migrations


def track(
    start: NDArray[np.int64],
    capacity: int,
    rule: int,
    rng: NDArray[np.uint64],
    steps_max: int,
    form: int = pheromone.QUADRATIC,
) -> tuple[int, int, NDArray[np.int32]]:
    """One run: its steps (−1 if it is not at rest after `steps_max`), its migrations, the
    containers on each node."""
    seen = np.zeros((steps_max, len(start)), dtype=np.int32)
    steps, migrations = run(np.asarray(start, dtype=np.int64), capacity, form, rule, rng, seen)
    return int(steps), int(migrations), seen[: steps if steps > 0 else steps_max]
