"""The routes of the web page: who is there, the page's files, and what it draws."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from murmuration.base.errors import did_you_mean
from murmuration.dashboard import files
from murmuration.runtime.master.access import caller_of, watch_token
from murmuration.runtime.master.front.decisions import DecisionModel, DecisionsAnswer
from murmuration.runtime.master.front.nodes import SHOWS
from murmuration.runtime.master.front.overview import ClusterSnapshot, HistoryAnswer, Overview
from murmuration.runtime.master.front.queue import QueueAnswer, QueueModel
from murmuration.runtime.master.openapi import ApiRoute
from murmuration.runtime.net.callers import SUBMITTER
from murmuration.runtime.net.http import HEADERS, Refusal, read_body, reply
from murmuration.runtime.net.sessions import Sessions
from murmuration.schedulers.central.master import CentralMaster

#: Where a code is exchanged for a cookie, by whoever has a code.
ENTER = "/v1/enter"


class LinkAnswer(msgspec.Struct):
    """An address that opens the page once, within some minutes."""

    link: str


class EnterOrder(msgspec.Struct):
    code: str


class SessionAnswer(msgspec.Struct):
    """Who is there, and what that role may do. Of a cluster that is gone, when it stood so."""

    name: str
    role: str
    may_submit: bool
    may_operate: bool
    recorded_s: float | None = None


class FrontApi:
    """The handlers. `url` is where this master listens; `recorded_s` is when a log ended, where
    there is no more than that."""

    def __init__(
        self,
        master: CentralMaster,
        overview: Overview,
        sessions: Sessions,
        recorded_s: float | None = None,
    ) -> None:
        self._master, self._overview, self._sessions = master, overview, sessions
        self._recorded_s = recorded_s
        self._queue = QueueModel(master)
        self._decisions = DecisionModel(overview.facts)
        self.url = ""

    # Who is there.

    async def link(self, request: Request, _: dict[str, str]) -> Response:
        code = self._sessions.issue(caller_of(request))
        return reply(LinkAnswer(f"{self.url}/#/enter/{code}"))

    async def enter(self, request: Request, _: dict[str, str]) -> Response:
        try:
            order = msgspec.json.decode(await read_body(request), type=EnterOrder)
        except msgspec.DecodeError as error:
            raise Refusal(400, str(error)) from error
        cookie = self._sessions.redeem(order.code)
        if cookie is None:
            raise Refusal(
                401, "this link was used before or is too old; `murmur view` gives a new one"
            )
        return self._with_cookie(cookie)

    async def leave(self, request: Request, _: dict[str, str]) -> Response:
        return self._with_cookie("")

    def _with_cookie(self, value: str) -> Response:
        is_secure = self.url.startswith("https:")
        headers = {**HEADERS, "set-cookie": self._sessions.header(value, is_secure)}
        return Response(b"{}", 200, headers)

    async def session(self, request: Request, _: dict[str, str]) -> Response:
        caller = caller_of(request)
        may_submit = caller.is_operator or caller.role == SUBMITTER
        role = caller.user, caller.role, may_submit, caller.is_operator
        return reply(SessionAnswer(*role, self._recorded_s))

    # What is drawn.

    async def watch(self, request: Request, _: dict[str, str]) -> Response:
        stream = self._snapshots(request)
        return StreamingResponse(stream, headers={**HEADERS, "content-type": "text/event-stream"})

    async def _snapshots(self, request: Request) -> AsyncIterator[bytes]:
        """Server-sent events, until the session or token of who watches is good no more."""
        headers = dict(request.scope["headers"])
        by_cookie = self._sessions.identify(headers) is not None
        is_good = watch_token(self._master, caller_of(request), time.time)
        async for snapshot in self._overview.watch():
            if not is_good() or (by_cookie and self._sessions.identify(headers) is None):
                return
            yield b"data: %s\n\n" % msgspec.json.encode(snapshot)

    async def names(self, request: Request, _: dict[str, str]) -> Response:
        text = "\n".join(self._overview.columns.names)
        return self._plain(text.encode(), "text/plain; charset=utf-8")

    async def grid(self, request: Request, _: dict[str, str]) -> Response:
        show = request.query_params.get("show", "required")
        if show not in SHOWS:
            raise Refusal(400, f"show: expected {', '.join(SHOWS)}; {did_you_mean(show, SHOWS)}")
        picture = self._overview.columns.picture(show, request.query_params.get("resource", ""))
        return self._plain(picture, "application/octet-stream")

    def _plain(self, body: bytes, kind: str) -> Response:
        version = {"x-version": str(self._overview.columns.version)}
        return Response(body, 200, {**HEADERS, **version, "content-type": kind})

    async def history(self, request: Request, _: dict[str, str]) -> Response:
        return reply(self._overview.history())

    async def decisions(self, request: Request, names: dict[str, str]) -> Response:
        if names["job"] not in self._master.jobs.jobs:
            raise Refusal(404, f"no job {names['job']!r}")
        return reply(await self._decisions.answer(names["job"]))

    async def queue(self, request: Request, _: dict[str, str]) -> Response:
        return reply(await self._queue.answer(self._overview.last))


FRONT_ROUTES = (
    ApiRoute("POST", "/v1/links", "A link to the web page", FrontApi.link, LinkAnswer),
    ApiRoute(
        "POST",
        ENTER,
        "Exchange the code of a link for a session",
        FrontApi.enter,
        dict[str, str],
        EnterOrder,
    ),
    ApiRoute("GET", "/v1/session", "Who is asking", FrontApi.session, SessionAnswer),
    ApiRoute("DELETE", "/v1/session", "End the session", FrontApi.leave, dict[str, str]),
    ApiRoute(
        "GET", "/v1/watch", "Totals each second, as they change", FrontApi.watch, ClusterSnapshot
    ),
    ApiRoute("GET", "/v1/grid/names", "Names of all nodes, a line each", FrontApi.names, str),
    ApiRoute(
        "GET",
        "/v1/grid",
        "One byte per node, in the order of their names",
        FrontApi.grid,
        bytes,
        query=(("show", ", ".join(SHOWS)), ("resource", "one of them; else the fullest")),
    ),
    ApiRoute("GET", "/v1/history", "The last hour in samples", FrontApi.history, HistoryAnswer),
    ApiRoute(
        "GET",
        "/v1/jobs/{job}/decisions",
        "How its tasks came to their nodes",
        FrontApi.decisions,
        DecisionsAnswer,
    ),
    ApiRoute("GET", "/v1/queue", "What waits, in order, and why", FrontApi.queue, QueueAnswer),
)


def page_routes() -> list[Route]:
    """The page's own files, for everybody who can reach the port; there is nothing secret in
    them."""
    return [Route(path, _file(path), methods=["GET"]) for path in files.paths()]


def _file(path: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        asset = files.load(path)
        if request.headers.get("if-none-match") == asset.tag:
            return Response(b"", 304, files.headers(asset, is_packed=False))
        is_packed = "gzip" in request.headers.get("accept-encoding", "")
        body = asset.packed if is_packed else asset.body
        return Response(body, 200, files.headers(asset, is_packed))

    return answer
