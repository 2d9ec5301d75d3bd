"""An observer of a cluster: it follows what decides where pods go, tells of pods that come, get a
node and leave, and records all of it if asked to. It writes nothing into the cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from murmuration.kubernetes.api.client import Kind, KubeClient, Listed
from murmuration.kubernetes.api.follow import DELETED, Change, Follower
from murmuration.kubernetes.api.snapshot import budgets_of, group_kinds_of
from murmuration.kubernetes.objects import Object, name_of
from murmuration.kubernetes.recording.log import ClusterRecorder
from murmuration.kubernetes.scheduling.serving import KINDS
from murmuration.kubernetes.snapshot import is_alive
from murmuration.schedulers.agent import Message
from murmuration.schedulers.pods.messages import ThingLost, ThingSeen, ThingsListed

POD = "Pod"


@dataclass
class Observer:
    """Follows a cluster. `say` gets a sentence for everything that happens to a pod."""

    client: KubeClient
    recorder: ClusterRecorder | None
    say: Callable[[str], None]
    on_ready: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    #: Where each pod was last seen: its identity, and its node, empty for none.
    _seen: dict[str, tuple[str, str]] = field(default_factory=dict)
    _unknown: set[str] = field(default_factory=set)

    async def run(self, stop: asyncio.Event) -> None:
        """Observe until told to stop; raises what will not go away by itself."""
        groups = await group_kinds_of(self.client)
        kinds = (*KINDS, await budgets_of(self.client), *groups)
        self._unknown = {kind.name for kind in kinds}
        followers = [Follower(self.client, k, self._on_list, self._on_changes) for k in kinds]
        works: list[Awaitable[object]] = [follower.run() for follower in followers]
        tasks = [asyncio.ensure_future(work) for work in (*works, stop.wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _on_list(self, kind: Kind, listed: Listed) -> None:
        self._record([ThingsListed(kind.name, listed.items)])
        if kind.name == POD:
            there = {name_of(thing) for thing in listed.items}
            for key in self._seen.keys() - there:
                self._lose(key)
            for thing in listed.items:
                self._see(thing)
        if kind.name in self._unknown:
            self._unknown.discard(kind.name)
            if not self._unknown:
                self.on_ready()

    def _on_changes(self, kind: Kind, changes: list[Change]) -> None:
        self._record(
            [
                (ThingLost if change.type == DELETED else ThingSeen)(kind.name, change.thing)
                for change in changes
            ]
        )
        for change in changes if kind.name == POD else ():
            if change.type == DELETED:
                self._lose(name_of(change.thing))
            else:
                self._see(change.thing)

    def _record(self, events: list[Message]) -> None:
        """What came together is of one moment."""
        if self.recorder is not None:
            now = self.clock()
            for event in events:
                self.recorder.add_event(event, now)
            self.recorder.write()

    def _see(self, thing: Object) -> None:
        key = name_of(thing)
        if not is_alive(thing):
            self._lose(key, "has ended")
            return
        seen = str(thing["metadata"].get("uid")), str(thing["spec"].get("nodeName") or "")
        before, self._seen[key] = self._seen.get(key), seen
        if before is not None and before[0] != seen[0]:
            before = None
        if seen[1] and seen != before:
            self.say(f"{key} is on {seen[1]}")
        elif before is None:
            self.say(f"{key} waits for {thing['spec'].get('schedulerName')}")

    def _lose(self, key: str, what: str = "is gone") -> None:
        if self._seen.pop(key, None) is not None:
            self.say(f"{key} {what}")
