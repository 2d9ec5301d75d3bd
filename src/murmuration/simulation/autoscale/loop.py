"""The loop: the next arrival, the next end of a request, or the next other event, whichever
comes first."""

from __future__ import annotations

from murmuration.base.jit import helper, loop_kernel
from murmuration.simulation.autoscale.nodes import (
    central_decides,
    crash,
    gossip_round,
    measure_loads,
    node_decides,
    node_gone,
    node_ready,
    renew_entry,
    sample,
)
from murmuration.simulation.autoscale.recording import is_log_full
from murmuration.simulation.autoscale.requests import arrive, end_request
from murmuration.simulation.autoscale.world import NEVER, NODE_READY, Array, AutoscaleWorld
from murmuration.simulation.engine.event_queue import pop
from murmuration.simulation.engine.world import KIND_BITS, KIND_MASK

# Why `advance` stopped.
FINISHED, PAUSED, GROW, LOG_FULL = range(4)


@helper
def set_timer(state: Array, event_queue: Array) -> None:
    """The time of the next event that concerns no request."""
    s = state[0]
    at = min(min(s.second_at, s.gossip_at), min(s.renew_at, min(s.central_at, s.crash_at)))
    if s.scheduled > 0 and event_queue[0].time < at:
        at = event_queue[0].time
    state[0].timer = at


@helper
def node_event(f: AutoscaleWorld) -> None:
    """The next event; a decision of a node that has gone meanwhile is void."""
    time = f.event_queue[0].time
    what = pop(f.event_queue, f.state)
    slot = what >> KIND_BITS
    if what & KIND_MASK == NODE_READY:
        node_ready(f, slot)
    elif f.nodes[slot].decides_at == time:
        node_decides(f, slot)


@helper
def second(f: AutoscaleWorld) -> None:
    """Each second the loads are measured; every so many a sample is taken."""
    number = round(f.state[0].now)
    measure_loads(f, f.counts.shape[0], number)
    if number % f.state[0].sample_every == 0 and f.state[0].sampled < f.samples.shape[0]:
        sample(f)
    f.state[0].second_at = float(number + 1)


@helper
def tick(f: AutoscaleWorld) -> None:
    """What the timer stands for. At one time: crash, loads, gossip, entry point, central scaler,
    then single nodes."""
    s, now = f.state[0], f.state[0].now
    if s.crash_at == now:
        crash(f)
        f.state[0].crash_at = NEVER
    elif s.second_at == now:
        second(f)
    elif s.gossip_at == now:
        gossip_round(f)
        f.state[0].gossip_at = f.state[0].rounds * f.rules[0].overlay_s
    elif s.renew_at == now:
        renew_entry(f)
        f.state[0].renew_at = now + f.rules[0].entry_s
    elif s.central_at == now:
        central_decides(f)
        f.state[0].central_at = now + f.rules[0].cycle_s
    else:
        node_event(f)
    set_timer(f.state, f.event_queue)


@loop_kernel
def advance(f: AutoscaleWorld, until: float) -> int:
    """Run to the horizon (FINISHED), past `until` (PAUSED), or until there is no room for another
    request (GROW) or for what may be logged (LOG_FULL).

    Of equal times the end of a request comes first, then the timer, then an arrival.
    """
    while True:
        ends = f.ends[0].time if f.state[0].ends > 0 else NEVER
        time = min(ends, min(f.state[0].timer, f.state[0].arrival))
        if time > f.state[0].horizon:
            f.state[0].now = f.state[0].horizon
            return FINISHED
        if time > until:
            return PAUSED
        if f.state[0].free < 0:
            return GROW
        if is_log_full(f.state, f.request_log, f.node_log):
            return LOG_FULL
        f.state[0].now = time
        if time == ends:
            idle = end_request(f)
            if idle >= 0:
                node_gone(f, idle)
        elif time == f.state[0].timer:
            tick(f)
        else:
            arrive(f)
