"""When a task that waits may start, and how anybody can know.

A task starts when enough of what runs on some node has ended. When that will be is known to two
kinds of ground: a time limit says when a run has ended at the latest, and runs like it that have
ended say how long such runs take. Both are said with the answer, and where there is neither, what
is missing. Nobody is assumed to go before the task, and no node to come or go.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from murmuration.schedulers.central.jobs import CentralTaskState, JobRecord, JobTable
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.queue.suspension import missing, since_s
from murmuration.schedulers.offers.ledger import LedgerRow
from murmuration.schedulers.offers.messages import Vector

#: Beyond so many nodes an expected start would cost more than it tells.
NODES_MAX = 5000
NEVER_S = math.inf
#: Fewer runs than this say nothing of the next one; of more, the latest are remembered.
LIKE_MIN, LIKE_MAX = 3, 50
#: Ended jobs that are looked at when a master starts, and tasks of one job.
LOOK_BACK = 2000
#: An early end, the middle and a late one, as quantiles of the runs like it.
SPREAD = (0.1, 0.5, 0.9)
LIMITS = "time limits of what runs"
IDLE = "nothing runs that could end"
UNKNOWN = "what holds the room has no time limit, and too few runs like it have ended"
TOO_MANY = f"it is not worked out for more than {NODES_MAX:,} nodes"

#: What a job is known by: more and more of its kind are like it.
Likeness = tuple[object, ...]


@dataclass(frozen=True)
class ExpectedStart:
    """When a task starts: in the middle of what is expected, early and late. From time limits alone
    all three are the latest. Without a time, `ground` says why there is none."""

    ground: str
    at_s: float | None = None
    early_s: float | None = None
    late_s: float | None = None


class RunLengths:
    """How long runs took that have ended well, by what their jobs have in common."""

    def __init__(self, jobs: JobTable) -> None:
        self._jobs = jobs
        self._lengths: dict[Likeness, deque[float]] = {}
        self._newest: JobRecord | None = None

    def learn(self) -> None:
        """Take in the jobs that have ended since the last time."""
        fresh: list[JobRecord] = []
        for name in reversed(self._jobs.ended):
            job = self._jobs.jobs[name]
            if len(fresh) == LOOK_BACK or self._is_known(job):
                break
            fresh.append(job)
        for job in reversed(fresh):
            self._newest = job
            for likeness in likenesses(job):
                known = self._lengths.setdefault(likeness, deque(maxlen=LIKE_MAX))
                known.extend(_lengths(job))

    def _is_known(self, job: JobRecord) -> bool:
        newest = self._newest
        return newest is not None and (job is newest or job.ended_s < newest.ended_s)

    def of(self, job: JobRecord) -> list[float]:
        """Of runs as like those of a job as there are enough of: its own, then those of jobs of its
        user and name, then of its user and shape."""
        own = _lengths(job)
        candidates = (own, *(self._lengths.get(likeness, ()) for likeness in likenesses(job)))
        return next((list(found) for found in candidates if len(found) >= LIKE_MIN), [])


def likenesses(job: JobRecord) -> tuple[Likeness, Likeness]:
    """By user and name without its number (`train-17`), and by user, command and shape."""
    stem = re.sub(r"[\W_]*\d+$", "", job.name) or job.name
    user, spec = job.spec.user, job.spec
    return ("name", user, stem), ("shape", user, *spec.command[:1], *job.request, spec.count)


def _lengths(job: JobRecord) -> list[float]:
    """Seconds of the runs of a job that have finished."""
    return [
        task.done_s + task.ended_s - since_s(task)
        for task in job.tasks[:LOOK_BACK]
        if task.state is CentralTaskState.FINISHED and task.started_s
    ]


def remaining(lengths: Sequence[float], done_s: float) -> tuple[float, ...] | None:
    """How long a run goes on that has run so long: quantiles of those that took longer. None if it
    has outlived all but too few."""
    longer = [length - done_s for length in lengths if length > done_s]
    if len(longer) < LIKE_MIN:
        return None
    return tuple(np.quantile(longer, SPREAD).tolist())


@dataclass(frozen=True)
class RunEnd:
    """When a run gives its place back, by each of the quantiles, and how many runs like it say so
    (none: its time limit does)."""

    at_s: tuple[float, ...]
    runs: int = 0


class StartModel:
    """Expected starts on the ledger of a master."""

    def __init__(self, master: CentralMaster) -> None:
        self._master = master
        self._lengths = RunLengths(master.jobs)
        #: What each job's runs are known to take, and what is known of each node, at one time.
        self._at_s, self._like = -math.inf, dict[str, list[float]]()
        self._on_node: dict[str, list[tuple[Vector, RunEnd]]] = {}

    def expect(self, job: JobRecord, now: float) -> ExpectedStart:
        """When the first of a job's waiting tasks fits."""
        rows = self._master.resource_manager.ledger.nodes
        if len(rows) > NODES_MAX:
            return ExpectedStart(TOO_MANY)
        if now != self._at_s:
            self._lengths.learn()
            self._at_s, self._like, self._on_node = now, {}, {}
        wanted = self._wanted(job, rows)
        ends = {name: self._ends(name, rows[name], now) for name in wanted}
        early_s, at_s, late_s = (
            min((_fits_s(rows[n], wanted[n], ends[n], k) for n in wanted), default=NEVER_S)
            for k in range(len(SPREAD))
        )
        if at_s == NEVER_S:
            return ExpectedStart(UNKNOWN if any(ends.values()) else IDLE)
        runs = max(end.runs for each in ends.values() for _, end in each)
        ground = f"up to {runs} earlier runs like those that hold the room" if runs else LIMITS
        return ExpectedStart(ground, at_s, early_s, late_s if late_s < NEVER_S else None)

    def _wanted(self, job: JobRecord, rows: dict[str, LedgerRow]) -> dict[str, Vector]:
        """What has to be free on which node for a task to start."""
        wanted: dict[str, Vector] = {}
        tasks = [job.tasks[index] for index in job.waiting]
        if not all(task.is_suspended for task in tasks):
            wanted = {name: job.request for name, row in rows.items() if row.open}
        # One that is suspended can go on only where it is, and needs less.
        return wanted | {task.node: missing(job, task) for task in tasks if task.is_suspended}

    def _ends(self, node: str, row: LedgerRow, now: float) -> list[tuple[Vector, RunEnd]]:
        """What each run on a node gives back, and when."""
        if node not in self._on_node:
            held = row.tasks.items()
            self._on_node[node] = [(each.cost, self._end_of(key[1], now)) for key, each in held]
        return self._on_node[node]

    def _end_of(self, run: str, now: float) -> RunEnd:
        job, task = self._master.jobs.runs.get(run, (None, None))
        never = RunEnd((NEVER_S,) * len(SPREAD))
        if job is None or task is None or task.is_suspended:
            return never
        begin_s = since_s(task) if task.started_s else now
        limit_s = job.duration_s or job.spec.time_limit_s
        latest_s = NEVER_S if limit_s is None else begin_s + limit_s - task.done_s
        if job.name not in self._like:
            # A run of a service ends to be run again.
            is_service = job.spec.kind == "service"
            self._like[job.name] = [] if is_service else self._lengths.of(job)
        lengths = self._like[job.name]
        left = remaining(lengths, task.done_s + now - begin_s)
        if left is None:
            return RunEnd((latest_s,) * len(SPREAD))
        return RunEnd(tuple(min(now + each, latest_s) for each in left), len(lengths))


def _fits_s(row: LedgerRow, wanted: Vector, ends: Iterable[tuple[Vector, RunEnd]], k: int) -> float:
    """When so much is free on a node, by one of the quantiles."""
    free = list(row.available)
    for cost, end in sorted(ends, key=lambda each: each[1].at_s[k]):
        free = [have + more for have, more in zip(free, cost, strict=False)]
        if all(have >= want for have, want in zip(free, wanted, strict=False)):
            return end.at_s[k]
    return NEVER_S
