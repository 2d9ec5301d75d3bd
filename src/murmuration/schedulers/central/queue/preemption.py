"""Room for a job that waits, from tasks of lower priority: who makes way, and for whom room is kept
until they have.

The choice is that of a simulation (`schedulers/queues/victims.py`), here on rows of nodes: a task
of the job must fit on a node, not between two. A gang makes way whole, and so does every job under
a queue discipline; else single tasks do. It is tried where the tasks would go before anybody is
told, so nobody makes way for a job that would find no node all the same.

Nothing is remembered for it. That a run makes way, and for which job, is what it was stopped for
(`TaskStopping`), which is on disk before the run hears of it. So a master that starts again goes on
where the last one was: room that is *coming* counts as good as free for whoever it is made for, is
kept from those behind it in the queue, and calls for no more victims. The job starts when the ends
are known, like any other, and a task that made way waits again and starts from the beginning. Where
those that make way are suspended instead (`suspension.py`), it starts at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from murmuration.base.arrays import Amounts
from murmuration.schedulers.central.jobs import CentralTaskState, JobRecord, JobTable, TaskRecord
from murmuration.schedulers.central.placing import Round, is_simple
from murmuration.schedulers.central.queue.keeping import count_all_fits
from murmuration.schedulers.central.queue.suspension import given_away
from murmuration.schedulers.offers.messages import Vector
from murmuration.schedulers.queues.victims import (
    SPARED,
    HeldRoom,
    choose_victims,
    count_fits,
)

#: What a run that makes way is stopped for; the name of the job follows.
PREEMPTED = "preempted: made way for "
#: What is free on a row that a job may not use: too little, whoever makes way.
UNUSABLE = -(2**60)

RunningTask = tuple[JobRecord, TaskRecord]


def made_way_for(task: TaskRecord) -> str:
    """The job that a task makes way for, or made way for when it last ran; empty for none."""
    what_for = task.reason if task.is_suspended else task.stopped_for
    name = what_for.removeprefix(PREEMPTED)
    return name if name != what_for else ""


def find_awaited(jobs: JobTable) -> set[str]:
    """The waiting jobs that tasks make way for, or made way for since they last started."""
    awaited = {made_way_for(task) for _, task in jobs.runs.values() if not task.is_suspended}
    for job in jobs.queue.values():
        for index in job.waiting:
            task = job.tasks[index]
            other = jobs.queue.get(made_way_for(task))
            # A name may be given to another job later; nobody made way for that one.
            if other is not None and not task.is_suspended and other.submit_s <= task.ended_s:
                placed_s = max(other.tasks[k].placed_s for k in other.waiting)
                awaited |= {other.name} if placed_s < task.ended_s else set()
    return awaited & jobs.queue.keys()


@dataclass
class MakingWay:
    """Who makes way in one round of placing."""

    round_: Round
    #: Jobs start whole, and make way whole.
    whole: bool
    #: Who makes way is suspended, and gives away its CPU alone; otherwise it ends.
    suspends: bool = False
    #: What is about to be free on each row, and is promised to nobody.
    coming: Amounts = field(init=False)
    #: Those that may have to make way, first those that go first; and with each its unit.
    _running: list[RunningTask] = field(default_factory=list)
    _held: HeldRoom = field(init=False)
    _rows: dict[str, int] = field(init=False)
    _priority: Amounts = field(init=False)
    _gone: set[int] = field(default_factory=set)
    _awaited: set[str] = field(default_factory=set)
    #: How many tasks would fit after the last choice.
    _reach: int = 0
    #: Sizes and constraints for which there was no way: jobs behind need not ask again.
    _infeasible: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        rows = self._rows = {name: row for row, name in enumerate(self.round_.rows.names)}
        self.coming = np.zeros_like(self.round_.rows.free)
        units: defaultdict[tuple[int, ...], list[RunningTask]] = defaultdict(list)
        # What ends together is left alone if a part of it is on a node that takes no orders now.
        apart: set[tuple[int, ...]] = set()
        for job, task in self.round_.jobs.runs.values():
            if task.node not in rows:
                apart.add((job.serial,))
            elif task.is_suspended:
                continue
            elif task.state is CentralTaskState.STOPPING:
                self.coming[rows[task.node]] += np.array(job.request, dtype=np.int64)
                self._awaited.add(made_way_for(task))
            else:
                together = self._is_whole(job)
                units[(job.serial,) if together else (job.serial, task.index)].append((job, task))
        self._list_units([unit for key, unit in units.items() if key not in apart], rows)

    def _list_units(self, units: list[list[RunningTask]], rows: dict[str, int]) -> None:
        """The lowest priority first, of one priority what was placed last."""
        units.sort(key=_goes_first)
        self._running = [running for unit in units for running in unit]
        self._priority = np.array([job.spec.priority for job, _ in self._running], dtype=np.int64)
        self._held = HeldRoom(
            np.array([k for k, unit in enumerate(units) for _ in unit], dtype=np.int64),
            np.array([rows[task.node] for _, task in self._running], dtype=np.int64),
            np.array([self._given_by(job) for job, _ in self._running], dtype=np.int64).reshape(
                -1, self.coming.shape[1]
            ),
        )

    def _given_by(self, job: JobRecord) -> Vector:
        return given_away(job.request) if self.suspends else job.request

    def seek(self, job: JobRecord, tasks: list[TaskRecord]) -> bool:
        """Make room for tasks that found none; whether it is coming. It is kept for them."""
        jobs, priority = self.round_.jobs.jobs, job.spec.priority
        # Of jobs that start in this very round some may have to make way, and before those that
        # have run for longer: that is seen in the next.
        if any(jobs[name].spec.priority < priority for name in self.round_.planned if name in jobs):
            self.round_.again = True
            return False
        if any(task.is_suspended for task in tasks):
            return self._make_room_back(job, tasks)
        return self._make_room(job, tasks)

    def _make_room_back(self, job: JobRecord, tasks: list[TaskRecord]) -> bool:
        """Room for suspended tasks, which can go on only where they are: node by node. Of a job
        that has others to place as well, these come first, and it waits until they find room."""
        here = Counter(self._rows.get(task.node, -1) for task in tasks if task.is_suspended)
        if -1 in here or here.total() < len(tasks):
            return False
        request, free = np.array(given_away(job.request), dtype=np.int64), self.round_.rows.free
        lower, victims = self._find_lower(job), list[int]()
        for row, count in sorted(here.items()):
            room = np.full_like(free, UNUSABLE)
            room[row] = free[row]
            np.add.at(room, self._held.row[victims], self._held.amounts[victims])
            missing = count - count_fits(room[row], request, count)
            order = np.setdiff1d(lower, victims)
            looked_at = choose_victims(room, request, missing, self._held, order, count)
            if missing > 0 and not looked_at:
                return False
            victims += [int(k) for k in order[:looked_at] if k != SPARED and missing > 0]
        return bool(victims) and self._keep(job, tasks, tuple(victims))

    def _make_room(self, job: JobRecord, tasks: list[TaskRecord]) -> bool:
        # One that may start in parts and has no rules about others stands for all of its kind.
        is_alike = is_simple(job) and not self._is_whole(job)
        kind = (job.request, job.constraints, job.spec.priority) if is_alike else job.name
        is_awaited = job.name in self._awaited
        if not is_awaited and (kind in self._infeasible or not self._find_lower(job).size):
            return False
        request = np.array(job.request, dtype=np.int64)
        row_max = 1 if is_alone(job) else len(tasks)
        room = self.round_.rows.free + self.coming
        room[~self.round_.allowed(job)] = UNUSABLE
        fits = count_all_fits(room, request, row_max)
        if fits >= len(tasks):
            # Others end already, for this job or for reasons of their own.
            return is_awaited and self._keep(job, tasks, ())
        victims = self._choose(job, len(tasks) - fits, room, request, row_max)
        if victims and self._keep(job, tasks[: self._reach], victims):
            return True
        self._infeasible.add(kind)
        return is_awaited and not self._is_whole(job) and self._keep(job, tasks[:fits], ())

    def _is_whole(self, job: JobRecord) -> bool:
        return (self.whole and not job.spec.array) or job.spec.gang

    def _find_lower(self, job: JobRecord) -> Amounts:
        """The entries of what has a lower priority, and does not make way yet."""
        # They are sorted by priority.
        count = int(np.searchsorted(self._priority, job.spec.priority, side="left"))
        lower = [k for k in range(count) if k not in self._gone]
        # What ends together with a run that is planned but not there yet is decided on when it is.
        here = [k for k in lower if self._running[k][0].name not in self.round_.planned]
        self.round_.again |= len(here) < len(lower)
        return np.array(here, dtype=np.int64)

    def _choose(
        self, job: JobRecord, missing: int, room: Amounts, request: Amounts, row_max: int
    ) -> tuple[int, ...]:
        """Entries of who makes way: so that all tasks fit, or as many as can where a job may start
        in parts."""
        order = self._find_lower(job)
        if not self._is_whole(job):
            most = room.copy()
            np.add.at(most, self._held.row[order], self._held.amounts[order])
            before = count_all_fits(room, request, row_max)
            missing = min(missing, count_all_fits(most, request, row_max) - before)
            if missing <= 0:
                return ()
        looked_at = choose_victims(room, request, missing, self._held, order, row_max)
        self._reach = count_all_fits(room, request, row_max)
        return tuple(int(k) for k in order[:looked_at] if k != SPARED)

    def _keep(self, job: JobRecord, tasks: list[TaskRecord], victims: tuple[int, ...]) -> bool:
        """Keep the room where tasks would go if these ended, unless they would not go there."""
        rows, coming = self.round_.rows, self.coming.copy()
        entries = np.array(victims, dtype=np.int64)
        np.add.at(coming, self._held.row[entries], self._held.amounts[entries])
        trial = self.round_.twin(rows.free + coming)
        placements = trial.place(job, tasks, whole=self._is_whole(job))
        if not tasks or len(placements) < len(tasks):
            return False
        self._gone |= set(victims)
        made_way = [(*self._running[k], PREEMPTED + job.name) for k in victims]
        if self.suspends and victims:
            # Their room is there at once, for the job and for nobody else; they are back in the
            # queue when it is looked at again.
            np.add.at(rows.free, self._held.row[entries], self._held.amounts[entries])
            self.round_.pauses += made_way
            self.round_.again = True
            return True
        later = trial.rows.free
        rows.free[:] = np.minimum(rows.free, later)
        self.coming = later - rows.free
        self.round_.present, self.round_.ports = trial.present, trial.ports
        self._awaited.add(job.name)
        self.round_.stops += made_way
        return True


def _goes_first(unit: list[RunningTask]) -> tuple[float, ...]:
    """Of two units: the lower priority, what started or went on later, what was submitted later."""
    job, task = unit[0]
    since_s = max(max(task.placed_s, task.resumed_s) for _, task in unit)
    return job.spec.priority, -since_s, -job.serial, -task.index


def is_alone(job: JobRecord) -> bool:
    """Whether no node can have two of its tasks."""
    return job.name in job.spec.anti_affinity or any(job.spec.ports)
