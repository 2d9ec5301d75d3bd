"""Reservations of a live cluster: room that nobody but some users may use for a while.

As in a simulation, amounts are reserved and not particular nodes, and a job of one of the users
runs *inside* whenever the reservation is open, has the room, and lasts as long as the job asks.
Which jobs are inside is not remembered: jobs of the users that could be fill a reservation in the
order in which they were placed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from murmuration.base.arrays import Amounts
from murmuration.base.resources import Resources
from murmuration.schedulers.central.jobs import JobRecord, JobTable
from murmuration.schedulers.queues.backfill import has_room
from murmuration.schedulers.queues.discipline import AdvanceReservation


def requested_s(job: JobRecord) -> float:
    """The run time a job asks for."""
    limit = job.spec.time_limit_s
    return math.inf if limit is None else limit


def owner(job: JobRecord) -> str:
    return job.spec.user or job.spec.kind


def next_change_s(reservations: Sequence[AdvanceReservation], now: float) -> float:
    """When a reservation next begins or ends."""
    times = [time for each in reservations for time in (each.from_s, each.until_s)]
    return min((time for time in times if time > now), default=math.inf)


@dataclass
class Window:
    """One reservation, and what nobody uses of it."""

    reservation: AdvanceReservation
    left: Amounts

    def takes(self, job: JobRecord, need: Amounts, start_s: float) -> bool:
        """Whether a job that starts then could run inside."""
        kept = self.reservation
        is_open = kept.from_s <= start_s and start_s + requested_s(job) <= kept.until_s
        return is_open and owner(job) in kept.users and has_room(self.left, need)


@dataclass
class Windows:
    """The reservations that are not over, and the running jobs that are inside."""

    windows: list[Window] = field(default_factory=list)
    inside: dict[str, Window] = field(default_factory=dict)

    def fill(self, jobs: JobTable, nodes: set[str]) -> None:
        """Let running jobs be inside, in the order in which they were placed."""
        if not self.windows:
            return
        held: dict[str, tuple[float, int, JobRecord, Amounts]] = {}
        for job, task in jobs.runs.values():
            if task.node in nodes and not task.is_suspended:
                since, _, _, amounts = held.get(job.name, (math.inf, 0, job, np.int64(0)))
                amounts = amounts + np.array(job.request, dtype=np.int64)
                held[job.name] = min(since, task.placed_s), job.serial, job, amounts
        for since, _, job, amounts in sorted(held.values(), key=lambda each: each[:2]):
            window = self.find(job, amounts, since)
            if window is not None:
                self.enter(window, job, amounts)

    def find(self, job: JobRecord, need: Amounts, start_s: float) -> Window | None:
        return next((each for each in self.windows if each.takes(job, need, start_s)), None)

    def enter(self, window: Window, job: JobRecord, need: Amounts) -> None:
        window.left = window.left - need
        self.inside[job.name] = window

    def until_s(self, job: JobRecord, end_s: float) -> float:
        """When the room of a job is free for others: not before its reservation ends."""
        window = self.inside.get(job.name)
        return end_s if window is None else max(end_s, window.reservation.until_s)


def open_windows(
    reservations: Sequence[AdvanceReservation], resources: Resources, total: Amounts, now: float
) -> Windows:
    """The reservations that are not over: a share of what the open nodes have, or amounts."""
    return Windows(
        [
            Window(
                each,
                resources.vector(each.resources)
                if each.resources
                else np.floor(total * each.share).astype(np.int64),
            )
            for each in reservations
            if each.until_s > now
        ]
    )
