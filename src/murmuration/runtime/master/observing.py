"""The part of the API for those who watch over a cluster: metrics, and the log for a bug report."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from murmuration.runtime.master.metrics import list_metrics
from murmuration.runtime.master.openapi import ApiRoute
from murmuration.runtime.metrics import CONTENT_TYPE, render
from murmuration.runtime.net.http import HEADERS, Refusal, reply
from murmuration.runtime.store.interface import StoreError
from murmuration.runtime.store.redact import redact_body

if TYPE_CHECKING:
    from murmuration.runtime.master.api import Api

METRICS = "/metrics"
#: Lines of the log in one answer.
LINES_MAX = 1000
_DIGITS = 18


class LineRow(msgspec.Struct):
    """A line of the log, events included; `body` is MessagePack without environments, arguments
    and digests."""

    number: int
    at_s: float
    side: str
    kind: str
    body: bytes


async def read_lines(api: Api, request: Request, _: dict[str, str]) -> Response:
    """The log after `index`, as a bug report may have it."""
    text = request.query_params.get("index", "0")
    if not (text.isascii() and text.isdigit() and len(text) < _DIGITS):
        raise Refusal(400, f"index: expected a whole number from 0, got {text[:40]!r}")
    loop = asyncio.get_running_loop()
    try:
        rows = await loop.run_in_executor(None, _read, api, int(text))
    except StoreError as error:
        raise Refusal(503, str(error)) from error
    return reply(rows)


def _read(api: Api, after: int) -> list[LineRow]:
    return [
        LineRow(number, at_s, side, kind, redact_body(body))
        for number, at_s, side, kind, body in api.log.lines(after, LINES_MAX)
    ]


def tell_metrics(api: Api) -> Response:
    """What Prometheus reads."""
    families = list_metrics(api.master, api.reading, api.log, api.requests, api.now())
    return Response(render(families), 200, {**HEADERS, "content-type": CONTENT_TYPE})


OBSERVING_ROUTES = (
    ApiRoute(
        "GET",
        "/v1/log",
        "The log for a bug report",
        read_lines,
        list[LineRow],
        query=(("index", "only what came after"),),
    ),
)
