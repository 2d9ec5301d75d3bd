"""Ledgers and pods are followed together: whenever ledgers were listed, which skips what happened
to them in between, pods are listed after that, and told first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from murmuration.kubernetes.api.client import PODS, Kind, KubeClient, Listed
from murmuration.kubernetes.api.follow import Change, Follower


@dataclass
class LedgersFirst:
    """Follows the leases of schedulers and pods."""

    client: KubeClient
    leases: Kind
    on_list: Callable[[Kind, Listed], None]
    on_changes: Callable[[Kind, list[Change]], None]
    #: What was heard of leases since they were listed and pods were not.
    _held: list[Callable[[], None]] = field(default_factory=list)
    _holding: bool = False
    _list_pods: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        leases = Follower(self.client, self.leases, self._on_leases, self._on_lease_changes)
        following = asyncio.ensure_future(leases.run())
        pods = asyncio.ensure_future(self._follow_pods())
        try:
            done, _ = await asyncio.wait({following, pods}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (following, pods):
                task.cancel()
            await asyncio.gather(following, pods, return_exceptions=True)

    async def _follow_pods(self) -> None:
        """Follow pods, from a list that is made after each list of leases."""
        while True:
            await self._list_pods.wait()
            self._list_pods.clear()
            pods = Follower(self.client, PODS, self._on_pods, self.on_changes)
            following = asyncio.ensure_future(pods.run())
            again = asyncio.ensure_future(self._list_pods.wait())
            try:
                await asyncio.wait({following, again}, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    following.result()
            finally:
                following.cancel()
                again.cancel()
                await asyncio.gather(following, again, return_exceptions=True)

    def _on_leases(self, kind: Kind, listed: Listed) -> None:
        self._held = [lambda: self.on_list(kind, listed)]
        self._holding = True
        self._list_pods.set()

    def _on_lease_changes(self, kind: Kind, changes: list[Change]) -> None:
        if self._holding:
            self._held.append(lambda: self.on_changes(kind, changes))
        else:
            self.on_changes(kind, changes)

    def _on_pods(self, kind: Kind, listed: Listed) -> None:
        # Leases that are listed while pods are would have set the event again.
        self.on_list(kind, listed)
        if not self._list_pods.is_set():
            held, self._held, self._holding = self._held, [], False
            for tell in held:
                tell()
