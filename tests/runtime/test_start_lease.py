"""Starts that wait for their turn: as long as the lease goes on they begin, and never after one has
ended in between."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from murmuration.runtime.node.executor import HeldLease


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_start_that_waits_is_covered_as_long_as_the_lease_goes_on() -> None:
    clock = Clock()
    lease = HeldLease(clock)
    lease.renew(5.0)
    clock.now = 4.0
    lease.renew(9.0)
    clock.now = 8.0
    assert lease.covers(5.0), "it was renewed in time"
    clock.now = 9.0
    assert not lease.covers(5.0) and not lease.covers(9.0)
    lease.renew(14.0)
    assert not lease.covers(5.0) and not lease.covers(9.0), "void for good"
    assert lease.covers(14.0)


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=12))
def test_no_start_begins_after_its_lease_has_ended_once(steps: list[tuple[int, int]]) -> None:
    """Renewals at any times, each for any time; an order under each of them. By the plain rule: no
    moment since the order was without a lease."""
    clock = Clock()
    lease = HeldLease(clock)
    ends: list[float] = []
    renewals: list[tuple[float, float]] = []
    for wait, length in steps:
        clock.now += wait
        lease.renew(clock.now + length)
        renewals.append((clock.now, clock.now + length))
        ends.append(clock.now + length)
        for k, (ordered, end) in enumerate(renewals):
            later = renewals[k:]
            is_held = all(nxt[0] < one[1] for one, nxt in itertools.pairwise(later))
            held = is_held and clock.now < later[-1][1]
            if lease.covers(end):
                assert held or clock.now < end, (ordered, end, clock.now)
            if held and end > max(ends[:k], default=0.0):
                assert lease.covers(end), "nobody waits in vain"
