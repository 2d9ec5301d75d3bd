"""A scheduler at work: what the API shows goes to the agent, what it answers goes to the hands."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from murmuration.kubernetes.api.client import (
    CLAIMS,
    CLASSES,
    CSI_NODES,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    VOLUMES,
    ApiError,
    Kind,
    KubeClient,
    Listed,
)
from murmuration.kubernetes.api.follow import DELETED, Change, Follower
from murmuration.kubernetes.api.http import UnreachableError
from murmuration.kubernetes.api.snapshot import budgets_of, group_kinds_of
from murmuration.kubernetes.scheduling import words
from murmuration.kubernetes.scheduling.hands import Hands, HandSettings
from murmuration.kubernetes.scheduling.shared.following import LedgersFirst
from murmuration.kubernetes.scheduling.shared.ledgers import SCHEDULER
from murmuration.schedulers.agent import Agent, Do, Message, Send
from murmuration.schedulers.pods.agent import PodScheduler
from murmuration.schedulers.pods.messages import ThingLost, ThingSeen, ThingsListed

#: What decides where pods may go; all of it must be known before the first decision.
KINDS = (NODES, PODS, NAMESPACES, CLAIMS, VOLUMES, CLASSES, CSI_NODES)

log = logging.getLogger("murmuration.kubernetes")


class AgentDriver(Protocol):
    """What runs an agent in real time (`runtime/drive.py`)."""

    def tell(self, event: Message) -> None: ...

    def start(self, *events: Message) -> None: ...

    async def run(self) -> None: ...

    def close(self) -> None: ...


CarryOut = Callable[[Send | Do], None]
MakeDriver = Callable[[Agent, Callable[[], float], CarryOut], AgentDriver]


@dataclass
class Serving:
    """One scheduler of one cluster, from its start to its end."""

    client: KubeClient
    agent: PodScheduler
    settings: HandSettings
    make_driver: MakeDriver
    clock: Callable[[], float] = time.monotonic
    #: Called when the agent has been told everything there is.
    on_ready: Callable[[], None] = lambda: None

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until told to stop; raises what will not go away by itself."""
        budgets = await budgets_of(self.client)
        settings = replace(self.settings, eviction_version=budgets.version)
        hands = Hands(self.client, settings, self._tell, self.clock)
        self._driver = self.make_driver(self.agent, self.clock, hands.carry_out)
        kinds: tuple[Kind, ...] = (*KINDS, budgets, *await group_kinds_of(self.client))
        self._unknown = {kind.name for kind in kinds}
        self._driver.start()
        works: list[Awaitable[object]] = []
        if settings.claimant:
            # Leases first, then pods: see `shared/ledgers.py`.
            leases = replace(
                LEASES, inside=settings.lease_space, selector=f"{SCHEDULER}={settings.name}"
            )
            self._unknown.add(leases.name)
            order = LedgersFirst(self.client, leases, self._on_list, self._on_changes)
            kinds = tuple(kind for kind in kinds if kind.name != PODS.name)
            works.append(order.run())
        works += [
            Follower(self.client, kind, self._on_list, self._on_changes).run() for kind in kinds
        ]
        works += [self._driver.run(), stop.wait(), hands.failure]
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._driver.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await hands.settle()
            await self._give_back(settings)

    def _tell(self, event: Message) -> None:
        self._driver.tell(event)

    def _on_list(self, kind: Kind, listed: Listed) -> None:
        self._tell(ThingsListed(kind.name, listed.items))
        if kind.name in self._unknown:
            self._unknown.discard(kind.name)
            if not self._unknown:
                self.on_ready()

    def _on_changes(self, kind: Kind, changes: list[Change]) -> None:
        for change in changes:
            lost = change.type == DELETED
            self._tell((ThingLost if lost else ThingSeen)(kind.name, change.thing))

    async def _give_back(self, settings: HandSettings) -> None:
        """Whoever waits for the lease need not wait until it runs out."""
        leadership = self.agent.leadership
        if not settings.lease or not leadership.leads(self.clock()):
            return
        if settings.claimant:
            await self._leave(settings)
            return
        thing = words.lease(
            settings.lease, settings.lease_space, "", leadership.epoch, 1.0, time.time()
        )
        metadata = thing["metadata"]
        assert isinstance(metadata, dict)
        metadata["resourceVersion"] = leadership.version
        try:
            path = LEASES.path(settings.lease_space, settings.lease)
            await self.client.replace(path, thing, settings.request_s)
        except (ApiError, UnreachableError) as error:
            log.info("the lease could not be given back: %s", error)

    async def _leave(self, settings: HandSettings) -> None:
        """Those we share the cluster with take our pods at once."""
        try:
            await self.client.delete(LEASES.path(settings.lease_space, settings.lease))
        except (ApiError, UnreachableError) as error:
            log.info("our lease could not be removed: %s", error)
