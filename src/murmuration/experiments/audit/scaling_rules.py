"""What must hold of every auto-scaling run, whatever scales it: no request gets lost or is served
twice, no node runs more than it can, nobody waits where there is room."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from murmuration.experiments.audit.folder import Flags, Floats, Integers
from murmuration.experiments.audit.scaling import RecordedScaling

#: Sums of times, in another order.
EPSILON_S = 1e-6


def find_broken(run: RecordedScaling) -> Iterator[str]:
    """Rules that do not hold, each with the first request or node that breaks it."""
    yield from _broken_requests(run)
    yield from _broken_nodes(run)
    yield from _broken_queues(run)


def _first(rows: Flags, names: Integers, word: str, rule: str) -> Iterator[str]:
    for name in names[rows][:1]:
        yield f"{word} {name}: {rule} ({int(rows.sum())} of them)"


def _broken_requests(run: RecordedScaling) -> Iterator[str]:
    requests = run.requests
    if not np.array_equal(requests.number, np.arange(len(requests.number))):
        yield "requests are missing, or there twice"
    done, lost = requests.ends("done"), requests.ends("lost")
    length = np.abs(requests.start + requests.takes - requests.end)
    early = requests.start < requests.issued
    host, there = _hosts(run)
    admitted = requests.admitted
    gone = np.where(there, run.nodes.gone[host], -np.inf)
    left = np.where(there, run.nodes.left[host], -np.inf)
    up = np.where(there, run.nodes.up[host], np.inf)
    rules = (
        (done & ~(length <= EPSILON_S), "did not run for its time"),
        (early, "started before it was issued"),
        (requests.hops > run.scenario.requests.hops_max, "was passed on too often"),
        (admitted & ~there, "is on no node"),
        (
            admitted & there & ((requests.issued < up) | (requests.issued > left)),
            "was taken by a node that was not in service",
        ),
        (done & there & (requests.end > gone + EPSILON_S), "ran where there was no node any more"),
        (
            lost & there & ~(run.nodes.crashed[host] & (requests.end == left)),
            "got lost where no node crashed",
        ),
        (
            there & run.nodes.crashed[host] & requests.ends("in flight"),
            "is on a node that has crashed",
        ),
    )
    for rows, rule in rules:
        yield from _first(rows, requests.number, "request", rule)


def _hosts(run: RecordedScaling) -> tuple[Integers, Flags]:
    """The row of each request's node, and whether there is one."""
    order = np.argsort(run.nodes.number)
    numbers = run.nodes.number[order]
    places = np.minimum(np.searchsorted(numbers, run.requests.node), len(numbers) - 1)
    return order[places], numbers[places] == run.requests.node


def _broken_nodes(run: RecordedScaling) -> Iterator[str]:
    nodes, scaler = run.nodes, run.scenario.autoscaler
    if len(np.unique(nodes.number)) != len(nodes.number):
        yield "a node is there twice"
    added = np.isfinite(nodes.ordered) & np.isfinite(nodes.up)
    late = np.zeros(len(added), np.bool_)
    late[added] = np.abs(nodes.up[added] - nodes.ordered[added] - scaler.start_s) > EPSILON_S
    rules = (
        (late, "did not take its time to start"),
        ((nodes.left < nodes.up) | (nodes.gone < nodes.left), "was gone before it was up"),
        (nodes.crashed & (nodes.gone != nodes.left), "was paid for after it had crashed"),
    )
    for rows, rule in rules:
        yield from _first(rows, nodes.number, "node", rule)
    # Nodes that have been ordered count, those that finish their last requests do not.
    moments = np.concatenate([nodes.left, nodes.ordered])
    steps = np.repeat([-1, 1], len(nodes.number))
    order = np.lexsort((steps, moments))
    order = order[np.isfinite(moments[order]) | (steps[order] > 0)]
    most = int(np.cumsum(steps[order]).max(initial=0))
    if most > scaler.nodes_max:
        yield f"there are {most} nodes at a time, more than the {scaler.nodes_max} there may be"
    for moment in nodes.left[nodes.removed]:
        others = int(((nodes.up <= moment) & (nodes.left > moment)).sum())
        if others < scaler.nodes_min and not (nodes.left[nodes.crashed] == moment).any():
            yield f"at {moment} s a node left, of the last {scaler.nodes_min}"
            return


def _broken_queues(run: RecordedScaling) -> Iterator[str]:
    """Each node's requests in the order of time: ends first, then those that come, then starts."""
    host, there = _hosts(run)
    requests, mine = run.requests, run.requests.admitted & there
    node, issued, start = host[mine], requests.issued[mine], requests.start[mine]
    stop = np.where(np.isnan(requests.end[mine]), np.inf, requests.end[mine])
    ran = ~np.isnan(start)
    changes = (
        (node[ran], stop[ran], -1, 0),
        (node[~ran], stop[~ran], 0, -1),
        (node, issued, 0, 1),
        (node[ran], start[ran], 1, -1),
    )
    where, when, kind = (
        np.concatenate([change[0] for change in changes]),
        np.concatenate([change[1] for change in changes]),
        np.repeat(np.arange(4), [len(change[0]) for change in changes]),
    )
    order = np.lexsort((kind, when, where))
    where, when, kind = where[order], when[order], kind[order]
    running = _sum_by_node(where, np.array([change[2] for change in changes])[kind])
    waiting = _sum_by_node(where, np.array([change[3] for change in changes])[kind])
    numbers, capacity = run.nodes.number[where], run.capacity[where]
    last = np.append((where[1:] != where[:-1]) | (when[1:] != when[:-1]), True)
    settled = last & np.isfinite(when)
    limit = run.scenario.requests.queue_max * capacity + 1
    yield from _first(running > capacity, numbers, "node", "runs more than it can")
    yield from _first(waiting >= limit, numbers, "node", "lets more wait than it may")
    idle = settled & (waiting > 0) & (running < capacity)
    yield from _first(idle, numbers, "node", "lets a request wait although it has room")
    yield from _first(_overtaken(node, issued, start), node, "node", "does not serve in order")


def _sum_by_node(where: Integers, steps: Integers) -> Integers:
    """Running sums that begin anew with each node; rows are sorted by node."""
    total = np.cumsum(steps)
    first = np.flatnonzero(np.append(True, where[1:] != where[:-1])) if len(where) else where
    before = total[first] - steps[first]
    return np.asarray(total - np.repeat(before, np.diff(np.append(first, len(where)))))


def _overtaken(node: Integers, issued: Floats, start: Floats) -> Flags:
    """Requests that started after one of the same node that came later."""
    order = np.lexsort((issued, node))
    later = np.where(np.isnan(start), np.inf, start)[order]
    same = np.append(node[order][1:] == node[order][:-1], False)
    overtaken = np.zeros(len(node), np.bool_)
    overtaken[order] = same & (later > np.append(later[1:], np.inf))
    return overtaken
