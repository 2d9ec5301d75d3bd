"""The queue of the job manager under a discipline: who is next, and who may start before its turn.

The same values and functions as in a simulation (`schedulers/queues`), called on what the master
knows: a job asks for its time limit, and one without has no end. Room is counted in
amounts of all open nodes; where a job goes is the placement's part, as without a discipline.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from murmuration.base.arrays import Amounts
from murmuration.schedulers.central.jobs import JobRecord, JobTable, TaskRecord
from murmuration.schedulers.central.placing import Planned, Round, is_simple
from murmuration.schedulers.central.queue.look import QueueRound
from murmuration.schedulers.central.queue.preemption import MakingWay, find_awaited
from murmuration.schedulers.central.queue.windows import (
    next_change_s,
    open_windows,
    owner,
    requested_s,
)
from murmuration.schedulers.queues import shares
from murmuration.schedulers.queues.discipline import (
    BY_FACTORS,
    BY_RANK,
    AdvanceReservation,
    QueueDiscipline,
    QueuedJobs,
    QueueSettings,
)
from murmuration.schedulers.queues.use import RecentUse


@dataclass
class PlainQueue:
    """By priority and submission, task by task; no job holds up another.

    The queue is not blocked by its head. A job that finds no room is passed over, and with it all
    that ask for the same under the same constraints: in a full cluster ten thousand waiting tasks
    cost one look for each kind. Jobs with rules about other tasks are never passed over in that
    way, since what is planned for the jobs before them can make room for them.
    """

    settings: QueueSettings
    jobs: JobTable
    whole = False

    def in_order(self, now: float, total: Amounts) -> list[JobRecord]:
        return self.jobs.in_order()

    def plan(self, round_: Round) -> list[Planned]:
        """Where the waiting tasks of each job go. Where running tasks may make way, room is sought
        for what is left of a job."""
        preempt, planned = self.settings.preempt, []
        making_way = MakingWay(round_, False, preempt == "suspend") if preempt != "no" else None
        for job in self.jobs.in_order():
            tasks = round_.ready(job)
            if not tasks or not round_.rows.names:
                continue
            kind = (job.request, job.constraints)
            # One that is suspended needs less than others of its kind.
            is_kind = is_simple(job) and not any(task.is_suspended for task in tasks)
            is_alike = is_kind and kind in round_.infeasible
            placements = [] if is_alike else round_.place(job, tasks)
            if placements:
                planned.append(Planned(job, placements))
            elif is_kind and not job.spec.gang:
                # Not for a gang: there may be room for a few of its tasks, and so for others.
                round_.infeasible.add(kind)
            if making_way is not None and len(placements) < len(tasks):
                planned += self._seek(round_, making_way, job, tasks, placements)
        return planned

    def _seek(
        self,
        round_: Round,
        making_way: MakingWay,
        job: JobRecord,
        tasks: list[TaskRecord],
        placements: list[tuple[TaskRecord, int]],
    ) -> list[Planned]:
        """Room for those of a job's tasks that found none. If others are suspended for them, it is
        there at once."""
        placed = {task.index for task, _ in placements}
        left = [task for task in tasks if task.index not in placed]
        if making_way.seek(job, left) and making_way.suspends:
            return [Planned(job, round_.place(job, left))]
        return []

    def next_change_s(self, now: float) -> float:
        """When the queue is to be looked at though nothing has happened."""
        return math.inf


@dataclass
class JobQueue:
    """A discipline on the jobs of a master."""

    whole = True
    discipline: QueueDiscipline
    settings: QueueSettings
    jobs: JobTable
    reservations: Sequence[AdvanceReservation] = ()
    use: RecentUse = field(init=False)

    def __post_init__(self) -> None:
        self.use = RecentUse(self.settings.half_life_s)
        self.jobs.on_release = self._add_use

    def _add_use(self, job: JobRecord, start_s: float, end_s: float) -> None:
        self.use.add(owner(job), float(job.request[0]), start_s, end_s)

    def in_order(self, now: float, total: Amounts) -> list[JobRecord]:
        """The waiting jobs, the next one first; jobs of one rank as they came."""
        jobs = sorted(self.jobs.queue.values(), key=lambda job: job.serial)
        if self.discipline.order == BY_RANK:
            asked = np.array([requested_s(job) for job in jobs])
            queued = QueuedJobs(
                np.array([job.submit_s for job in jobs]),
                asked,
                np.array([job.spec.priority for job in jobs], dtype=np.int64),
            )
            ranks = self.discipline.rank(queued, self.settings).tolist()
        else:
            ranks = self._rank_by_use(jobs, now, total)
        # Whoever others make way for comes first, or those would take their room again.
        awaited = find_awaited(self.jobs) if self.settings.preempt != "no" else set()
        places = [(job.name not in awaited, ranks[k], k) for k, job in enumerate(jobs)]
        return [jobs[k] for _, _, k in sorted(places)]

    def _rank_by_use(self, jobs: Sequence[JobRecord], now: float, total: Amounts) -> list[float]:
        recent, promised = self.recent_use(jobs, now), self.settings.shares
        parts = sum(promised.get(user, 1.0) for user in recent)
        used = sum(recent.values())
        if self.discipline.order != BY_FACTORS:
            return [recent[owner(job)] / promised.get(owner(job), 1.0) for job in jobs]
        fairness = {
            user: shares.fair_factor(use / used if used else 0.0, promised.get(user, 1.0) / parts)
            for user, use in recent.items()
        }
        weights = shares.list_weights(self.settings.weights, self.settings.age_max_s)
        cpus = max(int(total[0]) if len(total) else 0, 1)
        return [
            -shares.multifactor(
                weights,
                now - job.submit_s,
                job.request[0] * job.spec.count / cpus,
                fairness[owner(job)],
                float(job.spec.priority),
            )
            for job in jobs
        ]

    def recent_use(self, jobs: Sequence[JobRecord], now: float) -> dict[str, float]:
        """The recent use of everybody who waits or runs."""
        use: defaultdict[str, float] = defaultdict(float)
        for job, task in self.jobs.runs.values():
            if not task.is_suspended:
                from_s = max(task.placed_s, task.resumed_s)
                use[owner(job)] += self.use.span(float(job.request[0]), from_s, now, now)
        for user in {owner(job) for job in jobs} | set(use):
            use[user] += self.use.ended(user, now)
        return use

    def plan(self, round_: Round) -> list[Planned]:
        """Which jobs start now, and where."""
        total = round_.rows.total.sum(axis=0)
        windows = open_windows(self.reservations, round_.resources, total, round_.now)
        look = QueueRound(round_, self.settings, self.discipline.overtaking, windows)
        return look.plan(self.in_order(round_.now, total))

    def next_change_s(self, now: float) -> float:
        return next_change_s(self.reservations, now)


def make_queue(
    discipline: QueueDiscipline | None,
    settings: QueueSettings,
    jobs: JobTable,
    reservations: Sequence[AdvanceReservation] = (),
) -> PlainQueue | JobQueue:
    """The queue of these jobs."""
    if discipline is None:
        return PlainQueue(settings, jobs)
    return JobQueue(discipline, settings, jobs, reservations)
