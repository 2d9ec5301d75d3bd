"""One look at the queue of a live cluster under a discipline: who starts, who waits, and what is
kept for whom.

The rules are those of a simulation (`schedulers/queues/look.py`). On top of them the first that
waits has nodes of its own kept (`keeping.py`), tasks of lower priority may make way for it
(`preemption.py`), and users have limits.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from murmuration.base.arrays import Amounts, Indices, Times
from murmuration.base.resources import MICRO
from murmuration.cluster.constraints import node_mask
from murmuration.schedulers.central.jobs import JobRecord, TaskRecord
from murmuration.schedulers.central.placing import Planned, Round
from murmuration.schedulers.central.queue.keeping import (
    ExpectedEnd,
    KeptNodes,
    count_all_fits,
    keep_nodes,
)
from murmuration.schedulers.central.queue.preemption import MakingWay, is_alone
from murmuration.schedulers.central.queue.suspension import left_s, missing_of_all, since_s
from murmuration.schedulers.central.queue.windows import Window, Windows, owner
from murmuration.schedulers.queues.backfill import find_start, has_room
from murmuration.schedulers.queues.discipline import QueueSettings
from murmuration.schedulers.queues.look import (
    CONSERVATIVE,
    LOOK,
    STRICT,
    QueueLook,
    begin_look,
    is_over,
    keep_for_others,
    may_start,
    note_start,
    note_wait,
    set_profile,
)


@dataclass
class QueueRound:
    """A look under way."""

    round_: Round
    settings: QueueSettings
    overtaking: int
    windows: Windows
    planned: list[Planned] = field(default_factory=list)
    #: What runs and what was planned: its job, the time at which its room is free, row, amounts.
    _running: list[tuple[str, float, int, Amounts]] = field(default_factory=list)
    _jobs: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _cpu: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _kept: KeptNodes | None = None

    def plan(self, queue: Sequence[JobRecord]) -> list[Planned]:
        """Which jobs start now, and where."""
        if not self.round_.rows.names:
            return []
        self._begin(len(queue))
        preempt = self.settings.preempt
        making_way = MakingWay(self.round_, True, preempt == "suspend") if preempt != "no" else None
        for job in queue:
            if is_over(self._look):
                break
            tasks = self.round_.ready(job, whole=not job.spec.array)
            # Of an array each task is for itself: those that find room start, the next one waits.
            for part in [[task] for task in tasks] if job.spec.array else [tasks] if tasks else []:
                # Under conservative backfilling asking alone is a reservation.
                is_asked = self.overtaking != CONSERVATIVE or not self._is_too_large(job, part)
                if self._is_held(job, len(part)) or not is_asked:
                    break
                if not self._start(job, part):
                    if self._makes_way(job, part, making_way):
                        return self.planned
                    if self._is_too_large(job, part):
                        break
                    self._wait(job, part, not self._look.state[0].blocked)
                    break
        return self.planned

    def _is_too_large(self, job: JobRecord, tasks: list[TaskRecord]) -> bool:
        """Whether a job could not start on these nodes if they were empty: it holds up nobody, as
        in a simulation, which refuses it."""
        rows, request = self.round_.rows, np.array(job.request, dtype=np.int64)
        if any(task.is_suspended for task in tasks):
            return False
        allowed = node_mask(job.constraints, list(rows.attributes))
        total = rows.total if allowed is None else rows.total[allowed]
        row_max = 1 if is_alone(job) else len(tasks)
        return count_all_fits(total, request, row_max) < len(tasks)

    def _makes_way(
        self, job: JobRecord, tasks: list[TaskRecord], making_way: MakingWay | None
    ) -> bool:
        """Whether others make way for tasks that find no room and are the first, now or in the next
        round. The look ends with it: who makes way comes back to a place in the queue, and that may
        be before everybody who has not been asked yet."""
        if making_way is None or self._look.state[0].blocked:
            return False
        if not making_way.seek(job, tasks):
            return self.round_.again
        if self.round_.pauses:
            self._take_room(job, tasks)
        return True

    def _take_room(self, job: JobRecord, tasks: list[TaskRecord]) -> None:
        """Others are suspended, so their room is there at once."""
        gone = {other.name for other, _, _ in self.round_.pauses}
        self._running = [each for each in self._running if each[0] not in gone]
        self._free[:] = self.round_.rows.free.sum(axis=0)
        if self._look.state[0].profiled:
            self._set_profile()
        self._start(job, tasks)

    def _begin(self, waiting: int) -> None:
        """What runs, who has how much of it, and the profile where it is needed from the start."""
        round_, rows = self.round_, {name: k for k, name in enumerate(self.round_.rows.names)}
        self.windows.fill(round_.jobs, set(rows))
        for job, task in round_.jobs.runs.values():
            if task.is_suspended:
                continue
            self._count(job, 1)
            if task.node in rows:
                # One that overran ends now.
                end_s = max(since_s(task) + left_s(job, [task]), round_.now)
                self._expect(job, end_s, rows[task.node], 1)
        self._free = round_.rows.free.sum(axis=0).astype(np.int64)
        self._look = make_look(
            self._free, len(self._running) + 2 * waiting + 2 * len(self.windows.windows)
        )
        begin_look(self._look, round_.now, self.overtaking)
        if self.overtaking == CONSERVATIVE or self.windows.windows:
            self._set_profile()

    def _expect(self, job: JobRecord, end_s: float, row: int, tasks: int) -> None:
        """What ends at no time that could be counted on is left out."""
        end_s = self.windows.until_s(job, end_s)
        if end_s < math.inf:
            amounts = np.array(job.request, dtype=np.int64) * tasks
            self._running.append((job.name, end_s, row, amounts))

    def _set_profile(self) -> None:
        """What will be free: what runs ends when it is expected to, and reservations are kept."""
        ends: dict[tuple[str, float], Amounts] = {}
        for name, end_s, _, amounts in self._running:
            ends[name, end_s] = ends.get((name, end_s), 0) + amounts
        running = [(end_s, amounts) for (_, end_s), amounts in ends.items()]
        set_profile(self._look, sort_running(running, self._free), len(running))
        for window in self.windows.windows:
            kept = window.reservation
            keep_for_others(self._look, kept.from_s, kept.until_s, window.left)

    def _start(self, job: JobRecord, tasks: list[TaskRecord]) -> bool:
        now, lasts = self.round_.now, left_s(job, tasks)
        need = missing_of_all(job, tasks)
        window = self.windows.find(job, need, now)
        if window is not None and not has_room(self._free, need):
            window = None
        if window is None and not may_start(self._look, need, lasts):
            return False
        placements = self._place(job, tasks, now + lasts)
        if not placements:
            return False
        self.planned.append(Planned(job, placements))
        self._count(job, len(tasks))
        self._note_start(job, need, lasts, window)
        for _, row in placements:
            self._expect(job, now + lasts, row, 1)
        return True

    def _place(
        self, job: JobRecord, tasks: list[TaskRecord], until_s: float
    ) -> list[tuple[TaskRecord, int]]:
        if self._kept is None:
            return self.round_.place(job, tasks, whole=True)
        return self._kept.place(self.round_, job, tasks, until_s)

    def _note_start(
        self, job: JobRecord, need: Amounts, lasts: float, window: Window | None
    ) -> None:
        if window is None:
            note_start(self._look, need, lasts)
        else:
            self.windows.enter(window, job, need)
            self._free -= need

    def _wait(self, job: JobRecord, tasks: list[TaskRecord], is_first: bool) -> None:
        """A job waits. If it is the first and others may pass it, nodes are kept for it; if it
        finds them only later than the amounts would say, it counts with that time."""
        need, lasts = missing_of_all(job, tasks), left_s(job, tasks)
        # Under conservative backfilling its reservation is in the profile already; where there are
        # reservations of the operator too, that is all it gets.
        by_amounts = self.overtaking == CONSERVATIVE and bool(self.windows.windows)
        if not is_first or self.overtaking == STRICT or by_amounts:
            self._look.state[0].blocked = True
            return
        if not self._look.state[0].profiled:
            self._set_profile()
        earliest_s = self._find_start_s(need, lasts)
        ends: list[ExpectedEnd] = [each[1:] for each in self._running]
        self._kept = keep_nodes(self.round_, job, tasks, ends, earliest_s)
        if self._kept is None or self._kept.from_s == earliest_s:
            note_wait(self._look, need, lasts)
            return
        if self.overtaking == CONSERVATIVE:
            # Its reservation by amounts, the first of all, is given back.
            self._set_profile()
        keep_for_others(self._look, self._kept.from_s, self._kept.from_s + lasts, need)
        self._look.state[0].blocked = True

    def _find_start_s(self, need: Amounts, lasts: float) -> float:
        """When there is room by amounts alone."""
        look, points = self._look, int(self._look.state[0].points)
        if self.overtaking == CONSERVATIVE:
            # Its reservation is in the profile already; nodes may say something else.
            return -math.inf
        start = find_start(look.times, look.room, points, need, lasts)
        return math.inf if start == points else float(look.times[start])

    # Limits of users.

    def _count(self, job: JobRecord, tasks: int) -> None:
        self._jobs[owner(job)].add(job.name)
        self._cpu[owner(job)] += job.request[0] * tasks

    def _is_held(self, job: JobRecord, tasks: int) -> bool:
        """Whether its user may not run more for now."""
        jobs_max, cpu_max = self.settings.user_jobs_max, self.settings.user_cpu_max
        others = self._jobs[owner(job)] - {job.name}
        cpu = self._cpu[owner(job)] + job.request[0] * tasks
        return bool(jobs_max and len(others) >= jobs_max) or bool(cpu_max and cpu > cpu_max * MICRO)


def make_look(free: Amounts, entries: int) -> QueueLook:
    """A look with room for so many ends and reservations."""
    points = 2 * entries + 4
    state = np.zeros(1, LOOK).view(np.recarray)
    return QueueLook(state, free, np.zeros(points), np.zeros((points, len(free)), dtype=np.int64))


def sort_running(
    running: Sequence[tuple[float, Amounts]], free: Amounts
) -> tuple[Times, Amounts, Indices]:
    """Ends, amounts, and the order of the ends."""
    ends = np.array([end for end, _ in running], dtype=np.float64)
    amounts = np.array([each for _, each in running], dtype=np.int64).reshape(-1, len(free))
    return ends, amounts, np.argsort(ends, kind="stable")
