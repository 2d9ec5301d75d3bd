"""The rules of commit and of policies: compiled and plain they are the same function, and both do
what is written."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmuration.base.jit import compiled
from murmuration.base.resources import MICRO
from murmuration.cluster import transactions
from murmuration.cluster.transactions import policy_room

compiled_commit = compiled(transactions.commit)
compiled_room = compiled(transactions.policy_room)

RELAXED = settings(max_examples=150, deadline=None)


@st.composite
def commits(draw: st.DrawFn) -> tuple[list[Any], dict[str, bool]]:
    """A table, and the nodes of one job's tasks with the sequence numbers it saw, some of them
    stale."""
    nodes, resources, count = (
        draw(st.integers(1, 5)),
        draw(st.integers(2, 3)),
        draw(st.integers(0, 7)),
    )
    free = draw(
        st.lists(
            st.lists(st.integers(0, 6), min_size=resources, max_size=resources),
            min_size=nodes,
            max_size=nodes,
        )
    )
    sequence = draw(st.lists(st.integers(0, 2), min_size=nodes, max_size=nodes))
    chosen = draw(st.lists(st.integers(0, nodes - 1), min_size=count, max_size=count))
    seen = [max(0, sequence[node] - draw(st.integers(0, 1))) for node in chosen]
    request = draw(st.lists(st.integers(0, 3), min_size=resources, max_size=resources))
    modes = {"machine": draw(st.booleans()), "atomic": draw(st.booleans())}
    return [free, sequence, chosen, seen, request], modes


def run(commit: Any, columns: list[Any], modes: dict[str, bool], node_type: type) -> list[Any]:
    free, sequence, chosen, seen, request = (np.array(column, dtype=np.int64) for column in columns)
    chosen = chosen.astype(node_type)
    accepted = commit(
        free, sequence, chosen, seen, len(chosen), request, modes["machine"], modes["atomic"]
    )
    return [int(accepted), free.tolist(), sequence.tolist(), chosen.tolist()]


def by_the_book(columns: list[Any], modes: dict[str, bool]) -> list[Any]:
    """The rules of the paper (6.2), one assignment at a time on lists."""
    free, sequence, chosen, seen, request = columns
    room, stand = [list(row) for row in free], []
    for node, saw in zip(chosen, seen, strict=True):
        fresh = not modes["machine"] or sequence[node] == saw
        stand.append(
            fresh and all(have >= need for have, need in zip(room[node], request, strict=True))
        )
        if stand[-1]:
            room[node] = [have - need for have, need in zip(room[node], request, strict=True)]
    if modes["atomic"] and not all(stand):
        return [0, free, sequence, [-1] * len(chosen)]
    after = [
        number + sum(s for s, at in zip(stand, chosen, strict=True) if at == k)
        for k, number in enumerate(sequence)
    ]
    return [
        sum(stand),
        room,
        after,
        [node if s else -1 for s, node in zip(stand, chosen, strict=True)],
    ]


@RELAXED
@given(commits(), st.sampled_from([np.int32, np.int64]))
def test_commit_plain_and_compiled(
    case: tuple[list[Any], dict[str, bool]], node_type: type
) -> None:
    expected = by_the_book(*case)
    assert run(transactions.commit, *case, node_type) == expected
    assert run(compiled_commit, *case, node_type) == expected


def room(held: int, taken: int, total: int, request: int, quota: float, headroom: float) -> int:
    own, all_, whole, each = (
        np.array([amount, 0], dtype=np.int64) for amount in (held, taken, total, request)
    )
    plain = policy_room(own, all_, whole, each, quota, headroom)
    assert compiled_room(own, all_, whole, each, quota, headroom) == plain
    return int(plain)


@RELAXED
@given(
    st.integers(1, 50),
    st.integers(0, 40),
    st.integers(0, 40),
    st.integers(1, 3 * MICRO),
    st.integers(1, 100),
    st.integers(0, 100),
)
def test_a_workload_stays_within_its_quota_and_leaves_the_headroom(
    nodes: int, held: int, others: int, request: int, quota: int, headroom: int
) -> None:
    """Quota and headroom in whole per cent, so that the limits are exact fractions of the
    cluster."""
    total, own, taken = 4 * nodes * MICRO, held * MICRO, (held + others) * MICRO
    limits = Fraction(quota, 100) * total - own, (1 - Fraction(headroom, 100)) * total - taken
    assert room(own, taken, total, request, quota / 100, headroom / 100) == max(
        0, min(limits) // request
    )


@pytest.mark.parametrize(
    ("quota", "headroom", "tasks"),
    [(0.1, 0.0, 1), (1.0, 0.9, 1), (0.3, 0.0, 3), (0.29, 0.0, 2), (1.0, 1.0, 0)],
)
def test_a_tenth_of_ten_is_one(quota: float, headroom: float, tasks: int) -> None:
    """Floats such as 1 − 0.9 are a little less than a tenth; a task must not be lost for that."""
    assert room(0, 0, 10 * MICRO, MICRO, quota, headroom) == tasks


def test_only_what_is_asked_for_counts() -> None:
    nothing, all_taken = np.zeros(2, dtype=np.int64), np.array([10, 10])
    total, cpu_only = np.array([10, 10]), np.array([3, 0])
    assert policy_room(nothing, np.array([0, 10]), total, cpu_only, 1.0, 0.0) == 3
    assert policy_room(nothing, all_taken, total, nothing, 0.5, 0.5) == 2**31 - 1
    assert policy_room(all_taken, all_taken, total, cpu_only, 0.5, 0.0) == 0
