"""The cluster in figures: one snapshot each second for everybody who watches, and samples of the
last hour whether anybody watches or not."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable

import msgspec
import numpy as np

from murmuration.cluster.allocation_types import NAMES as TYPES
from murmuration.runtime.master.front.nodes import STATES, NodeColumns
from murmuration.runtime.master.usage import UsageMeter
from murmuration.runtime.store.log import FactLog
from murmuration.schedulers.central.jobs import JobRecord
from murmuration.schedulers.central.master import CentralMaster

log = logging.getLogger("murmuration.front")
TICK_S = 1.0
#: Samples of the last hour.
SAMPLE_S, SAMPLES_MAX = 5.0, 720
#: Users who are named in a sample; the others are one.
USERS_MAX = 12
OTHERS, NOBODY = "others", "–"


class ClusterSnapshot(msgspec.Struct):
    """What changes from second to second. `resources` has total, required, guaranteed and used of
    each; `version` changes when nodes come or go."""

    index: int
    at_s: float
    epoch: int
    version: int
    trouble: str
    nodes: dict[str, int]
    types: dict[str, int]
    resources: dict[str, list[float]]
    #: On nodes, suspended there, waiting for a node; each task is one of them.
    tasks: dict[str, int]


class HistoryAnswer(msgspec.Struct):
    """Samples over time, all lists of one length. Shares of users are dominant shares."""

    at_s: list[float]
    required: dict[str, list[float]]
    used: dict[str, list[float]]
    waiting: list[int]
    active: list[int]
    suspended: list[int]
    users: dict[str, list[float]]
    frameworks: dict[str, list[float]]


class Sample(msgspec.Struct):
    at_s: float
    required: dict[str, float]
    used: dict[str, float]
    waiting: int
    active: int
    suspended: int
    users: dict[str, float]
    frameworks: dict[str, float]


class Overview:
    """Snapshots and samples of a master's state."""

    def __init__(
        self,
        master: CentralMaster,
        facts: FactLog,
        meter: UsageMeter,
        clock: Callable[[], float],
    ) -> None:
        self._master, self.facts, self._clock = master, facts, clock
        self.columns = NodeColumns(master, meter)
        self._seen = 0
        self._watchers = 0
        self._ticked = asyncio.Event()
        self.samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self.epoch = 0
        self.last: ClusterSnapshot | None = None

    async def run(self) -> None:
        """Tick for those who watch, and sample for those who come later. Nothing that goes wrong in
        a picture may end a master."""
        next_sample_s = self._clock()
        while True:
            try:
                if self._watchers or self._clock() >= next_sample_s:
                    self.tick()
                if self._clock() >= next_sample_s:
                    next_sample_s = self._clock() + SAMPLE_S
                    self.samples.append(self.sample())
            except Exception:
                log.exception("a snapshot of the cluster failed")
            await asyncio.sleep(TICK_S)

    def tick(self) -> ClusterSnapshot:
        self.columns.tick(self._touched())
        self.last = self._snapshot()
        ticked, self._ticked = self._ticked, asyncio.Event()
        ticked.set()
        return self.last

    async def watch(self) -> AsyncIterator[ClusterSnapshot]:
        """Each snapshot as it is made."""
        self._watchers += 1
        try:
            yield self.last or self.tick()
            while True:
                await self._ticked.wait()
                assert self.last is not None
                yield self.last
        finally:
            self._watchers -= 1

    def _touched(self) -> set[str]:
        nodes = set()
        for entry in self.facts.recent():
            if entry.number <= self._seen:
                break
            nodes.add(getattr(entry.value, "node", ""))
        self._seen = self.facts.index
        return nodes

    def _snapshot(self) -> ClusterSnapshot:
        columns = self.columns
        states = np.bincount(columns.state, minlength=len(STATES))
        types = np.bincount(columns.types(), minlength=len(TYPES))
        return ClusterSnapshot(
            index=self.facts.index,
            at_s=self._clock(),
            epoch=self.epoch,
            version=columns.version,
            trouble=self.facts.trouble,
            nodes=dict(zip(STATES, states.tolist(), strict=True)),
            types=dict(zip(TYPES, types.tolist(), strict=True)),
            resources=columns.totals(),
            tasks=self._tasks(),
        )

    def _open_jobs(self) -> list[JobRecord]:
        return [job for job in self._master.jobs.jobs.values() if not job.status]

    def _tasks(self) -> dict[str, int]:
        jobs = self._master.jobs
        suspended = len(jobs.suspended)
        waiting = sum(len(job.waiting) for job in jobs.queue.values())
        return {
            "active": len(jobs.runs) - suspended,
            "waiting": waiting - suspended,
            "suspended": suspended,
        }

    # Samples.

    def sample(self) -> Sample:
        totals = {
            name: (parts[1] / parts[0], parts[3] / parts[0]) if parts[0] else (0.0, 0.0)
            for name, parts in self.columns.totals().items()
        }
        return Sample(
            at_s=self._clock(),
            required={name: shares[0] for name, shares in totals.items()},
            used={name: shares[1] for name, shares in totals.items()},
            **self._tasks(),
            users=self._user_shares(),
            frameworks=self._framework_shares(),
        )

    def _user_shares(self) -> dict[str, float]:
        total = self.columns.total.sum(axis=0)
        held: dict[str, np.ndarray] = {}
        for job in self._open_jobs():
            active = job.open_tasks - len(job.waiting)
            if active > 0:
                user = job.spec.user or NOBODY
                held[user] = held.get(user, 0.0) + np.multiply(job.request, float(active))
        shares = {user: _dominant(amounts, total) for user, amounts in held.items()}
        largest = sorted(shares, key=lambda user: -shares[user])
        named = {user: shares[user] for user in largest[:USERS_MAX]}
        rest = sum(shares[user] for user in largest[USERS_MAX:])
        return {**named, OTHERS: rest} if rest else named

    def _framework_shares(self) -> dict[str, float]:
        ledger = self._master.resource_manager.ledger
        return {
            name: _dominant(ledger.allocated[row].astype(float), ledger.total.astype(float))
            for name, row in ledger.position.items()
        }

    def history(self) -> HistoryAnswer:
        samples = list(self.samples)
        return HistoryAnswer(
            at_s=[sample.at_s for sample in samples],
            required=_series([sample.required for sample in samples]),
            used=_series([sample.used for sample in samples]),
            waiting=[sample.waiting for sample in samples],
            active=[sample.active for sample in samples],
            suspended=[sample.suspended for sample in samples],
            users=_series([sample.users for sample in samples]),
            frameworks=_series([sample.frameworks for sample in samples]),
        )


def _dominant(amounts: np.ndarray, total: np.ndarray) -> float:
    """The largest share of any resource."""
    return float(np.divide(amounts, total, out=np.zeros(len(total)), where=total > 0).max())


def _series(rows: list[dict[str, float]]) -> dict[str, list[float]]:
    """Rows of names and values as one list per name; who is missing in a row had nothing."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name, 0.0) for row in rows] for name in names}
