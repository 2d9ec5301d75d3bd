"""The rule by which a node is cleared for a framework below its guaranteed share (5.2.3).

Room is made on one node, so that what is stopped is what the other framework can use. A node can be
cleared if the victim's tasks on it make up for what is lacking there, and the victim keeps its
guarantee without that. Of the nodes that can be cleared it is the one where the victim started
something last, and there the last started are stopped first, until there is room: the least work is
lost.

Plain functions on rows of one node, with one entry per resource: the master calls them as they are
(`revocation.to_revoke`), the bulk loop compiles them. A `long_free` row without entries stands for
a node of which nothing is reserved for short tasks.
"""

from __future__ import annotations

from murmuration.base.arrays import Amounts


def room_in(free: Amounts, long_free: Amounts, r: int) -> int:
    """How much of one resource a job could have of a node if every offer came back."""
    if long_free.shape[0] > 0:
        return int(min(free[r], long_free[r]))
    return int(free[r])


def is_enough(free: Amounts, long_free: Amounts, wanted: Amounts) -> bool:
    """Whether a node has room as it is."""
    for r in range(wanted.shape[0]):
        if room_in(free, long_free, r) < wanted[r]:
            return False
    return True


def can_clear(
    free: Amounts,
    long_free: Amounts,
    revocable: Amounts,
    wanted: Amounts,
    held: Amounts,
    totals: Amounts,
    guarantee: float,
) -> bool:
    """Whether the victim's tasks on a node, `revocable` in all, make enough room there, and
    the victim, which holds `held` of the whole cluster, keeps its guarantee without what is
    lacking."""
    share = 0.0
    for r in range(wanted.shape[0]):
        lacking = max(wanted[r] - room_in(free, long_free, r), 0)
        if lacking > revocable[r]:
            return False
        if totals[r] > 0:
            share = max(share, (held[r] - lacking) / totals[r])
    return share >= guarantee
