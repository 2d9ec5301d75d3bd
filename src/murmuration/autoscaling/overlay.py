"""The overlay: who knows whom, maintained by gossip after Jelasity et al., with Cyclon's swaps.

Each round every node (1) asks a few of its neighbours for their load, which also finds the dead
ones, and (2) swaps some links with its oldest neighbour: it gives a fresh link to itself and gets
what the other gave up. Links are swapped, not copied, so every node is known by about as many as it
knows (low-deviation in-degree); probes find a dead link within a few rounds, where age alone would
take as many rounds as there are links. A message that gets no answer is sent three times.

Plain functions on rows of links: a kernel compiles them and runs whole rounds over all nodes; an
agent (`worker.py`) calls them on its own row and that of the node it exchanges links with.
"""

from __future__ import annotations

from typing import NamedTuple

from murmuration.autoscaling.views import Array, Averages, Views
from murmuration.base.random import next_double

TRIES = 3
#: Primes above the largest degree.
STRIDES = (131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197, 199, 211)
WALK_STEPS = 3


def answers(up: Array, node: int, loss: float, rng: Array) -> bool:
    """Whether a node answers a message; both ways can lose it."""
    if not up[node]:
        return False
    if loss <= 0.0:
        return True
    for _ in range(TRIES):
        if next_double(rng) >= loss and next_double(rng) >= loss:
            return True
    return False


def knows(node: Array, size: int, wanted: int) -> bool:
    """Whether a view has a link to a node. Counting has no branches, so that it runs in vectors."""
    links = 0
    for k in range(size):
        links += node[k] == wanted
    return links > 0


def put(views: Views, owner: int, at: int, node: int, created: int, work: float) -> None:
    views.node[owner, at] = node
    views.about[owner, at].created = created
    views.about[owner, at].work = work


def drop(views: Views, owner: int, at: int) -> None:
    """Forget a link; the last one takes its place."""
    last = views.size[owner] - 1
    put(
        views,
        owner,
        at,
        views.node[owner, last],
        views.about[owner, last].created,
        views.about[owner, last].work,
    )
    views.size[owner] = last


def take(views: Views, owner: int, at: int, node: int, created: int, work: float) -> None:
    """Accept a link not known yet: into free room, else in place of the one at `at` that was given
    away."""
    size = views.size[owner]
    if size < views.node.shape[1]:
        put(views, owner, size, node, created, work)
        views.size[owner] = size + 1
    elif at >= 0:
        put(views, owner, at, node, created, work)


def meet(views: Views, owner: int, other: int, now: int, work: float) -> None:
    """Accept a link unless it is known."""
    if other != owner and not knows(views.node[owner], views.size[owner], other):
        take(views, owner, -1, other, now, work)


def stride_of(fraction: float, size: int) -> int:
    """A step, drawn by a fraction, that visits each place of a view once: a prime above any size,
    modulo the size."""
    return int(STRIDES[int(fraction * len(STRIDES))]) % size if size > 0 else 0


def step_round(at: int, step: int, size: int) -> int:
    """One step further round a view; a division would cost more than all the rest."""
    at += step
    return at - size if at >= size else at


def oldest(about: Array, size: int) -> int:
    """The position of the oldest link. The earliest birth first, without branches, so that the loop
    is vectorised."""
    earliest = about[0].created
    for k in range(size):
        earliest = min(earliest, about[k].created)
    at = 0
    while about[at].created != earliest:
        at += 1
    return at


def probe(
    views: Views, up: Array, work: Array, owner: int, count: int, loss: float, rng: Array
) -> None:
    """Ask the next few neighbours for their load; who does not answer is forgotten."""
    at = views.cursor[owner]
    for _ in range(min(count, views.size[owner])):
        if at >= views.size[owner]:
            at = 0
        other = views.node[owner, at]
        if answers(up, other, loss, rng):
            views.about[owner, at].work = work[other]
            at += 1
        else:
            drop(views, owner, at)
    views.cursor[owner] = at


def partner(views: Views, up: Array, owner: int, loss: float, rng: Array) -> int:
    """The oldest neighbour that answers, taken out of the view; −1 for none."""
    for _ in range(TRIES):
        size = views.size[owner]
        if size == 0:
            return -1
        at = oldest(views.about[owner], size)
        other = views.node[owner, at]
        drop(views, owner, at)
        if answers(up, other, loss, rng):
            return int(other)
    return -1


def find_news(views: Views, giver: int, taker: int, at: int, step: int, count: int) -> int:
    """Which of the links the giver offers are new to the taker, as bits.

    All are looked up before any is written: reading a row in vectors right after writing to it
    stalls the processor.
    """
    bits, size = 0, views.size[giver]
    for k in range(count):
        node = views.node[giver, at]
        if node != taker and not knows(views.node[taker], views.size[taker], node):
            bits |= 1 << k
        at = step_round(at, step, size)
    return bits


def trade(views: Views, a: int, at: int, b: int, to: int, to_a: bool, to_b: bool) -> None:
    """Two nodes swap a link each if both are new to the other, so that nobody becomes more or less
    known by it.

    Only a view with room takes a link for nothing.
    """
    room_a, room_b = views.size[a] < views.node.shape[1], views.size[b] < views.node.shape[1]
    node_a, created_a, work_a = (
        views.node[a, at],
        views.about[a, at].created,
        views.about[a, at].work,
    )
    if to_a and (room_a or to_b):
        take(views, a, at, views.node[b, to], views.about[b, to].created, views.about[b, to].work)
    if to_b and (room_b or to_a):
        take(views, b, to, node_a, created_a, work_a)


def introduce(views: Views, work: Array, owner: int, other: int, to: int, now: int) -> None:
    """A fresh link to the owner for one of the other's; the owner has room where its link to the
    other was."""
    if knows(views.node[other], views.size[other], owner):
        return
    if views.size[other] > 0:
        node, created, heard = (
            views.node[other, to],
            views.about[other, to].created,
            views.about[other, to].work,
        )
        if not knows(views.node[owner], views.size[owner], node):
            take(views, owner, -1, node, created, heard)
    take(views, other, to, owner, now, work[owner])


def swap(
    views: Views, work: Array, owner: int, other: int, length: int, now: int, rng: Array
) -> None:
    """The owner gives a fresh link to itself and some of its own for as many of the other's."""
    mine, theirs = views.size[owner], views.size[other]
    draw = next_double(rng) * mine
    at, step = int(draw), stride_of(draw - int(draw), mine)
    draw = next_double(rng) * theirs
    to, other_step = int(draw), stride_of(draw - int(draw), theirs)
    count = min(length - 1, mine, theirs - 1)
    first = to
    to = step_round(to, other_step, theirs)
    to_other = find_news(views, owner, other, at, step, count)
    to_owner = find_news(views, other, owner, to, other_step, count)
    introduce(views, work, owner, other, first, now)
    for k in range(count):
        trade(views, owner, at, other, to, (to_owner >> k) & 1 == 1, (to_other >> k) & 1 == 1)
        at, to = step_round(at, step, mine), step_round(to, other_step, theirs)
    # A view with room left keeps its partner: in a small system nobody may lose his last link.
    if views.size[owner] < views.node.shape[1]:
        meet(views, owner, other, now, work[other])


def walk(views: Views, up: Array, start: int, rng: Array) -> int:
    """Where a short random walk over live nodes ends."""
    at = start
    for _ in range(WALK_STEPS):
        size = views.size[at]
        if size > 0:
            following = views.node[at, int(next_double(rng) * size)]
            if up[following]:
                at = int(following)
    return at


def join(views: Views, up: Array, newcomer: int, introducer: int, now: int, rng: Array) -> None:
    """Random walks find nodes that each take the newcomer in place of a link, and give him that
    one."""
    views.size[newcomer] = 0
    views.cursor[newcomer] = 0
    for _ in range(views.node.shape[1]):
        at = walk(views, up, introducer, rng)
        size = views.size[at]
        if at == newcomer or knows(views.node[at], size, newcomer):
            continue
        if size < views.node.shape[1]:
            take(views, at, -1, newcomer, now, 0.0)
            meet(views, newcomer, at, now, 0.0)
        else:
            k = int(next_double(rng) * size)
            meet(
                views,
                newcomer,
                views.node[at, k],
                views.about[at, k].created,
                views.about[at, k].work,
            )
            put(views, at, k, newcomer, now, 0.0)


def average(averages: Averages, a: int, b: int, epoch: int) -> None:
    """Push-pull averaging: both keep half of what they have together. Who joined meanwhile waits
    for the next epoch."""
    if averages.epoch[a] == epoch and averages.epoch[b] == epoch:
        work, capacity = (
            averages.work[a] + averages.work[b],
            averages.capacity[a] + averages.capacity[b],
        )
        averages.work[a] = averages.work[b] = work / 2.0
        averages.capacity[a] = averages.capacity[b] = capacity / 2.0


def begin_epoch(averages: Averages, work: Array, capacity: Array, node: int, epoch: int) -> None:
    """Keep the result of the last epoch, and start from one's own load again, so that the average
    follows the load."""
    if averages.epoch[node] == epoch - 1:
        averages.load[node] = averages.work[node] / averages.capacity[node]
    averages.epoch[node] = epoch
    averages.work[node] = work[node]
    averages.capacity[node] = capacity[node]


class OverlayNodes(NamedTuple):
    """All nodes of a system: who is up, the work and capacity of each, and the list of those that
    are live."""

    up: Array
    work: Array
    capacity: Array
    live: Array
    total: int


class GossipRules(NamedTuple):
    """Links swapped and neighbours probed in a round; rounds of an epoch of averaging, 0 for none;
    the share of messages lost."""

    exchange: int
    probes: int
    epoch_rounds: int
    loss: float


def gossip(
    views: Views, averages: Averages, peers: OverlayNodes, rules: GossipRules, now: int, rng: Array
) -> None:
    """One round of every live node, in the order of `live`; `epoch_rounds` 0 leaves averaging
    out."""
    averaging = rules.epoch_rounds > 0
    epoch = now // rules.epoch_rounds if averaging else 0
    if averaging and now % rules.epoch_rounds == 0:
        for k in range(peers.total):
            begin_epoch(averages, peers.work, peers.capacity, peers.live[k], epoch)
    for k in range(peers.total):
        owner = peers.live[k]
        if views.size[owner] == 0 and peers.total > 1:
            other = peers.live[int(next_double(rng) * peers.total)]
            if other != owner:
                join(views, peers.up, owner, other, now, rng)
        probe(views, peers.up, peers.work, owner, rules.probes, rules.loss, rng)
        other = partner(views, peers.up, owner, rules.loss, rng)
        if other >= 0:
            swap(views, peers.work, owner, other, rules.exchange, now, rng)
            if averaging:
                average(averages, owner, other, epoch)


def neighbourhood_load(views: Views, work: Array, capacity: Array, owner: int) -> float:
    """The load of a node and its neighbours, averaged by capacity (equation 1), from what was last
    heard of them."""
    done, able = float(work[owner]), float(capacity[owner])
    for k in range(views.size[owner]):
        done += views.about[owner, k].work
        able += capacity[views.node[owner, k]]
    return done / able
