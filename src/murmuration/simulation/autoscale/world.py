"""The world of an auto-scaling run: named arrays, and nothing else, like `simulation.world`.

A node is a row (a slot) in every array with one row per node; columns that are read for many nodes
at a time stand alone. A slot is used again only two minutes after its node has gone, as an address
would be, so that an old link never misleads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.autoscaling.views import Averages, Views

Array = NDArray[Any]

# What a node is doing. A node that leaves finishes what it has; what a crashed node had is lost.
FREE, STARTING, UP, LEAVING, CRASHED = range(5)
# Who scales, and how a node estimates the load of the system.
DEPAS, THRESHOLD, ORACLE = range(3)
KINDS = ("depas", "threshold", "oracle")
NEIGHBOURHOOD, GOSSIP = range(2)
ESTIMATES = ("neighbourhood", "gossip")
# What an event is about.
NODE_READY, NODE_DECIDES = range(2)
# The generators, one for each part, so that every scaler meets the same requests.
REQUESTS, BALANCER, OVERLAY, DECISIONS = range(4)
STREAMS = ("requests", "balancer", "overlay", "decisions")

REUSE_S = 120.0
NEVER = np.inf
#: Response times are counted in bins of equal ratio from a millisecond up.
BINS, BIN_MIN_S, BIN_RATIO = 256, 1e-3, 1.07

#: Columns of a sample; the nodes that are up follow, by type.
COLUMNS = (
    "time_s",
    "rate",
    "capacity",
    "nodes",
    "starting",
    "leaving",
    "arrived",
    "done",
    "rejected",
    "lost",
    "queued",
    "hops",
    "response_s",
    "cost",
    "added",
    "removed",
)

NODE = np.dtype(
    [
        ("up_at", "f8"),
        ("gone_at", "f8"),
        ("decides_at", "f8"),
        ("counted", "i8"),  # requests processed or rejected here
        ("running", "i4"),
        ("queued", "i4"),
        ("head", "i4"),
        ("tail", "i4"),  # the queue: a list of requests
        ("place", "i4"),
        ("parent", "i4"),  # in the list of live nodes; who added it
        ("number", "i8"),  # of all nodes there ever were: slots are used again
        ("ordered_at", "f8"),
        ("left_at", "f8"),
        ("status", "i1"),
        ("kind", "i1"),
    ],
    align=True,
)
REQUEST = np.dtype(
    [
        ("issued", "f8"),
        ("takes", "f8"),
        ("started", "f8"),
        ("number", "i8"),
        ("node", "i4"),
        ("next", "i4"),
        ("hops", "i4"),
    ],
    align=True,
)
END = np.dtype([("time", "f8"), ("request", "i8")], align=True)
TYPE = np.dtype(
    [("price", "f8"), ("capacity", "i4"), ("starting", "i4"), ("up", "i4"), ("leaving", "i4")],
    align=True,
)

# What became of a request, and of a node; a row of each when it ends, if a run is recorded.
DONE, REJECTED, LOST, IN_FLIGHT = range(4)
REQUEST_ENDS = ("done", "rejected", "lost", "in flight")
LEFT, FAILED, REFUSED, STILL_STARTING, STILL_UP, STILL_LEAVING = range(6)
NODE_ENDS = ("left", "crashed", "refused", "starting", "up", "leaving")
REQUEST_ROW = np.dtype(
    [
        ("issued", "f8"),
        ("takes", "f8"),
        ("started", "f8"),
        ("ended", "f8"),
        ("number", "i8"),
        ("node", "i8"),
        ("hops", "i4"),
        ("why", "i1"),
    ],
    align=True,
)
NODE_ROW = np.dtype(
    [
        ("number", "i8"),
        ("orders", "i8"),
        ("ordered", "f8"),
        ("up", "f8"),
        ("left", "f8"),
        ("gone", "f8"),
        ("kind", "i1"),
        ("why", "i1"),
    ],
    align=True,
)

RULES = np.dtype(
    [
        ("kind", "i8"),
        ("estimate", "i8"),
        ("formula", "i8"),
        ("target", "f8"),
        ("band", "f8"),
        ("cycle_s", "f8"),
        ("start_s", "f8"),
        ("nodes_min", "i8"),
        ("nodes_max", "i8"),
        ("capacity_max", "i8"),  # the largest capacity of a type
        ("overlay_s", "f8"),
        ("exchange", "i8"),
        ("probes", "i8"),
        ("epoch_rounds", "i8"),
        ("execution_s", "f8"),
        ("constant", "?"),
        ("queue_max", "f8"),
        ("hops_max", "i8"),
        ("entry_min", "i8"),
        ("entry_share", "f8"),
        ("entry_s", "f8"),
        ("loss", "f8"),
        ("crash_share", "f8"),
    ],
    align=True,
)

STATE = np.dtype(
    [
        ("now", "f8"),
        ("horizon", "f8"),
        ("arrival", "f8"),
        ("timer", "f8"),
        # When the regular things happen next; `timer` is the first of them and of the event queue.
        ("second_at", "f8"),
        ("gossip_at", "f8"),
        ("renew_at", "f8"),
        ("central_at", "f8"),
        ("crash_at", "f8"),
        ("scheduled", "i8"),
        ("order", "i8"),
        ("free", "i8"),
        ("ends", "i8"),
        ("step", "i8"),
        ("offer", "i8"),
        ("live", "i8"),
        ("known", "i8"),
        ("slots", "i8"),
        ("gone_head", "i8"),
        ("gone_tail", "i8"),
        ("rounds", "i8"),
        ("sampled", "i8"),
        ("sample_every", "i8"),
        ("recommended", "i8"),
        ("capacity", "i8"),
        ("arrived", "i8"),
        ("done", "i8"),
        ("rejected", "i8"),
        ("lost", "i8"),
        ("queued", "i8"),
        ("hops", "i8"),
        ("added", "i8"),
        ("removed", "i8"),
        ("crashed", "i8"),
        ("refused", "i8"),
        ("named", "i8"),
        ("requests_logged", "i8"),
        ("nodes_logged", "i8"),
        ("response_s", "f8"),
        ("cost", "f8"),
        ("cost_at", "f8"),
        ("price", "f8"),
    ],
    align=True,
)


class AutoscaleWorld(NamedTuple):
    """Everything a run is made of."""

    state: Array
    rules: Array
    rng: Array
    # The workload as steps, and which type is added from when on.
    rate_time: Array
    rate: Array
    offer_time: Array
    offer_type: Array
    types: Array
    # One row per node.
    nodes: Array
    up: Array
    capacity: Array
    work: Array
    counts: Array
    views: Views
    averages: Averages
    # Lists of nodes: live, known to the entry point, gone (a ring, first to be used again in
    # front).
    live: Array
    known: Array
    gone: Array
    # Requests, when those that run end, and what else happens.
    requests: Array
    ends: Array
    event_queue: Array
    recommendations: Array
    samples: Array
    responses: Array
    # Requests and nodes that have ended; empty unless the run is recorded.
    request_log: Array
    node_log: Array
