"""What the paper leaves to do, with and without."""

from __future__ import annotations

from murmuration.experiments.papers.masb.options import run, unanswered_rows
from murmuration.experiments.result import ReproductionSettings


def test_leaving_out_nodes_that_do_not_answer_saves_requests() -> None:
    assert all(row.holds for row in unanswered_rows())


def test_every_option_does_what_it_is_for() -> None:
    found = run(ReproductionSettings(seed=1, quick=True, workers=1))
    assert [row.quantity for row in found.rows if row.holds is False] == []
