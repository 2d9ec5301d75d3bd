"""Carrying out a plan on a live cluster, beside the scheduler that puts pods where it says.

For each move: is the pod where the plan says, and would its node take it now? Then evict it (its
budget may make us wait), wait for the pod its owner makes in its place, which the scheduler is told
to put on the planned node, wait until the old one is gone and the new one ready. Moves of one wave
go side by side, waves one after the other. Whatever stops this, pods that were evicted are
scheduled as usual: the cluster is whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import msgspec

from murmuration.kubernetes.api.client import PODS, ApiError, KubeClient
from murmuration.kubernetes.api.http import UnreachableError
from murmuration.kubernetes.applying.moves import JournalLine, MoveJournal, PlannedMove
from murmuration.kubernetes.making import is_made_by, maker_of_new
from murmuration.kubernetes.objects import Object, controller_of
from murmuration.kubernetes.scheduling import words
from murmuration.kubernetes.scheduling.cluster import LiveCluster
from murmuration.kubernetes.scheduling.records import PodRecord
from murmuration.kubernetes.scheduling.words import split_key

LOOK_S = 0.1
AGAIN_S = 1.0
#: A successor that its node refuses for this long is let go anywhere.
STUCK_S = 20.0


class ChangedError(Exception):
    """The cluster is not what the plan assumed for a move."""


@dataclass(frozen=True)
class ApplySettings:
    """How patient we are, and how evictions are written."""

    #: A move that has not arrived by then is given up.
    move_s: float = 600.0
    eviction_version: str = "v1"
    say: Callable[[str], None] = print
    #: Whether we may schedule now: only then is anybody sent away.
    leads: Callable[[], bool] = lambda: True


@dataclass
class PlanRun:
    """The moves of one plan under way."""

    client: KubeClient
    cluster: LiveCluster
    moves: list[PlannedMove]
    journal: MoveJournal
    settings: ApplySettings
    stop: asyncio.Event
    _by_step: dict[int, PlannedMove] = field(init=False)
    #: Pods that steps which were stopped go on with.
    _taken: set[str] = field(default_factory=set)
    #: Steps that had begun when an earlier run was stopped, and the pod each goes on with.
    _resumed: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.take(self.moves)

    def take(self, moves: list[PlannedMove]) -> None:
        """These are the moves from now on."""
        self.moves, self._taken = moves, set()
        self._by_step = {move.step: move for move in moves}

    async def run(self) -> list[str]:
        """Make the moves that are left; what was not made, and why."""
        left = [move for move in self.moves if move.step not in self.journal.ended()]
        self._resumed = self._find_resumed()
        problems: list[str] = []
        for _, wave in groupby(left, key=lambda move: move.wave):
            if self.stop.is_set() or problems:
                break
            results = await asyncio.gather(*(self._try(move) for move in wave))
            problems += [problem for problem in results if problem]
        return problems

    async def _try(self, move: PlannedMove) -> str:
        say = self.settings.say
        try:
            async with asyncio.timeout(self.settings.move_s):
                pod = await self._make(move)
        except ChangedError as error:
            return f"step {move.step}: {error}"
        except TimeoutError:
            self.cluster.stop_expecting(str(move.step))
            return f"step {move.step}: {move.task} did not arrive on {move.to} in time"
        self.journal.add(JournalLine(move.step, "done", pod))
        say(f"step {move.step}: {move.task} is on {move.to}" + (f" as {pod}" * (pod != move.task)))
        return ""

    async def _make(self, move: PlannedMove) -> str:
        """Make one move; the pod that stands for the task then."""
        key = self.journal.successor(move.task, self._by_step)
        began, record = self.journal.began(move.step), self.cluster.records.get(key)
        if began is not None and self._has_gone(began):
            # It was evicted before we were stopped: go on with whoever has come in its place.
            key = self._resumed.get(move.step, "")
            if key not in self.cluster.records:
                return await self._arrive(move, began.owner)
            record = self.cluster.records[key]
            if not record.node:
                self.cluster.expect(str(move.step), move.to, pod=key)
                return await self._ready(key, move)
            move = msgspec.structs.replace(move, origin=record.node)
        if record is None and move.kind == "place":
            return await self._await_new(move)
        if record is None:
            raise ChangedError(f"{key} is gone")
        if record.node == move.to and not record.leaving:
            return await self._ready(key, move)
        await self._check_patiently(move, key, record)
        if move.kind == "place":
            self.cluster.expect(str(move.step), move.to, pod=key)
            return await self._ready(key, move)
        return await self._replace(move, key, record)

    async def _replace(self, move: PlannedMove, key: str, record: PodRecord) -> str:
        """Evict a pod, and see its successor arrive."""
        owner = owner_uid(record.thing)
        siblings = [other.uid for other in self._pods_of(owner).values()]
        line = JournalLine(move.step, "began", key, record.uid, owner, siblings)
        self.journal.add(line)
        self.cluster.expect(str(move.step), move.to, owner=owner)
        await self._evict(move, key, record.uid)
        arrived = await self._arrive(move, owner)
        # The next wave may need the room of who has left.
        while (left := self.cluster.records.get(key)) is not None and left.uid == record.uid:
            await asyncio.sleep(LOOK_S)
        return arrived

    def _pods_of(self, owner: str) -> dict[str, PodRecord]:
        return {
            key: record
            for key, record in self.cluster.records.items()
            if (controller_of(record.thing) or {}).get("uid") == owner
        }

    def _has_gone(self, began: JournalLine) -> bool:
        record = self.cluster.records.get(began.pod)
        return record is None or record.uid != began.uid or record.leaving

    def _find_resumed(self) -> dict[int, str]:
        """For steps that had begun, and whose pod has gone, one of its owner that was not there
        when they began. A step that began later saw more pods, successors of earlier ones among
        them, so fewer are left to it: it chooses first, and then all find one."""
        lines = [self.journal.began(step) for step in self._by_step]
        begun = [line for line in lines if line is not None and self._has_gone(line)]
        resumed = {}
        for line in sorted(begun, key=self.journal.lines.index, reverse=True):
            fresh = [
                (key, record)
                for key, record in self._pods_of(line.owner).items()
                if record.uid not in line.siblings
            ]
            resumed[line.step] = self._take_first(fresh, self._by_step[line.step].to)
        return {step: key for step, key in resumed.items() if key}

    def _take_first(self, pods: Sequence[tuple[str, PodRecord]], to: str) -> str:
        """The best of some pods to go on with that no other step has: one on the planned node, one
        without a node, or any."""
        done = {line.pod for line in self.journal.lines if line.what == "done"} | self._taken
        rank = {to: 0, "": 1}
        ranked = [
            (rank.get(record.node, 2), key)
            for key, record in pods
            if key not in done and not record.leaving
        ]
        if not ranked:
            return ""
        key = min(ranked)[1]
        self._taken.add(key)
        return key

    async def _await_new(self, move: PlannedMove) -> str:
        """Wait for a pod that was not there when it was planned: somebody applies its manifest."""
        maker, step = maker_of_new(move.task), str(move.step)
        made = [(k, r) for k, r in self.cluster.records.items() if is_made_by(r.thing, maker)]
        key = self._take_first(made, move.to)
        if key and self.cluster.records[key].node:
            return await self._ready(key, move)
        if not key:
            self.settings.say(f"step {step}: waiting for {move.task}: apply its manifest now")
        self.cluster.expect(step, move.to, pod=key or move.task, maker="" if key else maker)
        while not (key := self.cluster.expected_pod(step)):
            await asyncio.sleep(LOOK_S)
        return await self._ready(key, move)

    async def _check_patiently(self, move: PlannedMove, key: str, record: PodRecord) -> None:
        """Check a move; while pods are leaving its node, what is wrong may pass."""
        for _ in range(int(STUCK_S / LOOK_S)):
            try:
                return self.check(move, key, record)
            except ChangedError:
                others = self.cluster.records.values()
                if not any(other.leaving and other.node == move.to for other in others):
                    raise
            await asyncio.sleep(LOOK_S)
        self.check(move, key, record)

    def check(self, move: PlannedMove, key: str, record: PodRecord) -> None:
        """Whether the cluster is what the plan assumed for this move."""
        if record.node != (move.origin or ""):
            where = f"lies on {record.node}" if record.node else "has no node"
            raise ChangedError(f"{key} {where}, the plan says {move.origin or 'none'}")
        if record.leaving:
            raise ChangedError(f"{key} is being deleted")
        reason = self.cluster.why_not(key, move.to)
        if reason:
            raise ChangedError(f"{move.to} would not take {key} now: {reason}")

    async def _evict(self, move: PlannedMove, key: str, uid: str) -> None:
        space, name = split_key(key)
        thing = words.eviction(key, uid, self.settings.eviction_version)
        told = ""
        while not self.settings.leads():
            await self._pause(LOOK_S)
        while True:
            try:
                await self.client.create(PODS.path(space, name, "eviction"), thing)
                return
            except ApiError as error:
                if error.status == 404 or error.status == 409:
                    return  # It has gone by itself; its successor is awaited all the same.
                if error.status != 429 and error.status < 500:
                    raise
                if error.sentence != told:
                    told = error.sentence
                    self.settings.say(f"step {move.step}: {key}: waiting: {told}")
                await self._pause(error.retry_s or AGAIN_S)
            except UnreachableError:
                await self._pause(AGAIN_S)

    async def _pause(self, seconds: float) -> None:
        """Wait, unless we are to stop: nothing has happened to this pod yet."""
        if self.stop.is_set():
            raise ChangedError("stopped before it was evicted")
        await asyncio.sleep(seconds)

    async def _arrive(self, move: PlannedMove, owner: str) -> str:
        """Wait for the successor on the planned node, until it is ready."""
        step = str(move.step)
        if step not in self.cluster.expectations:
            self.cluster.expect(step, move.to, owner=owner)
        while not (key := self.cluster.expected_pod(step) or self._find_bound(move, owner)):
            await asyncio.sleep(LOOK_S)
        return await self._ready(key, move, owner)

    def _find_bound(self, move: PlannedMove, owner: str) -> str:
        """A successor that has a node although nobody here has seen it wait: while the server did
        not answer us our lease ended, and another scheduler bound it. It meets no expectation, so
        it is looked for; empty if there is none."""
        began = self.journal.began(move.step)
        if began is None:
            return ""
        met = {expectation.pod for expectation in self.cluster.expectations.values()}
        fresh = [
            (key, record)
            for key, record in self._pods_of(owner).items()
            if record.node
            and not record.assumed
            and record.uid not in began.siblings
            and key not in met
        ]
        if key := self._take_first(fresh, move.to):
            self.cluster.stop_expecting(str(move.step))
        return key

    async def _ready(self, key: str, move: PlannedMove, owner: str = "") -> str:
        """Wait until a pod is ready on the planned node. If it dies on the way, its successor is
        awaited; if the node does not take it any more, it may go anywhere."""
        stuck = 0.0
        while True:
            record = self.cluster.records.get(key)
            if record is None and owner:
                self.cluster.stop_expecting(str(move.step))
                return await self._arrive(move, owner)
            if record is None:
                raise ChangedError(f"{key} is gone")
            if record.node and not record.assumed:
                if record.node != move.to:
                    raise ChangedError(f"{key} went to {record.node} instead of {move.to}")
                if is_ready(record.thing):
                    return key
            reason = "" if record.node else self.cluster.why_not(key, move.to)
            stuck = stuck + LOOK_S if reason else 0.0
            if stuck > STUCK_S:
                self.cluster.stop_expecting(str(move.step))
                raise ChangedError(f"{move.to} does not take {key} any more: {reason}")
            await asyncio.sleep(LOOK_S)


def owner_uid(pod: Object) -> str:
    """The identity of the controller that would make a pod again."""
    owner = controller_of(pod)
    if owner is None:
        raise ChangedError("nothing would make it again")
    return str(owner.get("uid"))


def is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
