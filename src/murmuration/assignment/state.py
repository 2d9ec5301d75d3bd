"""A placement with everything kept up to date that the change of one move needs, compiled.

A local search tries millions of moves and makes few of them. So the question "what if" must be
cheap, and may not walk over the cluster: `change` says by how much a weighted sum of objectives
changes when a task goes to a node, `swap_change` when two tasks change places; both look at the two
nodes and the task's replicas only. What they need is kept in `PlacementState` and changed by
`place_task` and `remove_task`, which are the only ones to write it (`ejection` has variants that
keep less).

`legal` answers for capacity, constraints and rules, so that a search that asks it first never
leaves what is allowed. Its three parts differ in cost: capacity and constraints are a few
comparisons, rules may look at many tasks. Loops therefore ask `fits` and `may_use` first, then
whether a move is worth making, and `breaks_rule` last.

What a rule allows is not "the rule holds afterwards" but "the move breaks nothing that was not
broken": real clusters break rules, because Kubernetes checks them only when a pod is scheduled.

Kernels take the packed problem `p`, the state `s`, tasks `t` and `u`, nodes `n`, `a` (from) and `b`
(to), and weights `w` with one number per objective.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from murmuration.assignment.objectives import (
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
from murmuration.assignment.packed import HOLDER, KINDS, TARGET, Packed
from murmuration.assignment.problem import APART as APART_NAME
from murmuration.assignment.problem import TOGETHER as TOGETHER_NAME
from murmuration.base.arrays import (
    Amounts,
    Counts,
    Floats,
    Placement,
    SmallIntegers,
    Weights,
)
from murmuration.base.jit import helper, inlined, loop_kernel

#: A whole number or a flag of one type, so that no kernel is compiled twice for a literal.
whole: Any = np.int64
flag: Any = np.bool_
APART, TOGETHER = KINDS[APART_NAME], KINDS[TOGETHER_NAME]
#: Places in `PlacementState.sums`: gaps of the nodes in use, and how many are.
GAPS, IN_USE = 0, 1


class PlacementState(NamedTuple):
    """One placement, its nodes and its counters."""

    x: Placement  # task: its node, −1 for none
    free: Amounts  # node × resource: total less the requests of its tasks; negative if overfull
    tasks: Counts  # node: how many tasks it has
    gap: Floats  # node: gap between its free shares of CPU and memory; 0 if it has no task
    big: SmallIntegers  # large service × node: replicas there
    big_zone: SmallIntegers  # large service × zone: replicas there
    targets: SmallIntegers  # counter of a rule and domain: targets there, holders or not
    alone: SmallIntegers  # the same: holders there that are no targets
    twice: SmallIntegers  # the same: holders there that are targets too
    rule_total: Counts  # rule: targets that have a node, in a domain or not
    sums: Floats  # GAPS: sum of `gap`; IN_USE: nodes with a task


def new_state(p: Packed) -> PlacementState:
    """A state in which nothing is placed; `load` makes it that of a placement."""
    nodes, tasks = len(p.total), len(p.request)
    zones = int(p.zone_of.max(initial=0)) + 1
    counted = p.rule_at >= 0
    counters = int(p.rule_domains[counted].sum())
    return PlacementState(
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
def gap_at(p: Packed, s: PlacementState, n: int) -> float:
    """The gap between the free shares of CPU and memory."""
    return p.both[n] * abs(s.free[n, 0] * p.inverse[n, 0] - s.free[n, 1] * p.inverse[n, 1])  # type: ignore[no-any-return]


@inlined
def gap_with(p: Packed, s: PlacementState, n: int, cpu: int, memory: int) -> float:
    """The gap if so much more were asked of a node."""
    left_cpu, left_memory = s.free[n, 0] - cpu, s.free[n, 1] - memory
    gap: float = abs(left_cpu * p.inverse[n, 0] - left_memory * p.inverse[n, 1])
    return p.both[n] * gap  # type: ignore[no-any-return]


@helper
def count_rules(p: Packed, s: PlacementState, t: int, n: int, by: int) -> None:
    """Count a task in (`by` 1) or out (−1) of the counters of its rules at a node."""
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
def count_group(p: Packed, s: PlacementState, t: int, n: int, by: int) -> None:
    """Count a task in or out of the replicas of its service at a node, if the service is large."""
    k = p.big[p.group[t]]
    if k >= 0:
        s.big[k, n] += by
        s.big_zone[k, p.zone_of[n]] += by


@helper
def renew_gap(p: Packed, s: PlacementState, n: int) -> None:
    """Compute a node's gap again, and the sum of all with it.

    The sum collects rounding errors of about 1e-16 a move; `load`, which every child and every
    start of a search goes through, computes it from nothing.
    """
    s.sums[GAPS] -= s.gap[n]
    s.gap[n] = gap_at(p, s, n) if s.tasks[n] > 0 else 0.0
    s.sums[GAPS] += s.gap[n]


@helper
def remove_task(p: Packed, s: PlacementState, t: int) -> None:
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
def place_task(p: Packed, s: PlacementState, t: int, n: int) -> None:
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
def load(p: Packed, s: PlacementState, x: Placement) -> None:
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
    """Whether a task's constraints allow a node; where it was, it may always go back."""
    return p.allowed[p.class_of[t], n] or p.start[t] == n  # type: ignore[no-any-return]


@inlined
def fits(p: Packed, s: PlacementState, t: int, n: int) -> bool:
    """Whether a node has room; a task that asks for none of a resource fits where it is
    overdrawn."""
    enough = True
    for r in range(s.free.shape[1]):
        enough &= p.request[t, r] <= s.free[n, r] or p.request[t, r] == 0
    return enough


@inlined
def fits_without(p: Packed, s: PlacementState, t: int, n: int, u: int) -> bool:
    """Whether task t fits on a node once task u has left it."""
    enough = True
    for r in range(s.free.shape[1]):
        need = p.request[t, r] - p.request[u, r]
        enough &= need <= s.free[n, r] or need <= 0
    return enough


@helper
def count_in_domain(p: Packed, s: PlacementState, rule: int, d: int) -> tuple[int, int, int]:
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
def apart_allows(p: Packed, s: PlacementState, rule: int, role: int, to: int, comes: bool) -> bool:
    """Whether a rule that keeps tasks apart holds in a domain once a task has come there, or lies
    there on another node.

    Only the domain it comes to is looked at: leaving one never breaks such a rule.
    """
    targets, alone, twice = count_in_domain(p, s, rule, to)
    if comes:
        targets += 1 if role & TARGET else 0
        alone += 1 if role == HOLDER else 0
        twice += 1 if role == HOLDER | TARGET else 0
    limit = p.rule_limit[rule]
    return not ((alone > 0 and targets > limit) or (twice > 0 and targets - 1 > limit))


@helper
def is_lonely(alone: int, twice: int, targets: int, total: int) -> bool:
    """Whether a domain has a holder with no target beside it; the only target of all may lie
    alone."""
    return (alone > 0 and targets == 0) or (twice > 0 and targets < 2 and total != 1)


@helper
def strands_first(p: Packed, s: PlacementState, rule: int, to: int) -> bool:
    """Whether placing a second target in domain `to` leaves the first one alone in another domain.

    While it is the only target, the first may lie alone; with a second one elsewhere it may not any
    more. Kubernetes does not mind, because it looks at a pod's rules only when that pod is
    scheduled. So this counts only where the plan itself changed the first one's domain: if it lies
    as it did before the plan, the snapshot might as well have had the second one.
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
    p: Packed, s: PlacementState, rule: int, role: int, origin: int, to: int, placed: bool
) -> bool:
    """Whether the task has a target beside it where it goes, and those it leaves do not lose their
    last one; who was lonely before may stay so."""
    mine = 1 if role & TARGET else 0
    total = s.rule_total[rule] + (0 if placed else mine)
    holder, both = (1 if role == HOLDER else 0), (1 if role == HOLDER | TARGET else 0)
    if role & HOLDER and to < 0:
        return False
    ok = True
    if to >= 0:
        targets, alone, twice = count_in_domain(p, s, rule, to)
        here = placed and origin == to
        if role & HOLDER:
            # The task itself is no company to itself.
            others = targets - (mine if here else 0)
            ok = others > 0 or (mine > 0 and total == 1)
        if here:
            return ok
        ok &= not is_lonely(alone + holder, twice + both, targets + mine, total)
    if origin >= 0:
        targets, alone, twice = count_in_domain(p, s, rule, origin)
        after = is_lonely(alone - holder, twice - both, targets - mine, total)
        ok &= not after or is_lonely(alone, twice, targets, total)
    if mine and not placed and s.rule_total[rule] == 1:
        ok &= not strands_first(p, s, rule, to)
    return ok


@helper
def skew_after(p: Packed, s: PlacementState, rule: int, role: int, origin: int, to: int) -> int:
    """By how much the fullest domain with a holder exceeds the emptiest, once the task has gone
    from one domain to another (−1: none)."""
    fullest, emptiest = 0, 1 << 60
    mine = 1 if role & TARGET else 0
    holds = 1 if role & HOLDER else 0
    for d in range(p.rule_domains[rule]):
        at = p.rule_at[rule] + d
        arrives = (1 if d == to else 0) - (1 if d == origin else 0)
        targets = s.targets[at] + mine * arrives
        emptiest = min(emptiest, targets)
        if s.alone[at] + s.twice[at] + holds * arrives > 0:
            fullest = max(fullest, targets)
    return fullest - emptiest


@helper
def spread_takes(p: Packed, s: PlacementState, rule: int, role: int, origin: int, to: int) -> bool:
    """Whether the domain a holder comes to is not too far above the emptiest: whatever other
    domains are like, the scheduler judges that one."""
    if not role & HOLDER:
        return True
    if to < 0:
        return False
    mine = 1 if role & TARGET else 0
    emptiest = 1 << 60
    for d in range(p.rule_domains[rule]):
        left = mine if d == origin else 0
        emptiest = min(emptiest, s.targets[p.rule_at[rule] + d] - left)
    there = s.targets[p.rule_at[rule] + to] + (0 if to == origin else mine)
    return there - emptiest <= p.rule_limit[rule]  # type: ignore[no-any-return]


@helper
def obeys(p: Packed, s: PlacementState, t: int, n: int) -> bool:
    """Whether the rules let a task go to a node."""
    ok = True
    origin = whole(s.x[t])
    for k in range(p.rule_first[t], p.rule_first[t + 1]):
        rule, role = p.rule_list[k], p.rule_role[k]
        key = p.rule_key[rule]
        to = p.domain_of[key, n]
        come = p.domain_of[key, origin] if origin >= 0 else -1
        kind = p.rule_kind[rule]
        if kind == APART:
            ok &= to < 0 or apart_allows(p, s, rule, role, to, flag(origin < 0 or to != come))
        elif kind == TOGETHER:
            ok &= together_allows(p, s, rule, role, come, to, flag(origin >= 0))
        elif not spread_takes(p, s, rule, role, come, to):
            ok = False
        elif come != to:
            after = skew_after(p, s, rule, role, come, to)
            # Where the spread is broken already, a move may leave it as bad, not make it worse.
            ok &= after <= p.rule_limit[rule] or after <= skew_after(p, s, rule, role, -1, -1)
        if not ok:
            break
    return ok


@helper
def takes(p: Packed, s: PlacementState, t: int, n: int) -> bool:
    """Whether Kubernetes' scheduler would put a task that has no node, or leaves one that goes, on
    a node: it asks the task's own rules, and of those of others only who must be apart."""
    ok = fits(p, s, t, n) and may_use(p, t, n)
    origin = whole(s.x[t])
    for k in range(p.rule_first[t], p.rule_first[t + 1]):
        if not ok:
            break
        rule, role = p.rule_list[k], p.rule_role[k]
        key = p.rule_key[rule]
        to = p.domain_of[key, n]
        come = p.domain_of[key, origin] if origin >= 0 else -1
        kind = p.rule_kind[rule]
        if kind == APART:
            ok = to < 0 or apart_allows(p, s, rule, role, to, flag(origin < 0 or to != come))
        elif kind != TOGETHER:
            ok = spread_takes(p, s, rule, role, come, to)
        elif role & HOLDER:
            mine = 1 if role & TARGET else 0
            total = s.rule_total[rule] + (0 if origin >= 0 else mine)
            others = count_in_domain(p, s, rule, to)[0] if to >= 0 else 0
            others -= mine if origin >= 0 and to == come else 0
            ok = to >= 0 and (others > 0 or (mine > 0 and total == 1))
    return bool(ok)


@inlined
def breaks_rule(p: Packed, s: PlacementState, t: int, n: int) -> bool:
    """Whether a rule keeps a task from a node: expensive where there are many, so it is asked
    last."""
    return p.rule_first[t] < p.rule_first[t + 1] and not obeys(p, s, t, n)


@inlined
def legal(p: Packed, s: PlacementState, t: int, n: int) -> bool:
    """Whether a task may go to a node it is not on."""
    return fits(p, s, t, n) and may_use(p, t, n) and not breaks_rule(p, s, t, n)


@inlined
def replicas_on(p: Packed, s: PlacementState, t: int, n: int) -> int:
    """Tasks of the same service on a node."""
    g = p.group[t]
    k = p.big[g]
    count = 0
    if k >= 0:
        count += s.big[k, n]
    else:
        for i in range(p.first[g], p.first[g + 1]):
            count += s.x[i] == n
    return count


@helper
def replicas_in(p: Packed, s: PlacementState, t: int, zone: int) -> int:
    """Tasks of the same service in a zone."""
    g = p.group[t]
    k = p.big[g]
    count = 0
    if k >= 0:
        count += s.big_zone[k, zone]
    else:
        for i in range(p.first[g], p.first[g + 1]):
            count += s.x[i] >= 0 and p.zone_of[s.x[i]] == zone
    return count


@inlined
def watts(p: Packed, t: int, n: int) -> float:
    """What a task adds to the draw of a node that is on."""
    return p.span[n] * 0.5 * (p.request[t, 0] * p.inverse[n, 0] + p.request[t, 1] * p.inverse[n, 1])  # type: ignore[no-any-return]


@inlined
def moving_change(p: Packed, w: Weights, t: int, a: int, b: int) -> float:
    """What going from a to b changes of the tasks and megabytes that have moved."""
    home = p.start[t]
    away = 0.0
    if home >= 0:
        away = (1.0 if b != home else 0.0) - (1.0 if a != home else 0.0)
    return away * (w[MOVES] + w[MEGABYTES] * p.megabytes[t])  # type: ignore[no-any-return]


@inlined
def change(p: Packed, s: PlacementState, w: Weights, t: int, b: int) -> float:
    """By how much the weighted sum changes when a task goes to node b, from its node or from
    none."""
    a = s.x[t]
    # Nodes begin to count with their first task and stop with their last.
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
def swap_change(p: Packed, s: PlacementState, w: Weights, t: int, u: int) -> float:
    """By how much the weighted sum changes when two placed tasks of different services change
    places. Crowding, cost, nodes and unplaced tasks stay as they are."""
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
