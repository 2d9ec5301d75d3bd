"""The master process: it listens for clients, node agents and schedulers, and hands what they say
to the engine."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.folder import STORE
from murmuration.runtime.master.api import Api, make_app
from murmuration.runtime.master.engine import Clock, Engine
from murmuration.runtime.master.reading import ReadModel
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.master.usage import UsageMeter
from murmuration.runtime.net.directory import FolderDirectory, Leader
from murmuration.runtime.net.http import HttpServer, Refusal
from murmuration.runtime.net.sockets import listen
from murmuration.runtime.net.transport import HELLO_MAX, Connection
from murmuration.runtime.net.wire import Hello, HelloAnswer, Output, ReadOutput
from murmuration.runtime.options import MasterOptions
from murmuration.runtime.store.sqlite import SqliteStore
from murmuration.schedulers.agent import Disconnected, Do, Send
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentJoined,
    FromAgent,
    HangUp,
    Heartbeat,
    Order,
    Refused,
    ToAgent,
    Welcome,
)
from murmuration.schedulers.offers.messages import FromFramework, ReplyToOffer, SetNeedsOffers
from murmuration.workload.job_spec import NAME

HELLO_S = 10.0

log = logging.getLogger("murmuration.master")


@dataclass
class Peer:
    """Who is at the other end of a connection: node agents by name with their sessions, or one
    scheduler."""

    role: str
    name: str
    sessions: dict[str, int] = field(default_factory=dict)


class MasterProcess:
    """One master. It is the only writer of its folder's store."""

    def __init__(self, options: MasterOptions) -> None:
        self.folder = Path(options.folder)
        self.directory = FolderDirectory(self.folder)
        self.directory.create()
        settings, options.scheduler, options.placement = live_settings(options)
        self.options = options
        self.clock = Clock()
        self.master = CentralMaster(settings, options.seed)
        self.engine = Engine(self.master, self.clock, self._carry_out)
        self._token = self.directory.credentials().token
        #: The connection of each node that the master has welcomed, and of each that has said it
        #: would join: by its name and the number it gave the connection.
        self._agents: dict[str, Connection] = {}
        self._sessions: dict[tuple[str, int], Connection] = {}
        self._frameworks: dict[str, Connection] = {}
        self._meter = UsageMeter()
        self.reading = ReadModel(self.master, self.engine.log, self._meter, self.clock.now, options)

    async def run(self) -> None:
        """Until SIGTERM or SIGINT."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await self.directory.lead()
        store = SqliteStore(self.folder / STORE)
        self.reading.epoch = self.engine.start(store, self.options)
        work = [asyncio.create_task(self.engine.run())]
        api = Api(self.master, self.reading, self.engine, self.read_output)
        http = HttpServer(make_app(api, self._token))
        servers = await self._listen(http)
        stopping = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([*work, stopping], return_when=asyncio.FIRST_COMPLETED)
        for server in servers:
            server.close()
        await http.close()
        for task in [*work, stopping]:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        await self.directory.withdraw()
        self.engine.close()
        for task in done - {stopping}:
            task.result()

    async def _listen(self, http: HttpServer) -> tuple[asyncio.Server, asyncio.Server]:
        """Listen for HTTP and for frames, and announce where. A master that starts again takes the
        ports it had before if it can."""
        loop, host = asyncio.get_running_loop(), self.options.host
        tls = self.directory.credentials().server_tls
        api_ports, frame_ports = [0], [0]
        with contextlib.suppress(InputError):
            before = self.directory.leader()
            api_ports, frame_ports = [before.api.port, 0], [before.frames.port, 0]
        if self.options.port:
            api_ports = [self.options.port]
        api, api_at = await listen(loop, http.make_protocol, host, api_ports, tls)
        frames, frames_at = await listen(loop, self._accept, host, frame_ports, tls)
        self.reading.url = api_at.url
        await self.directory.announce(Leader(api_at, frames_at, os.getpid()))
        log.info("listening on %s", api_at.url)
        return api, frames

    def _accept(self) -> Connection:
        """A stranger may be silent for a while, but not for ever."""
        connection = Connection(self._receive, self._lose, HELLO_MAX)

        def look() -> None:
            if connection.peer is None:
                connection.abort()

        asyncio.get_running_loop().call_later(HELLO_S, look)
        return connection

    # Frames.

    def _receive(self, connection: Connection, request: int, node: str, message: Any) -> None:
        if connection.peer is None:
            self._hello(connection, message, request)
        elif (
            connection.peer.role == "agent"
            and isinstance(message, FromAgent)
            and message.node == node
        ):
            self._from_agent(connection, message)
        elif connection.peer.role == "scheduler" and isinstance(message, FromFramework):
            if message.framework == connection.peer.name and _has_orders(message):
                self.engine.tell(message)
            else:
                connection.abort()
        else:
            log.warning(
                "a %s said %s, which it may not", connection.peer.role, type(message).__name__
            )
            connection.abort()

    def _hello(self, connection: Connection, hello: Any, request: int) -> None:
        wrong = ""
        if not isinstance(hello, Hello) or not hmac.compare_digest(
            hello.token.encode(), self._token.encode()
        ):
            wrong = "expected the cluster's token"
        elif hello.role == "scheduler" and (not NAME.fullmatch(hello.name) or hello.name == JOBS):
            wrong = (
                f"expected a scheduler's name of letters, digits, - and _ other than {JOBS}, "
                f"got {hello.name[:70]!r}"
            )
        elif hello.role == "scheduler" and hello.name in self._frameworks:
            wrong = f"a scheduler named {hello.name!r} is connected already"
        elif hello.role not in ("agent", "scheduler"):
            wrong = f"expected the role agent or scheduler, got {hello.role[:20]!r}"
        connection.answer(HelloAnswer(wrong, self.master.settings.resources.names), "", request)
        if wrong:
            connection.close()
            return
        connection.trust()
        connection.peer = Peer(hello.role, hello.name)
        if hello.role == "scheduler":
            self._frameworks[hello.name] = connection

    def _from_agent(self, connection: Connection, message: FromAgent) -> None:
        """A node agent speaks, on a connection that it has said is its own."""
        node, key = message.node, (message.node, message.session)
        if isinstance(message, AgentJoined) and key not in self._sessions:
            self._forget_session(connection, node)
            self._sessions[key] = connection
            connection.peer.sessions[node] = message.session
        if self._sessions.get(key) is not connection:
            return
        if isinstance(message, Heartbeat) and self.master.leases.is_current(*key):
            self._meter.update(
                node, message.usage, self.clock.now(), lambda run: self._is_on(run, node)
            )
        self.engine.tell(message)

    def _forget_session(self, connection: Connection, node: str) -> None:
        """Nothing more is heard from a node on this connection, nor of its end."""
        self._sessions.pop((node, connection.peer.sessions.pop(node, 0)), None)
        if self._agents.get(node) is connection:
            del self._agents[node]

    def _is_on(self, run: str, node: str) -> bool:
        entry = self.master.jobs.runs.get(run)
        return entry is None or entry[1].node == node

    def _lose(self, connection: Connection) -> None:
        peer = connection.peer
        if peer is None:
            if connection.wrong:
                log.warning("a stranger sent %s", connection.wrong)
            return
        if peer.role == "scheduler":
            del self._frameworks[peer.name]
            self.engine.tell(SetNeedsOffers(peer.name, False))
            for offer in [
                o.offer for o in self.master.books.offers.values() if o.framework == peer.name
            ]:
                self.engine.tell(ReplyToOffer(peer.name, offer))
        for node, session in list(peer.sessions.items()):
            self._forget_session(connection, node)
            self.engine.tell(Disconnected(node, session))

    def _carry_out(self, effect: Send | Do) -> None:
        """Send a message of the master or do what it asks, if the other side is still there."""
        match effect:
            case Send(to, message) if isinstance(message, ToAgent):
                connection = self._sessions.get((to, message.session))
                if connection is not None:
                    connection.send(message, to)
                    self._answer_join(connection, to, message)
            case Send(to, message) if to in self._frameworks:
                self._frameworks[to].send(message)
            case Do(HangUp(node, session)):
                connection = self._sessions.get((node, session))
                if connection is not None:
                    self._forget_session(connection, node)
                    connection.abort()

    def _answer_join(self, connection: Connection, node: str, answer: ToAgent) -> None:
        if isinstance(answer, Welcome):
            self._agents[node] = connection
        elif isinstance(answer, Refused):
            log.warning("%s was refused: %s", node, answer.reason)
            self._forget_session(connection, node)

    async def read_output(self, node: str, run: str, stream: str, offset: int, size: int) -> Output:
        connection = self._agents.get(node)
        if connection is None:
            raise Refusal(503, f"{node} is not connected, and the output of its tasks is there")
        try:
            part = await connection.ask(ReadOutput(run, stream, offset, size), node)
        except (TimeoutError, ConnectionError) as error:
            raise Refusal(503, f"{node} did not answer") from error
        assert isinstance(part, Output)
        if part.wrong:
            raise Refusal(404, part.wrong)
        return part


def _has_orders(message: Any) -> bool:
    """Whether every task a scheduler wants to launch says what to run."""
    for task in getattr(message, "tasks", ()):
        try:
            msgspec.convert(task.payload, Order)
        except msgspec.ValidationError:
            return False
    return True


def main(options: MasterOptions) -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    asyncio.run(MasterProcess(options).run())


if __name__ == "__main__":
    import sys

    try:
        main(msgspec.json.decode(sys.argv[1], type=MasterOptions))
    except InputError as problem:
        print(f"murmur: {problem}", file=sys.stderr)
        sys.exit(2)
