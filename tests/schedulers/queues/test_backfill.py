"""The arithmetic of backfilling, against a look at every second."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from murmuration.schedulers.queues import backfill

HORIZON = 40
ends_and_amounts = st.lists(
    st.tuples(st.integers(-3, 20), st.tuples(st.integers(0, 3), st.integers(0, 3))), max_size=6
)
vector = st.tuples(st.integers(0, 6), st.integers(0, 6))


class Profile:
    """A profile of the library's, and the same as one row for each second."""

    def __init__(
        self, free: tuple[int, int], running: list[tuple[int, tuple[int, int]]], now: float = 0.0
    ) -> None:
        self.times, self.room = np.zeros(32), np.zeros((32, 2), dtype=np.int64)
        ends = np.array([end for end, _ in running], dtype=np.float64)
        amounts = np.array([amount for _, amount in running], dtype=np.int64).reshape(-1, 2)
        sorted_runs = (ends, amounts, np.argsort(ends, kind="stable"))
        self.points = backfill.make_profile(
            self.times, self.room, now, np.array(free), sorted_runs, len(running)
        )
        self.by_second = np.tile(np.array(free), (HORIZON, 1))
        for end, amount in running:
            self.by_second[max(end, 0) :] += np.array(amount)

    def at(self, second: int) -> list[int]:
        """What the profile says is free at a second."""
        place = int(np.searchsorted(self.times[: self.points], second, side="right")) - 1
        return [int(amount) for amount in self.room[place]]

    def take_out(self, start: int, lasts: int, need: tuple[int, int]) -> None:
        """Keep room from a point of the profile on."""
        began = int(self.times[start])
        self.points = backfill.take_out(
            self.times, self.room, self.points, start, float(began + lasts), np.array(need)
        )
        self.by_second[began : began + lasts] -= np.array(need)

    def fits_by_second(self, start: int, need: tuple[int, int], lasts: int) -> bool:
        # Behind the last second nothing changes any more.
        rows = self.by_second[start : min(start + lasts, HORIZON)]
        asked = np.array(need) > 0
        return bool((rows[:, asked] >= np.array(need)[asked]).all())


@given(vector, ends_and_amounts)
def test_a_profile_is_what_is_free_at_every_second(
    free: tuple[int, int], running: list[tuple[int, tuple[int, int]]]
) -> None:
    profile = Profile(free, running)
    assert [profile.at(second) for second in range(HORIZON)] == profile.by_second.tolist()
    times = profile.times[: profile.points]
    assert times[0] == 0.0 and (np.diff(times) > 0).all()


@given(vector, ends_and_amounts, vector, st.integers(1, 15), st.data())
def test_a_job_starts_at_the_first_second_from_which_it_fits(
    free: tuple[int, int],
    running: list[tuple[int, tuple[int, int]]],
    need: tuple[int, int],
    lasts: int,
    data: st.DataObject,
) -> None:
    """Among what runs and what is kept for others, so that room comes and goes."""
    profile = Profile(free, running)
    for _ in range(data.draw(st.integers(0, 2))):
        start = data.draw(st.integers(0, profile.points - 1))
        profile.take_out(start, data.draw(st.integers(1, 15)), data.draw(vector))
    place = backfill.find_start(
        profile.times, profile.room, profile.points, np.array(need), float(lasts)
    )
    starts = [s for s in range(HORIZON) if profile.fits_by_second(s, need, lasts)]
    if place == profile.points:
        assert not starts
    else:
        assert profile.times[place] == starts[0]
    fits_now = backfill.fits_now(
        profile.times, profile.room, profile.points, np.array(need), float(lasts)
    )
    assert fits_now == profile.fits_by_second(0, need, lasts)


@given(vector, ends_and_amounts, vector, st.integers(0, 20), st.data())
def test_what_is_taken_out_is_missing_from_its_start_to_its_end(
    free: tuple[int, int],
    running: list[tuple[int, tuple[int, int]]],
    need: tuple[int, int],
    lasts: int,
    data: st.DataObject,
) -> None:
    profile = Profile(free, running)
    profile.take_out(data.draw(st.integers(0, profile.points - 1)), lasts, need)
    assert [profile.at(second) for second in range(HORIZON)] == profile.by_second.tolist()


def test_a_job_may_end_at_the_very_second_at_which_room_is_kept() -> None:
    """Two are free, and both are kept from the fifth second to the tenth."""
    for lasts, start in ((5, 0), (6, 10)):
        profile = Profile((2, 2), [(5, (0, 0))])
        profile.take_out(1, 5, (2, 2))
        place = backfill.find_start(
            profile.times, profile.room, profile.points, np.array((1, 1)), float(lasts)
        )
        assert profile.times[place] == start
        assert backfill.fits_now(
            profile.times, profile.room, profile.points, np.array((1, 1)), float(lasts)
        ) == (start == 0)


def test_what_is_not_asked_for_may_be_short() -> None:
    """More memory is promised than there is; a job that asks for none starts all the same."""
    for need, fits in (((1, 0), True), ((1, 1), False)):
        profile = Profile((2, 0), [])
        profile.take_out(0, 5, (0, 3))
        assert profile.at(0) == [2, -3]
        assert backfill.has_room(profile.room[0], np.array(need)) == fits
        assert (
            backfill.fits_now(profile.times, profile.room, profile.points, np.array(need), 3.0)
            == fits
        )
