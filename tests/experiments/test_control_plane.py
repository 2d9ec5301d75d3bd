"""A control plane of several masters under random fault schedules; and that the checks notice what
is broken on purpose."""

from __future__ import annotations

import os

import pytest
from tests.experiments.plane_mutants import MUTANTS

from murmuration.experiments.control_plane.schedule import run_schedule

#: Schedules in which a mutant must be noticed.
SEEDS = range(1, 41)
#: Where few schedules notice, one that did.
FIRST = {
    "a_lease_is_never_ended": 19,
    "an_end_is_told_once": 23,
    "a_transaction_that_comes_twice_is_refused": 13,
}


@pytest.mark.parametrize("seed", range(1, 1 + int(os.environ.get("SCHEDULES", "15"))))
def test_random_schedules(seed: int) -> None:
    figures = run_schedule(seed)
    assert figures["tasks_ended"] > 0 and figures["masters_elected"] > 0


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch.setattr)
    for seed in (FIRST.get(name, 1), *SEEDS):
        try:
            run_schedule(seed)
        except Exception:
            return
    raise AssertionError(f"{name}: {len(SEEDS)} schedules passed")


def test_there_are_enough_mutants() -> None:
    assert len(MUTANTS) >= 20
