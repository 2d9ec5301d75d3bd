"""The HTTP API: one table of routes, from which the OpenAPI document is made too."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from murmuration.base.errors import InputError, did_you_mean
from murmuration.base.version import __version__
from murmuration.runtime.master import answers as an
from murmuration.runtime.net.http import BadRequest, Reply, Request
from murmuration.schedulers.central.explain import dry_run, job_state, last_reason, why
from murmuration.schedulers.central.jobs import ACTIVE, JobRecord
from murmuration.schedulers.central.master import LiveMaster
from murmuration.schedulers.central.messages import Drain, KillJob, SubmitJob
from murmuration.workload.job_spec import FieldError, JobSpec, job_from_tables

if TYPE_CHECKING:
    from murmuration.runtime.master.process import MasterProcess

#: How long a request may wait for something to happen.
WAIT_MAX_S = 30.0
PART_MAX = 2**20
TELL_S = 20.0
EVENTS_MAX = 1000

log = logging.getLogger("murmuration.api")


class DrainOrder(msgspec.Struct):
    on: bool = True
    now: bool = False


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    summary: str
    handler: Callable[[Api, Request, dict[str, str]], Awaitable[Reply]]
    answers: Any
    body: Any = None
    query: tuple[tuple[str, str], ...] = ()

    @property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.path))


def reply(value: Any, status: int = 200) -> Reply:
    return Reply(status, msgspec.json.encode(value))


def refuse(status: int, sentence: str, field: str = "") -> Reply:
    return reply(an.ErrorAnswer(sentence, field), status)


class Api:
    """Answers requests from what the master knows."""

    def __init__(self, process: MasterProcess, token: str) -> None:
        self._process, self._token = process, token.encode()
        self._routes = [(route, route.pattern) for route in ROUTES]

    async def handle(self, request: Request) -> Reply:
        try:
            return await self._route(request)
        except BadRequest as error:
            return refuse(error.status, str(error))
        except FieldError as error:
            return refuse(422, error.sentence, error.field)
        except InputError as error:
            return refuse(422, str(error))
        except Exception:
            log.exception("%s %s", request.method, request.path)
            return refuse(500, "the master could not answer; its log says more")

    async def _route(self, request: Request) -> Reply:
        if request.path == "/openapi.json":
            return reply(openapi())
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._token):
            return refuse(
                401, "expected the cluster's token in the header Authorization: Bearer TOKEN"
            )
        found = [
            (route, match)
            for route, pattern in self._routes
            if (match := pattern.fullmatch(request.path))
        ]
        if not found:
            return refuse(404, f"no such path {request.path}; see /openapi.json")
        for route, match in found:
            if route.method == request.method:
                return await route.handler(
                    self, request, {k: unquote(v) for k, v in match.groupdict().items()}
                )
        return refuse(405, f"expected {' or '.join(route.method for route, _ in found)}")

    # Looking up.

    @property
    def _master(self) -> LiveMaster:
        return self._process.master

    def _now(self) -> float:
        return self._process.clock.now()

    def _job(self, name: str) -> JobRecord:
        jobs = self._master.jobs.jobs
        if name not in jobs:
            hint = did_you_mean(name, jobs) if jobs else "there are none"
            raise BadRequest(404, f"no job {name!r}; {hint}")
        return jobs[name]

    def _task(self, name: str) -> tuple[JobRecord, int]:
        job, _, index = name.rpartition(".")
        if not job or not index.isascii() or not index.isdigit():
            raise BadRequest(404, f"no task {name[:100]!r}; expected JOB.NUMBER such as hello.0")
        record = self._job(job)
        if int(index) >= len(record.tasks):
            raise BadRequest(
                404, f"job {job!r} has tasks 0 to {len(record.tasks) - 1}, not {index}"
            )
        return record, int(index)

    def _listing(self, **rows: Any) -> Reply:
        return reply(an.Listing(self._process.engine.index, **rows))

    async def _tell(self, event: Any) -> int:
        """Tell the master and wait until it is on disk. If that takes too long it is still done,
        only later."""
        try:
            return await asyncio.wait_for(self._process.engine.ask(event), TELL_S)
        except TimeoutError as error:
            trouble = self._process.engine.trouble or "the store is slow"
            raise BadRequest(
                507, f"{trouble}; what was asked will be done when it is written"
            ) from error

    # Routes.

    async def status(self, request: Request, _: dict[str, str]) -> Reply:
        jobs = self._master.jobs.jobs.values()
        tasks: dict[str, int] = {}
        states: dict[str, int] = {}
        for job in jobs:
            states[job_state(job)] = states.get(job_state(job), 0) + 1
            for state, count in job.counts().items():
                tasks[str(state)] = tasks.get(str(state), 0) + count
        process = self._process
        return reply(
            an.StatusAnswer(
                process.engine.index,
                __version__,
                process.options.scheduler,
                process.options.placement,
                process.options.isolation,
                process.url,
                self._now() - process.started_s,
                process.epoch,
                process.engine.trouble,
                process.node_rows(),
                states,
                tasks,
                an.framework_rows(self._master),
            )
        )

    async def jobs(self, request: Request, _: dict[str, str]) -> Reply:
        now = self._now()
        reasons = an.Reasons(self._master, now)
        found = list(self._master.jobs.jobs.values())
        if request.query.get("open") == "1":
            found = [job for job in found if not job.status]
        return self._listing(jobs=[an.job_row(job, reasons, now) for job in found])

    async def job(self, request: Request, names: dict[str, str]) -> Reply:
        """The job; with `wait_s`, as soon as it has ended or that time has passed."""
        job = self._job(names["job"])
        until = self._now() + min(_number(request, "wait_s", 0.0), WAIT_MAX_S)
        while not job.status and (left := until - self._now()) > 0:
            await self._process.wait_for_news(left)
        return reply(
            an.JobResult(
                job.name,
                job_state(job),
                bool(job.status),
                job.code if job.status else None,
                last_reason(job),
            )
        )

    async def submit(self, request: Request, _: dict[str, str]) -> Reply:
        try:
            spec = job_from_tables(msgspec.json.decode(request.body))
        except msgspec.DecodeError as error:
            raise BadRequest(400, f"expected a job as JSON: {error}") from error
        event = SubmitJob(spec, _number(request, "duration_s", 0.0) or None)
        self._master.check(spec)
        if request.query.get("dry_run") == "1":
            return reply(an.explained(dry_run(self._master, event, self._now())))
        hopeless = self._master.never(spec)
        if hopeless is not None:
            return refuse(422, f"it can never run here: {hopeless.reason}")
        before = self._master.jobs.jobs.get(spec.name)
        if before is not None and not before.status:
            return refuse(
                409,
                f"job {spec.name!r} is {job_state(before)} already; kill it first or choose "
                "another name",
            )
        trouble = await self._process.engine.probe(2 * len(request.body) + 4096)
        if trouble:
            return refuse(507, f"{trouble}; the job was not taken")
        if self._master.jobs.jobs.get(spec.name) is not before:
            return refuse(409, f"job {spec.name!r} was submitted by somebody else just now")
        index = await self._tell(event)
        return reply(an.Submitted(spec.name, spec.count, index), 201)

    async def kill(self, request: Request, names: dict[str, str]) -> Reply:
        job = self._job(names["job"])
        index = await self._tell(KillJob(job.name))
        return reply(an.Submitted(job.name, job.spec.count, index), 202)

    async def kill_task(self, request: Request, names: dict[str, str]) -> Reply:
        job, task = self._task(names["task"])
        index = await self._tell(KillJob(job.name, task))
        return reply(an.Submitted(job.name, 1, index), 202)

    async def why(self, request: Request, names: dict[str, str]) -> Reply:
        return reply(an.explained(why(self._master, self._job(names["job"]), self._now())))

    async def tasks(self, request: Request, _: dict[str, str]) -> Reply:
        now, usage = self._now(), self._process.usage
        reasons = an.Reasons(self._master, now)
        name = request.query.get("job")
        jobs = [self._job(name)] if name else self._master.jobs.jobs.values()
        active, limit = request.query.get("active") == "1", int(_number(request, "limit", 2.0**31))
        found = [
            (job, task) for job in jobs for task in job.tasks if not active or task.state in ACTIVE
        ]
        rows = [an.task_row(job, task, reasons, usage, now) for job, task in found[:limit]]
        return self._listing(tasks=rows, total=len(found))

    async def output(self, request: Request, names: dict[str, str]) -> Reply:
        job, index = self._task(names["task"])
        task = job.tasks[index]
        run = int(_number(request, "run", task.run))
        offset, stream = int(_number(request, "offset", 0)), request.query.get("stream", "stdout")
        if stream not in ("stdout", "stderr"):
            raise BadRequest(400, f"expected stream=stdout or stderr, got {stream[:20]!r}")
        if task.run == job.first_run:
            return reply(an.OutputAnswer(names["task"], 0, "", 0, bool(job.status)))
        # Asked before the file is read: what was written before an end is then not missed.
        ended = task.state not in ACTIVE or run != task.run
        found = await self._process.read_output(
            task.node, f"{job.name}.{index}.{run}", stream, offset, PART_MAX
        )
        text = found.data.decode("utf-8", "replace")
        return reply(an.OutputAnswer(names["task"], run, text, offset + len(found.data), ended))

    async def nodes(self, request: Request, _: dict[str, str]) -> Reply:
        return self._listing(nodes=self._process.node_rows())

    async def drain(self, request: Request, names: dict[str, str]) -> Reply:
        node = names["node"]
        if node not in self._master.nodes:
            raise BadRequest(
                404,
                f"no node {node!r}; {did_you_mean(node, self._master.nodes) or 'there are none'}",
            )
        try:
            order = msgspec.json.decode(request.body or b"{}", type=DrainOrder)
        except msgspec.DecodeError as error:
            raise BadRequest(400, str(error)) from error
        await self._tell(Drain(node, order.on, order.now))
        return self._listing(nodes=[row for row in self._process.node_rows() if row.node == node])

    async def events(self, request: Request, _: dict[str, str]) -> Reply:
        """Facts after `index`: a list, or with `follow=1` server-sent events without end."""
        after = int(_number(request, "index", 0))
        if request.headers.get("last-event-id", "").isdigit():
            after = int(request.headers["last-event-id"])
        if request.query.get("follow") == "1":
            return Reply(kind="text/event-stream", stream=self._stream(after))
        return reply(self._process.facts(after, EVENTS_MAX))

    async def _stream(self, after: int) -> AsyncIterator[bytes]:
        while True:
            found = self._process.facts(after, EVENTS_MAX)
            for row in found:
                after = row.index
                yield b"id: %d\nevent: %s\ndata: %s\n\n" % (
                    row.index,
                    row.kind.encode(),
                    msgspec.json.encode(row),
                )
            if not found and not await self._process.wait_for_news(15.0):
                yield b": still here\n\n"


def _number(request: Request, name: str, default: float) -> float:
    text = request.query.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 2.0**53:
        raise BadRequest(400, f"{name}: expected a number from 0, got {text[:40]!r}")
    return value


_JOB_QUERY = (("open", "1: only jobs that have not ended"),)
_TASK_QUERY = (
    ("job", "of one job"),
    ("active", "1: only those on nodes"),
    ("limit", "so many rows at most"),
)
_OUTPUT_QUERY = (
    ("stream", "stdout or stderr"),
    ("offset", "bytes to skip"),
    ("run", "an earlier run"),
)
ROUTES = (
    Route("GET", "/v1/status", "The cluster at a glance", Api.status, an.StatusAnswer),
    Route("GET", "/v1/jobs", "All jobs", Api.jobs, an.Listing, query=_JOB_QUERY),
    Route(
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
    Route(
        "GET",
        "/v1/jobs/{job}",
        "How a job stands",
        Api.job,
        an.JobResult,
        query=(("wait_s", "wait for its end"),),
    ),
    Route("DELETE", "/v1/jobs/{job}", "Kill a job", Api.kill, an.Submitted),
    Route("GET", "/v1/jobs/{job}/why", "Why a job waits", Api.why, an.WhyAnswer),
    Route("GET", "/v1/tasks", "Tasks", Api.tasks, an.Listing, query=_TASK_QUERY),
    Route("DELETE", "/v1/tasks/{task}", "Kill one task", Api.kill_task, an.Submitted),
    Route(
        "GET",
        "/v1/tasks/{task}/output",
        "What a task wrote",
        Api.output,
        an.OutputAnswer,
        query=_OUTPUT_QUERY,
    ),
    Route("GET", "/v1/nodes", "Nodes", Api.nodes, an.Listing),
    Route(
        "POST",
        "/v1/nodes/{node}/drain",
        "Drain a node, or undo it",
        Api.drain,
        an.Listing,
        DrainOrder,
    ),
    Route(
        "GET",
        "/v1/events",
        "What happened and was decided",
        Api.events,
        list[an.EventRow],
        query=(
            ("index", "only what came after"),
            ("follow", "1: server-sent events, resumable by Last-Event-ID"),
        ),
    ),
)


def openapi() -> dict[str, Any]:
    """The OpenAPI document of the routes above."""
    kinds = [
        kind for route in ROUTES for kind in (*_answers(route), route.body) if kind is not None
    ]
    kinds.append(an.ErrorAnswer)
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    by_kind = dict(zip(map(repr, kinds), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Murmuration", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _answers(route: Route) -> tuple[Any, ...]:
    return route.answers if isinstance(route.answers, tuple) else (route.answers,)


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    def content(*kinds: Any) -> dict[str, Any]:
        found = [schemas[repr(kind)] for kind in kinds]
        return {"application/json": {"schema": found[0] if len(found) == 1 else {"oneOf": found}}}

    names = re.findall(r"\{(\w+)\}", route.path)
    text = {"type": "string"}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": route.handler.__name__,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": text} for name in names
        ]
        + [
            {"name": name, "in": "query", "description": what, "schema": text}
            for name, what in route.query
        ],
        "responses": {
            "2XX": {"description": "The answer", "content": content(*_answers(route))},
            "4XX": {"description": "What was wrong", "content": content(an.ErrorAnswer)},
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": content(route.body)}
    return operation
