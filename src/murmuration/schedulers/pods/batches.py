"""Pods that wait are gathered for a while and placed as a whole, by the very batches that the
genetic architecture places in a simulation (`schedulers/genetic/batch_round`).

A batch sees rows, amounts and which rows each job may use; it does not know rules between pods. So
pods that such rules concern, or that would rather be somewhere, are left to be decided on alone.
Nothing that runs is moved: on Kubernetes that is a plan's business.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from murmuration.base.arrays import Amounts, Flags, Indices, Records
from murmuration.placement.decide import decide
from murmuration.placement.view import View
from murmuration.schedulers.admission import WAITING
from murmuration.schedulers.genetic.batch_round import Batch, Place
from murmuration.schedulers.genetic.settings import GeneticSettings
from murmuration.schedulers.genetic.steps import STEP, BatchTable
from murmuration.schedulers.pods.deciding import Decider
from murmuration.schedulers.pods.gangs import Gangs
from murmuration.schedulers.pods.queue import WaitingPod

JOB = np.dtype([("mask", "i8"), ("left", "i8"), ("gang", "?"), ("status", "i8")])
TASK = np.dtype([("job", "i8"), ("source", "i8")])
SLOT, STATE = np.dtype([("node", "i8")]), np.dtype([("slots_high", "i8")])


@dataclass
class BatchJob:
    """Pods that are alike: tasks of one job."""

    pods: list[WaitingPod]
    gang: bool = False


@dataclass
class PodBatches:
    """Windows of time, and what becomes of the pods in each."""

    settings: GeneticSettings
    seed: int = 1
    #: Batches so far: each has a seed of its own.
    count: int = 0
    #: When the batch ends that pods wait for; infinity while nobody does.
    ends_s: float = math.inf

    def wait(self, somebody: bool, now: float) -> None:
        """Whether somebody is in line now: a batch ends at the next multiple of its length."""
        if not somebody:
            self.ends_s = math.inf
        elif self.ends_s == math.inf:
            length = self.settings.batch_s
            self.ends_s = (math.floor(now / length) + 1.0) * length

    def gather(
        self, decider: Decider, gangs: Gangs, pods: Sequence[WaitingPod]
    ) -> tuple[list[BatchJob], list[WaitingPod]]:
        """The jobs of a batch, in the order of their first pods, and the pods that are not for
        it."""
        jobs: dict[Hashable, BatchJob] = {}
        alone: list[WaitingPod] = []
        for pod in pods:
            info, shape = pod.info, _shape(decider, pod)
            if shape is None:
                alone.append(pod)
            elif info.gang:
                jobs.setdefault((info.gang, shape), BatchJob([], True)).pods.append(pod)
            else:
                key = (info.service, info.priority, shape)
                jobs.setdefault(key, BatchJob([])).pods.append(pod)
        whole = []
        for job in jobs.values():
            if job.gang and not _is_whole(gangs, job):
                alone += job.pods
            else:
                whole.append(job)
        return whole, alone

    def decide(self, decider: Decider, jobs: Sequence[BatchJob], now: float) -> list[list[str]]:
        """The nodes of the first pods of each job."""
        if not jobs:
            return []
        views = [decider.view(job.pods[0], now) for job in jobs]
        table = _table_of(decider, jobs, views)
        batch = Batch(
            table=table,
            settings=self.settings,
            jobs=np.arange(len(jobs), dtype=np.int32),
            steps=np.zeros(0, STEP),
            place=_place_with(decider, jobs, views),
            seed=(self.seed << 32) + self.count,
        )
        self.count += 1
        batch.begin()
        return [[views[0].names[row] for row in rows.tolist()] for rows in batch.decide()]


def _shape(decider: Decider, pod: WaitingPod) -> Hashable | None:
    """What makes pods tasks of one job; None for one that is no matter for a batch."""
    key = pod.info.key
    if decider.cluster.blocked(key):
        return None
    if decider.preferences and decider.cluster.penalty(key) is not None:
        return None
    return decider.cluster.shape(key)


def _is_whole(gangs: Gangs, job: BatchJob) -> bool:
    """Whether a job is all that waits of a gang, and the gang is complete."""
    gang = gangs.gangs[job.pods[0].info.gang]
    return gang.is_complete() and len(gang.waiting) == len(job.pods)


def _table_of(decider: Decider, jobs: Sequence[BatchJob], views: Sequence[View]) -> BatchTable:
    """The cluster as a batch reads it. Replicas that run already are tasks of their job."""
    first, records = views[0], np.zeros(len(jobs), JOB)
    records["mask"] = np.arange(len(jobs))
    records["left"] = [len(job.pods) for job in jobs]
    records["gang"] = [job.gang for job in jobs]
    records["status"] = WAITING
    masks: Flags = np.array([view.allowed for view in views])
    request: Amounts = np.array([decider.cluster.request(job.pods[0].info.key) for job in jobs])
    tasks, slots = _running(decider, jobs, first)
    state = np.zeros(1, STATE)
    state["slots_high"] = len(tasks)
    return BatchTable(
        state=state,
        total=first.total,
        free=first.free,
        unreserved=first.free[:0],
        reserved_outgoing=np.zeros_like(first.total),
        masks=masks,
        jobs=records,
        request=request,
        tasks=tasks,
        slots=slots,
    )


def _running(decider: Decider, jobs: Sequence[BatchJob], view: View) -> tuple[Records, Records]:
    job_of = {job.pods[0].info.service: k for k, job in enumerate(jobs)}
    row_of = {name: row for row, name in enumerate(view.names)}
    pairs = [
        (job_of[service], row_of[node])
        for service, node in decider.cluster.replicas(job_of)
        if node in row_of
    ]
    tasks, slots = np.zeros(len(pairs), TASK), np.zeros(len(pairs), SLOT)
    tasks["job"], slots["node"] = [job for job, _ in pairs], [row for _, row in pairs]
    tasks["source"] = -1
    return tasks, slots


def _place_with(decider: Decider, jobs: Sequence[BatchJob], views: Sequence[View]) -> Place:
    """The scheduler's own policy as a batch calls it: what it chooses is taken from the room."""

    def place(room: Amounts, job: int, wanted: int) -> Indices:
        asked = decider.job_view(jobs[job].pods[:wanted])
        view = replace(views[job], free=room)
        if not view.feasible(asked.request).any():
            return np.zeros(0, np.int64)
        rows = decide(decider.placement, view, asked, decider.rng).astype(np.int64)
        np.subtract.at(room, rows, asked.request)
        return rows

    return place
