"""The queue of the job manager under a discipline: who is next, and who may start before its turn.

The same values and functions as in a simulation (`schedulers/queues`), called on what the master
knows: a job asks for its time limit, and one without is expected to run for ever. Room is counted
in amounts of all open nodes; where a job goes is the placement's part, as without a discipline.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from murmuration.base.arrays import Amounts, Indices, Times
from murmuration.base.resources import MICRO
from murmuration.schedulers.central.jobs import JobRecord, JobTable
from murmuration.schedulers.central.placing import Planned, Round
from murmuration.schedulers.central.preemption import MakingWay, find_awaited
from murmuration.schedulers.queues import shares
from murmuration.schedulers.queues.discipline import (
    BY_FACTORS,
    BY_RANK,
    QueueDiscipline,
    QueuedJobs,
    QueueSettings,
)
from murmuration.schedulers.queues.look import (
    CONSERVATIVE,
    EASY,
    LOOK,
    QueueLook,
    begin_look,
    is_over,
    may_start,
    note_start,
    note_wait,
    set_profile,
)
from murmuration.schedulers.queues.use import RecentUse

#: What runs: until when it is expected to, and what it gives back then.
RunningList = list[tuple[float, Amounts]]


def requested_s(job: JobRecord) -> float:
    """The run time a job asks for."""
    limit = job.spec.time_limit_s
    return math.inf if limit is None else limit


def owner(job: JobRecord) -> str:
    return job.spec.user or job.spec.kind


@dataclass
class PlainQueue:
    """By priority and submission, task by task; no job holds up another."""

    settings: QueueSettings
    jobs: JobTable
    whole = False

    def in_order(self, now: float, total: Amounts) -> list[JobRecord]:
        return self.jobs.in_order()

    def plan(self, round_: Round) -> list[Planned]:
        is_on = self.settings.preempt != "no"
        return round_.plan(self.jobs.in_order(), MakingWay(round_, False).seek if is_on else None)


@dataclass
class JobQueue:
    """A discipline on the jobs of a master."""

    whole = True
    discipline: QueueDiscipline
    settings: QueueSettings
    jobs: JobTable
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
            use[owner(job)] += self.use.span(float(job.request[0]), task.placed_s, now, now)
        for user in {owner(job) for job in jobs} | set(use):
            use[user] += self.use.ended(user, now)
        return use

    def plan(self, round_: Round) -> list[Planned]:
        """Which jobs start now, and where."""
        now, rows = round_.now, round_.rows
        queue = self.in_order(now, rows.total.sum(axis=0))
        running = list_running(self.jobs, set(rows.names), now)
        free = rows.free.sum(axis=0).astype(np.int64)
        look = make_look(free, len(running) + 2 * len(queue))
        begin_look(look, now, self.discipline.overtaking)
        if self.discipline.overtaking == CONSERVATIVE:
            set_profile(look, sort_running(running, free), len(running))
        planned: list[Planned] = []
        making_way = MakingWay(round_, True) if self.settings.preempt != "no" else None
        for job in queue:
            if is_over(look) or not rows.names:
                break
            tasks = round_.ready(job, whole=True)
            if not tasks or self.is_held(job, len(tasks)):
                continue
            need = np.array(job.request, dtype=np.int64) * len(tasks)
            lasts = requested_s(job)
            placements = (
                round_.place(job, tasks, whole=True) if may_start(look, need, lasts) else []
            )
            if placements:
                planned.append(Planned(job, placements))
                running.append((now + lasts, need))
                note_start(look, need, lasts)
                continue
            is_first = not look.state[0].blocked
            if is_first and making_way is not None and making_way.seek(job, tasks):
                # Its room is kept on its nodes; others may use the rest.
                free[:] = rows.free.sum(axis=0)
                look.state[0].blocked = True
                continue
            if self.discipline.overtaking == EASY and not look.state[0].profiled:
                set_profile(look, sort_running(running, free), len(running))
            note_wait(look, need, lasts)
        return planned

    def is_held(self, job: JobRecord, tasks: int) -> bool:
        """Whether its user may not run more for now."""
        settings = self.settings
        if not settings.user_jobs_max and not settings.user_cpu_max:
            return False
        mine = [each for each, _ in self.jobs.runs.values() if owner(each) == owner(job)]
        cpu = sum(each.request[0] for each in mine) + job.request[0] * tasks
        jobs_max, cpu_max = settings.user_jobs_max, settings.user_cpu_max
        others = {each.name for each in mine} - {job.name}
        return bool(jobs_max and len(others) >= jobs_max) or bool(cpu_max and cpu > cpu_max * MICRO)


def make_queue(
    discipline: QueueDiscipline | None, settings: QueueSettings, jobs: JobTable
) -> PlainQueue | JobQueue:
    """The queue of these jobs."""
    if discipline is None:
        return PlainQueue(settings, jobs)
    return JobQueue(discipline, settings, jobs)


def list_running(jobs: JobTable, nodes: set[str], now: float) -> RunningList:
    """What runs on these nodes, and until when it is expected to; one that overran ends now. Runs
    without a limit end at no time that could be counted on, and are left out."""
    ends: dict[tuple[str, float], Amounts] = {}
    for job, task in jobs.runs.values():
        limit_s = requested_s(job)
        if task.node in nodes and limit_s < math.inf:
            key = job.name, max((task.started_s or task.placed_s) + limit_s, now)
            ends[key] = ends.get(key, 0) + np.array(job.request, dtype=np.int64)
    return [(end, amounts) for (_, end), amounts in ends.items()]


def make_look(free: Amounts, entries: int) -> QueueLook:
    """A look with room for so many ends and reservations."""
    points = 2 * entries + 4
    state = np.zeros(1, LOOK).view(np.recarray)
    return QueueLook(state, free, np.zeros(points), np.zeros((points, len(free)), dtype=np.int64))


def sort_running(running: RunningList, free: Amounts) -> tuple[Times, Amounts, Indices]:
    """Ends, amounts, and the order of the ends."""
    ends = np.array([end for end, _ in running], dtype=np.float64)
    amounts = np.array([each for _, each in running], dtype=np.int64).reshape(-1, len(free))
    return ends, amounts, np.argsort(ends, kind="stable")
