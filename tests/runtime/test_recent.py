"""Answers that are given again: never to who would miss something by that."""

from __future__ import annotations

from murmuration.runtime.master.reading import RECENT_MAX, RECENT_S, RecentAnswers
from murmuration.runtime.store.log import FactLog


def test_an_answer_is_given_again_until_something_happens_or_a_moment_has_passed() -> None:
    now = 0.0
    log = FactLog()
    recent = RecentAnswers(log, lambda: now)
    assert recent.find("status") is None
    assert recent.keep("status", b"1") == b"1"
    assert recent.find("status") == b"1" and recent.find("nodes") is None
    # The master was told something: who told it reads what came of it.
    log.index += 1
    assert recent.find("status") is None
    recent.keep("status", b"2")
    now += RECENT_S / 2
    assert recent.find("status") == b"2"
    # A moment counts from the first answer of those that are kept, so that none is older.
    recent.keep("nodes", b"3")
    now += RECENT_S
    assert recent.find("nodes") is None and recent.find("status") is None


def test_what_was_worked_out_before_something_happened_is_not_kept_with_what_came_after() -> None:
    log = FactLog()
    recent = RecentAnswers(log, lambda: 0.0)
    recent.keep("status", b"1")
    log.index += 1
    recent.keep("nodes", b"2")
    assert recent.find("nodes") is None and recent.find("status") is None


def test_only_so_many_are_kept() -> None:
    recent = RecentAnswers(FactLog(), lambda: 0.0)
    for k in range(2 * RECENT_MAX):
        assert recent.keep(k, b"x") == b"x"
    assert sum(recent.find(k) is not None for k in range(2 * RECENT_MAX)) == RECENT_MAX
