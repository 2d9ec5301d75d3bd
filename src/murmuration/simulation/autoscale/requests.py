"""A request: it arrives, finds a worker, waits, runs and ends. The steps that are taken for every
one."""

from __future__ import annotations

import numpy as np

from murmuration.base.jit import helper, inlined
from murmuration.base.rows import next_double
from murmuration.simulation.autoscale.kernels import admits, draw_weighted, drop, forget
from murmuration.simulation.autoscale.recording import log_rejection, log_request
from murmuration.simulation.autoscale.world import (
    BALANCER,
    BIN_MIN_S,
    BIN_RATIO,
    BINS,
    CRASHED,
    DONE,
    LEAVING,
    LOST,
    NEVER,
    REQUESTS,
    Array,
    AutoscaleWorld,
)


@helper
def exponential(rng: Array) -> float:
    return float(-np.log1p(-next_double(rng)))


@helper
def next_arrival(state: Array, rate_time: Array, rate: Array, rng: Array) -> float:
    """When the next request arrives: an exponential amount of expected requests further along the
    steps of the rate."""
    left, at, step = exponential(rng), state[0].arrival, state[0].step
    while True:
        ends = rate_time[step + 1] if step + 1 < rate.shape[0] else NEVER
        state[0].step = step
        if rate[step] > 0.0 and at + left / rate[step] < ends:
            return float(at + left / rate[step])
        if ends == NEVER:
            return float(NEVER)
        left -= rate[step] * (ends - at)
        at = ends
        step += 1


@helper
def ends_before(ends: Array, a: int, time: float, request: int) -> bool:
    """Whether an entry comes before a time; of equal times the lower request."""
    return bool(ends[a].time < time or (ends[a].time == time and ends[a].request < request))


@helper
def sift_up(ends: Array, at: int, time: float, request: int) -> None:
    """Put an entry in the heap, from a free place upwards."""
    while at > 0:
        parent = (at - 1) >> 1
        if ends_before(ends, parent, time, request):
            break
        ends[at].time, ends[at].request = ends[parent].time, ends[parent].request
        at = parent
    ends[at].time, ends[at].request = time, request


@helper
def sift_down(ends: Array, size: int, time: float, request: int) -> None:
    """Put an entry in the heap in place of the first."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and ends_before(ends, child + 1, ends[child].time, ends[child].request):
            child += 1
        if not ends_before(ends, child, time, request):
            break
        ends[at].time, ends[at].request = ends[child].time, ends[child].request
        at = child
    ends[at].time, ends[at].request = time, request


@helper
def free_request(state: Array, requests: Array, request: int) -> None:
    requests[request].next = state[0].free
    state[0].free = request


@helper
def enqueue(state: Array, nodes: Array, requests: Array, node: int, request: int) -> None:
    """To the tail: routing takes no time, so who comes last is the youngest."""
    requests[request].next = -1
    requests[request].started = np.nan
    if nodes[node].queued == 0:
        nodes[node].head = request
    else:
        requests[nodes[node].tail].next = request
    nodes[node].tail = request
    nodes[node].queued += 1
    state[0].queued += 1


@helper
def dequeue(state: Array, nodes: Array, requests: Array, node: int) -> int:
    """The oldest request of a queue."""
    request = nodes[node].head
    nodes[node].head = requests[request].next
    nodes[node].queued -= 1
    state[0].queued -= 1
    return int(request)


@inlined
def next_worker(f: AutoscaleWorld, sender: int) -> int:
    """Whom the entry point (−1) or a worker sends a request to, by capacity; −1 if it knows nobody
    alive."""
    target = -1
    capacity_max, rng = f.rules[0].capacity_max, f.rng[BALANCER]
    if sender < 0:
        while f.state[0].known > 0:
            at = draw_weighted(f.known, f.state[0].known, f.capacity, capacity_max, rng)
            target = f.known[at]
            if f.up[target]:
                break
            f.state[0].known = forget(f.known, at, f.state[0].known)
            target = -1
    else:
        while f.views.size[sender] > 0:
            at = draw_weighted(
                f.views.node[sender], f.views.size[sender], f.capacity, capacity_max, rng
            )
            target = f.views.node[sender, at]
            if f.up[target]:
                break
            drop(f.views, sender, at)
            target = -1
    return target


@inlined
def route(f: AutoscaleWorld, takes: float) -> tuple[int, int]:
    """The worker that admits a request, −1 if none did, and its hops; the last one visited counts
    the rejection as its load.

    A message that is lost costs a hop and is sent again, to whomever the sender then chooses.
    """
    sender, admitted_by, hops = -1, -1, 0
    while True:
        target = next_worker(f, sender)
        if target < 0:
            break
        if f.rules[0].loss <= 0.0 or next_double(f.rng[BALANCER]) >= f.rules[0].loss:
            sender = target
            if admits(
                f.nodes[target].queued,
                f.nodes[target].running,
                f.capacity[target],
                f.rules[0].queue_max,
            ):
                admitted_by = target
                break
        if hops >= f.rules[0].hops_max:
            break
        hops += 1
    f.state[0].hops += hops
    if admitted_by < 0:
        f.state[0].rejected += 1
        if sender >= 0:
            f.nodes[sender].counted += 1
        last = f.nodes[sender].number if sender >= 0 else -1
        log_rejection(f.state, f.request_log, takes, hops, last)
    return admitted_by, hops


@inlined
def arrive(f: AutoscaleWorld) -> None:
    """A request is issued. How long it takes is drawn now, so that it does not depend on who runs
    it."""
    now, rng = f.state[0].now, f.rng[REQUESTS]
    takes = f.rules[0].execution_s
    if not f.rules[0].constant:
        takes *= exponential(rng)
    f.state[0].arrived += 1
    node, hops = route(f, takes)
    if node >= 0:
        request = f.state[0].free
        f.state[0].free = f.requests[request].next
        f.requests[request].issued = now
        f.requests[request].takes = takes
        f.requests[request].node = node
        f.requests[request].number = f.state[0].arrived - 1
        f.requests[request].hops = hops
        if f.nodes[node].running < f.capacity[node]:
            f.nodes[node].running += 1
            f.requests[request].started = now
            sift_up(f.ends, f.state[0].ends, now + takes, request)
            f.state[0].ends += 1
        else:
            enqueue(f.state, f.nodes, f.requests, node, request)
    f.state[0].arrival = next_arrival(f.state, f.rate_time, f.rate, rng)


@helper
def count_response(state: Array, responses: Array, seconds: float) -> None:
    state[0].response_s += seconds
    place = 0
    if seconds > BIN_MIN_S:
        place = min(BINS - 1, 1 + int(np.log(seconds / BIN_MIN_S) / np.log(BIN_RATIO)))
    responses[place] += 1


@inlined
def end_request(f: AutoscaleWorld) -> int:
    """The first request to end does; its worker starts the next. Returns a worker that now has
    nothing left, or −1."""
    request, now = f.ends[0].request, f.state[0].now
    node, idle = f.requests[request].node, -1
    if f.nodes[node].status != CRASHED:
        f.state[0].done += 1
        f.nodes[node].counted += 1
        count_response(f.state, f.responses, now - f.requests[request].issued)
        why, ended = DONE, now
    else:
        why, ended = LOST, f.nodes[node].left_at
    number = f.nodes[node].number
    log_request(f.state, f.request_log, f.requests, request, number, why, ended)
    free_request(f.state, f.requests, request)
    if f.nodes[node].queued > 0:
        following = dequeue(f.state, f.nodes, f.requests, node)
        f.requests[following].started = now
        sift_down(f.ends, f.state[0].ends, now + f.requests[following].takes, following)
    else:
        f.nodes[node].running -= 1
        f.state[0].ends -= 1
        last = f.state[0].ends
        sift_down(f.ends, last, f.ends[last].time, f.ends[last].request)
        if f.nodes[node].running == 0 and f.nodes[node].status >= LEAVING:
            idle = node
    return idle
