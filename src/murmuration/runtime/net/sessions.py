"""Sessions of browsers: a link with a code that works once, and the cookie it is exchanged for.

A token must not stand in an address, which ends up in histories, logs and chats. Whoever has shown
a token or a certificate asks for a *code*; the page takes it from the part of the address that
browsers never send (after `#`) and exchanges it for a cookie. The code is worthless afterwards, and
after a few minutes in any case.

The cookie is a signed statement of name, role and end, and is kept nowhere: a master that starts
again, or another one that shares the cluster's token, believes it too. Its name contains a digest
of the key, because browsers share cookies between the ports of a host.

**Other sites.** A browser sends cookies (and certificates) with requests that other sites make it
send. Three things stand against that, each enough: the cookie is `SameSite=Strict`; what changes
something needs a header that a page can only add to requests to its own origin (`MARK`); and a
request that names a foreign origin is refused (`is_foreign`).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from murmuration.runtime.net.callers import Caller, Headers

#: How long a code waits to be used, and how many may wait, of each caller and of all.
CODE_S = 600.0
CODES_EACH, CODES_MAX = 10, 1000
SESSION_S = 12 * 3600
#: The header of a page's own requests.
MARK = b"x-murmur"
_FOREIGN = (b"cross-site", b"same-site")

#: Whether the issued token of a name, shown at this time, is still good.
TokenIsGood = Callable[[str, float], bool]


class SessionClaim(msgspec.Struct, array_like=True):
    """What a cookie says: until when who may do what, and by which issued token, if any."""

    ends_s: float
    user: str
    role: str
    token: str


class Sessions:
    """Codes that were given out, and the key of all cookies. A session that began with an issued
    token ends with it."""

    def __init__(
        self,
        secret: str,
        is_good: TokenIsGood,
        clock: Callable[[], float] = time.time,
    ) -> None:
        material = secret.encode() or secrets.token_bytes(32)
        self._key = hmac.digest(material, b"murmuration session", hashlib.sha256)
        self._is_good, self._clock = is_good, clock
        self._codes: dict[str, tuple[Caller, float]] = {}
        digest = hashlib.sha256(self._key).hexdigest()
        self.cookie_name = f"murmur-{digest[:8]}"

    def issue(self, caller: Caller) -> str:
        """A code for a session of this caller. Where there are many the oldest is dropped: of the
        caller's own, so that nobody keeps others out by asking often."""
        self._forget_old()
        own = [code for code, (of, _) in self._codes.items() if of == caller]
        for code in own[: max(0, len(own) + 1 - CODES_EACH)]:
            del self._codes[code]
        while len(self._codes) >= CODES_MAX:
            del self._codes[next(iter(self._codes))]
        code = secrets.token_urlsafe(18)
        self._codes[code] = caller, self._clock() + CODE_S
        return code

    def redeem(self, code: str) -> str | None:
        """The value of a cookie for a code, which dies with this; None if it is worth nothing, or
        the token that asked for it is good no more."""
        self._forget_old()
        caller, until_s = self._codes.pop(code, (None, 0.0))
        if caller is None:
            return None
        is_good = not caller.token or self._is_good(caller.token, until_s - CODE_S)
        return self._sign(caller) if is_good else None

    def identify(self, headers: Headers) -> Caller | None:
        """Whose cookie a request brings; None if it has none, or one that is forged or old."""
        value = _cookie(headers.get(b"cookie", b""), self.cookie_name)
        body, _, signature = value.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(body).encode()):
            return None
        claim = msgspec.json.decode(base64.urlsafe_b64decode(body), type=SessionClaim)
        if claim.ends_s <= self._clock():
            return None
        if claim.token and not self._is_good(claim.token, claim.ends_s - SESSION_S):
            return None
        return Caller(claim.user, claim.role, claim.token)

    def header(self, value: str, is_secure: bool) -> str:
        """The `Set-Cookie` of a session; an empty value ends it."""
        age = SESSION_S if value else 0
        fields = f"{self.cookie_name}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict"
        return f"{fields}; Secure" if is_secure else fields

    def _forget_old(self) -> None:
        now = self._clock()
        self._codes = {code: given for code, given in self._codes.items() if given[1] > now}

    def _sign(self, caller: Caller) -> str:
        claim = SessionClaim(self._clock() + SESSION_S, caller.user, caller.role, caller.token)
        body = base64.urlsafe_b64encode(msgspec.json.encode(claim)).decode()
        return f"{body}.{self._signature(body)}"

    def _signature(self, body: str) -> str:
        return hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()


def _cookie(header: bytes, name: str) -> str:
    for part in header.decode("latin-1").split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value
    return ""


def is_foreign(headers: Headers) -> bool:
    """Whether a browser sends this for a page of another origin."""
    if headers.get(b"sec-fetch-site", b"") in _FOREIGN:
        return True
    origin = headers.get(b"origin", b"")
    if not origin:
        return False
    return urlsplit(origin.decode("latin-1")).netloc.encode("latin-1") != headers.get(b"host")
