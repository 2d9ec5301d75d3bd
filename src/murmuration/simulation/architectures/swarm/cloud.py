"""The paper's own simulator (section 5): identical containers on identical nodes that pack
themselves, in steps of T.

In each step every container that is not queued to leave decides with its node's pheromone; then one
container leaves each node that has a queue. What makes it fast changes no odds:

- A node that is empty or full stays so (rule 21 sends nobody to an emptier node), so only the
  others are visited.
- Containers that stay are not drawn one by one: with E exponential, the first of a row of trials
  with hazard h = −ln(1 − p) to succeed is number E / h, and what is left of E serves the next node.
- The next node of the ring with room and fuller than the source is found in a tree of maxima;
  messages count the way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.base.errors import InputError
from murmuration.base.jit import helper, inlined, released
from murmuration.base.rows import next_double
from murmuration.schedulers.swarm import levels, pheromone
from murmuration.schedulers.swarm.search import RING
from murmuration.simulation.engine.world import Array

arrange = helper(levels.arrange)
step_up = helper(levels.step_up)
step_down = helper(levels.step_down)
finger_hops = helper(levels.finger_hops)

#: Neighbours looked at one by one before the tree is asked.
NEAR = 8
#: A run of the paper's study takes some hundred steps; one that is not at rest after this many is a
#: defect.
STEPS_MAX = 1_000_000


class Cloud(NamedTuple):
    """The arrays of one cloud, made once and used for many runs."""

    level: Array  # n − Q + R of each node
    here: Array  # n − Q: containers that decide
    tree: Array  # maxima of the levels of nodes with room
    # Nodes in order of level, and where each level begins: the ring of a structured search. `first`
    # counts in both.
    order: Array
    place: Array
    first: Array
    active: Array  # nodes neither empty nor full, in ring order
    # A queue of destinations for each node, linked through a pool with a free list.
    head: Array
    tail: Array
    next: Array
    target: Array
    senders: Array  # nodes with a queue
    hazard: Array  # −ln(1 − p) by level


@helper
def update_tree(tree: Array, node: int, value: int) -> None:
    at = tree.shape[0] // 2 + node
    tree[at] = value
    at >>= 1
    while at > 0:
        best = max(tree[2 * at], tree[2 * at + 1])
        if tree[at] == best:
            return
        tree[at] = best
        at >>= 1


@helper
def find_from(tree: Array, start: int, minimum: int) -> int:
    """The first node from `start` on with at least this level and room, −1 if there is none.

    In a tree of maxima laid out as a heap: up while there is nothing to the right (a right child
    has been looked at with its parent), one to the right, and, as soon as a subtree has a maximum
    that is high enough, down to its leftmost such leaf.
    """
    size = tree.shape[0] // 2
    at = size + start
    while True:
        if tree[at] >= minimum:
            while at < size:
                at *= 2
                if tree[at] < minimum:
                    at += 1
            return int(at - size)
        while at & 1:
            at >>= 1
        if at == 0:
            return -1
        at += 1


@helper
def ring_search(tree: Array, nodes: int, source: int, minimum: int) -> int:
    """The first suitable node after the source along the ring; there is one."""
    size = tree.shape[0] // 2
    # Mostly a neighbour suits, and reading some leaves in a row is cheaper than climbing a tree.
    at = source
    for _ in range(NEAR):
        at = at + 1 if at + 1 < nodes else 0
        if tree[size + at] >= minimum:
            return at
    after = find_from(tree, at + 1, minimum) if at + 1 < nodes else -1
    return after if after >= 0 else find_from(tree, 0, minimum)


@helper
def chord_search(order: Array, first: Array, capacity: int, source: int) -> int:
    """The fullest node with room that is not the source: it stands right before the full ones."""
    at = first[capacity] - 1
    return int(order[at - 1] if order[at] == source else order[at])


@helper
def suitable_exists(order: Array, level: Array, first: Array, capacity: int, source: int) -> bool:
    """Whether some other node with room is at least as full as the source: with the container it is
    fuller."""
    at = first[capacity] - 1
    if at >= 0 and order[at] == source:
        at -= 1
    return bool(at >= 0 and level[order[at]] >= level[source])


@helper
def enqueue(
    head: Array,
    tail: Array,
    following: Array,
    target: Array,
    senders: Array,
    counts: Array,
    source: int,
    to: int,
) -> None:
    """A container joins the queue that leaves the source. `counts` is (free entry of the pool,
    number of senders)."""
    entry = counts[0]
    counts[0] = following[entry]
    following[entry] = -1
    target[entry] = to
    if head[source] < 0:
        head[source] = entry
        senders[counts[1]] = source
        counts[1] += 1
    else:
        following[tail[source]] = entry
    tail[source] = entry


@helper
def depart(
    head: Array, following: Array, target: Array, senders: Array, counts: Array, here: Array
) -> None:
    """One container leaves every node that has a queue, and arrives within the step."""
    still_sending = 0
    for k in range(counts[1]):
        source = senders[k]
        entry = head[source]
        here[target[entry]] += 1
        head[source] = following[entry]
        following[entry] = counts[0]
        counts[0] = entry
        if head[source] >= 0:
            senders[still_sending] = source
            still_sending += 1
    counts[1] = still_sending


@inlined
def reset(c: Cloud, start: Array, capacity: int, counts: Array) -> int:
    """Put the cloud in its initial state; returns the number of active nodes."""
    nodes, size = start.shape[0], c.tree.shape[0] // 2
    active = 0
    c.tree[:] = 0
    for i in range(nodes):
        c.level[i] = start[i]
        c.here[i] = start[i]
        c.head[i] = -1
        c.tree[size + i] = start[i] if start[i] < capacity else 0
        if 0 < start[i] < capacity:
            c.active[active] = i
            active += 1
    for at in range(size - 1, 0, -1):
        c.tree[at] = max(c.tree[2 * at], c.tree[2 * at + 1])
    arrange(c.level, c.order, c.place, c.first)
    for k in range(c.next.shape[0]):
        c.next[k] = k + 1
    counts[0], counts[1] = 0, 0
    return active


@inlined
def migrate(c: Cloud, capacity: int, search: int, counts: Array, source: int) -> int:
    """A container of the source looks for a destination and queues for it; returns the messages
    this took."""
    nodes = c.level.shape[0]
    if not suitable_exists(c.order, c.level, c.first, capacity, source):
        return nodes - 1 if search == RING else 1
    if search == RING:
        to = ring_search(c.tree, nodes, source, c.level[source])
        messages = (to - source) % nodes
    else:
        to = chord_search(c.order, c.first, capacity, source)
        messages = finger_hops(c.place[source], c.place[to], nodes)
    step_down(c.level, c.order, c.place, c.first, source)
    step_up(c.level, c.order, c.place, c.first, to)
    if search == RING:
        update_tree(c.tree, source, c.level[source])
        update_tree(c.tree, to, c.level[to] if c.level[to] < capacity else 0)
    c.here[source] -= 1
    enqueue(c.head, c.tail, c.next, c.target, c.senders, counts, source, to)
    counts[2] += 1
    return int(messages)


@inlined
def act(
    c: Cloud, capacity: int, search: int, counts: Array, source: int, wait: float, rng: Array
) -> tuple[float, int]:
    """The containers of one node decide; returns what is left of the exponential draw, and the
    messages sent."""
    # `wait` is how much hazard passes until the next container leaves, of whichever node. While it
    # exceeds what all containers of this node add up to, nobody leaves and the rest is passed on to
    # the next node; otherwise wait / hazard containers stay before the one that goes. The hazard is
    # that at the beginning of the node's turn: containers of one step decide at the same time.
    hazard, deciding, messages = c.hazard[c.level[source]], c.here[source], 0
    while deciding > 0:
        if hazard * deciding <= wait:
            return wait - hazard * deciding, messages
        deciding -= min(int(wait / hazard), deciding - 1) + 1
        wait = -np.log(1.0 - next_double(rng))
        messages += migrate(c, capacity, search, counts, source)
    return wait, messages


@inlined
def run(
    c: Cloud, start: Array, capacity: int, search: int, counts: Array, rng: Array
) -> tuple[int, int, int]:
    """One run until every node is empty or full and all queues are empty (a remainder may stay on
    one node).

    Returns the steps, the messages, and the messages of the busiest node of each step, added up."""
    active = reset(c, start, capacity, counts)
    steps, messages, longest = 0, 0, 0
    counts[2] = 0
    wait = -np.log(1.0 - next_double(rng))
    while (active > 1 or counts[1] > 0) and steps < STEPS_MAX:
        still_active, longest_step = 0, 0
        for k in range(active if active > 1 else 0):
            node = c.active[k]
            risk = c.hazard[c.level[node]] * c.here[node] if c.here[node] > 0 else 0.0
            if risk <= wait:
                wait -= risk
            else:
                wait, sent = act(c, capacity, search, counts, node, wait, rng)
                messages += sent
                longest_step = max(longest_step, sent)
            c.active[still_active] = node
            still_active += 1 if 0 < c.level[node] < capacity else 0
        if active > 1:
            active = still_active
        longest += longest_step
        depart(c.head, c.next, c.target, c.senders, counts, c.here)
        steps += 1
    return steps, messages, longest


@released
def run_many(
    c: Cloud, start: Array, capacity: int, search: int, counts: Array, rng: Array, out: Array
) -> None:
    """One run for each row of `out`: steps, migrations, messages, and those of each step's busiest
    node added up."""
    for k in range(out.shape[0]):
        out[k, 0], out[k, 2], out[k, 3] = run(c, start, capacity, search, counts, rng)
        out[k, 1] = counts[2]


def make_cloud(nodes: int, containers: int, capacity: int, form: int) -> Cloud:
    """The arrays of a cloud of this size."""
    size = 1 << (nodes - 1).bit_length()
    leave = np.array(
        [0.0, *(pheromone.bin_pack(n, capacity, 1.0, form) for n in range(1, capacity + 1))]
    )
    with np.errstate(divide="ignore"):
        hazard = -np.log1p(-leave)
    lengths = (
        nodes,
        nodes,
        2 * size,
        nodes,
        nodes,
        capacity + 2,
        nodes,
        nodes,
        nodes,
        containers + 1,
        containers + 1,
        nodes,
    )
    arrays: list[NDArray[Any]] = [np.zeros(length, dtype=np.int32) for length in lengths]
    return Cloud._make([*arrays, hazard])


class Outcomes(NamedTuple):
    """Figures of many runs, one entry each."""

    steps: NDArray[np.int64]
    migrations: NDArray[np.int64]
    messages: NDArray[np.int64]
    #: Messages one after the other: in each step those of the node that sent most, because nodes
    #: search side by side.
    search_time: NDArray[np.int64]


def run_to_equilibrium(
    start: NDArray[np.int64],
    capacity: int,
    rng: NDArray[np.uint64],
    runs: int = 1,
    form: int = pheromone.QUADRATIC,
    search: int = RING,
) -> Outcomes:
    """Let a cloud with these containers on its nodes pack itself, as often as asked."""
    if capacity < 2:
        raise InputError(
            f"capacity: expected room for at least 2 containers on a node, got {capacity}"
        )
    if len(start) < 2 or start.min() < 0 or start.max() > capacity:
        raise InputError(f"expected at least two nodes with 0 to {capacity} containers each")
    out = np.zeros((runs, 4), dtype=np.int64)
    cloud = make_cloud(len(start), int(start.sum()), capacity, form)
    run_many(
        cloud,
        np.ascontiguousarray(start, dtype=np.int64),
        capacity,
        search,
        np.zeros(3, np.int64),
        rng,
        out,
    )
    if (out[:, 0] >= STEPS_MAX).any():
        raise RuntimeError(
            f"a cloud was not at rest after {STEPS_MAX} steps; please report it: "
            f"{start.tolist()[:20]}"
        )
    return Outcomes(*out.T)


def fewest_migrations(nodes: int, filling: int, capacity: int) -> float:
    """Eq. 28: the migrations an ideal algorithm needs from equally filled nodes."""
    return (nodes - nodes * filling / capacity) * filling
