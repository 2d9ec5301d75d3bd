"""Who may come in, and how much each user may have at once.

**Tokens.** A token is random and shown once, to who asked for it; here, in the store and in the log
is only its digest. It lets somebody in as a user, in a role, until it is revoked or its time is
over. What a role may do is decided at the doors (`runtime/net/callers.py`).

**Quotas** bound what runs, not what waits: how many jobs of a user hold a place, and the amounts
that their tasks ask for together. Tasks beyond it wait, hold up nobody, and `why` says so. A job
that could not start even if its user had nothing else is refused when it is submitted. A quota
that is set below what runs ends nothing. `priority` bounds what a user may ask for; it is checked
when a job is submitted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from murmuration.base.errors import InputError, unknown
from murmuration.base.resources import Resources, format_amount
from murmuration.schedulers.agent import Do, Effect, Message, Note
from murmuration.schedulers.central.jobs import JobRecord, JobTable, TaskRecord
from murmuration.schedulers.central.messages import (
    JOBS,
    EndSessions,
    IssueToken,
    QuotaSet,
    Recover,
    RevokeToken,
    SetQuota,
    StoredToken,
    TokenIssued,
    TokenRevoked,
)
from murmuration.schedulers.offers.ledger import Ledger
from murmuration.schedulers.offers.messages import Vector
from murmuration.workload.job_spec import JobSpec

#: What the master hands on to its table of access.
ACCESS_EVENTS = (IssueToken, RevokeToken, SetQuota)
#: The limits that are no resources.
JOBS_AT_ONCE, PRIORITY = "jobs", "priority"


def is_over(token: StoredToken, now: float) -> bool:
    """Whether its time is over."""
    return token.lasts_s is not None and token.issued_s + token.lasts_s <= now


@dataclass
class AccessTable:
    """The tokens and the quotas of a cluster."""

    tokens: dict[str, StoredToken] = field(default_factory=dict)
    quotas: dict[str, dict[str, int]] = field(default_factory=dict)
    _by_digest: dict[str, StoredToken] = field(default_factory=dict)

    def recover(self, event: Recover) -> None:
        self.tokens = {token.name: token for token in event.tokens}
        self._by_digest = {token.digest: token for token in event.tokens}
        self.quotas = {user: dict(limits) for user, limits in event.quotas.items()}

    def find(self, digest: str, now: float) -> StoredToken | None:
        """The token with this digest, if it is good now."""
        token = self._by_digest.get(digest)
        return None if token is None or is_over(token, now) else token

    def handle(self, event: Message, now: float) -> list[Effect]:
        """What an operator wants, as facts first; who came in with a token that is good no more is
        sent away."""
        match event:
            case IssueToken(name):
                self._forget(name)
                return [Note(self._issue(event, now)), Do(EndSessions(name))]
            case RevokeToken(name) if self._forget(name):
                return [Note(TokenRevoked(name)), Do(EndSessions(name))]
            case SetQuota(user, limits) if self.quotas.get(user, {}) != limits:
                self.quotas.pop(user, None)
                self.quotas |= {user: dict(limits)} if limits else {}
                return [Note(QuotaSet(user, limits))]
        return []

    def _issue(self, event: IssueToken, now: float) -> TokenIssued:
        token = StoredToken(event.name, event.role, event.user, event.digest, now, event.lasts_s)
        self.tokens[token.name] = self._by_digest[token.digest] = token
        return TokenIssued(event.name, event.role, event.user, event.digest, event.lasts_s)

    def _forget(self, name: str) -> bool:
        token = self.tokens.pop(name, None)
        if token is not None:
            del self._by_digest[token.digest]
        return token is not None

    def explain_never(
        self, resources: Resources, spec: JobSpec, request: Vector, whole: bool
    ) -> str:
        """Why a job can never start under the quota of its user; empty if it can. `whole`: it
        starts with all its tasks or not at all."""
        limits = self.quotas.get(spec.user, {})
        if limits.get(JOBS_AT_ONCE) == 0:
            return f"the quota of {spec.user} allows no jobs"
        highest = limits.get(PRIORITY)
        if highest is not None and spec.priority > highest:
            return f"the quota of {spec.user} allows a priority of {highest} at most"
        tasks = spec.count if whole else 1
        for name, amount in zip(resources.names, request, strict=True):
            if name in limits and amount * tasks > limits[name]:
                asked = format_amount(name, amount * tasks)
                allowed = format_amount(name, limits[name])
                who = "its tasks together ask" if tasks > 1 else "a task asks"
                return f"{who} for {asked}, and the quota of {spec.user} is {allowed}"
        return ""

    def start_round(self, resources: Resources, jobs: JobTable, ledger: Ledger) -> QuotaRound:
        return QuotaRound(resources, self.quotas, jobs, ledger)


@dataclass
class UserShare:
    """What a user has: the jobs that hold a place, and amounts of each resource."""

    jobs: set[str] = field(default_factory=set)
    amounts: dict[str, int] = field(default_factory=lambda: defaultdict(int))


@dataclass
class QuotaRound:
    """What users have while a plan is made: what holds a place, and what was planned on top. A
    cluster without quotas pays nothing for it."""

    resources: Resources
    quotas: Mapping[str, Mapping[str, int]]
    table: JobTable
    ledger: Ledger
    _shares: dict[str, UserShare] | None = None

    def admit(
        self, job: JobRecord, tasks: list[TaskRecord], whole: bool = False
    ) -> list[TaskRecord]:
        """Those of the tasks that may start now; of a gang, and where it is asked for, all or
        none."""
        if job.spec.user not in self.quotas:
            return tasks
        room, _ = self._find_room(job)
        if room is None or room >= len(tasks):
            return tasks
        return [] if whole or job.spec.gang else tasks[:room]

    def take(self, job: JobRecord, tasks: int) -> None:
        """So many tasks of a job are planned."""
        if tasks and job.spec.user in self.quotas:
            self._add(self.shares[job.spec.user], job, job.request, tasks)

    def explain(self, job: JobRecord, waiting: int, whole: bool = False) -> str:
        """What of its user's quota keeps every waiting task of a job from starting; empty if
        nothing does."""
        if job.spec.user not in self.quotas:
            return ""
        room, reason = self._find_room(job)
        needed = waiting if whole or job.spec.gang else 1
        return "" if room is None or room >= needed else reason

    def use(self, user: str) -> dict[str, int]:
        """What a user has of each thing that can be limited."""
        share = self.shares[user]
        return {JOBS_AT_ONCE: len(share.jobs), **share.amounts}

    def _find_room(self, job: JobRecord) -> tuple[int | None, str]:
        """How many more tasks of a job may start, and what keeps others from it."""
        user, room, reason = job.spec.user, None, ""
        limits, share = self.quotas[user], self.shares[user]
        jobs_max = limits.get(JOBS_AT_ONCE)
        if jobs_max is not None and len(share.jobs - {job.name}) >= jobs_max:
            running = len(share.jobs - {job.name})
            return 0, f"the quota of {user} is {jobs_max} jobs at once, and {running} run"
        for name, amount in zip(self.resources.names, job.request, strict=True):
            if name not in limits or not amount:
                continue
            left = max(0, limits[name] - share.amounts[name]) // amount
            if room is None or left < room:
                allowed, used = (
                    format_amount(name, each) for each in (limits[name], share.amounts[name])
                )
                room = left
                reason = f"the quota of {user} is {allowed}, and {used} are in use"
        return room, reason

    @property
    def shares(self) -> dict[str, UserShare]:
        if self._shares is None:
            self._shares = defaultdict(UserShare)
            for run, (job, _) in self.table.runs.items():
                self._add(self._shares[job.spec.user], job, self._held(job, run), 1)
        return self._shares

    def _held(self, job: JobRecord, run: str) -> Vector:
        """What a run counts for: what it holds, or what its job asks for if that is more. A service
        that is changed to ask for less still has what runs of earlier versions hold; one that is
        suspended will have its CPU back."""
        held = self.ledger.tasks.get((JOBS, run))
        return job.request if held is None else tuple(map(max, held.task.request, job.request))

    def _add(self, share: UserShare, job: JobRecord, request: Vector, tasks: int) -> None:
        share.jobs.add(job.name)
        for name, amount in zip(self.resources.names, request, strict=True):
            share.amounts[name] += amount * tasks


def limits_of(resources: Resources, given: Mapping[str, str | int | float]) -> dict[str, int]:
    """Limits as a person gives them, in exact amounts; what cannot be one is refused."""
    known: Sequence[str] = (JOBS_AT_ONCE, PRIORITY, *resources.names)
    limits = {}
    for name, amount in given.items():
        if name in resources.names:
            limits[name] = resources.exact(name, amount, name)
        elif name not in known:
            raise InputError(unknown("limit", name, known))
        elif not str(amount).isascii() or not str(amount).isdigit() or int(amount) >= 2**31:
            raise InputError(f"{name}: expected a whole number from 0, got {amount!r}")
        else:
            limits[name] = int(amount)
    return limits
