"""Writes ledgers: claims on one node that come together are one write, and our own writes in a row
are no conflict with each other."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from murmuration.kubernetes.api.client import LEASES, ApiError, KubeClient
from murmuration.kubernetes.scheduling.shared.ledgers import (
    NodeClaim,
    ledger_name,
    ledger_thing,
)
from murmuration.schedulers.pods.messages import BindPod


class ConflictError(Exception):
    """Another scheduler has written the ledger since the decision."""


@dataclass
class Written:
    """A version of a ledger: one that a decision rested on, or one that we wrote after it."""

    version: str
    #: What we added in it.
    claims: tuple[NodeClaim, ...] = ()


@dataclass
class NodeQueue:
    """The claims on one node that wait to be written."""

    waiting: list[tuple[BindPod, asyncio.Future[None]]] = field(default_factory=list)
    #: Versions in a row of which all but the first are ours.
    chain: list[Written] = field(default_factory=list)
    work: asyncio.Task[None] | None = None


@dataclass
class LedgerWriter:
    """Takes claims to the ledgers of nodes."""

    client: KubeClient
    scheduler: str
    space: str
    me: str
    request_s: float
    _queues: dict[str, NodeQueue] = field(default_factory=dict)

    async def commit(self, act: BindPod) -> None:
        """Write a claim; raises `ConflictError` if the decision is out of date, and what the API
        says otherwise. If the answer is lost nothing is bound: a claim that was written after all
        is counted by others until the pod is bound elsewhere."""
        queue = self._queues.setdefault(act.node, NodeQueue())
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.waiting.append((act, future))
        if queue.work is None or queue.work.done():
            queue.work = asyncio.get_running_loop().create_task(self._drain(act.node, queue))
        await future

    def close(self) -> None:
        for queue in self._queues.values():
            if queue.work is not None:
                queue.work.cancel()

    async def _drain(self, node: str, queue: NodeQueue) -> None:
        while queue.waiting:
            batch, queue.waiting = queue.waiting, []
            error: Exception | None = None
            try:
                await self._write(node, queue, [act for act, _ in batch])
            except ApiError as failure:
                error = ConflictError() if failure.status in (404, 409) else failure
            except Exception as failure:
                error = failure
            if error is not None:
                # Nobody knows which version it has now: the watch will tell.
                queue.chain = []
            for _, future in batch:
                if future.cancelled():
                    continue
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)

    async def _write(self, node: str, queue: NodeQueue, acts: list[BindPod]) -> None:
        """One write for all: on the version the last decision rests on, or what we wrote since."""
        commit = acts[-1].commit
        assert commit is not None
        if any(act.commit is None or act.commit.version != commit.version for act in acts):
            self._check_in_row(queue, acts)
        known = [k for k, each in enumerate(queue.chain) if each.version == commit.version]
        queue.chain = queue.chain[known[0] :] if known else [Written(commit.version)]
        ours = [claim for each in queue.chain[1:] for claim in each.claims]
        new = tuple(NodeClaim(act.pod, act.uid, self.me) for act in acts)
        claims = dict.fromkeys([*(NodeClaim(*kept) for kept in commit.keep), *ours, *new])
        version = await self._send(node, queue.chain[-1].version, tuple(claims))
        queue.chain.append(Written(version, new))

    def _check_in_row(self, queue: NodeQueue, acts: list[BindPod]) -> None:
        """Decisions on several versions are one write only if we made all versions between."""
        ours = {each.version for each in queue.chain}
        if any(act.commit is None or act.commit.version not in ours for act in acts):
            raise ConflictError

    async def _send(self, node: str, version: str, claims: tuple[NodeClaim, ...]) -> str:
        thing = dict(ledger_thing(self.scheduler, node, self.me, claims))
        if version:
            thing["metadata"] = {**thing["metadata"], "resourceVersion": version}
            path = LEASES.path(self.space, ledger_name(self.scheduler, node))
            written = await self.client.replace(path, thing, self.request_s)
        else:
            written = await self.client.create(LEASES.path(self.space), thing, self.request_s)
        return str(written["metadata"]["resourceVersion"])
