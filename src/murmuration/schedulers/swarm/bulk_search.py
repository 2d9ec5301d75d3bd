"""Where a task of a swarm can go, in bulk: the destination rules over the table, and the two
searches for such a node.

Both searches see the same nodes. The order by fullness also spares the simulator most of the ring:
levels that leave no room, or lie below what the rule of the fuller node asks, hold no answer, so
only the nodes between are looked at.

The shortcut may not change an answer, so its bounds are loose on purpose. A level is a step of
fullness by the dominant resource, while the rules look at amounts; between the two lies rounding
and the choice of the resource. `search` therefore widens the range by the least and the most that
the request can add to any node, and by one step more (`slack`). Whatever lies in the range is then
asked by the exact rule, `is_suitable`; whatever lies outside could not have passed it. Messages are
counted as the real search would send them, not as the simulator looks.
"""

from __future__ import annotations

from murmuration.base.arrays import Amounts, Flags
from murmuration.base.jit import helper, tree
from murmuration.base.rows import fits
from murmuration.schedulers.swarm import destinations, levels, pheromone
from murmuration.schedulers.swarm.bulk_table import (
    COUNTED,
    LARGEST_NODE,
    LEVEL,
    ORDER,
    PLACE,
    SMALLEST_NODE,
    USED,
    SwarmTable,
    fill_used,
)
from murmuration.schedulers.swarm.search import RING

arrange = helper(levels.arrange)
step_up = helper(levels.step_up)
step_down = helper(levels.step_down)
finger_hops = helper(levels.finger_hops)
may_take = tree(destinations.may_take)
dominant = helper(pheromone.dominant)


@helper
def as_level(share: float, count: int) -> int:
    """The step of fullness a share falls in."""
    return int(min(max(share, 0.0), 1.0) * (count - 1))


@helper
def min_need(request: Amounts, rows: Amounts) -> float:
    """The smallest share of any node that a request adds to its dominant resource, whichever that
    is."""
    need = 1.0
    for r in range(request.shape[0]):
        if rows[COUNTED, r] and rows[LARGEST_NODE, r] > 0:
            need = min(need, request[r] / rows[LARGEST_NODE, r])
    return need


@helper
def max_need(request: Amounts, rows: Amounts) -> float:
    """The largest share of any node that a request adds to a resource."""
    need = 0.0
    for r in range(request.shape[0]):
        if rows[COUNTED, r]:
            need = max(need, request[r] / rows[SMALLEST_NODE, r])
    return need


@helper
def is_suitable(
    c: SwarmTable, mask: Flags, request: Amounts, node: int, fuller_than: float
) -> bool:
    """Whether a node may take this request: it has room now, is not overloaded then, and is fuller
    than the source was (a source that spreads asks for −1)."""
    if (mask.shape[0] > 0 and not mask[node]) or not fits(c.free, node, request):
        return False
    used = c.rows[USED]
    fill_used(c.total, c.free, c.outgoing, node, used)
    return bool(
        may_take(used, c.total[node], request, c.rows[COUNTED], c.rules[0].overload, fuller_than)
    )


@helper
def search(
    c: SwarmTable, source: int, request: Amounts, mask: Flags, fuller_than: float
) -> tuple[int, int]:
    """The node a task of the source finds, −1 for none, and the messages that took."""
    steps = c.first.shape[0] - 1
    slack = 1.0 / (steps - 1)
    high = as_level(c.rules[0].overload - min_need(request, c.rows) + slack, steps)
    low = 0
    if fuller_than >= 0.0:
        low = as_level(fuller_than - max_need(request, c.rows) - slack, steps)
    begin, end = c.first[low], c.first[high + 1]
    if c.rules[0].search == RING:
        return search_ring(c, mask, request, begin, end, source, fuller_than)
    return search_chord(c, mask, request, begin, end, source, fuller_than)


@helper
def search_ring(
    c: SwarmTable,
    mask: Flags,
    request: Amounts,
    begin: int,
    end: int,
    source: int,
    fuller_than: float,
) -> tuple[int, int]:
    """The first suitable node after the source; each node asked is one message.

    Where few nodes could be suitable, the nearest of those is found instead of asking along the
    ring: the same node."""
    nodes = c.total.shape[0]
    nearest = nodes
    # Nodes in the range come in order of fullness, not of the ring, so all of them must be asked
    # before the nearest is known; along the ring one may stop at the first that suits.
    if 4 * (end - begin) < nodes:
        for k in range(begin, end):
            away = (c.order[ORDER, k] - source) % nodes
            if 0 < away < nearest and is_suitable(c, mask, request, c.order[ORDER, k], fuller_than):
                nearest = away
    else:
        for away in range(1, nodes):
            if is_suitable(c, mask, request, (source + away) % nodes, fuller_than):
                nearest = away
                break
    if nearest == nodes:
        return -1, nodes - 1
    return int((source + nearest) % nodes), int(nearest)


@helper
def search_chord(
    c: SwarmTable,
    mask: Flags,
    request: Amounts,
    begin: int,
    end: int,
    source: int,
    fuller_than: float,
) -> tuple[int, int]:
    """Fingers lead to the fullest node with room (when spreading, the emptiest); then its
    neighbours are asked."""
    count = end - begin
    if c.rules[0].candidates > 0:
        count = min(count, c.rules[0].candidates)
    if count <= 0:
        return -1, 1
    packing = fuller_than >= 0.0
    messages = finger_hops(c.order[PLACE, source], end - 1 if packing else begin, c.total.shape[0])
    for k in range(count):
        node = c.order[ORDER, end - 1 - k if packing else begin + k]
        messages += 1
        if node != source and is_suitable(c, mask, request, node, fuller_than):
            return int(node), int(messages)
    return -1, int(messages)


@helper
def relevel(c: SwarmTable, node: int) -> None:
    """A node has got fuller or emptier: it moves to its place in the order."""
    used = c.rows[USED]
    fill_used(c.total, c.free, c.outgoing, node, used)
    to = as_level(dominant(used, c.total[node], c.rows[COUNTED]), c.first.shape[0] - 1)
    # One step of the order is an exchange with the node at the border of its level, in constant
    # time; a migration moves a node by a few levels at most, and nothing is sorted again.
    while c.order[LEVEL, node] < to:
        step_up(c.order[LEVEL], c.order[ORDER], c.order[PLACE], c.first, node)
    while c.order[LEVEL, node] > to:
        step_down(c.order[LEVEL], c.order[ORDER], c.order[PLACE], c.first, node)


@helper
def set_order(c: SwarmTable) -> None:
    """Put all nodes in order of fullness."""
    used, counted = c.rows[USED], c.rows[COUNTED]
    for node in range(c.total.shape[0]):
        fill_used(c.total, c.free, c.outgoing, node, used)
        c.order[LEVEL, node] = as_level(
            dominant(used, c.total[node], counted), c.first.shape[0] - 1
        )
    arrange(c.order[LEVEL], c.order[ORDER], c.order[PLACE], c.first)
