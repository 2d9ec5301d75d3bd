"""The node agent process: one or many node agents over one connection. It imports neither Numba nor
NumPy: there is one on every host, and it should weigh nothing.

**Who does what.** The state machine (`schedulers/central/node_agent.py`) decides, the driver hands
it events and carries out effects, the executor has the processes. This module connects them, and
keeps the loop free: a heartbeat that comes late can cost a whole node its tasks. Hence one start
for each round of the loop, kills of many runs in one pass and their clearing up one by one, and
containers, which take a tenth of a second to start, on threads of their own.

**Outliving the agent.** Tasks must survive an agent that crashes or is replaced, and must not
survive the lease under which they run. So three things beside the agent's memory exist on disk
before they are needed: the identity of the node, by which a master knows it again; the end of the
lease, which a new agent inherits instead of beginning a fresh one; and a watchdog, a process of its
own that ends the tasks when the lease is over and no agent was there to do it. An agent that finds
the watchdog gone starts another.

**Sessions.** Every connection gets a number larger than all before it, kept on disk and not below
the clock's milliseconds. A master holds on to the highest it has seen of a node: what an old
connection still carries is recognised as old, also after this process was replaced and after the
clock was set back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import secrets
import signal
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.client.links import Links
from murmuration.runtime.drive import LiveDriver
from murmuration.runtime.folder import NODES
from murmuration.runtime.isolations import ISOLATION
from murmuration.runtime.locks import hold
from murmuration.runtime.logs import set_term, set_up_logs
from murmuration.runtime.net.addresses import parse_address
from murmuration.runtime.net.directory import FolderDirectory, JoinDirectory
from murmuration.runtime.net.transport import Connection
from murmuration.runtime.net.wire import (
    BeginSession,
    Hello,
    HelloAnswer,
    ReadOutput,
    SessionBegun,
    SessionPart,
    TalkToSession,
)
from murmuration.runtime.node.beside import ExecSessions
from murmuration.runtime.node.emulated import EmulatedExecutor
from murmuration.runtime.node.executor import DiskBounds, Executor
from murmuration.runtime.node.host import NodeHost, ThisHost
from murmuration.runtime.node.images.library import open_library
from murmuration.runtime.node.watchdog import AGENT_LOCK, FencedRuns, Lease
from murmuration.runtime.options import AgentOptions, EmulatedNode
from murmuration.schedulers.agent import (
    Connected,
    Disconnected,
    Do,
    Message,
    Send,
)
from murmuration.schedulers.central.messages import HangUp, Heartbeat, ToAgent
from murmuration.schedulers.central.node_agent import (
    CentralNodeAgent,
    Freeze,
    GiveUp,
    Kill,
    Leased,
    Leave,
    RunForgotten,
    RunOver,
    RunStopping,
    Start,
    Thaw,
)
from murmuration.schedulers.central.services.health import CheckHealth
from murmuration.schedulers.offers.messages import MASTER

if TYPE_CHECKING:
    from murmuration.runtime.metrics import MetricFamily

LOOK_S = 1.0
LEAVE_S = 10.0
#: How long tasks may run that are found without a lease.
FIRST_LEASE_S = 60.0
#: A run that waits for its start is asked for its output again after this.
START_S = 0.05

log = logging.getLogger("murmuration.agent")


class JournalNotes:
    """The notes of a node agent, in the journal of its executor: each is a line that is on disk
    when it is added."""

    def __init__(self, hosted: Hosted) -> None:
        self._hosted = hosted

    def add_event(self, event: Message, now: float) -> None:
        """Events are not kept: what runs is found again by looking."""

    def add_fact(self, fact: Message, now: float) -> None:
        executor = self._hosted.executor
        match fact:
            case RunStopping():
                executor.note_stop(fact)
            case RunOver(ended):
                executor.note_end(ended)
            case RunForgotten(run):
                executor.forget(run)

    def write(self) -> None:
        return None


class Hosted:
    """One node agent of this process: its state machine, its driver, its executor."""

    def __init__(
        self, process: AgentProcess, options: AgentOptions, node: EmulatedNode | None
    ) -> None:
        self._process, self._host = process, process.host
        self._lease: Lease | None = None
        self._leased_until_s = math.inf
        #: Starts that wait, runs that are to end at once, and what was measured last.
        self._starts: deque[Start] = deque()
        self._doomed: dict[str, str] = {}
        self.usage: dict[str, tuple[float, int]] = {}
        self.executor: Executor | EmulatedExecutor
        self.sessions: ExecSessions | None = None
        self.folder = Path(options.folder) / NODES / options.name
        identity = secrets.token_hex(8) if node is not None else self._take_folder()
        about = options if node is None else node
        attributes = dict(about.attributes)
        self.agent = CentralNodeAgent(about.name, identity, about.resources, attributes)
        #: What comes by the connection and what the executor sees is told to it.
        self.driver = LiveDriver(
            self.agent, self._host.monotonic, JournalNotes(self), self._carry_out
        )
        if node is not None:
            self.executor = EmulatedExecutor(self.driver.tell)
        else:
            self._make_executor(options)

    def _take_folder(self) -> str:
        """The folder of a node is one agent's at a time; its identity outlives the agent."""
        folder = self.folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = hold(folder / AGENT_LOCK, f"a node agent named {folder.name!r}")
        with contextlib.suppress(FileExistsError), open(folder / "identity", "x") as file:
            file.write(secrets.token_hex(8))
        return (folder / "identity").read_text()

    def _make_executor(self, options: AgentOptions) -> None:
        """An executor on what earlier agents have left in the folder, and a watchdog beside it."""
        isolation, host, folder = self._host.isolate(options), self._host, self.folder
        self.agent.attributes[ISOLATION] = isolation.name
        self._lease = Lease(folder)
        fenced = FencedRuns(folder)
        tasks = folder / "tasks"
        images = open_library(folder, tasks, options)
        bounds = DiskBounds(options.disk_bytes_max, options.kept_bytes_max)
        tell = self.driver.tell
        self.executor = Executor(
            tasks, isolation, fenced.read, tell, host, options.volumes, images, bounds
        )
        self.sessions = ExecSessions(isolation, self.executor.running)
        # What an earlier agent left may run for as long as its lease says, and not a lease longer
        # for every agent that starts.
        self._leased_until_s = min(self._lease.read(), host.monotonic() + FIRST_LEASE_S)
        self._lease.write(self._leased_until_s)
        host.end_watchdog(folder)
        fenced.keep(self.executor.unsettled)
        self._watchdog = host.start_watchdog(folder, folder / "tasks", isolation)

    def begin(self) -> None:
        """Find what an agent before this one has left."""
        runs, ended = self.executor.find()
        now, stopping = self._host.monotonic(), self.executor.stopping
        self.agent.find(runs, ended, now, stopping, self._leased_until_s)
        self.executor.watch_found()
        self.driver.start()

    async def look(self) -> None:
        """Once a second: at the tasks, and at the watchdog, which must not be gone. What was
        measured goes with the next heartbeat, which does not wait for measuring."""
        if self._lease is not None:
            self._lease.beat(self._host.monotonic())
        for _ in self.executor.poll_each():
            await asyncio.sleep(0)
        self.usage = self.executor.usage()
        if isinstance(self.executor, Executor) and self._host.has_ended(self._watchdog):
            log.warning("the watchdog was gone")
            self._watchdog = self._host.start_watchdog(
                self.folder, self.folder / "tasks", self.executor.isolation
            )

    def _carry_out(self, effect: Send | Do) -> None:
        match effect:
            case Do(act):
                self._do(act)
            case Send(_, Heartbeat() as beat):
                report = msgspec.structs.replace(beat, usage=self.usage)
                self._process.send(report, self.agent.node)
            case Send(_, message):
                self._process.send(message, self.agent.node)

    def _do(self, act: Message) -> None:
        match act:
            case Start():
                self._starts.append(act)
                if len(self._starts) == 1:
                    asyncio.get_running_loop().call_soon(self._start_next)
            case Kill(run, reason, True):
                if not self._doomed:
                    asyncio.get_running_loop().call_soon(self._end_doomed)
                self._doomed[run] = reason
            case Kill(run, reason):
                self.executor.kill(run, reason, False)
            case Freeze():
                self.executor.freeze(act)
            case Thaw():
                self.executor.thaw(act)
            case Leased(until_s):
                if self._lease is not None:
                    self._lease.write(until_s)
                if isinstance(self.executor, Executor):
                    self.executor.lease.renew(until_s)
            case CheckHealth():
                self.executor.probe(act)
            case HangUp():
                self._process.hang_up()
            case GiveUp(reason):
                self._process.give_up(reason)

    def raise_session(self, wanted: int) -> int:
        """At least this, and more than any this node has used; kept for the agents after this
        one."""
        if not isinstance(self.executor, Executor):
            return wanted
        path, last = self.folder / "session", 0
        with contextlib.suppress(OSError, ValueError):
            last = int(path.read_text()[:20])
        session = max(wanted, last + 1)
        with contextlib.suppress(OSError):
            fresh = path.with_suffix(".new")
            fresh.write_text(str(session))
            fresh.replace(path)
        return session

    def is_starting(self, run: str) -> bool:
        return any(start.launch.run == run for start in self._starts)

    def _start_next(self) -> None:
        """One start for each round of the event loop, so that heartbeats never wait for more."""
        try:
            self.executor.start(self._starts[0])
        finally:
            self._starts.popleft()
            if self._starts:
                asyncio.get_running_loop().call_soon(self._start_next)

    def _end_doomed(self) -> None:
        """All are killed in one pass; then each is looked after, one for each round of the loop."""
        doomed, self._doomed = self._doomed, {}
        self.executor.kill_all(doomed)
        asyncio.get_running_loop().call_soon(self._clear_up, deque(doomed.items()))

    def _clear_up(self, left: deque[tuple[str, str]]) -> None:
        self.executor.kill(*left.popleft(), True)
        if left:
            asyncio.get_running_loop().call_soon(self._clear_up, left)

    def close(self) -> None:
        self.driver.close()
        if self.sessions is not None:
            self.sessions.close()
        if isinstance(self.executor, Executor):
            self._host.end_watchdog(self.folder)


class AgentProcess:
    """Hosts node agents and keeps the connection to the master."""

    def __init__(self, options: AgentOptions, host: NodeHost | None = None) -> None:
        self.options, self.host = options, host or ThisHost()
        self._directory = make_directory(options)
        nodes: list[EmulatedNode | None] = [*options.emulated] or [None]
        hosted = [Hosted(self, options, node) for node in nodes]
        self._hosted = {one.agent.node: one for one in hosted}
        self._connection: Connection | None = None
        self._links = Links(
            self._directory,
            Hello("", "agent", waits=True),
            self._receive,
            self._join,
            self._lose,
            lambda error: log.warning("no master: %s", str(error) or type(error).__name__),
        )
        self._error = ""
        self._leaving = asyncio.Event()
        self._session = 0
        self._talks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._leaving.set)
        loop.add_signal_handler(signal.SIGHUP, hand_over)
        for hosted in self._hosted.values():
            hosted.begin()
        await self._serve_metrics()
        work = [asyncio.create_task(self._links.keep()), asyncio.create_task(self._look())]
        leaving = asyncio.create_task(self._leaving.wait())
        await asyncio.wait([*work, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not self._error:
            await self._leave()
        for task in [*work, leaving]:
            task.cancel()
        await asyncio.gather(*work, leaving, return_exceptions=True)
        if self._connection is not None:
            self._connection.close()
        for hosted in self._hosted.values():
            hosted.close()
        if self._error:
            raise InputError(self._error)

    async def _serve_metrics(self) -> None:
        port, folder = self.options.metrics_port, Path(self.options.folder)
        if port is None:
            return
        from murmuration.runtime.node.metrics import list_agent_metrics, serve_metrics

        def families() -> list[MetricFamily]:
            is_connected, now = self._connection is not None, self.host.monotonic()
            return list_agent_metrics(list(self._hosted.values()), folder, is_connected, now)

        self._metrics = await serve_metrics(port, folder / NODES / self.options.name, families)

    def hang_up(self) -> None:
        """The master is silent: dial again, and where there are several, another one."""
        if self._connection is not None:
            log.warning("the master is silent")
            self._connection.abort()

    def give_up(self, reason: str) -> None:
        self._error = reason
        self._leaving.set()

    async def _leave(self) -> None:
        """End all tasks and tell the master of it, if that can be done."""
        for hosted in self._hosted.values():
            hosted.driver.tell(Leave())
        deadline = self.host.monotonic() + LEAVE_S
        while (
            any(hosted.agent.busy for hosted in self._hosted.values())
            and self.host.monotonic() < deadline
        ):
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.05)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for hosted in self._hosted.values():
                await hosted.look()

    # The connection.

    def _join(self, connection: Connection, _: HelloAnswer) -> None:
        self._connection = connection
        self._session = self._next_session()
        for hosted in self._hosted.values():
            hosted.driver.tell(Connected(MASTER, self._session))

    def _next_session(self) -> int:
        """A number larger than that of every connection before, also by an agent before this one
        and after the clock was set back."""
        wanted = max(self._session + 1, int(1000 * self.host.wall()))
        return max([wanted, *(hosted.raise_session(wanted) for hosted in self._hosted.values())])

    def _receive(self, connection: Connection, request: int, node: str, message: Any) -> None:
        hosted = self._hosted.get(node)
        if connection is not self._connection or hosted is None:
            return
        if isinstance(message, ToAgent):
            set_term(message.term)
            hosted.driver.tell(message)
        elif isinstance(message, ReadOutput):
            # After the turn of what came before it: the launch of the run may be among that.
            loop = asyncio.get_running_loop()
            loop.call_soon(self._read_output, connection, request, hosted, message)
        elif isinstance(message, BeginSession | TalkToSession):
            talk = asyncio.create_task(self._talk(connection, request, hosted, message))
            self._talks.add(talk)
            talk.add_done_callback(self._talks.discard)

    async def _talk(
        self,
        connection: Connection,
        request: int,
        hosted: Hosted,
        message: BeginSession | TalkToSession,
    ) -> None:
        """Answer somebody who runs a command beside a task."""
        sessions, none = hosted.sessions, "emulated nodes run no commands"
        answer: SessionBegun | SessionPart
        match message:
            case BeginSession() if sessions is not None:
                answer = sessions.begin(message)
            case TalkToSession() if sessions is not None:
                answer = await sessions.talk(message)
            case BeginSession():
                answer = SessionBegun(error=none)
            case _:
                answer = SessionPart(error=none)
        connection.answer(answer, hosted.agent.node, request)

    def _read_output(
        self, connection: Connection, request: int, hosted: Hosted, message: ReadOutput
    ) -> None:
        if hosted.is_starting(message.run):
            loop = asyncio.get_running_loop()
            loop.call_later(START_S, self._read_output, connection, request, hosted, message)
            return
        part = hosted.executor.read(message.run, message.stream, message.offset, message.size)
        connection.answer(part, hosted.agent.node, request)

    def _lose(self, connection: Connection) -> None:
        if connection is self._connection:
            self._connection = None
            for hosted in self._hosted.values():
                hosted.driver.tell(Disconnected(MASTER, self._session))

    def send(self, message: Any, node: str) -> None:
        if self._connection is not None:
            self._connection.send(message, node)


def hand_over() -> None:
    """End as a crash would: tasks go on, and the next agent on this folder takes them up, if it
    comes before the lease is over. That is how an agent is replaced by one of another version."""
    log.info("this agent hands over to the next one")
    os._exit(0)


def make_directory(options: AgentOptions) -> FolderDirectory:
    folder = Path(options.folder)
    if not options.join:
        return FolderDirectory(folder)
    try:
        token_file = Path(options.token_file) if options.token_file else None
        return JoinDirectory(folder, [parse_address(text) for text in options.join], token_file)
    except ValueError as error:
        raise InputError(f"--join: expected HOST:PORT, {error}") from error


def main(options: AgentOptions) -> None:
    os.umask(0o077)  # the shim gives a task the usual one
    set_up_logs(options.log_format, "agent", options.name)
    with contextlib.suppress(FileNotFoundError):
        FolderDirectory(Path(options.folder)).check()

    async def run() -> None:
        await AgentProcess(options).run()

    asyncio.run(run())


if __name__ == "__main__":
    try:
        main(msgspec.json.decode(sys.argv[1], type=AgentOptions))
    except InputError as problem:
        print(f"murmur: {problem}", file=sys.stderr)
        sys.exit(2)
