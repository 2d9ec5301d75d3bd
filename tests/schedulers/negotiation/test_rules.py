"""The rules both fidelities share, against every subset of a few tasks."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from murmuration.schedulers.negotiation.rules import suspend

TASKS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=7)
TOTAL = st.tuples(st.integers(1, 20), st.integers(1, 20))


@given(TASKS, TOTAL)
def test_a_production_task_is_short_only_where_no_other_is_left_to_suspend(
    tasks: list[tuple[int, int, bool]], total: tuple[int, int]
) -> None:
    use = np.array([t[:2] for t in tasks], np.int64).reshape(-1, 2)
    production = np.array([t[2] for t in tasks], np.bool_)
    flags, wanted = np.zeros(len(tasks), np.bool_), use.sum(axis=0)
    count = suspend(np.array(total), wanted, use, production, flags)
    assert count == flags.sum() and not (flags & production).any()
    assert (wanted == use[~flags].sum(axis=0)).all()
    for r in range(2 * production.any()):
        others = [k for k in np.flatnonzero(~flags & ~production) if use[k, r] > 0]
        assert wanted[r] <= total[r] or not others
    if (use.sum(axis=0) <= total).all() or not production.any():
        assert count == 0


@given(TASKS, st.integers(1, 20))
def test_with_one_resource_as_few_stand_still_as_can_be(
    tasks: list[tuple[int, int, bool]], total: int
) -> None:
    use = np.array([t[:1] for t in tasks], np.int64).reshape(-1, 1)
    production = np.array([t[2] for t in tasks], np.bool_)
    flags = np.zeros(len(tasks), np.bool_)
    count = suspend(np.array([total]), use.sum(axis=0), use, production, flags)
    free = np.flatnonzero(~production)
    least = [
        size
        for size in range(len(free) + 1)
        for gone in combinations(free, size)
        if use.sum() - use[list(gone)].sum() <= total
    ]
    if least and production.any():
        assert count == least[0]
