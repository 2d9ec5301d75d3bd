"""An assignment with everything a search asks about it kept up to date: the state, and what one
move changes.

Only conflicts are never allowed. Other rules may be broken on the way and are counted: a *breach*
is a pair of services of which one misses the other in a neighbourhood, or a location too few;
*excess* is what nodes hold above capacity. *Held* is what moved tasks still hold of transient
resources where they were, *moved* how many there are. A search puts a price on each of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from murmuration.base.arrays import Amounts, ByteCounts, Indices, Integers
from murmuration.base.jit import helper, inlined, released
from murmuration.planning.reassignment.cost import usage
from murmuration.planning.reassignment.model import Model

#: How much more room weighs where all that is free is needed than where none is: e to this power.
SCARCITY = 3.0
#: Places in `ReassignmentState.totals`.
COST, BREACHES, EXCESS, HELD, MOVED, MOVED_MAX = 0, 1, 2, 3, 4, 5


class ReassignmentProblem(NamedTuple):
    """What stays: the model's arrays a kernel reads, with weights applied and lists in both
    directions."""

    transient: Integers
    load_weight: Integers
    capacity: Amounts
    safety: Amounts
    neighbourhood: Indices
    location: Indices
    node_move: Integers  # node × node, weighted
    service: Indices
    request: Amounts
    task_move: Integers  # weighted
    lasting: Amounts  # task × resource: what leaves with it, that is all but transient
    #: task: what it still holds of transient resources where it was, by load weight and by how much
    #: that node needs the room
    left_behind: Integers
    spread: Integers
    need_from: Indices
    needs: Indices
    needed_from: Indices
    needed_by: Indices
    member_from: Indices
    members: Indices
    balance: Integers
    initial: Indices
    home_from: Indices
    at_home: Indices  # tasks by their first node
    by_size: Indices  # tasks, the smallest first
    size_rank: Indices  # task: its place among them
    service_weight: int
    #: The most that a task saves beside its nodes if it comes to one that is nearer to its first.
    move_saving: int


class ReassignmentState(NamedTuple):
    """What changes. `held` is what capacity is measured against: use, and what transient resources
    still hold."""

    node_of: Indices
    used: Amounts
    held: Amounts
    node_cost: Integers
    node_excess: Amounts  # node: what it holds above its capacity, over all resources
    tasks_at: ByteCounts  # service × node: how many of its tasks are there
    in_place: Integers  # service × neighbourhood: tasks there
    in_location: Integers  # service × location
    locations: Integers  # service: how many it is in
    missing: Integers  # service × neighbourhood: how many of its needs are not there
    wanted: Integers  # service × neighbourhood: how many services that need it are there
    moved: Integers  # service: tasks away from their first node
    moved_count: Integers  # how many services have so many moved tasks
    totals: Integers


def _group_by(keys: Indices, values: Indices, count: int) -> tuple[Indices, Indices]:
    """Values by key, as one array and where each key's begin."""
    order = np.argsort(keys, kind="stable")
    begins = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))]).astype(np.int64)
    return begins, values[order].astype(np.int64)


def make_problem(model: Model, initial: Indices) -> ReassignmentProblem:
    """The arrays of a model as kernels read them."""
    services = len(model.spread)
    needing = np.repeat(np.arange(services), np.diff(model.need_from))
    needed_from, needed_by = _group_by(model.needs, needing, services)
    tasks = np.arange(len(model.service))
    member_from, members = _group_by(model.service, tasks, services)
    home_from, at_home = _group_by(initial, tasks, len(model.capacity))
    size = (model.request / np.maximum(1, model.safety.sum(axis=0))).sum(axis=1)
    by_size = np.argsort(size, kind="stable")
    return ReassignmentProblem(
        transient=model.transient,
        load_weight=model.load_weight,
        capacity=model.capacity,
        safety=model.safety,
        neighbourhood=model.neighbourhood,
        location=model.location,
        node_move=model.node_move * model.weights[2],
        service=model.service,
        request=model.request,
        task_move=model.task_move * model.weights[0],
        lasting=model.request * (1 - model.transient),
        left_behind=_weigh_left_behind(model, initial),
        spread=model.spread,
        need_from=model.need_from,
        needs=model.needs,
        needed_from=needed_from,
        needed_by=needed_by,
        member_from=member_from,
        members=members,
        balance=model.balance,
        initial=initial.astype(np.int64),
        home_from=home_from,
        at_home=at_home,
        by_size=by_size,
        size_rank=np.argsort(by_size, kind="stable"),
        service_weight=int(model.weights[1]),
        move_saving=int(
            model.weights @ [model.task_move.max(), 1, model.node_move.max()],
        ),
    )


def _weigh_left_behind(model: Model, initial: Indices) -> Integers:
    """What each task would still hold where it was. It weighs more on a node that is to take in
    much of a resource: what tasks leave behind there is in the way of those that are to come."""
    used = usage(model, initial)
    needed = (model.safety - used) / np.maximum(1, model.capacity - used)
    weight = model.load_weight * np.exp(SCARCITY * np.clip(needed, -1.0, 1.0))
    held: Integers = (
        (model.request * model.transient * weight[initial]).sum(axis=1).astype(np.int64)
    )
    return held


def make_state(p: ReassignmentProblem, assignment: Indices) -> ReassignmentState:
    """The state of an assignment, built from nothing."""
    nodes, resources = p.capacity.shape
    services = len(p.spread)
    places, locations = int(p.neighbourhood.max()) + 1, int(p.location.max()) + 1
    largest = int(np.diff(p.member_from).max())

    def zeros(*shape: int) -> Integers:
        return np.zeros(shape, dtype=np.int64)

    s = ReassignmentState(
        node_of=zeros(len(p.service)),
        used=zeros(nodes, resources),
        held=zeros(nodes, resources),
        node_cost=zeros(nodes),
        node_excess=zeros(nodes),
        tasks_at=np.zeros((services, nodes), dtype=np.uint8),
        in_place=zeros(services, places),
        in_location=zeros(services, locations),
        locations=zeros(services),
        missing=zeros(services, places),
        wanted=zeros(services, places),
        moved=zeros(services),
        moved_count=zeros(largest + 1),
        totals=zeros(6),
    )
    rebuild(p, s, assignment.astype(np.int64))
    return s


@released
def rebuild(p: ReassignmentProblem, s: ReassignmentState, assignment: Indices) -> None:
    """Make the state that of another assignment."""
    s.used[:] = 0
    s.held[:] = 0
    s.tasks_at[:] = 0
    s.in_place[:] = 0
    s.in_location[:] = 0
    s.moved[:] = 0
    s.moved_count[:] = 0
    s.totals[:] = 0
    for t in range(assignment.shape[0]):
        m, service = assignment[t], p.service[t]
        s.node_of[t] = m
        s.tasks_at[service, m] += 1
        s.in_place[service, p.neighbourhood[m]] += 1
        s.in_location[service, p.location[m]] += 1
        for r in range(p.request.shape[1]):
            s.used[m, r] += p.request[t, r]
            s.held[m, r] += p.request[t, r]
            if m != p.initial[t] and p.transient[r]:
                s.held[p.initial[t], r] += p.request[t, r]
        if m != p.initial[t]:
            s.moved[service] += 1
            s.totals[HELD] += p.left_behind[t]
            s.totals[MOVED] += 1
            s.totals[COST] += p.task_move[t] + p.node_move[p.initial[t], m]
    for m in range(p.capacity.shape[0]):
        s.node_cost[m] = node_cost(p, s, m, 0, 0, 0, 0)
        s.totals[COST] += s.node_cost[m]
        s.node_excess[m] = node_excess(p, s, m, 0, 0, 0, 0)
        s.totals[EXCESS] += s.node_excess[m]
    _rebuild_services(p, s)


@helper
def _rebuild_services(p: ReassignmentProblem, s: ReassignmentState) -> None:
    s.locations[:] = 0
    s.missing[:] = 0
    s.wanted[:] = 0
    for a in range(p.spread.shape[0]):
        s.moved_count[s.moved[a]] += 1
        s.totals[MOVED_MAX] = max(s.totals[MOVED_MAX], s.moved[a])
        for place in range(s.in_location.shape[1]):
            s.locations[a] += s.in_location[a, place] > 0
        s.totals[BREACHES] += max(0, p.spread[a] - s.locations[a])
        for k in range(p.need_from[a], p.need_from[a + 1]):
            b = p.needs[k]
            for n in range(s.in_place.shape[1]):
                s.missing[a, n] += s.in_place[b, n] == 0
                s.wanted[b, n] += s.in_place[a, n] > 0
                s.totals[BREACHES] += s.in_place[a, n] > 0 and s.in_place[b, n] == 0
    s.totals[COST] += p.service_weight * s.totals[MOVED_MAX]


@inlined
def node_cost(
    p: ReassignmentProblem,
    s: ReassignmentState,
    m: int,
    plus: int,
    plus_sign: int,
    minus: int,
    minus_sign: int,
) -> int:
    """Load and balance cost of a node if one task came (sign 1) and another left (sign 1); 0 for no
    such task."""
    cost = 0
    for r in range(p.capacity.shape[1]):
        used = s.used[m, r] + plus_sign * p.request[plus, r] - minus_sign * p.request[minus, r]
        cost += p.load_weight[r] * max(0, used - p.safety[m, r])
    for b in range(p.balance.shape[0]):
        one, other = p.balance[b, 0], p.balance[b, 1]
        used = (
            s.used[m, one] + plus_sign * p.request[plus, one] - minus_sign * p.request[minus, one]
        )
        also = (
            s.used[m, other]
            + plus_sign * p.request[plus, other]
            - minus_sign * p.request[minus, other]
        )
        lacking = p.balance[b, 2] * (p.capacity[m, one] - used) - (p.capacity[m, other] - also)
        cost += p.balance[b, 3] * max(0, lacking)
    return cost


@inlined
def node_excess(
    p: ReassignmentProblem,
    s: ReassignmentState,
    m: int,
    plus: int,
    plus_sign: int,
    minus: int,
    minus_sign: int,
) -> int:
    """What a node would hold above its capacity if one task came (sign 1) and another left (sign
    1)."""
    comes = p.lasting if p.initial[plus] == m else p.request
    goes = p.lasting if p.initial[minus] == m else p.request
    excess = 0
    for r in range(p.capacity.shape[1]):
        held = s.held[m, r] + plus_sign * comes[plus, r] - minus_sign * goes[minus, r]
        excess += max(0, held - p.capacity[m, r])
    return excess


@inlined
def move_cost(p: ReassignmentProblem, t: int, m: int) -> int:
    """What it costs that a task is on another node than at first, wherever the others are."""
    return 0 if p.initial[t] == m else int(p.task_move[t] + p.node_move[p.initial[t], m])


@inlined
def breaches_of(p: ReassignmentProblem, s: ReassignmentState, t: int, m: int) -> int:
    """How many breaches more there are once a task has moved from its node to another."""
    a, old = p.service[t], s.node_of[t]
    change = 0
    here, there = p.neighbourhood[old], p.neighbourhood[m]
    if here != there:
        if s.in_place[a, here] == 1:
            change += s.wanted[a, here] - s.missing[a, here]
        if s.in_place[a, there] == 0:
            change += s.missing[a, there] - s.wanted[a, there]
    here, there = p.location[old], p.location[m]
    if here != there and p.spread[a] > 1:
        after = s.locations[a] - (s.in_location[a, here] == 1) + (s.in_location[a, there] == 0)
        change += max(0, p.spread[a] - after) - max(0, p.spread[a] - s.locations[a])
    return change


@inlined
def moved_change(p: ReassignmentProblem, s: ReassignmentState, t: int, m: int) -> int:
    """One more moved task, one fewer, or as many."""
    return int(p.initial[t] != m) - int(p.initial[t] != s.node_of[t])


@inlined
def service_cost(p: ReassignmentProblem, s: ReassignmentState, a: int, change: int) -> int:
    """What the largest number of moved tasks of a service costs more if a service has `change`
    moved tasks more."""
    if change == 0:
        return 0
    highest, after = s.totals[MOVED_MAX], s.moved[a] + change
    if after > highest:
        return int(p.service_weight * (after - highest))
    # Another service has as many: the maximum stays.
    if s.moved[a] < highest or s.moved_count[highest] > 1:
        return 0
    lower = highest - 1
    while lower > after and s.moved_count[lower] == 0:
        lower -= 1
    return int(p.service_weight * (lower - highest))


@helper
def move(p: ReassignmentProblem, s: ReassignmentState, t: int, m: int) -> None:
    """Move a task and update every table."""
    a, old = p.service[t], s.node_of[t]
    if old == m:
        return
    change = moved_change(p, s, t, m)
    s.totals[BREACHES] += breaches_of(p, s, t, m)
    s.totals[COST] += service_cost(p, s, a, change) + move_cost(p, t, m) - move_cost(p, t, old)
    s.totals[HELD] += change * p.left_behind[t]
    s.totals[MOVED] += change
    _count_moved(s, a, change)
    for r in range(p.capacity.shape[1]):
        amount = p.request[t, r]
        s.used[old, r] -= amount
        s.used[m, r] += amount
        if not (p.transient[r] and p.initial[t] == old):
            s.held[old, r] -= amount
        if not (p.transient[r] and p.initial[t] == m):
            s.held[m, r] += amount
    for node in (old, m):
        cost = node_cost(p, s, node, 0, 0, 0, 0)
        s.totals[COST] += cost - s.node_cost[node]
        s.node_cost[node] = cost
        excess = node_excess(p, s, node, 0, 0, 0, 0)
        s.totals[EXCESS] += excess - s.node_excess[node]
        s.node_excess[node] = excess
    s.node_of[t] = m
    s.tasks_at[a, old] -= 1
    s.tasks_at[a, m] += 1
    _enter_and_leave(p, s, a, old, m)


@inlined
def _count_moved(s: ReassignmentState, a: int, change: int) -> None:
    if change == 0:
        return
    s.moved_count[s.moved[a]] -= 1
    s.moved[a] += change
    s.moved_count[s.moved[a]] += 1
    s.totals[MOVED_MAX] = max(s.totals[MOVED_MAX], s.moved[a])
    while s.moved_count[s.totals[MOVED_MAX]] == 0:
        s.totals[MOVED_MAX] -= 1


@helper
def _enter_and_leave(
    p: ReassignmentProblem, s: ReassignmentState, a: int, old: int, m: int
) -> None:
    """Count a task of a service out of the neighbourhood and location of one node and into those of
    another."""
    here, there = p.location[old], p.location[m]
    s.in_location[a, here] -= 1
    s.locations[a] -= s.in_location[a, here] == 0
    s.locations[a] += s.in_location[a, there] == 0
    s.in_location[a, there] += 1
    here, there = p.neighbourhood[old], p.neighbourhood[m]
    s.in_place[a, here] -= 1
    if s.in_place[a, here] == 0:
        _presence(p, s, a, here, -1)
    s.in_place[a, there] += 1
    if s.in_place[a, there] == 1:
        _presence(p, s, a, there, 1)


@helper
def _presence(p: ReassignmentProblem, s: ReassignmentState, a: int, n: int, sign: int) -> None:
    """A service has come to a neighbourhood (1) or left it (−1)."""
    for k in range(p.need_from[a], p.need_from[a + 1]):
        s.wanted[p.needs[k], n] += sign
    for k in range(p.needed_from[a], p.needed_from[a + 1]):
        s.missing[p.needed_by[k], n] -= sign
