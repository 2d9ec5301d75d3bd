"""The HTTP API: one table of routes, from which the OpenAPI document is made too.

It looks by the read model, gives orders to the driver, and reads the output of tasks through a
function. Nothing here decides anything.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from dataclasses import dataclass
from functools import cache
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from murmuration.base.errors import InputError
from murmuration.dashboard import files
from murmuration.runtime.master import answers as an
from murmuration.runtime.master.access import (
    ACCESS_ROUTES,
    caller_of,
    check_owner,
    claim,
    hide_secrets,
    watch_token,
)
from murmuration.runtime.master.beside import SERVICE_ROUTES
from murmuration.runtime.master.front.routes import ENTER, FRONT_ROUTES, FrontApi, page_routes
from murmuration.runtime.master.metrics import Requests
from murmuration.runtime.master.observing import METRICS, OBSERVING_ROUTES, tell_metrics
from murmuration.runtime.master.openapi import ApiRoute, describe
from murmuration.runtime.master.reading import Missing, ReadModel, RecentAnswers
from murmuration.runtime.net.callers import Caller, Doorkeeper
from murmuration.runtime.net.http import (
    HEADERS,
    RATE_PER_S,
    Gate,
    Refusal,
    decode_body,
    encode_error,
    read_body,
    reply,
)
from murmuration.runtime.net.wire import UNREADABLE, Output
from murmuration.runtime.store.log import EventRow
from murmuration.schedulers.agent import Message
from murmuration.schedulers.central.explain import job_state
from murmuration.schedulers.central.jobs import ACTIVE
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.messages import Drain, KillJob, SubmitJob
from murmuration.schedulers.central.orders import bound_disk
from murmuration.schedulers.central.queue.bounds import explain_full
from murmuration.schedulers.central.queue.dependencies import check_after
from murmuration.workload.job_spec import FieldError, JobSpec, job_from_tables

#: How long a request may wait for something to happen.
WAIT_MAX_S = 30.0
PART_MAX = 2**20
TELL_S = 20.0
OPENAPI = "/openapi.json"
#: Digits of an index of the log that no cluster will ever reach.
INDEX_DIGITS = 18

log = logging.getLogger("murmuration.api")
Names = dict[str, str]
#: A part of the output of a run: node, run, stream, offset, size.
ReadOutput = Callable[[str, str, str, int, int], Awaitable[Output]]


@dataclass(frozen=True)
class Orders:
    """What the API may ask of the process around the master."""

    #: Give the master an event; the index of the log when what it notes is on disk.
    ask: Callable[[Message], Awaitable[int]]
    #: What keeps so many bytes from being written; empty if nothing does.
    probe: Callable[[int], Awaitable[str]]
    read_output: ReadOutput
    #: A question to a node agent, and its answer.
    ask_node: Callable[[str, Message], Awaitable[Message]]
    #: The nodes that can be asked.
    connected: Callable[[], list[str]]


class DrainOrder(msgspec.Struct):
    on: bool = True
    now: bool = False


def refuse(status: int, sentence: str, field: str = "") -> Response:
    return Response(encode_error(sentence, field), status, HEADERS)


class Api:
    """The handlers of all routes."""

    def __init__(
        self,
        master: CentralMaster,
        reading: ReadModel,
        orders: Orders,
        clock: Callable[[], float] = time.time,
        disk: tuple[str, str] = ("", ""),
    ) -> None:
        #: What a task may have on disk if its job says nothing, and at most.
        self._disk = disk
        self.master, self.reading, self._orders, self.now = master, reading, orders, clock
        self.log = reading.log
        #: Requests that were answered, by method and status.
        self.requests: Requests = Counter()
        self.ask_node = orders.ask_node
        self._turn, self._recent = asyncio.Semaphore(1), RecentAnswers(reading.log)

    def check_owner(self, caller: Caller, names: Names) -> None:
        """Refuse what is about a job of somebody else's."""
        if "job" in names:
            job = self.reading.job(names["job"])
        else:
            job, _ = self.reading.task(names["task"])
        check_owner(caller, job.spec.user, names.get("job") or names["task"])

    async def _in_turn(self, read: Callable[[], object]) -> Response:
        """An answer that may be long. One for each round of the event loop: however many ask, the
        heartbeats of node agents wait for one of them at most."""
        async with self._turn:
            await asyncio.sleep(0)
            return reply(read())

    async def _once(self, key: Hashable, read: Callable[[], object]) -> Response:
        """An answer for all who ask for the same at about the same time."""
        known = self._recent.find(key)
        if known is None:
            async with self._turn:
                await asyncio.sleep(0)
                known = self._recent.find(key)
                if known is None:
                    known = self._recent.keep(key, msgspec.json.encode(read()))
        return Response(known, 200, HEADERS)

    async def tell(self, event: Message) -> int:
        """Give the master an event and wait until what it notes is on disk. If that takes too long
        it is still done, only later."""
        try:
            return await asyncio.wait_for(self._orders.ask(event), TELL_S)
        except TimeoutError as error:
            trouble = self.reading.trouble or "the store is slow"
            raise Refusal(
                507, f"{trouble}; what was asked will be done when it is written"
            ) from error

    async def status(self, request: Request, _: Names) -> Response:
        return await self._once("status", self.reading.status)

    async def jobs(self, request: Request, _: Names) -> Response:
        is_open, only = request.query_params.get("open") == "1", request.query_params.get("job")
        return await self._once(("jobs", is_open, only), lambda: self.reading.jobs(is_open, only))

    async def job(self, request: Request, names: Names) -> Response:
        """The job; with `wait_s`, as soon as it has ended or that time has passed."""
        wait_s = min(_number(request, "wait_s", 0.0), WAIT_MAX_S)
        return reply(await self.reading.job_result(names["job"], wait_s))

    async def submit(self, request: Request, _: Names) -> Response:
        body = await read_body(request)
        try:
            spec = job_from_tables(msgspec.json.decode(body))
        except UNREADABLE as error:
            raise Refusal(400, f"expected a job as JSON: {error}") from error
        spec = bound_disk(spec, *self._disk)
        event = SubmitJob(spec, _number(request, "duration_s", 0.0) or None)
        event = claim(event, caller_of(request), self.master)
        if request.query_params.get("dry_run") == "1":
            return reply(an.render_explanation(self.reading.try_job(event)))
        return await self._submit(event, len(body))

    async def _submit(self, event: SubmitJob, size: int) -> Response:
        spec, jobs = event.spec, self.master.jobs.jobs
        infeasible = self.master.never(spec)
        if infeasible is not None:
            return refuse(422, f"it can never run here: {infeasible.reason}")
        master = self.master
        check_after(spec, jobs)
        is_whole = (master.queue.whole and not spec.array) or spec.gang
        over_quota = master.access.explain_never(
            master.settings.resources, spec, master.check(spec)[0], is_whole
        )
        if over_quota:
            return refuse(422, f"it can never run here: {over_quota}")
        before = jobs.get(spec.name)
        is_update = before is not None and not before.status
        if before is not None and is_update and not before.can_become(spec):
            return refuse(
                409,
                f"job {spec.name!r} is {job_state(before)} already; kill it first or choose "
                "another name",
            )
        if full := explain_full(master.jobs.queue, spec.count):
            return refuse(429, f"the queue is full: {full}")
        trouble = await self._orders.probe(2 * size + 4096)
        if trouble:
            return refuse(507, f"{trouble}; the job was not taken")
        if jobs.get(spec.name) is not before:
            return refuse(409, f"job {spec.name!r} was submitted by somebody else just now")
        index = await self.tell(event)
        version = jobs[spec.name].rollout.version if spec.name in jobs else 0
        answer = an.Submitted(spec.name, spec.count, index, version)
        return reply(answer, 200 if is_update else 201)

    async def kill(self, request: Request, names: Names) -> Response:
        job = self.reading.job(names["job"])
        index = await self.tell(KillJob(job.name))
        return reply(an.Submitted(job.name, job.spec.count, index), 202)

    async def kill_task(self, request: Request, names: Names) -> Response:
        job, task = self.reading.task(names["task"])
        index = await self.tell(KillJob(job.name, task.index))
        return reply(an.Submitted(job.name, 1, index), 202)

    async def why(self, request: Request, names: Names) -> Response:
        return reply(an.render_explanation(self.reading.why(names["job"])))

    async def tasks(self, request: Request, _: Names) -> Response:
        query = request.query_params
        limit = int(_number(request, "limit", 2.0**31))
        job, node, is_active = query.get("job"), query.get("node"), query.get("active") == "1"
        return await self._in_turn(lambda: self.reading.tasks(job, is_active, limit, node))

    async def output(self, request: Request, names: Names) -> Response:
        job, task = self.reading.task(names["task"])
        run = self.reading.check_run(job, task, int(_number(request, "run", task.run)))
        if number := int(_number(request, "number", 0)):
            run = self.reading.earlier_run(job, task, number)
        if back := int(_number(request, "back", 0)):
            run = self.reading.earlier_run(job, task, task.run - job.first_run - back)
        offset = int(_number(request, "offset", 0))
        stream = request.query_params.get("stream", "stdout")
        if stream not in ("stdout", "stderr", "health"):
            raise Refusal(400, f"expected stream=stdout, stderr or health, got {stream[:20]!r}")
        if task.run == job.first_run:
            return reply(an.OutputAnswer(names["task"], 0, "", 0, bool(job.status)))
        # Asked before the file is read: what was written before an end is then not missed.
        ended = task.state not in ACTIVE or run != task.run
        name = f"{job.name}.{task.index}.{run}"
        is_earlier = run != task.run
        part = await self._read(task.node, is_earlier, name, stream, offset)
        text = part.data.decode("utf-8", "replace")
        return reply(an.OutputAnswer(names["task"], run, text, offset + len(part.data), ended))

    async def _read(
        self, node: str, is_earlier: bool, run: str, stream: str, offset: int
    ) -> Output:
        """A part of an output. An earlier run may have been on another node, and its output is
        there as long as it is kept: then whoever has it is asked for."""
        others = [other for other in self._orders.connected() if is_earlier and other != node]
        refusal: Refusal | None = None
        for at in (node, *others):
            try:
                return await self._orders.read_output(at, run, stream, offset, PART_MAX)
            except Refusal as error:
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    async def nodes(self, request: Request, _: Names) -> Response:
        only = request.query_params.get("node")
        return await self._once(("nodes", only), lambda: self.reading.nodes(only))

    async def drain(self, request: Request, names: Names) -> Response:
        node = names["node"]
        self.reading.check_node(node)
        order = decode_body(await read_body(request) or b"{}", DrainOrder)
        if request.query_params.get("dry_run") == "1":
            return reply(self.reading.forecast_drain(node, order.now))
        await self.tell(Drain(node, order.on, order.now))
        return reply(self.reading.nodes(node))

    async def events(self, request: Request, _: Names) -> Response:
        """Facts after `index`: a list, or with `follow=1` server-sent events without end; or the
        `last` of a job, a node or a kind."""
        after = int(_number(request, "index", 0))
        last_seen = request.headers.get("last-event-id", "")
        if last_seen.isascii() and last_seen.isdigit() and len(last_seen) < INDEX_DIGITS:
            after = int(last_seen)
        caller = caller_of(request)
        query = request.query_params
        if query.get("last"):
            count = int(_number(request, "last", 0))
            kind, job, node = (query.get(name, "") for name in ("kind", "job", "node"))
            rows = self.reading.last_events(count, kind, job, node)
            return await self._in_turn(lambda: [hide_secrets(row, caller) for row in rows])
        if query.get("follow") == "1":
            stream, kind = _server_sent(self._follow(after, caller)), "text/event-stream"
            return StreamingResponse(stream, headers={**HEADERS, "content-type": kind})
        return reply([hide_secrets(row, caller) for row in self.reading.events(after)])

    async def _follow(self, after: int, caller: Caller) -> AsyncIterator[EventRow | None]:
        """Facts as they come, until the token of who follows them is good no more."""
        is_good = watch_token(self.master, caller, self.now)
        async for row in self.reading.follow(after):
            if not is_good():
                return
            yield None if row is None else hide_secrets(row, caller)


async def _server_sent(rows: AsyncIterator[EventRow | None]) -> AsyncIterator[bytes]:
    async for row in rows:
        if row is None:
            yield b": still here\n\n"
            continue
        data = msgspec.json.encode(row)
        yield b"id: %d\nevent: %s\ndata: %s\n\n" % (row.index, row.kind.encode(), data)


def _number(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 2.0**53:
        raise Refusal(400, f"{name}: expected a number from 0, got {text[:40]!r}")
    return value


_JOB_QUERY = (("open", "1: only jobs that have not ended"), ("job", "only this one"))
_TASK_QUERY = (
    ("job", "of one job"),
    ("node", "on one node"),
    ("active", "1: only those on nodes"),
    ("limit", "so many rows at most"),
)
_OUTPUT_QUERY = (
    ("stream", "stdout, stderr, or health: what the last check that failed wrote"),
    ("offset", "bytes to skip"),
    ("run", "an earlier run, by its number in the cluster"),
    ("number", "an earlier run, the first of the job is 1"),
    ("back", "an earlier run, the last but one is 1"),
)
ROUTES = (
    ApiRoute("GET", "/v1/status", "The cluster at a glance", Api.status, an.StatusAnswer),
    ApiRoute("GET", "/v1/jobs", "All jobs", Api.jobs, an.Listing, query=_JOB_QUERY),
    ApiRoute(
        "POST",
        "/v1/jobs",
        "Submit a job, or try it",
        Api.submit,
        (an.Submitted, an.TrialAnswer),
        JobSpec,
        (
            ("dry_run", "1: say where its tasks would go, reserve nothing"),
            ("duration_s", "how long emulated executors run its tasks"),
        ),
    ),
    ApiRoute(
        "GET",
        "/v1/jobs/{job}",
        "How a job stands",
        Api.job,
        an.JobResult,
        query=(("wait_s", "wait for its end"),),
    ),
    ApiRoute("DELETE", "/v1/jobs/{job}", "Kill a job", Api.kill, an.Submitted),
    ApiRoute("GET", "/v1/jobs/{job}/why", "Why a job waits", Api.why, an.WhyAnswer),
    ApiRoute("GET", "/v1/tasks", "Tasks", Api.tasks, an.Listing, query=_TASK_QUERY),
    ApiRoute("DELETE", "/v1/tasks/{task}", "Kill one task", Api.kill_task, an.Submitted),
    ApiRoute(
        "GET",
        "/v1/tasks/{task}/output",
        "What a task wrote",
        Api.output,
        an.OutputAnswer,
        query=_OUTPUT_QUERY,
        private=True,
    ),
    ApiRoute(
        "GET", "/v1/nodes", "Nodes", Api.nodes, an.Listing, query=(("node", "only this one"),)
    ),
    ApiRoute(
        "POST",
        "/v1/nodes/{node}/drain",
        "Drain a node, or undo it",
        Api.drain,
        (an.Listing, an.DrainForecast),
        DrainOrder,
        (("dry_run", "1: say what would become of its tasks, change nothing"),),
    ),
    ApiRoute(
        "GET",
        "/v1/events",
        "What happened and was decided",
        Api.events,
        list[EventRow],
        query=(
            ("index", "only what came after"),
            ("follow", "1: server-sent events, resumable by Last-Event-ID"),
            ("last", "instead: so many of the recent ones"),
            ("kind", "with last: names that begin so, e.g. Task"),
            ("job", "with last: of one job"),
            ("node", "with last: of one node"),
        ),
    ),
    *SERVICE_ROUTES,
    *ACCESS_ROUTES,
    *OBSERVING_ROUTES,
)


class Endpoint:
    """All methods of one path, as an application of its own."""

    def __init__(self, api: Api, target: Api | FrontApi, routes: list[ApiRoute]) -> None:
        self._api, self._target = api, target
        self._routes = {route.method: route for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        route = self._routes.get(request.method)
        if route is None:
            return refuse(405, f"expected {' or '.join(self._routes)}")
        names = {name: unquote(value) for name, value in request.path_params.items()}
        try:
            if names.keys() & {"job", "task"} and (route.private or route.method != "GET"):
                self._api.check_owner(caller_of(request), names)
            return await route.handler(self._target, request, names)
        except Refusal as error:
            return refuse(error.status, str(error))
        except Missing as error:
            return refuse(404, str(error))
        except FieldError as error:
            return refuse(422, error.sentence, error.field)
        except InputError as error:
            return refuse(422, str(error))
        except Exception:
            log.exception("%s %s", request.method, request.scope["path"])
            return refuse(500, "the master could not answer; its log says more")


async def _no_such_path(request: Request, error: Exception) -> Response:
    return refuse(404, f"no such path {request.scope['path']}; see {OPENAPI}")


@cache
def _describe_all() -> bytes:
    """The OpenAPI document. Strangers may ask for it, so it is made once."""
    return msgspec.json.encode(describe((*ROUTES, *FRONT_ROUTES)))


async def _openapi(request: Request) -> Response:
    return Response(_describe_all(), 200, HEADERS)


def make_app(
    api: Api, front: FrontApi, doorkeeper: Doorkeeper, rate_per_s: float = RATE_PER_S
) -> Starlette:
    """The application that an HTTP server runs."""
    by_path: dict[str, list[ApiRoute]] = {}
    for route in (*ROUTES, *FRONT_ROUTES):
        by_path.setdefault(route.path, []).append(route)
    routes = [
        StarletteRoute(path, Endpoint(api, front if same[0] in FRONT_ROUTES else api, same))
        for path, same in by_path.items()
    ]

    async def metrics(request: Request) -> Response:
        return tell_metrics(api)

    gate = Middleware(
        Gate,
        doorkeeper=doorkeeper,
        public=(OPENAPI, ENTER, *files.paths()),
        rate_per_s=rate_per_s,
        requests=api.requests,
    )
    own = [StarletteRoute(OPENAPI, _openapi), StarletteRoute(METRICS, metrics)]
    app = Starlette(
        routes=[*routes, *own, *page_routes()],
        middleware=[gate],
        exception_handlers={404: _no_such_path},
    )
    app.router.redirect_slashes = False
    return app
