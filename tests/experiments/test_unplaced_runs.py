"""Runs that left jobs unplaced are named, and nothing is judged on them."""

from __future__ import annotations

from typing import Any

import pytest

from murmuration.experiments.result import Row
from murmuration.experiments.unplaced import describe_unplaced, refuse, warnings


def summary(queued: int, refused: int, saturated: bool = False) -> dict[str, Any]:
    figures = {"jobs_submitted": 1000, "jobs_queued": queued, "jobs_abandoned": refused}
    return {"scheduler": "best-fit", "workloads": {"batch": {**figures, "saturated": saturated}}}


@pytest.mark.parametrize(
    ("queued", "refused", "saturated", "words"),
    [
        (0, 0, False, ""),
        (10, 0, False, ""),
        (11, 0, False, "11 of 1,000 jobs of batch not placed"),
        (4, 7, False, "11 of 1,000 jobs of batch not placed, 7 of them refused"),
        (6, 0, True, "6 of 1,000 jobs of batch not placed"),
    ],
)
def test_jobs_left_over_are_counted(queued: int, refused: int, saturated: bool, words: str) -> None:
    run = summary(queued, refused, saturated)
    assert describe_unplaced(run) == words
    assert len(warnings([run])) == (1 if words else 0)


def test_a_row_on_such_a_run_says_so_and_is_not_judged() -> None:
    row = Row("evenness", "higher", "5 against 4", holds=True)
    assert refuse(row, {"a": "", "b": ""}) == row
    short = refuse(row, {"a": "", "b": "11 of 1,000 jobs of batch not placed"})
    assert short.holds is None
    assert str(short.measured).endswith("(not judged: b: 11 of 1,000 jobs of batch not placed)")
