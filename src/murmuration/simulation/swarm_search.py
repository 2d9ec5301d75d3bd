"""Where a task of a running swarm can go: the destination rules over the table, and the two searches for a node that meets them.

Both searches see the same nodes. The order by fullness also spares the simulator most of the ring: levels that leave no room,
or lie below what the rule of the fuller node asks, hold no answer, so only the nodes between are looked at.
"""

from __future__ import annotations

from typing import Any

from murmuration.cluster.jit import helper, inlined
from murmuration.placement.kernels import fits
from murmuration.schedulers.swarm import destinations, levels, pheromone
from murmuration.schedulers.swarm.search import RING
from murmuration.simulation.world import (
    COUNTED, LEAST, LEVEL, MOST, ORDER, PLACE, SOURCE, USED, Array, World,
)  # fmt: skip

arrange = helper(levels.arrange)
step_up = helper(levels.step_up)
step_down = helper(levels.step_down)
finger_hops = helper(levels.finger_hops)
has_room = helper(destinations.has_room)
is_fuller = helper(destinations.is_fuller)
dominant = helper(pheromone.dominant)
least_dominant = helper(pheromone.least_dominant)


@helper
def fill_used(total: Array, free: Array, outgoing: Array, node: int, row: Array) -> None:
    """What a node holds once its queues are empty: n − Q + R of eq. 18, for each resource."""
    for r in range(row.shape[0]):
        row[r] = total[node, r] - free[node, r] - outgoing[node, r]


@helper
def as_level(share: float, count: int) -> int:
    """The step of fullness a share falls in."""
    return int(min(max(share, 0.0), 1.0) * (count - 1))


@helper
def least_need(request: Array, rows: Array) -> float:
    """The smallest share of any node that a request adds to its dominant resource, whichever that is."""
    need = 1.0
    for r in range(request.shape[0]):
        if rows[COUNTED, r] and rows[MOST, r] > 0:
            need = min(need, request[r] / rows[MOST, r])
    return need


@helper
def most_need(request: Array, rows: Array) -> float:
    """The largest share of any node that a request adds to a resource."""
    need = 0.0
    for r in range(request.shape[0]):
        if rows[COUNTED, r]:
            need = max(need, request[r] / rows[LEAST, r])
    return need


@helper
def suits(
    total: Array, free: Array, outgoing: Array, rows: Array, mask: Array, request: Array, node: int, overload: float,
    fuller_than: float,
) -> bool:  # fmt: skip
    """Whether a node may take this request: it has the room now, is not overloaded then, and is fuller than the source was
    (a source that spreads asks for −1)."""
    if (mask.shape[0] > 0 and not mask[node]) or not fits(free, node, request):
        return False
    used = rows[USED]
    fill_used(total, free, outgoing, node, used)
    if not has_room(used, total[node], request, overload):
        return False
    return bool(fuller_than < 0.0 or is_fuller(used, total[node], request, rows[COUNTED], fuller_than))


@inlined
def search(w: World, source: int, request: Array, mask: Array, fuller_than: float) -> Any:
    """The node a task of the source finds, −1 for none, and the messages that took."""
    steps = w.swarm_first.shape[0] - 1
    slack = 1.0 / (steps - 1)
    overload = w.swarm[0].overload
    high = as_level(overload - least_need(request, w.swarm_rows) + slack, steps)
    low = 0
    if fuller_than >= 0.0:
        low = as_level(fuller_than - most_need(request, w.swarm_rows) - slack, steps)
    begin, end = w.swarm_first[low], w.swarm_first[high + 1]
    if w.swarm[0].search == RING:
        return search_ring(
            w.total, w.free, w.outgoing, w.swarm_rows, mask, request, w.swarm_order, begin, end, source, overload, fuller_than
        )
    return search_chord(
        w.total, w.free, w.outgoing, w.swarm_rows, mask, request, w.swarm_order, begin, end, source, overload, fuller_than,
        w.swarm[0].candidates,
    )  # fmt: skip


@helper
def search_ring(
    total: Array, free: Array, outgoing: Array, rows: Array, mask: Array, request: Array, order: Array, begin: int,
    end: int, source: int, overload: float, fuller_than: float,
) -> tuple[int, int]:  # fmt: skip
    """The first suitable node after the source; each node asked is one message.

    Where few nodes could be suitable, the nearest of those is found instead of asking along the ring: the same node."""
    nodes = total.shape[0]
    nearest = nodes
    if 4 * (end - begin) < nodes:
        for k in range(begin, end):
            away = (order[ORDER, k] - source) % nodes
            if 0 < away < nearest and suits(
                total, free, outgoing, rows, mask, request, order[ORDER, k], overload, fuller_than
            ):
                nearest = away
    else:
        for away in range(1, nodes):
            if suits(total, free, outgoing, rows, mask, request, (source + away) % nodes, overload, fuller_than):
                nearest = away
                break
    if nearest == nodes:
        return -1, nodes - 1
    return (source + nearest) % nodes, nearest


@helper
def search_chord(
    total: Array, free: Array, outgoing: Array, rows: Array, mask: Array, request: Array, order: Array, begin: int,
    end: int, source: int, overload: float, fuller_than: float, candidates: int,
) -> tuple[int, int]:  # fmt: skip
    """Fingers lead to the fullest node with room (when spreading, to the emptiest), then neighbours in that order are asked."""
    nodes = total.shape[0]
    count = end - begin
    if candidates > 0:
        count = min(count, candidates)
    if count <= 0:
        return -1, 1
    packing = fuller_than >= 0.0
    messages = finger_hops(order[PLACE, source], end - 1 if packing else begin, nodes)
    for k in range(count):
        node = order[ORDER, end - 1 - k if packing else begin + k]
        messages += 1
        if node != source and suits(total, free, outgoing, rows, mask, request, node, overload, fuller_than):
            return int(node), int(messages)
    return -1, int(messages)


@inlined
def relevel(w: World, node: int) -> None:
    """A node has got fuller or emptier: it moves to its place in the order."""
    used = w.swarm_rows[USED]
    fill_used(w.total, w.free, w.outgoing, node, used)
    to = as_level(dominant(used, w.total[node], w.swarm_rows[COUNTED]), w.swarm_first.shape[0] - 1)
    while w.swarm_order[LEVEL, node] < to:
        step_up(w.swarm_order[LEVEL], w.swarm_order[ORDER], w.swarm_order[PLACE], w.swarm_first, node)
    while w.swarm_order[LEVEL, node] > to:
        step_down(w.swarm_order[LEVEL], w.swarm_order[ORDER], w.swarm_order[PLACE], w.swarm_first, node)


@inlined
def set_order(w: World) -> None:
    """Put all nodes in order of fullness."""
    used, counted = w.swarm_rows[SOURCE], w.swarm_rows[COUNTED]
    for node in range(w.total.shape[0]):
        fill_used(w.total, w.free, w.outgoing, node, used)
        w.swarm_order[LEVEL, node] = as_level(dominant(used, w.total[node], counted), w.swarm_first.shape[0] - 1)
    arrange(w.swarm_order[LEVEL], w.swarm_order[ORDER], w.swarm_order[PLACE], w.swarm_first)
