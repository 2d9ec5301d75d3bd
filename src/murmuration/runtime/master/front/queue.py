"""The queue as a page shows it: who is next, why it waits, what would help, when it may start."""

from __future__ import annotations

import asyncio

import msgspec

from murmuration.runtime.master.answers import natural
from murmuration.runtime.master.front.overview import ClusterSnapshot
from murmuration.schedulers.central.explain import explain as explain_job
from murmuration.schedulers.central.explain import waiting_reason
from murmuration.schedulers.central.jobs import JobRecord
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.queue.suspension import missing, since_s
from murmuration.schedulers.offers.ledger import LedgerRow
from murmuration.schedulers.offers.messages import Vector

#: Jobs whose reason is worked out, and jobs that are listed.
EXPLAINED_MAX, LISTED_MAX = 20, 500
#: Beyond so many nodes an expected start would cost more than it tells.
FORECAST_NODES_MAX = 5000
NEVER_S = float("inf")


class QueueRow(msgspec.Struct):
    """One job that waits. Without a reason, it is too far behind to be worth one yet."""

    position: int
    job: str
    user: str
    priority: int
    waiting: int
    #: Of those that wait: they have their node and lack their CPU. Counted where there is a reason.
    suspended: int
    count: int
    request: dict[str, float]
    waited_s: float
    tier: str
    reason: str
    unblock: list[str]
    wakes_on: str
    #: Seconds until enough of what runs must have ended, where time limits say so.
    start_in_s: float | None


class QueueReason(msgspec.Struct, frozen=True):
    tier: str = ""
    reason: str = ""
    unblock: tuple[str, ...] = ()
    wakes_on: str = ""
    start_s: float | None = None
    suspended: int = 0


class QueueAnswer(msgspec.Struct):
    index: int
    length: int
    rows: list[QueueRow]


class QueueModel:
    """What waits. Reasons are worked out once for each index of the log, however many ask."""

    def __init__(self, master: CentralMaster) -> None:
        self._master = master
        self._known: dict[str, QueueReason] = {}
        self._index = -1
        self._turn = asyncio.Lock()

    async def answer(self, snapshot: ClusterSnapshot | None) -> QueueAnswer:
        index, now = (snapshot.index, snapshot.at_s) if snapshot else (0, 0.0)
        async with self._turn:
            if index != self._index:
                self._index, self._known = index, {}
            jobs = self._master.in_order()
            rows = []
            for position, job in enumerate(jobs[:LISTED_MAX], 1):
                if position <= EXPLAINED_MAX:
                    # Heartbeats wait for one explanation at most.
                    await asyncio.sleep(0)
                    self._explain(job, now)
                rows.append(self._row(position, job, now))
        return QueueAnswer(index, len(jobs), rows)

    def _explain(self, job: JobRecord, now: float) -> None:
        if job.name in self._known or not job.waiting:
            return
        decision = explain_job(self._master, job, now)
        tier, reason, wakes_on = waiting_reason(self._master, job, now, decision)
        start_s = self._forecast(job, now)
        suspended = sum(job.tasks[index].is_suspended for index in job.waiting)
        # Nothing is to be decided about tasks that have their nodes.
        unblock = () if suspended == len(job.waiting) else tuple(decision.unblock)
        self._known[job.name] = QueueReason(tier, reason, unblock, wakes_on, start_s, suspended)

    def _row(self, position: int, job: JobRecord, now: float) -> QueueRow:
        why = self._known.get(job.name, QueueReason())
        return QueueRow(
            position=position,
            job=job.name,
            user=job.spec.user,
            priority=job.spec.priority,
            waiting=len(job.waiting),
            suspended=why.suspended,
            count=job.spec.count,
            request=natural(self._master.settings.resources, job.request),
            waited_s=max(0.0, now - job.submit_s),
            tier=why.tier,
            reason=why.reason,
            unblock=list(why.unblock),
            wakes_on=why.wakes_on,
            start_in_s=None if why.start_s is None else max(0.0, why.start_s - now),
        )

    def _forecast(self, job: JobRecord, now: float) -> float | None:
        """When the first waiting task fits at the latest, if every run lasts until its time limit
        and nobody goes before it. None where no limits say so."""
        rows = self._master.resource_manager.ledger.nodes
        if len(rows) > FORECAST_NODES_MAX:
            return None
        wanted: dict[str, Vector] = {}
        tasks = [job.tasks[index] for index in job.waiting]
        if not all(task.is_suspended for task in tasks):
            wanted = {name: job.request for name, row in rows.items() if row.open}
        # One that is suspended can go on only where it is, and needs less.
        wanted |= {task.node: missing(job, task) for task in tasks if task.is_suspended}
        starts = (self._fits_s(rows[name], want, now) for name, want in wanted.items())
        soonest = min(starts, default=NEVER_S)
        return soonest if soonest < NEVER_S else None

    def _fits_s(self, row: LedgerRow, wanted: Vector, now: float) -> float:
        """When so much is free on a node by the limits of what runs there."""
        free = list(row.available)
        ends = sorted((self._ends_s(key[1], now), held.cost) for key, held in row.tasks.items())
        for end_s, cost in ends:
            free = [have + more for have, more in zip(free, cost, strict=False)]
            if all(have >= want for have, want in zip(free, wanted, strict=False)):
                return end_s
        return NEVER_S

    def _ends_s(self, run: str, now: float) -> float:
        """When a run has had its time. That of one that is suspended stands still."""
        job, task = self._master.jobs.runs.get(run, (None, None))
        if job is None or task is None or task.is_suspended:
            return NEVER_S
        limit_s = job.duration_s or job.spec.time_limit_s
        if limit_s is None:
            return NEVER_S
        return (since_s(task) if task.started_s else now) + limit_s - task.done_s
