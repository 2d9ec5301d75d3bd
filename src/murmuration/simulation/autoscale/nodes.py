"""A node: it is added, starts, joins the overlay, decides, leaves or crashes. The rare
events."""

from __future__ import annotations

import numpy as np

from murmuration.autoscaling import depas
from murmuration.autoscaling.overlay import GossipRules, OverlayNodes
from murmuration.base.jit import helper, loop_kernel
from murmuration.base.rows import next_double
from murmuration.simulation.autoscale.kernels import (
    act,
    draw_some,
    gossip,
    indicator,
    join,
    neighbourhood_load,
    perfect,
    proportional,
    stabilise,
    work_of,
)
from murmuration.simulation.autoscale.recording import log_node, log_refusal, log_request
from murmuration.simulation.autoscale.requests import dequeue, free_request, next_arrival
from murmuration.simulation.autoscale.world import (
    BALANCER,
    CRASHED,
    DECISIONS,
    DEPAS,
    FAILED,
    FREE,
    GOSSIP,
    LEAVING,
    LEFT,
    LOST,
    NEVER,
    NODE_DECIDES,
    NODE_READY,
    ORACLE,
    OVERLAY,
    REQUESTS,
    REUSE_S,
    STARTING,
    UP,
    Array,
    AutoscaleWorld,
)
from murmuration.simulation.engine.event_queue import schedule


@helper
def pay(state: Array) -> None:
    """Bring the cost up to date, before the price of all nodes together changes."""
    state[0].cost += state[0].price * (state[0].now - state[0].cost_at) / 3600.0
    state[0].cost_at = state[0].now


@helper
def step_at(times: Array, time: float) -> int:
    """The step that holds at a time."""
    low, high = 0, times.shape[0]
    while high - low > 1:
        middle = (low + high) // 2
        if times[middle] <= time:
            low = middle
        else:
            high = middle
    return low


@helper
def take_slot(f: AutoscaleWorld) -> int:
    """A row for a new node, −1 if there is none."""
    state = f.state
    # Rows of nodes that are gone are used again in the order in which they went, and only after a
    # while: views of other nodes may still hold the row's number, and gossip would take the new
    # node for the old one.
    if state[0].gone_head < state[0].gone_tail:
        slot = f.gone[state[0].gone_head % f.gone.shape[0]]
        if f.nodes[slot].gone_at + REUSE_S <= state[0].now:
            state[0].gone_head += 1
            return int(slot)
    if state[0].slots == f.nodes.shape[0]:
        return -1
    state[0].slots += 1
    return int(state[0].slots - 1)


@helper
def starting(types: Array) -> int:
    """How many nodes are starting."""
    count = 0
    for k in range(types.shape[0]):
        count += types[k].starting
    return count


@helper
def name_node(f: AutoscaleWorld, slot: int, ordered_at: float) -> None:
    """A number of its own, which its slot is not."""
    node = f.nodes[slot]
    node.number, node.ordered_at, node.up_at = f.state[0].named, ordered_at, np.nan
    node.left_at = np.nan
    f.state[0].named += 1


@helper
def add_node(f: AutoscaleWorld, kind: int, parent: int) -> None:
    """Rent a node; it is ready after the start-up delay."""
    slot = -1
    # Nodes that are starting count: between a decision and its effect lie minutes, in which every
    # other node decides too.
    if f.state[0].live + starting(f.types) < f.rules[0].nodes_max:
        slot = take_slot(f)
    if slot < 0:
        f.state[0].refused += 1
        log_refusal(f, kind)
        return
    name_node(f, slot, f.state[0].now)
    node = f.nodes[slot]
    node.status, node.kind, node.parent = STARTING, kind, parent
    node.counted, node.running, node.queued = 0, 0, 0
    f.capacity[slot] = f.types[kind].capacity
    f.types[kind].starting += 1
    # Paid for from the order on, not from when it is ready.
    pay(f.state)
    f.state[0].price += f.types[kind].price
    f.state[0].added += 1
    schedule(f.event_queue, f.state, f.state[0].now + f.rules[0].start_s, NODE_READY, slot)


@helper
def enter_service(f: AutoscaleWorld, slot: int) -> None:
    """A node is up: it counts, and can be sent requests by whoever knows it."""
    node = f.nodes[slot]
    node.status, node.up_at = UP, f.state[0].now
    f.up[slot], f.work[slot] = True, 0.0
    f.counts[:, slot] = 0
    f.averages.epoch[slot], f.averages.load[slot] = -1, np.nan
    node.place = f.state[0].live
    f.live[node.place] = slot
    f.state[0].live += 1
    f.state[0].capacity += f.capacity[slot]
    f.types[node.kind].up += 1


@helper
def schedule_decision(f: AutoscaleWorld, slot: int, time: float) -> None:
    f.nodes[slot].decides_at = time
    schedule(f.event_queue, f.state, time, NODE_DECIDES, slot)


@loop_kernel
def first_nodes(f: AutoscaleWorld, kinds: Array, decide_at: Array) -> None:
    """Nodes of these types are up from the start, and the first request is on its way."""
    for k in range(kinds.shape[0]):
        slot, kind = take_slot(f), kinds[k]
        name_node(f, slot, np.nan)
        f.nodes[slot].kind = kind
        f.capacity[slot] = f.types[kind].capacity
        f.state[0].price += f.types[kind].price
        enter_service(f, slot)
        if f.rules[0].kind == DEPAS:
            schedule_decision(f, slot, decide_at[k])
    f.state[0].arrival = next_arrival(f.state, f.rate_time, f.rate, f.rng[REQUESTS])


@helper
def node_ready(f: AutoscaleWorld, slot: int) -> None:
    """A node that was added has started: its parent, or anyone if that has gone, introduces it."""
    parent = f.nodes[slot].parent
    if (parent < 0 or not f.up[parent]) and f.state[0].live > 0:
        parent = f.live[int(next_double(f.rng[OVERLAY]) * f.state[0].live)]
    f.types[f.nodes[slot].kind].starting -= 1
    enter_service(f, slot)
    f.views.size[slot] = 0
    if f.state[0].live > 1:
        join(f.views, f.up, slot, parent, f.state[0].rounds, f.rng[OVERLAY])
    if f.state[0].known == 0:
        renew_entry(f)
    if f.rules[0].kind == DEPAS:
        schedule_decision(f, slot, f.state[0].now + f.rules[0].cycle_s)


@helper
def take_out_of_service(f: AutoscaleWorld, slot: int) -> None:
    """No longer counted, no longer sent anything."""
    f.up[slot], f.nodes[slot].left_at = False, f.state[0].now
    # Its next decision stays in the event queue; the loop drops one whose time is not this.
    f.nodes[slot].decides_at = NEVER
    # `live` is a list without gaps, so that one of them is drawn by a single random number: the
    # last takes the place of the one that goes.
    last = f.live[f.state[0].live - 1]
    f.live[f.nodes[slot].place] = last
    f.nodes[last].place = f.nodes[slot].place
    f.state[0].live -= 1
    f.state[0].capacity -= f.capacity[slot]
    f.types[f.nodes[slot].kind].up -= 1


@helper
def stop_paying(f: AutoscaleWorld, slot: int) -> None:
    pay(f.state)
    f.state[0].price -= f.types[f.nodes[slot].kind].price


@helper
def node_gone(f: AutoscaleWorld, slot: int) -> None:
    """Nothing runs there any more: the slot waits to be used again."""
    if f.nodes[slot].status == LEAVING:
        f.types[f.nodes[slot].kind].leaving -= 1
        stop_paying(f, slot)
        log_node(f, slot, LEFT)
    f.nodes[slot].status, f.nodes[slot].gone_at = FREE, f.state[0].now
    f.gone[f.state[0].gone_tail % f.gone.shape[0]] = slot
    f.state[0].gone_tail += 1


@helper
def node_leaves(f: AutoscaleWorld, slot: int) -> None:
    """A node takes no more requests, finishes those it has, and is given back. The last few may not
    go."""
    # DEPAS nodes decide alone and could all decide to leave in the same cycle.
    if f.state[0].live <= f.rules[0].nodes_min:
        return
    take_out_of_service(f, slot)
    f.state[0].removed += 1
    f.nodes[slot].status = LEAVING
    f.types[f.nodes[slot].kind].leaving += 1
    if f.nodes[slot].running == 0:
        node_gone(f, slot)


@helper
def crash(f: AutoscaleWorld) -> None:
    """A share of the live nodes vanishes at once, with what they had."""
    wanted = round(f.rules[0].crash_share * f.state[0].live)
    for _ in range(wanted):
        slot = f.live[int(next_double(f.rng[DECISIONS]) * f.state[0].live)]
        take_out_of_service(f, slot)
        stop_paying(f, slot)
        f.nodes[slot].status = CRASHED
        f.state[0].crashed += 1
        f.state[0].lost += f.nodes[slot].running + f.nodes[slot].queued
        log_node(f, slot, FAILED)
        while f.nodes[slot].queued > 0:
            request = dequeue(f.state, f.nodes, f.requests, slot)
            log_request(
                f.state,
                f.request_log,
                f.requests,
                request,
                f.nodes[slot].number,
                LOST,
                f.state[0].now,
            )
            free_request(f.state, f.requests, request)
        if f.nodes[slot].running == 0:
            node_gone(f, slot)


@helper
def renew_entry(f: AutoscaleWorld) -> None:
    """The entry point gets to know other workers: a share of all, but no fewer than a minimum."""
    wanted = max(f.rules[0].entry_min, int(np.ceil(f.rules[0].entry_share * f.state[0].live)))
    f.state[0].known = draw_some(
        f.live, f.state[0].live, min(wanted, f.state[0].live), f.known, f.rng[BALANCER]
    )


@helper
def type_on_offer(f: AutoscaleWorld) -> int:
    return int(f.offer_type[step_at(f.offer_time, f.state[0].now)])


@helper
def estimate_load(f: AutoscaleWorld, slot: int) -> float:
    """What a node takes for the load of the system; averaging has no result before its first whole
    epoch."""
    if f.rules[0].estimate == GOSSIP and not np.isnan(f.averages.load[slot]):
        return float(f.averages.load[slot])
    return float(neighbourhood_load(f.views, f.work, f.capacity, slot))


@helper
def node_decides(f: AutoscaleWorld, slot: int) -> None:
    """One DEPAS cycle of one node."""
    kind, rules = type_on_offer(f), f.rules[0]
    load = estimate_load(f, slot)
    capacity, new = f.capacity[slot], f.types[kind].capacity
    wish = indicator(load, rules.target, rules.band, capacity, new, rules.formula)
    answer = act(wish, next_double(f.rng[DECISIONS]))
    if answer == depas.LEAVE:
        node_leaves(f, slot)
    else:
        for _ in range(answer):
            add_node(f, kind, slot)
    if f.up[slot]:
        schedule_decision(f, slot, f.state[0].now + rules.cycle_s)


@helper
def choose_capacity(f: AutoscaleWorld, present: float) -> float:
    """What a central scaler wants, given the capacity that is up or starting."""
    rules = f.rules[0]
    if rules.kind == ORACLE:
        coming = f.rate[step_at(f.rate_time, f.state[0].now + rules.start_s)]
        return float(perfect(coming * rules.execution_s, rules.target))
    work, latest = 0.0, present
    for k in range(f.state[0].live):
        work += f.work[f.live[k]]
    if f.state[0].capacity > 0:
        up = float(f.state[0].capacity)
        latest = proportional(present, up, work / up, rules.target, rules.band)
    recent, count = f.recommendations, f.state[0].recommended
    recent[count % recent.shape[0]] = latest
    f.state[0].recommended = count + 1
    return float(stabilise(present, latest, recent[: min(count + 1, recent.shape[0])]))


@helper
def central_decides(f: AutoscaleWorld) -> None:
    """A central scaler adds nodes of the type on offer, or removes some at random, until it has
    what it wants."""
    kind = type_on_offer(f)
    present = float(f.state[0].capacity)
    for k in range(f.types.shape[0]):
        present += f.types[k].starting * f.types[k].capacity
    wanted = choose_capacity(f, present)
    refused = f.state[0].refused
    while present < wanted and f.state[0].refused == refused:
        add_node(f, kind, -1)
        present += f.types[kind].capacity
    while f.state[0].live > f.rules[0].nodes_min:
        slot = f.live[int(next_double(f.rng[DECISIONS]) * f.state[0].live)]
        present -= f.capacity[slot]
        if present < wanted:
            break
        node_leaves(f, slot)


@helper
def measure_loads(f: AutoscaleWorld, window: int, second: int) -> None:
    """Once a second: each node's work, requests per second processed or rejected over the window,
    or since it is up.

    Times the mean execution time: then the capacity that work is compared with is the number of
    requests in parallel.
    """
    for k in range(f.state[0].live):
        slot = f.live[k]
        counted = f.nodes[slot].counted
        seconds = min(float(window), f.state[0].now - f.nodes[slot].up_at)
        if seconds > 0.0:
            before = f.counts[second % window, slot]
            f.work[slot] = work_of(counted, before, seconds, f.rules[0].execution_s)
        f.counts[second % window, slot] = counted


@helper
def gossip_round(f: AutoscaleWorld) -> None:
    rules = f.rules[0]
    epoch = rules.epoch_rounds if rules.estimate == GOSSIP else 0
    peers = OverlayNodes(f.up, f.work, f.capacity, f.live, f.state[0].live)
    how = GossipRules(rules.exchange, rules.probes, epoch, rules.loss)
    gossip(f.views, f.averages, peers, how, f.state[0].rounds, f.rng[OVERLAY])
    f.state[0].rounds += 1


@helper
def sample(f: AutoscaleWorld) -> None:
    """One row of the time series, in the order of `COLUMNS`."""
    pay(f.state)
    s, row = f.state[0], f.samples[f.state[0].sampled]
    row[0], row[1], row[2], row[3] = s.now, f.rate[step_at(f.rate_time, s.now)], s.capacity, s.live
    row[4], row[5] = starting(f.types), 0.0
    row[6], row[7], row[8], row[9], row[10], row[11] = (
        s.arrived,
        s.done,
        s.rejected,
        s.lost,
        s.queued,
        s.hops,
    )
    row[12], row[13], row[14], row[15] = s.response_s, s.cost, s.added, s.removed
    for k in range(f.types.shape[0]):
        row[5] += f.types[k].leaving
        row[16 + k] = f.types[k].up
    f.state[0].sampled += 1
