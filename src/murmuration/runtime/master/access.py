"""The part of the API that says who may come in and how much each user may have: tokens and quotas.

A token is drawn here and answered once; the master is told its digest. What a caller may see of
others' jobs is cut out here too (`hide_secrets`).
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from murmuration.base.errors import did_you_mean
from murmuration.runtime.master.openapi import ApiRoute
from murmuration.runtime.master.reading import Missing
from murmuration.runtime.net.callers import (
    TOKEN_PREFIX,
    TOKEN_ROLES,
    VIEWER,
    Caller,
    FindToken,
    digest_of,
)
from murmuration.runtime.net.http import CALLER, Refusal, decode_body, read_body, reply
from murmuration.runtime.net.sessions import TokenIsGood
from murmuration.runtime.options import DAYS_MAX
from murmuration.runtime.store.log import EventRow
from murmuration.schedulers.central.access import JOBS_AT_ONCE, PRIORITY, is_over, limits_of
from murmuration.schedulers.central.messages import (
    IssueToken,
    RevokeToken,
    SetQuota,
    StoredToken,
    SubmitJob,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from murmuration.runtime.master.api import Api
    from murmuration.schedulers.central.master import CentralMaster

DAY_S = 86400.0
USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")
_USER = "up to 63 letters, digits and . _ @ -, no sign in front"


class TokenOrder(msgspec.Struct, forbid_unknown_fields=True):
    """A token that is wanted."""

    name: str
    role: str = "submitter"
    #: Whose jobs are submitted with it; without one, the name.
    user: str = ""
    #: How long it is good; without it, until it is revoked.
    days: float | None = None


class TokenRow(msgspec.Struct):
    name: str
    role: str
    user: str
    state: str
    issued_s: float
    ends_s: float | None


class TokenAnswer(msgspec.Struct):
    """A token that was issued. It is told this once."""

    name: str
    token: str
    role: str
    user: str
    ends_s: float | None


class QuotaRow(msgspec.Struct):
    """What a user may have at once, and has: jobs, CPUs, bytes of memory and so on."""

    user: str
    limits: dict[str, float]
    used: dict[str, float]


def caller_of(request: Request) -> Caller:
    caller: Caller = request.scope[CALLER]
    return caller


def find_by_digest(master: CentralMaster, clock: Callable[[], float]) -> FindToken:
    """Who is behind the digest of a token, as the master knows it now."""

    def find(digest: str) -> Caller | None:
        token = master.access.find(digest, clock())
        return None if token is None else Caller(token.user, token.role, token.name)

    return find


def token_is_good(master: CentralMaster, clock: Callable[[], float]) -> TokenIsGood:
    """Whether the token of a name, with which a session began, was neither revoked nor issued again
    since, and its time is not over."""

    def is_good(name: str, begun_s: float) -> bool:
        token = master.access.tokens.get(name)
        return token is not None and token.issued_s <= begun_s and not is_over(token, clock())

    return is_good


def watch_token(
    master: CentralMaster, caller: Caller, clock: Callable[[], float]
) -> Callable[[], bool]:
    """Whether a caller who came in now, and stays, may still: the token was neither revoked, nor
    issued again under its name, and its time is not over."""
    shown = master.access.tokens.get(caller.token)

    def is_good() -> bool:
        token = master.access.tokens.get(caller.token)
        return not caller.token or (
            token is not None and token is shown and not is_over(token, clock())
        )

    return is_good


# What belongs to whom.


def claim(event: SubmitJob, caller: Caller, master: CentralMaster) -> SubmitJob:
    """The job as its submitter's own: nobody but an operator submits in another's name, or takes
    the name of another's job."""
    user = event.spec.user or caller.user
    if not caller.owns(user):
        raise Refusal(403, f"user: expected {caller.user!r} or none, got {user!r}")
    if event.spec.network == "host" and not caller.is_operator:
        # On its loopback listens what trusts everybody on the host: an etcd, say.
        raise Refusal(403, f"network: expected an operator for 'host', got {caller}")
    before = master.jobs.jobs.get(event.spec.name)
    if before is not None and not caller.owns(before.spec.user):
        raise Refusal(409, f"job {event.spec.name!r} is another user's; choose another name")
    spec = msgspec.structs.replace(event.spec, user=user)
    return msgspec.structs.replace(event, spec=spec)


def check_owner(caller: Caller, user: str, name: str) -> None:
    """What is done to a job, and what it has written, is its user's and an operator's affair."""
    if not caller.owns(user):
        whose = f"{user}'s" if user else "the cluster owner's"
        raise Refusal(403, f"{name} is {whose}; expected that user or an operator, got {caller}")


def hide_secrets(row: EventRow, caller: Caller) -> EventRow:
    """A fact without what is not for the caller: environments of others' jobs, all of them for a
    viewer; digests of tokens for everybody."""
    text = bytes(row.fact)
    if b'"digest"' not in text and b'"environment"' not in text:
        return row
    fact = msgspec.json.decode(text)
    fact.pop("digest", None)
    spec, before = fact.get("spec"), (fact.get("rollout") or {}).get("previous")
    if before is not None and (caller.role == VIEWER or not caller.owns(before["user"])):
        before["environment"] = {}
    if spec is not None and (caller.role == VIEWER or not caller.owns(spec["user"])):
        spec["environment"] = {}
    return msgspec.structs.replace(row, fact=msgspec.Raw(msgspec.json.encode(fact)))


# Tokens.


async def list_tokens(api: Api, request: Request, _: dict[str, str]) -> Response:
    now = api.now()
    return reply([_token_row(token, now) for token in api.master.access.tokens.values()])


def _token_row(token: StoredToken, now: float) -> TokenRow:
    state = "expired" if is_over(token, now) else "valid"
    ends_s = None if token.lasts_s is None else token.issued_s + token.lasts_s
    return TokenRow(token.name, token.role, token.user, state, token.issued_s, ends_s)


async def issue_token(api: Api, request: Request, _: dict[str, str]) -> Response:
    order = decode_body(await read_body(request), TokenOrder)
    user = order.user or order.name
    _check_order(order, user)
    known = api.master.access.tokens.get(order.name)
    if known is not None and not is_over(known, api.now()):
        raise Refusal(409, f"a token {order.name!r} is good already; revoke it first")
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    lasts_s = None if order.days is None else order.days * DAY_S
    await api.tell(IssueToken(order.name, order.role, user, digest_of(token), lasts_s))
    ends_s = None if lasts_s is None else api.now() + lasts_s
    return reply(TokenAnswer(order.name, token, order.role, user, ends_s), 201)


def _check_order(order: TokenOrder, user: str) -> None:
    for field, value in (("name", order.name), ("user", user)):
        if not USER.fullmatch(value):
            raise Refusal(422, f"{field}: expected {_USER}, got {value[:70]!r}")
    if order.role not in TOKEN_ROLES:
        roles = ", ".join(TOKEN_ROLES)
        raise Refusal(422, f"role: expected one of {roles}, got {order.role[:70]!r}")
    if order.days is not None and not 0 < order.days <= DAYS_MAX:
        raise Refusal(422, f"days: expected a number up to {DAYS_MAX}, got {order.days:g}")


async def revoke_token(api: Api, request: Request, names: dict[str, str]) -> Response:
    """From when this is answered nobody comes in with it."""
    tokens, name = api.master.access.tokens, names["name"]
    if name not in tokens:
        hint = did_you_mean(name, tokens) if tokens else "there are none"
        raise Missing(f"no token {name[:70]!r}; {hint}")
    row = _token_row(tokens[name], api.now())
    row.state = "revoked"
    await api.tell(RevokeToken(name))
    return reply(row)


# Quotas.


async def list_quotas(api: Api, request: Request, _: dict[str, str]) -> Response:
    """Operators see all, everybody else their own."""
    caller, quotas = caller_of(request), api.master.access.quotas
    return reply([_quota_row(api.master, user) for user in sorted(quotas) if caller.owns(user)])


def _quota_row(master: CentralMaster, user: str) -> QuotaRow:
    resources, access = master.settings.resources, master.access
    limits = access.quotas.get(user, {})
    ledger = master.resource_manager.ledger
    used = access.start_round(resources, master.jobs, ledger).use(user)

    def natural(amounts: dict[str, int]) -> dict[str, float]:
        return {
            name: amount if name in (JOBS_AT_ONCE, PRIORITY) else amount / resources.unit(name)
            for name, amount in amounts.items()
        }

    return QuotaRow(user, natural(limits), natural(used))


async def set_quota(api: Api, request: Request, names: dict[str, str]) -> Response:
    """Limits that are given are changed, the others stay."""
    given = decode_body(await read_body(request), dict[str, str | int | float])
    return await _set_quota(
        api,
        names["user"],
        {
            **api.master.access.quotas.get(names["user"], {}),
            **limits_of(api.master.settings.resources, given),
        },
    )


async def remove_quota(api: Api, request: Request, names: dict[str, str]) -> Response:
    return await _set_quota(api, names["user"], {})


async def _set_quota(api: Api, user: str, limits: dict[str, int]) -> Response:
    if not USER.fullmatch(user):
        raise Refusal(422, f"user: expected {_USER}, got {user[:70]!r}")
    await api.tell(SetQuota(user, limits))
    return reply(_quota_row(api.master, user))


ACCESS_ROUTES = (
    ApiRoute("GET", "/v1/tokens", "Tokens that were issued", list_tokens, list[TokenRow]),
    ApiRoute("POST", "/v1/tokens", "Issue a token", issue_token, TokenAnswer, TokenOrder),
    ApiRoute("DELETE", "/v1/tokens/{name}", "Revoke a token", revoke_token, TokenRow),
    ApiRoute("GET", "/v1/quotas", "Quotas and what is used", list_quotas, list[QuotaRow]),
    ApiRoute(
        "PUT",
        "/v1/quotas/{user}",
        "Set limits of a user",
        set_quota,
        QuotaRow,
        dict[str, str | int | float],
    ),
    ApiRoute("DELETE", "/v1/quotas/{user}", "Remove a quota", remove_quota, QuotaRow),
)
