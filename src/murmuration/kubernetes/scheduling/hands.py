"""The hands of a scheduler: they carry out on the API what it decided, and tell what came of it.

**Three outcomes.** A request over a network can be carried out, refused, or neither for all anyone
knows: a time-out, a broken connection and every 5xx say nothing about whether the API server did
it. The third is told as `unknown` and never guessed at, because both guesses do harm. A pod counted
as not bound might be given a second node's room; one counted as bound might never run. The agent
keeps the room and asks (`LookAtPod`) until the API has said where the pod is. Refusals are final
for this attempt; 401 and 403 will not go away by trying, so they end the scheduler with a sentence
that a person can act on.

**Nothing leaves late.** Every binding has a time (`until`) up to which this scheduler surely leads.
It is looked at last, right before the request, since waiting for a volume or a ledger may have
taken longer than the lease; and a request is given up after `request_s`, which the lease allows
for. So a scheduler that was suspended in the middle wakes up to an act that is void.

**A ledger is claimed before the pod is bound** where several schedulers share a cluster. If the
claim may or may not have been written, the binding is refused all the same: a claim without a pod
costs room for a while, a pod without a claim would overbook a node.

**Events are for people.** They are written a few at a time, after everything that matters, and one
that is lost is no harm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from murmuration.kubernetes.api.client import (
    CLAIMS,
    EVENTS,
    LEASES,
    PODS,
    STRATEGIC,
    VOLUMES,
    ApiError,
    KubeClient,
)
from murmuration.kubernetes.api.http import UnreachableError
from murmuration.kubernetes.claims.volumes import SELECTED
from murmuration.kubernetes.scheduling import words
from murmuration.kubernetes.scheduling.shared.ledgers import MEMBER, ROLE, SCHEDULER
from murmuration.kubernetes.scheduling.shared.writer import ConflictError, LedgerWriter
from murmuration.kubernetes.scheduling.words import split_key
from murmuration.schedulers.agent import Do, Message, Send
from murmuration.schedulers.pods.messages import (
    AskForLease,
    BindingEnded,
    BindPod,
    EvictionEnded,
    EvictPod,
    LeaseSeen,
    LeaseWritten,
    LookAtPod,
    PodLooked,
    ReadLease,
    TellPending,
    TellScheduled,
    WriteLease,
)

#: How long a claim may take to get its volume before the pod tries again.
VOLUME_S = 60.0
#: How long after a refusal an eviction is tried again.
AGAIN_S = 1.0
#: How long a scheduler that ends waits for what it has asked for.
SETTLE_S = 10.0
#: Events written at once: bindings go first.
EVENTS_AT_ONCE = 4

log = logging.getLogger("murmuration.kubernetes")


@dataclass(frozen=True)
class HandSettings:
    """Where the lease is, what we call ourselves, and how long a request may take."""

    name: str = "murmuration"
    identity: str = "murmuration"
    lease: str = "murmuration"
    lease_space: str = "kube-system"
    lease_s: float = 15.0
    #: A request of a leader has ended this long after it was sent, one way or the other.
    request_s: float = 5.0
    eviction_version: str = "v1"
    #: Who we are in ledgers, where several schedulers share the cluster; empty where there are
    #: none. Then the lease is not to lead by, but to be known by.
    claimant: str = ""

    @property
    def lease_labels(self) -> dict[str, str]:
        return {SCHEDULER: self.name, ROLE: MEMBER} if self.claimant else {}


@dataclass
class Hands:
    """Carries out acts; `tell` is how the agent hears of their outcome."""

    client: KubeClient
    settings: HandSettings
    tell: Callable[[Message], None]
    clock: Callable[[], float] = time.monotonic
    #: A refusal that will not go away: whoever waits for it ends the scheduler.
    failure: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    _ledgers: LedgerWriter = field(init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _events: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(EVENTS_AT_ONCE))

    def __post_init__(self) -> None:
        settings = self.settings
        self._ledgers = LedgerWriter(
            self.client, settings.name, settings.lease_space, settings.claimant, settings.request_s
        )

    def carry_out(self, effect: Send | Do) -> None:
        assert isinstance(effect, Do), f"a scheduler of pods sends nothing: {effect}"
        task = asyncio.get_running_loop().create_task(self._guard(self._act(effect.act)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        self._ledgers.close()
        for task in self._tasks:
            task.cancel()

    async def settle(self) -> None:
        """Wait until what is under way has ended, and give up what takes too long."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=SETTLE_S)
        self.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _act(self, act: Message) -> Coroutine[None, None, None]:
        match act:
            case BindPod():
                return self._bind(act)
            case LookAtPod(pod, flight):
                return self._look(pod, flight)
            case TellScheduled(pod, uid, node):
                sentence = f"Successfully assigned {pod} to {node}"
                return self._write_event(pod, uid, ("Normal", "Scheduled", sentence))
            case TellPending():
                return self._tell_pending(act)
            case EvictPod():
                return self._evict(act)
            case ReadLease():
                return self._read_lease()
            case AskForLease():
                return self._ask_for_lease()
            case WriteLease():
                return self._write_lease(act)
        raise AssertionError(f"nobody can do {act.key}")

    async def _guard(self, work: Coroutine[None, None, None]) -> None:
        """Nothing an act raises is lost: it ends the scheduler, and a person reads it."""
        try:
            await work
        except Exception as error:
            if not self.failure.done():
                self.failure.set_exception(error)

    # Pods.

    async def _bind(self, act: BindPod) -> None:
        outcome, reason = "refused", ""
        try:
            if act.claims:
                await self._bind_claims(act)
            if act.commit is not None:
                await self._commit(act)
            if self.clock() >= act.until:
                reason = "it took too long: another may lead by now"
            else:
                await self._post_binding(act)
                outcome = "bound"
        except ConflictError:
            outcome, reason = "conflict", "another scheduler was there first"
        except ApiError as error:
            if error.status in (401, 403):
                raise
            # Of 5xx nobody knows whether it was carried out.
            outcome = "unknown" if error.status >= 500 else "refused"
            reason = error.sentence
        except (UnreachableError, TimeoutError) as error:
            outcome, reason = "unknown", str(error)
        if outcome != "bound":
            log.info("%s on %s: %s: %s", act.pod, act.node, outcome, reason)
        self.tell(BindingEnded(act.pod, act.uid, outcome, reason))

    async def _commit(self, act: BindPod) -> None:
        """Claim the node. Whatever becomes of that, nothing is bound by it."""
        try:
            await self._ledgers.commit(act)
        except (UnreachableError, TimeoutError) as error:
            raise ApiError(409, "Unknown", f"its node's ledger: {error}") from error
        except ApiError as error:
            if error.status < 500:
                raise
            raise ApiError(409, error.reason, error.sentence) from error

    async def _post_binding(self, act: BindPod) -> None:
        space, name = split_key(act.pod)
        by = f"{self.settings.identity}/{act.epoch}"
        thing = words.binding(act.pod, act.uid, act.node, by)
        path = PODS.path(space, name, "binding")
        await self.client.create(path, thing, self.settings.request_s)

    async def _bind_claims(self, act: BindPod) -> None:
        """Say where claims are wanted or which volumes they get, and wait until they have them."""
        space, _ = split_key(act.pod)
        change = {"metadata": {"annotations": {SELECTED: act.node}}}
        given = dict(act.volumes)
        for name in act.claims:
            if name in given:
                await self._give_volume(given[name], space, name)
            else:
                await self.client.patch(CLAIMS.path(space, name), change)
        async with asyncio.timeout(min(VOLUME_S, max(act.until - self.clock(), 0.0))):
            for name in act.claims:
                while True:
                    claim = await self.client.get(CLAIMS.path(space, name))
                    if (claim.get("status") or {}).get("phase") == "Bound":
                        break
                    await asyncio.sleep(0.2)

    async def _give_volume(self, volume: str, space: str, name: str) -> None:
        """Keep a volume for a claim, if nobody else has it yet; the cluster's own controller then
        binds them."""
        claim = await self.client.get(CLAIMS.path(space, name))
        path = VOLUMES.path(None, volume)
        thing = await self.client.get(path)
        owner = (thing.get("spec") or {}).get("claimRef") or {}
        if owner and owner.get("uid") != claim["metadata"]["uid"]:
            raise ApiError(409, "Conflict", f"volume {volume} was given to another claim")
        if not owner:
            await self.client.patch(path, words.claim_of_volume(thing, claim))

    async def _look(self, pod: str, flight: int) -> None:
        space, name = split_key(pod)
        try:
            thing = dict(await self.client.get(PODS.path(space, name)))
        except UnreachableError:
            return  # The agent asks again.
        except ApiError as error:
            if error.status == 404:
                self.tell(PodLooked(pod, flight, None))
            return
        self.tell(PodLooked(pod, flight, thing))

    async def _tell_pending(self, act: TellPending) -> None:
        space, name = split_key(act.pod)
        change = words.pending_condition(act.reason, act.sentence, time.time())
        try:
            await self.client.patch(PODS.path(space, name, "status"), change, STRATEGIC)
        except (ApiError, UnreachableError) as error:
            log.info("%s: its condition could not be written: %s", act.pod, error)
        told = ("Warning", "FailedScheduling", act.sentence)
        await self._write_event(act.pod, act.uid, told)

    async def _write_event(self, pod: str, uid: str, told: tuple[str, str, str]) -> None:
        """An event is for people: one that is lost is no harm."""
        thing = words.event(pod, uid, told, self.settings.name, time.time())
        try:
            async with self._events:
                await self.client.create(EVENTS.path(split_key(pod)[0]), thing)
        except (ApiError, UnreachableError) as error:
            log.info("%s: an event could not be written: %s", pod, error)

    async def _evict(self, act: EvictPod) -> None:
        """Evict; a budget that allows none now is asked again while we lead."""
        space, name = split_key(act.pod)
        thing = words.eviction(act.pod, act.uid, self.settings.eviction_version)
        outcome, reason = "refused", "it took too long"
        while self.clock() < act.until:
            try:
                await self.client.create(PODS.path(space, name, "eviction"), thing)
                outcome, reason = "gone", ""
                break
            except ApiError as error:
                outcome, reason = "gone" if error.status == 404 else "refused", error.sentence
                if error.status in (401, 403):
                    raise
                if error.status != 429 and error.status < 500:
                    break
                await asyncio.sleep(error.retry_s or AGAIN_S)
            except UnreachableError:
                await asyncio.sleep(AGAIN_S)
        if outcome == "gone":
            await self._write_event(act.pod, act.uid, ("Normal", "Preempted", act.sentence))
        self.tell(EvictionEnded(act.pod, act.uid, outcome, reason))

    # The lease.

    def _lease_path(self, name: str = "") -> str:
        return LEASES.path(self.settings.lease_space, name)

    async def _read_lease(self) -> None:
        try:
            lease = dict(await self.client.get(self._lease_path(self.settings.lease)))
        except ApiError as error:
            if error.status in (401, 403):
                raise
            self.tell(LeaseSeen(exists=False, readable=error.status == 404))
            return
        except UnreachableError:
            self.tell(LeaseSeen(readable=False))
            return
        spec, metadata = lease.get("spec") or {}, lease["metadata"]
        assert isinstance(spec, dict) and isinstance(metadata, dict)
        self.tell(
            LeaseSeen(
                str(spec.get("holderIdentity") or ""),
                int(spec.get("leaseTransitions") or 0),
                str(metadata["resourceVersion"]),
                exists=True,
                asked_by=str((metadata.get("annotations") or {}).get(words.ASKED_BY) or ""),
            )
        )

    async def _ask_for_lease(self) -> None:
        change = {"metadata": {"annotations": {words.ASKED_BY: self.settings.identity}}}
        try:
            await self.client.patch(self._lease_path(self.settings.lease), change)
        except ApiError as error:
            if error.status in (401, 403):
                raise
        except UnreachableError:
            pass  # The lease is read again, and asked for again.

    async def _write_lease(self, act: WriteLease) -> None:
        settings = self.settings
        thing = words.lease(
            settings.lease,
            settings.lease_space,
            act.holder,
            act.transitions,
            settings.lease_s,
            time.time(),
            settings.lease_labels,
        )
        try:
            if act.version:
                metadata = thing["metadata"]
                assert isinstance(metadata, dict)
                metadata["resourceVersion"] = act.version
                path = self._lease_path(settings.lease)
                written = await self.client.replace(path, thing, settings.request_s)
            else:
                written = await self.client.create(self._lease_path(), thing, settings.request_s)
        except ApiError as error:
            if error.status in (401, 403):
                raise
            self.tell(LeaseWritten("refused" if error.status < 500 else "unknown"))
            return
        except UnreachableError:
            self.tell(LeaseWritten("unknown"))
            return
        self.tell(LeaseWritten("written", str(written["metadata"]["resourceVersion"])))
