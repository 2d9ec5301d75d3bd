"""Allocation types: how well a node is filled (Sliwko and Getov, sections 5 and 7.5), for any
number of resources."""

from __future__ import annotations

from murmuration.base.arrays import Amounts, Flags

NAMES = ("idle", "sta", "ta", "pa", "da", "overloaded")
IDLE, STA, TA, PA, DA, OVERLOADED = range(6)
TIGHT, FULL = 0.7, 0.9


def allocation_type(total: Amounts, free: Amounts, guaranteed: Amounts, idle: bool) -> int:
    """The type of one node, by what is not used of it. Overloaded: some resource above its total
    (free is negative), or production tasks' requests above it (goal IV); STA: some resource above
    90 %; TA: every resource at 70–90 %; PA: every resource below 70 %; DA: the rest. A resource the
    node does not have says nothing."""
    if idle:
        return IDLE
    tight, loose, super_tight = 0, 0, False
    for r in range(total.shape[0]):
        used = total[r] - free[r]
        if used > total[r] or guaranteed[r] > total[r]:
            return OVERLOADED
        if total[r] == 0:
            continue
        if used > FULL * total[r]:
            super_tight = True
        elif used >= TIGHT * total[r]:
            tight += 1
        else:
            loose += 1
    if super_tight:
        return STA
    if tight == 0:
        return PA
    return TA if loose == 0 else DA


def count_types(
    total: Amounts,
    free: Amounts,
    guaranteed: Amounts,
    idle: Flags,
) -> dict[str, int]:
    """How many nodes there are of each type."""
    kinds = [
        allocation_type(total[i], free[i], guaranteed[i], bool(idle[i]))
        for i in range(total.shape[0])
    ]
    return {name: kinds.count(kind) for kind, name in enumerate(NAMES)}
