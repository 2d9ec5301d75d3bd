"""Runs that left jobs unplaced are named, and nothing is judged on them."""

from __future__ import annotations

from typing import Any

import pytest

from murmuration.experiments.result import Row
from murmuration.experiments.unplaced import describe_unplaced, refuse, warnings


def summary(queued: int, refused: int, tasks_left: int, saturated: bool = False) -> dict[str, Any]:
    jobs = {"jobs_submitted": 1000, "jobs_queued": queued, "jobs_abandoned": refused}
    tasks = {"tasks_submitted": 5000, "tasks_left": tasks_left}
    workloads = {"batch": {**jobs, **tasks, "saturated": saturated}}
    return {"scheduler": "best-fit", "workloads": workloads}


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (summary(0, 0, 0), ""),
        (summary(10, 0, 50), ""),
        (summary(11, 0, 50), "11 of 1,000 jobs of batch not placed (1\u00a0% of its tasks)"),
        (
            summary(4, 7, 100),
            "11 of 1,000 jobs of batch not placed (2\u00a0% of its tasks), 7 of them refused",
        ),
        (
            summary(6, 0, 6, saturated=True),
            "6 of 1,000 jobs of batch not placed (0\u00a0% of its tasks)",
        ),
        # Seven jobs in a thousand, but they are most of the work.
        (
            summary(0, 7, 3600),
            "7 of 1,000 jobs of batch not placed (72\u00a0% of its tasks), 7 of them refused",
        ),
    ],
)
def test_jobs_left_over_are_counted(run: dict[str, Any], words: str) -> None:
    assert describe_unplaced(run) == words
    assert len(warnings([run])) == (1 if words else 0)


def test_a_row_on_such_a_run_says_so_and_is_not_judged() -> None:
    row = Row("evenness", "higher", "5 against 4", holds=True)
    assert refuse(row, {"a": "", "b": ""}) == row
    short = refuse(row, {"a": "", "b": "11 of 1,000 jobs of batch not placed"})
    assert short.holds is None
    assert str(short.measured).endswith("(not judged: b: 11 of 1,000 jobs of batch not placed)")
