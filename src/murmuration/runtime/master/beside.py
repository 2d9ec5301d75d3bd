"""What the API offers for tasks and services that run: scaling, moving, and commands beside a task.

A command is a session that is begun, then talked to until it ends. Two requests instead of one
connection that stays open: every answer is bounded, any HTTP client can do it, and a master that is
replaced in the middle loses a command and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from murmuration.runtime.master.access import caller_of
from murmuration.runtime.master.answers import MoveAnswer, Submitted, render_explanation
from murmuration.runtime.master.openapi import ApiRoute
from murmuration.runtime.net.http import Refusal, decode_body, read_body, reply
from murmuration.runtime.net.wire import (
    BeginSession,
    SessionBegun,
    SessionPart,
    TalkToSession,
)
from murmuration.schedulers.central.explain import job_state
from murmuration.schedulers.central.jobs import MOVABLE, CentralTaskState
from murmuration.schedulers.central.messages import MoveTask, RollBackJob, ScaleJob
from murmuration.schedulers.central.queue.bounds import explain_full
from murmuration.workload.job_spec import COUNT_MAX

if TYPE_CHECKING:
    from murmuration.runtime.master.api import Api

#: How long a command may take if nobody says, and at most; bytes of its command line.
LIMIT_S, LIMIT_MAX_S, WORDS_MAX = 3600.0, 86_400.0, 2**17
#: Rows and columns that a terminal can have.
SIZE_MAX = 2**16 - 1


class ExecOrder(msgspec.Struct, forbid_unknown_fields=True):
    """A command to run beside a task."""

    command: list[str]
    #: Seconds after which it is killed.
    timeout_s: float = LIMIT_S
    #: Whether it will be given input; without, it reads nothing.
    input: bool = False
    #: The size of the terminal it has; without one it has pipes.
    rows: int = 0
    columns: int = 0


class ExecStarted(msgspec.Struct):
    task: str
    session: str


class ExecInput(msgspec.Struct, forbid_unknown_fields=True):
    """Input, in base64, and how long to wait for something to be written."""

    data: bytes = b""
    is_last: bool = False
    wait_s: float = 0.0
    #: The size of its terminal, if that has changed.
    rows: int = 0
    columns: int = 0


class ExecAnswer(msgspec.Struct):
    """What the command wrote, in base64; with a code it has ended, and the session with it."""

    stdout: bytes
    stderr: bytes
    taken: int
    code: int | None
    reason: str


class ScaleOrder(msgspec.Struct, forbid_unknown_fields=True):
    count: int


async def scale(api: Api, request: Request, names: dict[str, str]) -> Response:
    """Have so many tasks of a job."""
    job, order = api.reading.job(names["job"]), decode_body(await read_body(request), ScaleOrder)
    if not 1 <= order.count <= COUNT_MAX:
        sentence = f"expected a number from 1 to {COUNT_MAX}, got {order.count}"
        raise Refusal(422, f"{sentence}; murmur kill ends a job")
    if job.status or job.killed:
        raise Refusal(409, f"job {job.name!r} is {job_state(job)}, and cannot be scaled")
    if job.spec.gang:
        raise Refusal(409, f"job {job.name!r} is a gang, whose tasks start together")
    if full := explain_full(api.master.jobs.queue, order.count):
        raise Refusal(429, f"the queue is full: {full}")
    index = await api.tell(ScaleJob(job.name, order.count))
    return reply(Submitted(job.name, order.count, index), 202)


async def move(api: Api, request: Request, names: dict[str, str]) -> Response:
    """Run a task on another node; with `dry_run`, say where that would be."""
    job, task = api.reading.task(names["task"])
    if task.state not in MOVABLE:
        raise Refusal(409, f"task {names['task']!r} is {task.state}, and cannot be moved")
    if job.spec.gang:
        raise Refusal(409, f"job {job.name!r} is a gang, whose tasks start together")
    run, forecast = task.run, api.reading.forecast_move(job, task)
    if request.query_params.get("dry_run") == "1":
        return reply(render_explanation(forecast))
    if not forecast.target:
        raise Refusal(409, f"no other node has room for {names['task']!r}")
    index = await api.tell(MoveTask(job.name, task.index, run))
    return reply(Submitted(job.name, 1, index), 202)


async def roll_back(api: Api, request: Request, names: dict[str, str]) -> Response:
    """Give a service the specification it had before."""
    job = api.reading.job(names["job"])
    if job.status or job.killed:
        raise Refusal(409, f"job {job.name!r} is {job_state(job)}, and cannot be rolled back")
    if job.rollout.previous is None:
        raise Refusal(409, f"job {job.name!r} was never changed, so there is nothing to go back to")
    index = await api.tell(RollBackJob(job.name))
    return reply(Submitted(job.name, job.spec.count, index, job.rollout.version), 202)


async def begin_exec(api: Api, request: Request, names: dict[str, str]) -> Response:
    """Start a command beside a task that runs."""
    job, task = api.reading.task(names["task"])
    order = decode_body(await read_body(request), ExecOrder)
    words = order.command
    if not words or not words[0] or any("\0" in word for word in words):
        raise Refusal(422, "command: expected a program and its arguments, without zero bytes")
    if sum(map(len, words)) > WORDS_MAX:
        raise Refusal(422, f"command: expected at most {WORDS_MAX} characters")
    if not 0 < order.timeout_s <= LIMIT_MAX_S:
        raise Refusal(422, f"timeout_s: expected seconds above 0, at most {LIMIT_MAX_S:g}")
    if task.state is not CentralTaskState.RUNNING:
        raise Refusal(409, f"{names['task']} is {task.state}; only a task that runs can be entered")
    run = f"{job.name}.{task.index}.{task.run}"
    size = read_size(order)
    takes_input, user = order.input or size is not None, caller_of(request).user
    begin = BeginSession(run, tuple(words), order.timeout_s, takes_input, size, user)
    answer = await api.ask_node(task.node, begin)
    assert isinstance(answer, SessionBegun)
    if answer.error:
        raise Refusal(409, answer.error)
    # The run and its node belong to the name: by the next request the task may be elsewhere.
    name = f"{answer.session}@{task.run}@{task.node}"
    return reply(ExecStarted(names["task"], name), 201)


def read_size(order: ExecOrder | ExecInput) -> tuple[int, int] | None:
    """Rows and columns of a terminal, if it is spoken of."""
    if not order.rows and not order.columns:
        return None
    for name, value in (("rows", order.rows), ("columns", order.columns)):
        if not 1 <= value <= SIZE_MAX:
            raise Refusal(422, f"{name}: expected a number from 1 to {SIZE_MAX}, got {value}")
    return order.rows, order.columns


async def talk_exec(api: Api, request: Request, names: dict[str, str]) -> Response:
    """Give a command input and fetch its output."""
    job, task = api.reading.task(names["task"])
    order = decode_body(await read_body(request) or b"{}", ExecInput)
    session, run, node = (*names["session"].split("@", 2), "", "")[:3]
    if not (run.isascii() and run.isdigit()):
        raise Refusal(404, "expected the name of a session, as the answer that began it has it")
    api.reading.check_node(node)
    wait_s = min(max(order.wait_s, 0.0), LIMIT_MAX_S)
    name = f"{job.name}.{task.index}.{run}"
    size = read_size(order)
    talk = TalkToSession(session, name, order.data, order.is_last, wait_s, size)
    part = await api.ask_node(node, talk)
    assert isinstance(part, SessionPart)
    if part.error:
        raise Refusal(404, part.error)
    return reply(ExecAnswer(part.stdout, part.stderr, part.taken, part.code, part.reason))


SERVICE_ROUTES = (
    ApiRoute("POST", "/v1/jobs/{job}/scale", "Have so many tasks", scale, Submitted, ScaleOrder),
    ApiRoute(
        "POST", "/v1/jobs/{job}/rollback", "Go back to the version before", roll_back, Submitted
    ),
    ApiRoute(
        "POST",
        "/v1/tasks/{task}/move",
        "Run a task on another node",
        move,
        (Submitted, MoveAnswer),
        query=(("dry_run", "1: say where it would go, move nothing"),),
    ),
    ApiRoute(
        "POST",
        "/v1/tasks/{task}/exec",
        "Run a command beside a task",
        begin_exec,
        ExecStarted,
        ExecOrder,
    ),
    ApiRoute(
        "POST",
        "/v1/tasks/{task}/exec/{session}",
        "Give a command input, and fetch its output",
        talk_exec,
        ExecAnswer,
        ExecInput,
    ),
)
