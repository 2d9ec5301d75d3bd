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
from murmuration.schedulers.offers.ledger import LedgerRow

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
        self._known[job.name] = QueueReason(
            tier, reason, tuple(decision.unblock), wakes_on, start_s
        )

    def _row(self, position: int, job: JobRecord, now: float) -> QueueRow:
        why = self._known.get(job.name, QueueReason())
        return QueueRow(
            position=position,
            job=job.name,
            user=job.spec.user,
            priority=job.spec.priority,
            waiting=len(job.waiting),
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
        starts = (self._fits_s(row, job, now) for row in rows.values() if row.open)
        soonest = min(starts, default=NEVER_S)
        return soonest if soonest < NEVER_S else None

    def _fits_s(self, row: LedgerRow, job: JobRecord, now: float) -> float:
        """When one task of the job fits on a node by the limits of what runs there."""
        free = list(row.available)
        ends = sorted((self._ends_s(key[1], now), held.cost) for key, held in row.tasks.items())
        for end_s, cost in ends:
            free = [have + more for have, more in zip(free, cost, strict=False)]
            if all(have >= want for have, want in zip(free, job.request, strict=False)):
                return end_s
        return NEVER_S

    def _ends_s(self, run: str, now: float) -> float:
        job, task = self._master.jobs.runs.get(run, (None, None))
        if job is None or task is None:
            return NEVER_S
        limit_s = job.duration_s or job.spec.time_limit_s
        return NEVER_S if limit_s is None else (task.started_s or now) + limit_s
