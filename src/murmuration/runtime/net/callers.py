"""Who asks something of a master, and what each role may.

Four things show who somebody is: the token in the cluster's folder, whose owner may do everything;
a token that an operator has issued to a user; a certificate; the cookie of a browser's session,
which began with one of the others. Beyond this host a certificate is
needed for the connection itself, and an issued token shown on top of it says on whose behalf
something is asked; then both have to allow it.

A token is high entropy, so its digest is a plain SHA-256: nobody can guess what was drawn from
2^256, however fast the hash. Tokens are looked up by digest, which tells a clock nothing about
those that are known.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import NamedTuple

#: Issued tokens begin with this, so that they are known for what they are, also in a leak.
TOKEN_PREFIX = "murmur-"
MASTER, AGENT, OPERATOR, SUBMITTER, VIEWER = "master", "agent", "operator", "submitter", "viewer"
#: What a token can be issued for, from the least to the most.
TOKEN_ROLES = (VIEWER, SUBMITTER, OPERATOR)
#: Methods that change nothing, paths that a submitter may change, and those of operators alone.
_READING = ("GET", "HEAD")
_OF_JOBS = ("/v1/jobs", "/v1/tasks/")
_OF_OPERATORS = ("/v1/tokens", "/v1/log")
#: What everybody may have who is let in: a link to a session with their own role.
_OF_ALL = ("/v1/links", "/v1/session")


class Caller(NamedTuple):
    """Somebody who was let in. The owner of the cluster's folder has no name."""

    user: str
    role: str
    #: The name of the token that was shown, if one was issued.
    token: str = ""
    by_certificate: bool = False

    @property
    def is_operator(self) -> bool:
        return self.role in (OPERATOR, MASTER)

    def owns(self, user: str) -> bool:
        """Whether what belongs to this user is the caller's own, or may be treated so."""
        return self.is_operator or (bool(self.user) and self.user == user)

    def __str__(self) -> str:
        return f"{self.user or 'the owner of the cluster'} ({self.role})"


#: Who owns the folder of a cluster.
OWNER = Caller("", OPERATOR)


def certified(name: str, role: str) -> Caller:
    """The caller behind a certificate. A master is its owner's, not a user."""
    return Caller("" if role == MASTER else name, role, by_certificate=True)


#: The caller behind the digest of an issued token; None if it is good no more.
FindToken = Callable[[str], Caller | None]
Headers = dict[bytes, bytes]
#: The caller behind the cookie of a request.
FindSession = Callable[[Headers], Caller | None]


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class Doorkeeper:
    """Knows everybody who may come in."""

    def __init__(
        self,
        token: str,
        find_token: FindToken | None = None,
        find_session: FindSession | None = None,
    ) -> None:
        self._token, self._find, self._find_session = token.encode(), find_token, find_session

    def find(self, token: bytes) -> Caller | None:
        """The caller behind this token."""
        if self._token and hmac.compare_digest(token, self._token):
            return OWNER
        text = token.decode("latin-1")
        if self._find is None or not text.startswith(TOKEN_PREFIX):
            return None
        return self._find(digest_of(text))

    def admit(self, token: bytes, certified: Caller | None) -> Caller | None:
        """Who asks, by a token and the certificate of the connection; None if nobody known does."""
        if certified is None:
            return self.find(token)
        if not token.startswith(TOKEN_PREFIX.encode()):
            return certified
        caller = self.find(token)
        if caller is None or certified.is_operator:
            return caller
        return caller._replace(role=min(caller.role, certified.role, key=_rank))

    def find_session(self, headers: Headers) -> Caller | None:
        """The user who has signed in with the browser that sends these headers."""
        return None if self._find_session is None else self._find_session(headers)


def _rank(role: str) -> int:
    return TOKEN_ROLES.index(role) if role in TOKEN_ROLES else -1


def check_role(caller: Caller, method: str, path: str) -> str:
    """Why a role may not do this; empty if it may. A viewer reads, a submitter has to do with jobs
    and their tasks, an operator does everything. Node agents have nothing to ask here."""
    shown = "the certificate" if caller.by_certificate else "the token"
    if caller.role == AGENT:
        return f"expected the certificate of a person or a master, got {caller}"
    if caller.is_operator or path in _OF_ALL:
        return ""
    is_job = path.startswith(_OF_JOBS)
    if path.startswith(_OF_OPERATORS):
        return f"expected {shown} of an operator for this, got {caller}"
    if method in _READING or (caller.role == SUBMITTER and is_job):
        return ""
    allowed = "a submitter or an operator" if is_job else "an operator"
    return f"expected {shown} of {allowed} for this, got {caller}"
