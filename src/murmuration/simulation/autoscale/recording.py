"""The story of every request and every node, on request: the loop appends rows to two bounded logs,
and Python writes them out when one is nearly full (`autoscale/detail.py`).

A request has its row when it is done, rejected or lost, a node when it has been given back or has
crashed; who asks for more nodes than there may be, a row for all that are refused at that moment.
Nothing here is read by any decision. Without the request both logs are empty, and each function
returns at once.
"""

from __future__ import annotations

import numpy as np

from murmuration.base.jit import helper
from murmuration.simulation.autoscale.world import REFUSED, REJECTED, Array, AutoscaleWorld


@helper
def is_log_full(state: Array, request_log: Array, node_log: Array) -> bool:
    """Whether the next event could write more rows than there is room for: a crash ends all that
    waits, and any number of nodes."""
    return bool(
        request_log.shape[0] > 0
        and (
            state[0].requests_logged + state[0].queued + 2 > request_log.shape[0]
            or state[0].nodes_logged + state[0].live + 2 > node_log.shape[0]
        )
    )


@helper
def log_request(
    state: Array,
    request_log: Array,
    requests: Array,
    request: int,
    node: int,
    why: int,
    ended: float,
) -> None:
    """A request that a worker admitted has ended."""
    if request_log.shape[0] == 0:
        return
    row, this = request_log[state[0].requests_logged], requests[request]
    row.number, row.issued, row.takes, row.hops = this.number, this.issued, this.takes, this.hops
    row.started, row.ended, row.node, row.why = this.started, ended, node, why
    state[0].requests_logged += 1


@helper
def log_rejection(state: Array, request_log: Array, takes: float, hops: int, last: int) -> None:
    """Nobody admits the request that has just arrived; the last worker it came to, if it came to
    one, counts it."""
    if request_log.shape[0] == 0:
        return
    row, now = request_log[state[0].requests_logged], state[0].now
    row.number, row.issued, row.takes, row.hops = state[0].arrived - 1, now, takes, hops
    row.started, row.ended, row.node, row.why = np.nan, now, last, REJECTED
    state[0].requests_logged += 1


@helper
def log_node(f: AutoscaleWorld, slot: int, why: int) -> None:
    """A node is paid for no longer."""
    if f.node_log.shape[0] == 0:
        return
    row, node = f.node_log[f.state[0].nodes_logged], f.nodes[slot]
    row.number, row.orders, row.kind, row.why = node.number, 1, node.kind, why
    row.ordered, row.up, row.left = node.ordered_at, node.up_at, node.left_at
    row.gone = f.state[0].now
    f.state[0].nodes_logged += 1


@helper
def log_refusal(f: AutoscaleWorld, kind: int) -> None:
    """There may be no more nodes; whoever asks for several is refused several."""
    if f.node_log.shape[0] == 0:
        return
    now, last = f.state[0].now, f.state[0].nodes_logged - 1
    if last >= 0 and f.node_log[last].why == REFUSED and f.node_log[last].ordered == now:
        f.node_log[last].orders += 1
        return
    row = f.node_log[last + 1]
    row.number, row.orders, row.kind, row.why = -1, 1, kind, REFUSED
    row.ordered, row.up, row.left, row.gone = now, np.nan, np.nan, np.nan
    f.state[0].nodes_logged += 1
