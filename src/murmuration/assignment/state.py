"""A placement with everything kept up to date that the change of one move needs, compiled.

`change` says by how much a weighted sum of objectives changes when a task goes to a node,
`swap_change` when two tasks change places; both look at the two nodes and the task's replicas only.
`legal` answers for capacity, constraints and rules, so that a search that asks it first never
leaves what is allowed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.assignment.evaluate import (
    COST,
    CROWDING,
    IMBALANCE,
    MEGABYTES,
    MOVES,
    NODES,
    POWER,
    PRIORITY,
    REPLICAS,
    UNPLACED,
    ZONES,
)
from murmuration.assignment.packed import HOLDER, TARGET, Packed
from murmuration.base.jit import helper, inlined, loop_kernel

Array = NDArray[Any]
#: A whole number or a flag of one type, so that no kernel is compiled twice for a literal.
whole: Any = np.int64
flag: Any = np.bool_
APART, TOGETHER, SPREAD = 0, 1, 2
#: Places in `State.sums`: gaps of the nodes in use, and how many are.
GAPS, IN_USE = 0, 1


class State(NamedTuple):
    """One placement, its nodes and its counters."""

    x: NDArray[np.int32]
    free: NDArray[np.int64]
    tasks: NDArray[np.int64]
    gap: NDArray[np.float64]
    big: NDArray[np.int32]
    big_zone: NDArray[np.int32]
    targets: NDArray[np.int64]
    alone: NDArray[np.int64]
    twice: NDArray[np.int64]
    rule_total: NDArray[np.int64]
    sums: NDArray[np.float64]


def new_state(p: Packed) -> State:
    """Room for a placement; `load` fills it."""
    nodes, tasks = len(p.total), len(p.request)
    zones = int(p.zone_of.max(initial=0)) + 1
    counted = p.rule_at >= 0
    counters = int(p.rule_domains[counted].sum())
    return State(
        x=np.full(tasks, -1, dtype=np.int32),
        free=p.total.copy(),
        tasks=np.zeros(nodes, dtype=np.int64),
        gap=np.zeros(nodes),
        big=np.zeros((len(p.big_groups), nodes), dtype=np.int32),
        big_zone=np.zeros((len(p.big_groups), zones), dtype=np.int32),
        targets=np.zeros(counters, dtype=np.int32),
        alone=np.zeros(counters, dtype=np.int32),
        twice=np.zeros(counters, dtype=np.int32),
        rule_total=np.zeros(len(p.rule_kind), dtype=np.int64),
        sums=np.zeros(2),
    )


@inlined
def gap_at(p: Packed, s: State, n: int) -> float:
    """The gap between the free shares of CPU and memory."""
    return p.both[n] * abs(s.free[n, 0] * p.inverse[n, 0] - s.free[n, 1] * p.inverse[n, 1])  # type: ignore[no-any-return]


@inlined
def gap_with(p: Packed, s: State, n: int, cpu: int, memory: int) -> float:
    """The gap if so much more were asked of a node."""
    left_cpu, left_memory = s.free[n, 0] - cpu, s.free[n, 1] - memory
    gap: float = abs(left_cpu * p.inverse[n, 0] - left_memory * p.inverse[n, 1])
    return p.both[n] * gap  # type: ignore[no-any-return]


@helper
def count_rules(p: Packed, s: State, t: int, n: int, by: int) -> None:
    for k in range(p.rule_first[t], p.rule_first[t + 1]):
        rule, role = p.rule_list[k], p.rule_role[k]
        if role & TARGET:
            s.rule_total[rule] += by
        d = p.domain_of[p.rule_key[rule], n]
        if d < 0 or p.rule_at[rule] < 0:
            continue
        at = p.rule_at[rule] + d
        if role & TARGET:
            s.targets[at] += by
        if role == HOLDER:
            s.alone[at] += by
        elif role & HOLDER:
            s.twice[at] += by


@helper
def count_group(p: Packed, s: State, t: int, n: int, by: int) -> None:
    k = p.big[p.group[t]]
    if k >= 0:
        s.big[k, n] += by
        s.big_zone[k, p.zone_of[n]] += by


@helper
def renew_gap(p: Packed, s: State, n: int) -> None:
    s.sums[GAPS] -= s.gap[n]
    s.gap[n] = gap_at(p, s, n) if s.tasks[n] > 0 else 0.0
    s.sums[GAPS] += s.gap[n]


@helper
def leave(p: Packed, s: State, t: int) -> None:
    """Take a task from its node."""
    n = whole(s.x[t])
    s.x[t] = -1
    for r in range(s.free.shape[1]):
        s.free[n, r] += p.request[t, r]
    s.tasks[n] -= 1
    if s.tasks[n] == 0:
        s.sums[IN_USE] -= 1.0
    renew_gap(p, s, n)
    count_group(p, s, t, n, -1)
    count_rules(p, s, t, n, -1)


@helper
def enter(p: Packed, s: State, t: int, n: int) -> None:
    """Put a task that has no node on one."""
    s.x[t] = n
    for r in range(s.free.shape[1]):
        s.free[n, r] -= p.request[t, r]
    if s.tasks[n] == 0:
        s.sums[IN_USE] += 1.0
    s.tasks[n] += 1
    renew_gap(p, s, n)
    count_group(p, s, t, n, 1)
    count_rules(p, s, t, n, 1)


@loop_kernel
def load(p: Packed, s: State, x: Array) -> None:
    """Make the state that of a placement."""
    s.x[:] = -1
    for n in range(s.tasks.shape[0]):
        for r in range(s.free.shape[1]):
            s.free[n, r] = p.total[n, r]
    s.tasks[:] = 0
    s.gap[:] = 0.0
    s.big[:] = 0
    s.big_zone[:] = 0
    s.targets[:] = 0
    s.alone[:] = 0
    s.twice[:] = 0
    s.rule_total[:] = 0
    s.sums[:] = 0.0
    for t in range(x.shape[0]):
        n = whole(x[t])
        s.x[t] = n
        if n < 0:
            continue
        for r in range(s.free.shape[1]):
            s.free[n, r] -= p.request[t, r]
        s.tasks[n] += 1
        count_group(p, s, t, n, 1)
        count_rules(p, s, t, n, 1)
    for n in range(s.tasks.shape[0]):
        if s.tasks[n] > 0:
            s.sums[IN_USE] += 1.0
            s.gap[n] = gap_at(p, s, n)
            s.sums[GAPS] += s.gap[n]


@inlined
def may_use(p: Packed, t: int, n: int) -> bool:
    return p.allowed[p.class_of[t], n] or p.start[t] == n  # type: ignore[no-any-return]


@inlined
def fits(p: Packed, s: State, t: int, n: int) -> bool:
    enough = True
    for r in range(s.free.shape[1]):
        enough &= p.request[t, r] <= s.free[n, r] or p.request[t, r] == 0
    return enough


@inlined
def fits_without(p: Packed, s: State, t: int, n: int, u: int) -> bool:
    """Whether task t fits on a node once task u has left it."""
    enough = True
    for r in range(s.free.shape[1]):
        need = p.request[t, r] - p.request[u, r]
        enough &= need <= s.free[n, r] or need <= 0
    return enough


@helper
def found_in(p: Packed, s: State, rule: int, d: int) -> tuple[int, int, int]:
    """Targets, holders that are no targets, and holders that are, in a domain of a rule."""
    targets, alone, twice = 0, 0, 0
    at = p.rule_at[rule]
    if at >= 0:
        return s.targets[at + d], s.alone[at + d], s.twice[at + d]
    key = p.rule_key[rule]
    for k in range(p.rule_tasks_first[rule], p.rule_tasks_first[rule + 1]):
        n, role = s.x[p.rule_tasks[k]], p.rule_tasks_role[k]
        if n >= 0 and p.domain_of[key, n] == d:
            targets += 1 if role & TARGET else 0
            alone += 1 if role == HOLDER else 0
            twice += 1 if role == HOLDER | TARGET else 0
    return targets, alone, twice


@helper
def apart_allows(p: Packed, s: State, rule: int, role: int, to: int) -> bool:
    targets, alone, twice = found_in(p, s, rule, to)
    targets += 1 if role & TARGET else 0
    alone += 1 if role == HOLDER else 0
    twice += 1 if role == HOLDER | TARGET else 0
    most = p.rule_most[rule]
    return not ((alone > 0 and targets > most) or (twice > 0 and targets - 1 > most))


@helper
def lonely(alone: int, twice: int, targets: int, total: int) -> bool:
    return (alone > 0 and targets == 0) or (twice > 0 and targets < 2 and total != 1)


@helper
def leaves_alone(p: Packed, s: State, rule: int, to: int) -> bool:
    """Whether the only target so far, allowed to lie alone, would lie elsewhere than a second one,
    and so no longer.

    As Kubernetes has it, nobody becomes lonely by what happens elsewhere: only a domain that a task
    came to or left.
    """
    key, domain = p.rule_key[rule], -1
    for k in range(p.rule_tasks_first[rule], p.rule_tasks_first[rule + 1]):
        n = s.x[p.rule_tasks[k]]
        if n >= 0 and p.rule_tasks_role[k] == HOLDER | TARGET:
            domain = p.domain_of[key, n]
    touched = False
    for k in range(p.rule_tasks_first[rule], p.rule_tasks_first[rule + 1]):
        now, start = s.x[p.rule_tasks[k]], p.start[p.rule_tasks[k]]
        here = now >= 0 and p.domain_of[key, now] == domain
        touched |= here != (start >= 0 and p.domain_of[key, start] == domain)
    return domain >= 0 and domain != to and touched


@helper
def together_allows(
    p: Packed, s: State, rule: int, role: int, origin: int, to: int, placed: bool
) -> bool:
    """Neither the task is lonely where it goes, nor those it leaves who were not."""
    mine = 1 if role & TARGET else 0
    total = s.rule_total[rule] + (0 if placed else mine)
    holder, both = (1 if role == HOLDER else 0), (1 if role == HOLDER | TARGET else 0)
    if role & HOLDER and to < 0:
        return False
    ok = True
    if to >= 0:
        targets, alone, twice = found_in(p, s, rule, to)
        ok = not lonely(alone + holder, twice + both, targets + mine, total)
    if origin >= 0:
        targets, alone, twice = found_in(p, s, rule, origin)
        after = lonely(alone - holder, twice - both, targets - mine, total)
        ok &= not after or lonely(alone, twice, targets, total)
    if mine and not placed and s.rule_total[rule] == 1:
        ok &= not leaves_alone(p, s, rule, to)
    return ok


@helper
def skew(p: Packed, s: State, rule: int, role: int, origin: int, to: int) -> int:
    """By how much the fullest domain with a holder exceeds the emptiest, once the task has gone
    from one to another."""
    most, least = 0, 1 << 60
    mine = 1 if role & TARGET else 0
    holds = 1 if role & HOLDER else 0
    for d in range(p.rule_domains[rule]):
        at = p.rule_at[rule] + d
        there = (1 if d == to else 0) - (1 if d == origin else 0)
        targets = s.targets[at] + mine * there
        least = min(least, targets)
        if s.alone[at] + s.twice[at] + holds * there > 0:
            most = max(most, targets)
    return most - least


@helper
def obeys(p: Packed, s: State, t: int, n: int) -> bool:
    """Whether the rules let a task go to a node."""
    ok = True
    origin = whole(s.x[t])
    for k in range(p.rule_first[t], p.rule_first[t + 1]):
        rule, role = p.rule_list[k], p.rule_role[k]
        key = p.rule_key[rule]
        to = p.domain_of[key, n]
        come = p.domain_of[key, origin] if origin >= 0 else -1
        if origin >= 0 and to == come:
            continue
        kind = p.rule_kind[rule]
        if kind == APART:
            ok &= to < 0 or apart_allows(p, s, rule, role, to)
        elif kind == TOGETHER:
            ok &= together_allows(p, s, rule, role, come, to, flag(origin >= 0))
        else:
            after = skew(p, s, rule, role, come, to)
            ok &= after <= p.rule_most[rule] or after <= skew(p, s, rule, role, -1, -1)
        if not ok:
            break
    return ok


@inlined
def ruled_out(p: Packed, s: State, t: int, n: int) -> bool:
    """Whether a rule keeps a task from a node: dear to answer where there are many, so it is asked
    last."""
    return p.rule_first[t] < p.rule_first[t + 1] and not obeys(p, s, t, n)


@inlined
def legal(p: Packed, s: State, t: int, n: int) -> bool:
    """Whether a task may go to a node it is not on."""
    return fits(p, s, t, n) and may_use(p, t, n) and not ruled_out(p, s, t, n)


@inlined
def replicas_on(p: Packed, s: State, t: int, n: int) -> int:
    g = p.group[t]
    k = p.big[g]
    found = 0
    if k >= 0:
        found += s.big[k, n]
    else:
        for i in range(p.first[g], p.first[g + 1]):
            found += s.x[i] == n
    return found


@helper
def replicas_in(p: Packed, s: State, t: int, zone: int) -> int:
    g = p.group[t]
    k = p.big[g]
    found = 0
    if k >= 0:
        found += s.big_zone[k, zone]
    else:
        for i in range(p.first[g], p.first[g + 1]):
            found += s.x[i] >= 0 and p.zone_of[s.x[i]] == zone
    return found


@inlined
def watts(p: Packed, t: int, n: int) -> float:
    return p.span[n] * 0.5 * (p.request[t, 0] * p.inverse[n, 0] + p.request[t, 1] * p.inverse[n, 1])  # type: ignore[no-any-return]


@inlined
def moving_change(p: Packed, w: Array, t: int, a: int, b: int) -> float:
    """What going from a to b changes of the tasks and megabytes that have moved."""
    home = p.start[t]
    away = 0.0
    if home >= 0:
        away = (1.0 if b != home else 0.0) - (1.0 if a != home else 0.0)
    return away * (w[MOVES] + w[MEGABYTES] * p.megabytes[t])  # type: ignore[no-any-return]


@inlined
def change(p: Packed, s: State, w: Array, t: int, b: int) -> float:
    """By how much the weighted sum changes when a task goes to node b, from its node or from
    none."""
    a = s.x[t]
    fresh = s.tasks[b] == 0
    last = a >= 0 and s.tasks[a] == 1
    d = w[CROWDING] * (s.tasks[b] + 1)
    d += w[POWER] * (watts(p, t, b) + (p.idle[b] if p.power_off and fresh else 0.0))
    d += (w[NODES] + w[COST] * p.price[b]) if fresh else 0.0
    if a >= 0:
        d -= w[CROWDING] * s.tasks[a]
        d -= w[POWER] * (watts(p, t, a) + (p.idle[a] if p.power_off and last else 0.0))
        d -= (w[NODES] + w[COST] * p.price[a]) if last else 0.0
    else:
        d -= w[UNPLACED] + w[PRIORITY] * p.priority[t]
    if w[REPLICAS] != 0.0:
        d += w[REPLICAS] * (
            replicas_on(p, s, t, b) + 1 - (replicas_on(p, s, t, a) if a >= 0 else 0)
        )
    if w[ZONES] != 0.0 and (a < 0 or p.zone_of[a] != p.zone_of[b]):
        left = replicas_in(p, s, t, p.zone_of[a]) if a >= 0 else 0
        d += w[ZONES] * (replicas_in(p, s, t, p.zone_of[b]) + 1 - left)
    if w[IMBALANCE] != 0.0:
        cpu, memory = p.request[t, 0], p.request[t, 1]
        gaps = s.sums[GAPS] - s.gap[b] + gap_with(p, s, b, cpu, memory)
        if a >= 0:
            gaps += (0.0 if last else gap_with(p, s, a, -cpu, -memory)) - s.gap[a]
        in_use = s.sums[IN_USE] + (1.0 if fresh else 0.0) - (1.0 if last else 0.0)
        d += (
            w[IMBALANCE]
            * 100.0
            * (gaps / max(in_use, 1.0) - s.sums[GAPS] / max(s.sums[IN_USE], 1.0))
        )
    return d + moving_change(p, w, t, a, b)  # type: ignore[no-any-return]


@inlined
def swap_change(p: Packed, s: State, w: Array, t: int, u: int) -> float:
    """By how much the weighted sum changes when two placed tasks of different services change
    places."""
    a, b = s.x[t], s.x[u]
    d = w[POWER] * (watts(p, t, b) - watts(p, t, a) + watts(p, u, a) - watts(p, u, b))
    if w[IMBALANCE] != 0.0:
        cpu, memory = p.request[t, 0] - p.request[u, 0], p.request[t, 1] - p.request[u, 1]
        gaps = (
            gap_with(p, s, a, -cpu, -memory) + gap_with(p, s, b, cpu, memory) - s.gap[a] - s.gap[b]
        )
        d += w[IMBALANCE] * 100.0 * gaps / max(s.sums[IN_USE], 1.0)
    if w[REPLICAS] != 0.0:
        d += w[REPLICAS] * (replicas_on(p, s, t, b) + 1 - replicas_on(p, s, t, a))
        d += w[REPLICAS] * (replicas_on(p, s, u, a) + 1 - replicas_on(p, s, u, b))
    if w[ZONES] != 0.0 and p.zone_of[a] != p.zone_of[b]:
        d += w[ZONES] * (
            replicas_in(p, s, t, p.zone_of[b]) + 1 - replicas_in(p, s, t, p.zone_of[a])
        )
        d += w[ZONES] * (
            replicas_in(p, s, u, p.zone_of[a]) + 1 - replicas_in(p, s, u, p.zone_of[b])
        )
    return d + moving_change(p, w, t, a, b) + moving_change(p, w, u, b, a)  # type: ignore[no-any-return]
