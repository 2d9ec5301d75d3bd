"""The rules both fidelities share: when a node takes a task, and when it must give some away.
Functions of amounts.

Amounts are one integer per resource. `used` is what a node's tasks use now, those migrating away or
towards it included; `guaranteed` what its production tasks require; `use` and `request` are those
of the task in question.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

Amounts = NDArray[Any]

#: A task whose usage is not measured yet counts as using this share of its request.
UNMEASURED = 0.1


def fits_at_all(total: Amounts, request: Amounts) -> bool:
    """Whether the node, empty, could hold the task: all a forced migration asks (6.6)."""
    for r in range(total.shape[0]):
        if request[r] > total[r]:
            return False
    return True


def accepts(
    total: Amounts,
    free: Amounts,
    unguaranteed: Amounts,
    use: Amounts,
    request: Amounts,
    production: bool,
) -> bool:
    """Whether the node takes the task (4.2.2): what is used must not overflow it, and the
    production tasks at their full requirement must fit (goal IV). `free` is what is not used,
    `unguaranteed` what is not guaranteed."""
    for r in range(total.shape[0]):
        if use[r] > free[r] or request[r] > total[r]:
            return False
        if production and request[r] > unguaranteed[r]:
            return False
    return True


def is_overloaded(total: Amounts, used: Amounts, guaranteed: Amounts) -> bool:
    """Whether the node must give tasks away: some resource above its total, in use or by what
    production may use."""
    for r in range(total.shape[0]):
        if used[r] > total[r] or guaranteed[r] > total[r]:
            return True
    return False


def suspend(
    total: Amounts, used: Amounts, use: Amounts, production: Amounts, suspended: Amounts
) -> int:
    """Which tasks are suspended while the node's tasks want more than it has (5.4): others than
    production, those that relieve most first, until the rest fits. `used` becomes what the rest
    wants; returns how many are suspended.

    A production task is short only where no other task is left to suspend; where there is none, the
    others share.
    """
    # Suspending protects production; on a node without any, nobody is worth stopping others for.
    count, guarded = 0, False
    for k in range(suspended.shape[0]):
        suspended[k] = False
        guarded |= bool(production[k])
    for r in range(total.shape[0]):
        while guarded and used[r] > total[r]:
            largest = -1
            for k in range(suspended.shape[0]):
                free = not production[k] and not suspended[k] and use[k, r] > 0
                if free and (largest < 0 or use[k, r] > use[largest, r]):
                    largest = k
            if largest < 0:
                break
            # It gives up all its resources, so those that follow may fit already.
            suspended[largest] = True
            count += 1
            for q in range(total.shape[0]):
                used[q] -= use[largest, q]
    return count
