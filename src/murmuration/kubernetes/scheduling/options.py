"""What a scheduler of pods was asked to do, and the agent that does it.

A recording keeps these options beside what the scheduler was told, so that the very same agent can
be made again.
"""

from __future__ import annotations

import msgspec
import numpy as np

from murmuration.kubernetes.api.client import BUDGETS, LEASES
from murmuration.kubernetes.scheduling.cluster import LiveCluster
from murmuration.kubernetes.scheduling.hands import HandSettings
from murmuration.kubernetes.scheduling.serving import KINDS
from murmuration.kubernetes.scheduling.shared.sharing import Sharing
from murmuration.placement.compiled import with_compiled_score
from murmuration.placement.registry import resolve
from murmuration.schedulers.genetic.settings import GeneticSettings
from murmuration.schedulers.pods.agent import PodScheduler, PodSettings
from murmuration.schedulers.pods.batches import PodBatches
from murmuration.schedulers.pods.gangs import RELEASE_S
from murmuration.schedulers.pods.leadership import AlwaysLeads, Leadership
from murmuration.schedulers.pods.members import Members

MONOLITHIC, SHARED_STATE, GENETIC = "monolithic", "shared-state", "genetic"
ARCHITECTURES = (MONOLITHIC, SHARED_STATE, GENETIC)


class SchedulerOptions(msgspec.Struct, frozen=True):
    """How a scheduler of pods works, as a person says it."""

    #: The schedulerName of the pods it schedules.
    name: str = "murmuration"
    placement: str = "least-allocated"
    seed: int = 1
    preempt: bool = False
    preferences: bool = True
    gang_release_s: float = RELEASE_S
    #: Whether it takes part in the election of a leader, and who it is there.
    elect: bool = True
    identity: str = "murmuration"
    #: How long a lease lasts. A leader stops after two thirds of it if it cannot renew it, and its
    #: requests are given up after the last third.
    lease_s: float = 15.0
    #: monolithic: one decides. shared-state: all do, each on its share of the pods. genetic: one
    #: decides, on batches of pods.
    architecture: str = MONOLITHIC
    batch_s: float = 1.0
    #: Who this very process is in ledgers.
    claimant: str = ""

    @property
    def is_shared(self) -> bool:
        return self.architecture == SHARED_STATE

    def make_hands(self, lease_space: str) -> HandSettings:
        lease = f"{self.name}.scheduler.{self.identity}" if self.is_shared else self.name
        return HandSettings(
            self.name,
            self.identity,
            lease if self.elect else "",
            lease_space,
            lease_s=self.lease_s,
            request_s=self.lease_s / 3.0,
            claimant=self.claimant if self.is_shared else "",
        )

    def make_agent(self, cluster: LiveCluster | None = None) -> PodScheduler:
        followed = (*KINDS, BUDGETS, *((LEASES,) if self.is_shared else ()))
        kinds = frozenset(kind.name for kind in followed)
        if cluster is None:
            sharing = Sharing(self.claimant) if self.is_shared else None
            cluster = LiveCluster(self.name, sharing=sharing)
        members = Members(self.identity, self.lease_s) if self.is_shared else Members()
        return PodScheduler(
            cluster,
            with_compiled_score(resolve(self.placement)),
            np.random.default_rng(self.seed),
            self._leadership() if self.elect else AlwaysLeads(),
            PodSettings(kinds, self.preempt, self.preferences, self.gang_release_s),
            members,
            self._batches(),
        )

    def _batches(self) -> PodBatches | None:
        if self.architecture != GENETIC:
            return None
        return PodBatches(GeneticSettings(batch_s=self.batch_s, move=False), self.seed)

    def _leadership(self) -> Leadership:
        lasts = self.lease_s
        return Leadership(self.identity, lasts, renew_s=2 * lasts / 3, retry_s=2 * lasts / 15)
