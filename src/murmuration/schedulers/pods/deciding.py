"""Asking the policy where pods go."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from murmuration.base.arrays import Flags
from murmuration.base.errors import InputError
from murmuration.placement.decide import decide
from murmuration.placement.registry import Placement
from murmuration.placement.view import JobView, View
from murmuration.schedulers.pods.cluster import PodCluster
from murmuration.schedulers.pods.promises import Promises
from murmuration.schedulers.pods.queue import WaitingPod


@dataclass
class Decider:
    """A policy, and the cluster it is asked about."""

    cluster: PodCluster
    placement: Placement
    rng: np.random.Generator
    #: Whether what pods would rather have is weighed before the policy chooses.
    preferences: bool = True
    promises: Promises = field(default_factory=Promises)

    def decide(self, job: list[WaitingPod], now: float) -> list[str]:
        """The nodes the policy chooses for the first pods of a job; they count there at once.

        Preferences come before the policy: it is shown the nodes the pods like best of those with
        room, and for those that find none there the next best."""
        key = job[0].info.key
        view, asked = self.view(job[0], now), self.job_view(job)
        nodes: list[str] = []
        for allowed in self._tiers(key, view, asked):
            left = replace(asked, tasks=asked.tasks - len(nodes))
            nodes += self._ask(replace(view, allowed=allowed), left)
            if len(nodes) == asked.tasks:
                break
        for pod, node in zip(job, nodes, strict=False):
            self.cluster.assume(pod.info.key, node)
        return nodes

    def _tiers(self, key: str, view: View, job: JobView) -> Iterator[Flags]:
        """The nodes with room for a pod, those that it likes alike together, the best first."""
        feasible = view.feasible(job.request)
        penalty = self.cluster.penalty(key) if self.preferences else None
        if penalty is None:
            if feasible.any():
                yield view.allowed
            return
        for value in np.unique(penalty[feasible]):
            yield view.allowed & (penalty == value)

    def _ask(self, view: View, job: JobView) -> list[str]:
        """The nodes the policy chooses of those that it is shown."""
        rows = decide(self.placement, view, job, self.rng)
        used, counts = np.unique(rows, return_counts=True)
        over = (counts[:, None] * job.request > view.free[used]).any(axis=1)
        if over.any():
            node = view.names[used[int(over.argmax())]]
            raise InputError(f"{self.placement.name}: job {job.id}: node {node} has no room for it")
        return [view.names[row] for row in rows.tolist()]

    def view(self, pod: WaitingPod, now: float) -> View:
        """The nodes as they are for a pod, without those where room is being made for another."""
        view = self.cluster.view(pod.info.key, now)
        # Its own room is on a node that is closed to pods of lower priority alone.
        promised = self.promises.nodes_closed_to(pod.info.priority)
        if promised:
            view = replace(view, allowed=view.allowed & ~self.cluster.mask(promised))
        return view

    def job_view(self, job: list[WaitingPod]) -> JobView:
        info = job[0].info
        return JobView(
            id=info.key if len(job) == 1 else info.service,
            workload=info.key.partition("/")[0],
            tasks=len(job),
            request=self.cluster.request(info.key),
            duration_s=math.nan,
            priority=info.priority,
            gang=bool(info.gang),
            production=info.production,
            attempt=job[0].attempts + 1,
        )
