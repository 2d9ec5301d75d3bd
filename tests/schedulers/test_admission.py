"""Admission: a job is told at once that it can never run if, and only if, no packing of its tasks
exists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.base.resources import MICRO, Resources
from murmuration.cluster.constraints import parse_constraint
from murmuration.cluster.reasons import Never
from murmuration.schedulers.admission import explain_never, explain_unmet, slots

SIZES = st.tuples(st.integers(0, 9), st.integers(0, 9))


def packed(
    free: list[tuple[int, int]], allowed: list[bool], request: tuple[int, int], most: int
) -> int:
    """Put tasks on nodes one by one until none fits any more, or there are this many."""
    left, placed = [list(row) for row in free], 0
    for row in (row for row, usable in zip(left, allowed, strict=True) if usable):
        while placed < most and row[0] >= request[0] and row[1] >= request[1]:
            row[0], row[1], placed = row[0] - request[0], row[1] - request[1], placed + 1
    return placed


@given(
    st.lists(st.tuples(SIZES, st.booleans()), min_size=1, max_size=6),
    SIZES,
    st.integers(1, 12),
    st.booleans(),
)
def test_never_means_that_no_packing_exists(
    nodes: list[tuple[tuple[int, int], bool]], request: tuple[int, int], tasks: int, whole: bool
) -> None:
    free, allowed = [row for row, _ in nodes], [usable for _, usable in nodes]
    room = packed(free, allowed, request, tasks)
    mask = None if all(allowed) else np.array(allowed)
    verdict = explain_never(Resources(), np.array(free), mask, np.array(request), tasks, whole)
    assert (verdict is None) == (room >= (tasks if whole else 1))
    if request != (0, 0):
        assert slots(np.array(free), mask, np.array(request)) == packed(
            free, allowed, request, 10**6
        )


NODES = np.array([[4 * MICRO, 16 * 10**9], [8 * MICRO, 4 * 10**9]])


def reason(
    cpus: float,
    gigabytes: float,
    tasks: int = 1,
    whole: bool = False,
    mask: list[bool] | None = None,
) -> str:
    request = np.array([round(cpus * MICRO), round(gigabytes * 1e9)])
    found = explain_never(
        Resources(), NODES, None if mask is None else np.array(mask), request, tasks, whole
    )
    assert isinstance(found, Never)
    return found.reason


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("a task asks for 9 CPU and no node has more than 8 CPU to give", lambda: reason(9, 1)),
        ("a task asks for 20 GB and no node has more than 16 GB to give", lambda: reason(1, 20)),
        (
            "a task asks for 8 CPU and no node has more than 4 CPU to give",
            lambda: reason(8, 1, mask=[True, False]),
        ),
        ("no node has 8 CPU, 16 GB together", lambda: reason(8, 16)),
        ("no node meets its constraints", lambda: reason(1, 1, mask=[False, False])),
        (
            "it needs room for 13 tasks at once and its nodes hold 8 when nothing else runs",
            lambda: reason(1, 1, tasks=13, whole=True),
        ),
    ],
)
def test_the_reason_names_what_is_short(sentence: str, said: object) -> None:
    assert callable(said)
    assert said() == sentence


def test_a_job_that_is_not_whole_may_run_in_waves() -> None:
    request = np.array([MICRO, 10**9])
    assert explain_never(Resources(), NODES, None, request, 1000, whole=False) is None
    assert explain_never(Resources(), NODES, None, request, 8, whole=True) is None
    assert explain_never(Resources(), NODES, None, request, 9, whole=True) is not None


def test_the_constraint_that_no_node_meets_is_named_with_what_nodes_have() -> None:
    nodes = [{"zone": "a", "ssd": "yes"}, {"zone": "b"}]
    texts = ["zone in (a, b)", "zone = c", "gpu exists", "zone = b", "ssd exists"]
    known = {text: parse_constraint(text, "constraints") for text in texts}

    def reason(*chosen: str) -> str:
        return explain_unmet([known[text] for text in chosen], nodes)

    assert reason("zone in (a, b)", "zone = c") == (
        "no node meets its constraints: zone = c (nodes have zone = a, b)"
    )
    assert reason("gpu exists").endswith("gpu exists (no node has gpu)")
    assert reason("zone = b", "ssd exists").endswith("together, though each is met by some")
