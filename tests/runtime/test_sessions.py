"""Links that work once, cookies that cannot be forged, and requests of other sites."""

from __future__ import annotations

import base64

import pytest

from murmuration.runtime.net import sessions as ss
from murmuration.runtime.net.callers import OPERATOR, OWNER, VIEWER, Caller, Headers

ADA = Caller("ada", VIEWER, "laptop")


def always(token: str, begun_s: float) -> bool:
    return True


class Hands:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def cookie(sessions: ss.Sessions, value: str) -> Headers:
    return {b"cookie": f"other=1; {sessions.cookie_name}={value}; more=2".encode()}


def test_a_code_works_once() -> None:
    sessions = ss.Sessions("secret", always)
    code = sessions.issue(ADA)
    value = sessions.redeem(code)
    assert value is not None
    assert sessions.identify(cookie(sessions, value)) == ADA
    assert sessions.redeem(code) is None
    assert sessions.redeem("") is None


def test_a_code_and_a_session_grow_old() -> None:
    clock = Hands()
    sessions = ss.Sessions("secret", always, clock)
    late = sessions.issue(ADA)
    clock.now += ss.CODE_S
    assert sessions.redeem(late) is None
    value = sessions.redeem(sessions.issue(ADA)) or ""
    clock.now += ss.SESSION_S - 1
    assert sessions.identify(cookie(sessions, value)) == ADA
    clock.now += 2
    assert sessions.identify(cookie(sessions, value)) is None


def test_codes_that_nobody_uses_take_no_room() -> None:
    sessions = ss.Sessions("secret", always)
    owner = sessions.issue(OWNER)
    codes = [sessions.issue(ADA) for _ in range(ss.CODES_MAX + 1)]
    assert [sessions.redeem(code) is not None for code in codes[-ss.CODES_EACH - 1 :]] == [
        False,
        *[True] * ss.CODES_EACH,
    ]
    assert sessions.redeem(owner) is not None, "who asks often keeps nobody else out"
    many = [sessions.issue(Caller(f"user-{k}", VIEWER)) for k in range(ss.CODES_MAX + 1)]
    assert sessions.redeem(many[0]) is None and sessions.redeem(many[1]) is not None


def test_another_master_of_the_cluster_believes_a_cookie_and_no_other_cluster_does() -> None:
    first, second = ss.Sessions("secret", always), ss.Sessions("secret", always)
    value = first.redeem(first.issue(ADA)) or ""
    assert second.identify(cookie(second, value)) == ADA
    stranger = ss.Sessions("another", always)
    assert stranger.identify(cookie(stranger, value)) is None
    assert stranger.cookie_name != first.cookie_name
    # Without a token, each process has a key of its own.
    assert ss.Sessions("", always).cookie_name != ss.Sessions("", always).cookie_name


@pytest.mark.parametrize("change", ["role", "signature", "empty", "no dot", "not ascii"])
def test_a_forged_cookie_is_no_session(change: str) -> None:
    sessions = ss.Sessions("secret", always)
    body, _, signature = (sessions.redeem(sessions.issue(ADA)) or "").partition(".")
    raised = base64.urlsafe_b64decode(body).decode().replace(VIEWER, OPERATOR)
    forged = {
        "role": f"{base64.urlsafe_b64encode(raised.encode()).decode()}.{signature}",
        "signature": f"{body}.{'0' * 64}",
        "empty": "",
        "no dot": body,
        "not ascii": "\u00e9.\u00e9",
    }[change]
    headers = {b"cookie": f"{sessions.cookie_name}={forged}".encode("latin-1")}
    assert sessions.identify(headers) is None


@pytest.mark.parametrize(
    ("headers", "foreign"),
    [
        ({}, False),
        ({b"host": b"a:1", b"origin": b"http://a:1"}, False),
        ({b"host": b"a:1", b"origin": b"http://a:2"}, True),
        ({b"host": b"a:1", b"origin": b"http://evil"}, True),
        ({b"host": b"a:1", b"origin": b"null"}, True),
        ({b"host": b"a:1", b"sec-fetch-site": b"same-origin"}, False),
        ({b"host": b"a:1", b"sec-fetch-site": b"none"}, False),
        ({b"host": b"a:1", b"sec-fetch-site": b"cross-site"}, True),
        ({b"host": b"a:1", b"sec-fetch-site": b"same-site"}, True),
    ],
)
def test_a_request_of_another_site_is_known(headers: Headers, foreign: bool) -> None:
    assert ss.is_foreign(headers) is foreign


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites() -> None:
    sessions = ss.Sessions("secret", always)
    header = sessions.header("v", is_secure=True)
    assert {"HttpOnly", "SameSite=Strict", "Secure", "Path=/"} <= set(header.split("; "))
    assert "Max-Age=0" in sessions.header("", is_secure=False)


def test_a_session_ends_with_the_token_it_began_with() -> None:
    issued_s = {"laptop": 900.0}
    sessions = ss.Sessions(
        "secret", lambda name, begun_s: issued_s.get(name, 1e9) <= begun_s, Hands()
    )
    value = sessions.redeem(sessions.issue(ADA)) or ""
    owner = sessions.redeem(sessions.issue(OWNER)) or ""
    assert sessions.identify(cookie(sessions, value)) == ADA
    issued_s["laptop"] = 1001.0  # another token of that name
    assert sessions.identify(cookie(sessions, value)) is None
    del issued_s["laptop"]
    assert sessions.identify(cookie(sessions, value)) is None
    assert sessions.identify(cookie(sessions, owner)) == OWNER


def test_a_code_is_worth_nothing_when_its_token_is_good_no_more() -> None:
    """Nor if there is another of that name, which may have another role."""
    issued_s, clock = {"laptop": 900.0}, Hands()
    sessions = ss.Sessions(
        "secret", lambda name, begun_s: issued_s.get(name, 1e9) <= begun_s, clock
    )
    revoked, replaced, owner = (sessions.issue(each) for each in (ADA, ADA, OWNER))
    del issued_s["laptop"]
    assert sessions.redeem(revoked) is None
    issued_s["laptop"] = 1001.0
    clock.now = 1002.0
    assert sessions.redeem(replaced) is None
    assert sessions.redeem(owner) is not None
    assert sessions.redeem(sessions.issue(ADA)) is not None
