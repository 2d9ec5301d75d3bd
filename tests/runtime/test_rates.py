"""How often a client may ask: buckets against a plain count, and 429 on the wire."""

from __future__ import annotations

import asyncio
import http.client
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from tests.runtime.test_http import Fake

from murmuration.runtime.client import requests
from murmuration.runtime.net import http as served
from murmuration.runtime.net import rates
from murmuration.runtime.net.addresses import Address
from murmuration.runtime.net.callers import Caller, Doorkeeper, digest_of
from murmuration.runtime.net.rates import RateLimit
from murmuration.runtime.net.sockets import listen


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0.0, 3.0)), max_size=60))
def test_nobody_gets_more_than_the_burst_and_the_rate(asks: list[tuple[str, float]]) -> None:
    """In any stretch of time, at most rate × time and one burst are let through; and who is told
    to wait is let through after that time."""
    now, per_s = 0.0, 2.0
    limit = RateLimit(per_s, lambda: now)
    allowed: dict[str, list[float]] = {"a": [], "b": []}
    for client, pause in asks:
        now += pause
        wait_s = limit.take(client)
        if not wait_s:
            allowed[client].append(now)
        else:
            assert 0.0 < wait_s <= 1.0 / per_s
            now += wait_s + 1e-9
            assert limit.take(client) == 0.0
            allowed[client].append(now)
    burst = per_s * rates.BURST_S
    for times in allowed.values():
        for first in range(len(times)):
            for last in range(first, len(times)):
                assert last - first + 1 <= burst + per_s * (times[last] - times[first]) + 1e-6


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "BUCKETS_MAX", 10)
    limit = RateLimit(1.0)
    for k in range(100):
        limit.take(str(k))
    assert len(limit._buckets) == 10


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    await Response("{}")(scope, receive, send)


async def _ask(
    address: Address, token: str, line: str = "GET /v1/status"
) -> http.client.HTTPResponse:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    head = f"{line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(head.encode())
    response = http.client.HTTPResponse(Fake(await reader.readuntil(b"\r\n\r\n")))  # type: ignore[arg-type]
    response.begin()
    writer.close()
    return response


NAMES = ("anna", "bob", "cleo")


def test_who_asks_too_often_is_told_when_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "STRANGERS_PER_S", 0.01)
    known = {digest_of(f"murmur-{name}"): Caller(name, "viewer", name) for name in NAMES}
    doorkeeper = Doorkeeper("own", known.get)

    async def story() -> dict[str, list[Any]]:
        gate = served.Gate(_app, doorkeeper, rate_per_s=0.01)
        server = served.HttpServer(gate, doorkeeper)
        loop = asyncio.get_running_loop()
        listening, address = await listen(loop, server.make_protocol, "127.0.0.1", [0])
        tokens = ("murmur-anna", "murmur-anna", "murmur-bob", "own", "own", "own", "no", "nope")
        answers: dict[str, list[Any]] = {}
        for token in tokens:
            answer = await _ask(address, token)
            retry = answer.headers.get("retry-after")
            answers.setdefault(token[:10], []).append((answer.status, retry))
        forbidden = [await _ask(address, "murmur-cleo", "DELETE /v1/tokens/x") for _ in range(2)]
        answers["forbidden"] = [answer.status for answer in forbidden]
        listening.close()
        await server.close()
        return answers

    answers = asyncio.run(story())
    assert answers["murmur-ann"][0] == (200, None)
    status, retry = answers["murmur-ann"][1]
    assert status == 429 and 1 <= int(retry) <= 100
    assert answers["murmur-bob"] == [(200, None)], "each has a bucket of its own"
    assert answers["own"] == [(200, None)] * 3, "the cluster's own token has none"
    assert answers["forbidden"] == [403, 429], "what a role may not do counts too"
    assert answers["no"][0] == (401, None) and answers["nope"][0][0] == 429


def test_a_command_waits_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    answers = [b"429 Too Many Requests\r\nRetry-After: 7", b"200 OK\r\n"]

    def once(*_: object) -> object:
        return requests._answer(b"HTTP/1.1 " + answers.pop(0), b"{}")

    client = object.__new__(requests.ApiClient)
    monkeypatch.setattr(client, "_ask_once", once, raising=False)
    assert client.get("status") == {} and waits == [7.0]
