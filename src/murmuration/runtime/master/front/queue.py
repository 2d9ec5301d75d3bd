"""The queue as a page shows it: who is next, why it waits, what would help, when it may start."""

from __future__ import annotations

import asyncio

import msgspec

from murmuration.runtime.master.answers import natural
from murmuration.runtime.master.front.overview import ClusterSnapshot
from murmuration.runtime.master.front.starts import LIMITS, ExpectedStart, StartModel
from murmuration.schedulers.central.explain import (
    CONSTRAINT,
    DEPENDENCY,
    POLICY,
    QUOTA,
    waiting_reason,
)
from murmuration.schedulers.central.explain import explain as explain_job
from murmuration.schedulers.central.jobs import JobRecord
from murmuration.schedulers.central.master import CentralMaster

#: Jobs whose reason is worked out, and jobs that are listed.
EXPLAINED_MAX, LISTED_MAX = 20, 500
#: What no end of a run helps against.
HELD_BACK = (POLICY, CONSTRAINT, QUOTA, DEPENDENCY)


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
    #: Seconds until enough of what runs will have ended: the middle of what is expected, early and
    #: late; `start_ground` says what that is known from, or why nothing is.
    start_in_s: float | None
    start_early_s: float | None = None
    start_late_s: float | None = None
    start_ground: str = ""
    #: Whether it is a bound that time limits give, and no estimate.
    start_is_latest: bool = False


class QueueReason(msgspec.Struct, frozen=True):
    tier: str = ""
    reason: str = ""
    unblock: tuple[str, ...] = ()
    wakes_on: str = ""
    start: ExpectedStart = ExpectedStart("")
    suspended: int = 0


class QueueAnswer(msgspec.Struct):
    index: int
    length: int
    rows: list[QueueRow]


class QueueModel:
    """What waits. Reasons are worked out once for each index of the log, however many ask."""

    def __init__(self, master: CentralMaster) -> None:
        self._master = master
        self._starts = StartModel(master)
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
        start = (
            ExpectedStart(f"it starts when {wakes_on}")
            if tier in HELD_BACK
            else self._starts.expect(job, now)
        )
        suspended = sum(job.tasks[index].is_suspended for index in job.waiting)
        # Nothing is to be decided about tasks that have their nodes.
        unblock = () if suspended == len(job.waiting) else tuple(decision.unblock)
        self._known[job.name] = QueueReason(tier, reason, unblock, wakes_on, start, suspended)

    def _row(self, position: int, job: JobRecord, now: float) -> QueueRow:
        why = self._known.get(job.name, QueueReason())
        start = why.start
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
            start_in_s=_until(start.at_s, now),
            start_early_s=_until(start.early_s, now),
            start_late_s=_until(start.late_s, now),
            start_ground=start.ground,
            start_is_latest=start.ground == LIMITS,
        )


def _until(at_s: float | None, now: float) -> float | None:
    return None if at_s is None else max(0.0, at_s - now)
