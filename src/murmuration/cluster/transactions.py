"""Transactions: the rules by which assignments are accepted, as plain functions on columns.

Each function is a leaf (it calls nothing of ours), so that kernels compile it and the live master
calls it as it is. A transaction is the assignments of one job: `nodes[k]` is the row of its k-th
task, all with the same request.
"""

from __future__ import annotations

from murmuration.base.arrays import Amounts, Counts, Indices

#: A quota or a headroom that is not set limits nothing.
UNLIMITED = -1.0


def commit(
    free: Amounts,
    sequence: Counts,
    nodes: Indices,
    seen: Counts,
    count: int,
    request: Amounts,
    machine: bool,
    atomic: bool,
) -> int:
    """Apply a transaction to the table; return how many assignments were accepted, and write −1 for
    each refused one.

    Resource granularity refuses an assignment that would take a column below zero. Machine
    granularity refuses it also if another transaction has taken from the row since `seen` was read
    (releases do not raise the sequence number). All-or-nothing (`atomic`) takes everything back,
    sequence numbers included, if one assignment is refused.
    """
    resources = request.shape[0]
    accepted = 0
    if machine:
        # Before anything is accepted: a transaction must not conflict with itself.
        for k in range(count):
            if sequence[nodes[k]] != seen[k]:
                nodes[k] = -1
    for k in range(count):
        node = nodes[k]
        if node < 0:
            continue
        fits = True
        for r in range(resources):
            fits &= request[r] <= free[node, r]
        if not fits:
            nodes[k] = -1
            continue
        for r in range(resources):
            free[node, r] -= request[r]
        sequence[node] += 1
        accepted += 1
    if atomic and accepted < count:
        # Sequence numbers too: a transaction that changed nothing must not make others conflict.
        for k in range(count):
            node = nodes[k]
            if node >= 0:
                for r in range(resources):
                    free[node, r] += request[r]
                sequence[node] -= 1
                nodes[k] = -1
        return 0
    return accepted


def policy_room(
    held: Amounts, taken: Amounts, total: Amounts, request: Amounts, quota: float, headroom: float
) -> int:
    """How many more tasks of this size a workload may take: a quota on its share of each
    resource, and a share of the whole cluster that it must leave free for others (6.2.2: the
    meta-scheduler's policy, checked at commit). Either may be `UNLIMITED`."""
    room = 2**31 - 1
    for r in range(request.shape[0]):
        if request[r] > 0:
            # Limits in whole units, so that a tenth of ten is one although a float is a little
            # less.
            if quota >= 0.0:
                quota_left = int(quota * total[r] + 0.5) - held[r]
                room = min(room, quota_left // request[r])
            if headroom >= 0.0:
                shared = int((1.0 - headroom) * total[r] + 0.5) - taken[r]
                room = min(room, shared // request[r])
    return max(room, 0)
