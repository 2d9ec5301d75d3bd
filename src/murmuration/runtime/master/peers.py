"""Who is connected to a master by frames: node agents and schedulers, and what each may say.

A connection begins with a `Hello` that has the cluster's token. After that a node agent may speak
for the nodes that have joined on this connection, and a scheduler under its own name; any other
message closes the connection. The master's state machine decides; here its messages find their
connections.

A node has a connection in two senses. `_sessions` has every one that asked to join, by the number
the node gave it; the state machine answers to a session, so that a welcome cannot reach a
connection that came later. `_agents` has the one that was welcomed last, which is asked for outputs
and the like. A node that dials again while its old connection seems to stand is usual (its host was
suspended, a link was cut): both sessions are known until one ends. The state machine goes by the
higher number, and the end of the other, whenever it comes, means nothing to it.

Whoever has not said hello holds memory and a descriptor, so there may be few of them, for a short
time, with small frames; the oldest makes room for the next, and none of them can fill a log.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard, get_args

import msgspec

from murmuration.runtime.master.usage import UsageMeter
from murmuration.runtime.master.vetting import find_fault, tidy
from murmuration.runtime.net.callers import OWNER, VIEWER, Caller, Doorkeeper, certified
from murmuration.runtime.net.http import Refusal
from murmuration.runtime.net.transport import HELLO_MAX, Connection
from murmuration.runtime.net.wire import (
    Hello,
    HelloAnswer,
    NowLeads,
    Output,
    ReadOutput,
    YourTurn,
)
from murmuration.schedulers.agent import Disconnected, Do, Message, Send, speaker_of
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentJoined,
    EndSessions,
    FromAgent,
    HangUp,
    Heartbeat,
    Order,
    Refused,
    ToAgent,
    Welcome,
)
from murmuration.schedulers.offers.messages import (
    CommitTasks,
    FrameworkGone,
    FromFramework,
    ReplyToOffer,
)
from murmuration.workload.job_spec import NAME

if TYPE_CHECKING:
    from murmuration.runtime.net.certificates import Identity

HELLO_S = 10.0
#: What node agents say and hear; to look a type up is quicker than to try every member of a union.
FROM_AGENT, TO_AGENT = frozenset(get_args(FromAgent)), frozenset(get_args(ToAgent))
#: Which certificates are good for which role of a hello. A master's is good for all: it may do
#: everything anyway, and the node agents on its host use it.
CERTIFIED = {"agent": ("agent", "master"), "scheduler": ("submitter", "operator", "master")}
#: Connections without a hello; the oldest makes room for the next.
STRANGERS_MAX = 64
#: Bytes of an output that are asked for at once, at first and within bounds; what is quick, and
#: what is slow.
PART_FIRST, PART_MIN, PART_MAX = 2**16, 2**13, 2**20
QUICK_S, SLOW_S = 0.1, 1.0

log = logging.getLogger("murmuration.master")
Tell = Callable[[Message], None]


@dataclass
class Peer:
    """Who is at the other end of a connection: node agents by name with their sessions, or one
    scheduler."""

    role: str
    name: str
    #: Whose certificate it has shown, on an encrypted connection.
    identity: Identity | None = None
    caller: Caller = OWNER
    sessions: dict[str, int] = field(default_factory=dict)
    #: When the time of the token that let it in is over.
    end: asyncio.TimerHandle | None = None


class ReadPace:
    """How much of an output is asked of a node at once: more while that comes quickly, less when it
    does not."""

    def __init__(self) -> None:
        self.turn, self.size = asyncio.Lock(), PART_FIRST

    def note(self, seconds: float) -> None:
        if seconds < QUICK_S:
            self.size = min(2 * self.size, PART_MAX)
        elif seconds > SLOW_S:
            self.size = max(self.size // 2, PART_MIN)


class Peers:
    """All connections of a master. `tell` gives the master an event."""

    def __init__(
        self,
        master: CentralMaster,
        meter: UsageMeter,
        clock: Callable[[], float],
        doorkeeper: Doorkeeper,
        tell: Tell,
    ) -> None:
        self._master, self._meter, self._clock = master, meter, clock
        self._doorkeeper, self._tell = doorkeeper, tell
        #: The connection of each node that the master has welcomed, and of each that has asked to
        #: join: by its name and the number it gave the connection.
        self._agents: dict[str, Connection] = {}
        self._sessions: dict[tuple[str, int], Connection] = {}
        self._frameworks: dict[str, Connection] = {}
        #: How the outputs on each node are read.
        self._paces: dict[str, ReadPace] = {}
        #: Schedulers that stand by for the one of their name, in the order in which they came.
        self._standbys: dict[str, deque[Connection]] = {}
        #: Whose the scheduler of each name is: its tasks are killed by that user alone.
        self._owners: dict[str, Caller] = {}
        self._strangers: dict[Connection, None] = {}
        #: Those that wait until this master leads, whether nobody knows who they are, and its term
        #: from then on.
        self._waiting: dict[Connection, bool] = {}
        self._term: int | None = None
        self._api = ""

    def lead(self, term: int, api: str = "") -> None:
        """This master leads, with its API at a URL: those that have waited for it may come in."""
        self._term, self._api = term, api
        waiting, self._waiting = self._waiting, {}
        for connection in waiting:
            connection.send(NowLeads())
            self._expect_hello(connection)

    def make_protocol(self) -> Connection:
        """A connection that is closed if it does not authenticate in time."""
        connection = Connection(self._receive, self._lose, HELLO_MAX)
        self._strangers[connection] = None
        if len(self._strangers) > STRANGERS_MAX:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.abort()

        self._expect_hello(connection)
        return connection

    def _expect_hello(self, connection: Connection) -> None:
        def check_hello() -> None:
            if connection.peer is None and connection not in self._waiting:
                connection.abort()

        asyncio.get_running_loop().call_later(HELLO_S, check_hello)

    # What they say.

    def _receive(self, connection: Connection, request: int, node: str, message: Any) -> None:
        peer = connection.peer
        if peer is None:
            self._greet(connection, message, request)
        elif peer.role == "agent" and type(message) in FROM_AGENT and message.node == node:
            self._from_agent(connection, message)
        elif (
            peer.role == "scheduler"
            and self._frameworks.get(peer.name) is connection
            and isinstance(message, FromFramework)
            and speaker_of(message) == peer.name
            and _may_order(message, peer.caller)
        ):
            self._tell(message)
        else:
            log.warning("a %s sent %s, which it may not", peer.role, type(message).__name__)
            connection.abort()

    def _greet(self, connection: Connection, hello: Any, request: int) -> None:
        identity = connection.identify()
        caller = self._find_caller(hello, identity)
        error = self._check_hello(hello, identity, caller)
        is_unknown = caller is None and identity is None
        if self._term is None and (not error or (is_unknown and _may_be_issued(hello))):
            self._let_wait(connection, hello, request, is_unknown)
            return
        waits = not error and hello.role == "scheduler" and hello.name in self._frameworks
        names = self._master.settings.resources.names
        is_standby, term = self._term is None, self._term or 0
        answer = HelloAnswer(error, names, waits, is_standby, term, "" if error else self._api)
        connection.answer(answer, "", request)
        if error:
            connection.close()
            return
        connection.trust()
        self._strangers.pop(connection, None)
        assert caller is not None, "who is not known was refused"
        end = self._end_with_token(connection, caller)
        connection.peer = Peer(hello.role, hello.name, identity, caller, end=end)
        if waits:
            self._standbys.setdefault(hello.name, deque()).append(connection)
        elif hello.role == "scheduler":
            self._frameworks[hello.name] = connection
            self._owners[hello.name] = caller

    def _end_with_token(self, connection: Connection, caller: Caller) -> asyncio.TimerHandle | None:
        """Nobody stays longer than the token is good that let it in."""
        token = self._master.access.tokens.get(caller.token)
        if token is None or token.lasts_s is None:
            return None
        left_s = token.issued_s + token.lasts_s - self._clock()
        return asyncio.get_running_loop().call_later(left_s, connection.abort)

    def _let_wait(
        self, connection: Connection, hello: Hello, request: int, is_unknown: bool
    ) -> None:
        """Keep a connection for the moment when this master leads: then nobody has to dial. Issued
        tokens are in the store of who leads, so who shows one is unknown until then: a few of those
        may wait, and the oldest makes room for the next."""
        if not hello.waits:
            error = "this master stands by for another one"
            connection.answer(HelloAnswer(error, is_standby=True), "", request)
            connection.close()
            return
        self._strangers.pop(connection, None)
        self._waiting[connection] = is_unknown
        unknown = [each for each, is_unknown in self._waiting.items() if is_unknown]
        for each in unknown[:-STRANGERS_MAX]:
            del self._waiting[each]
            each.abort()
        connection.answer(HelloAnswer(is_standby=True), "", request)

    def _find_caller(self, hello: object, identity: Identity | None) -> Caller | None:
        """Who says hello. A certificate stands for the token."""
        if not isinstance(hello, Hello):
            return None
        if identity is not None:
            return certified(*identity)
        return self._doorkeeper.find(hello.token.encode())

    def _check_hello(self, hello: Any, identity: Identity | None, caller: Caller | None) -> str:
        """Why somebody may not come in; empty if it may."""
        if caller is None:
            return "expected the cluster's token"
        if hello.role not in ("agent", "scheduler"):
            return f"expected the role agent or scheduler, got {hello.role[:20]!r}"
        if caller.token and (hello.role == "agent" or caller.role == VIEWER):
            return f"expected the cluster's token or a certificate for this, got that of {caller}"
        if identity is not None and identity.role not in CERTIFIED[hello.role]:
            allowed = " or ".join(CERTIFIED[hello.role])
            log.warning("%s was refused as %s", identity, hello.role)
            return f"expected the certificate of a {allowed}, got that of {identity}"
        if hello.role == "scheduler" and (not NAME.fullmatch(hello.name) or hello.name == JOBS):
            return (
                f"expected a scheduler's name of letters, digits, - and _ other than {JOBS}, "
                f"got {hello.name[:70]!r}"
            )
        if hello.role == "scheduler" and hello.name in self._frameworks and not hello.stands_by:
            return f"a scheduler named {hello.name!r} is connected already"
        if hello.role == "scheduler" and not self._may_take(hello.name, caller):
            return f"the scheduler {hello.name!r} is another user's; choose another name"
        return ""

    def _may_take(self, name: str, caller: Caller) -> bool:
        """A scheduler's name stands for the tasks that run under it: they are its user's."""
        owner = self._owners.get(name, caller)
        ledger = self._master.resource_manager.ledger
        return (
            caller == owner
            or caller.owns(owner.user)
            or (
                name not in self._frameworks
                and not any(framework == name for framework, _ in ledger.tasks)
            )
        )

    def _find_fault(self, connection: Connection, message: FromAgent) -> str:
        """What cannot be about a message: a node speaks for itself alone. Empty if it can be."""
        columns = len(self._master.settings.resources.names)
        fault = find_fault(message, columns, self._find_node)
        return fault or _check_name(connection.peer.identity, message.node)

    def _find_node(self, framework: str, run: str) -> str | None:
        """The node a run is on; None if the run is not known (any more)."""
        if framework == JOBS and run in self._master.jobs.runs:
            return self._master.jobs.runs[run][1].node
        held = self._master.resource_manager.ledger.tasks.get((framework, run))
        return held.task.node if held is not None else None

    def _from_agent(self, connection: Connection, message: FromAgent) -> None:
        """A message of a node agent, on the connection it has joined by. What cannot be is not
        heard, and the connection ends."""
        if fault := self._find_fault(connection, message):
            log.warning("a node agent was not believed: %s", fault)
            if isinstance(message, AgentJoined):
                connection.send(Refused(message.session, fault), message.node)
                connection.close()
            else:
                connection.abort()
            return
        message = tidy(message)
        node, key = message.node, (message.node, message.session)
        if isinstance(message, AgentJoined) and key not in self._sessions:
            self._forget_session(connection, node)
            self._sessions[key] = connection
            connection.peer.sessions[node] = message.session
        if self._sessions.get(key) is not connection:
            return
        if isinstance(message, Heartbeat) and self._master.leases.is_current(*key):
            now = self._clock()
            self._meter.update(node, message.usage, now, lambda run: self._is_on(run, node))
        self._tell(message)

    def _is_on(self, run: str, node: str) -> bool:
        return self._find_node(JOBS, run) in (None, node)

    def _forget_session(self, connection: Connection, node: str) -> None:
        """Ignore a node on this connection from now on, and the end of the connection."""
        self._sessions.pop((node, connection.peer.sessions.pop(node, 0)), None)
        self._meter.disconnect(node)
        if self._agents.get(node) is connection:
            del self._agents[node]
            self._paces.pop(node, None)

    def _lose(self, connection: Connection) -> None:
        peer = connection.peer
        self._strangers.pop(connection, None)
        self._waiting.pop(connection, None)
        if peer is None:
            # Nobody without the token shall fill a log.
            log.debug("a connection without a hello ended: %s", connection.error)
            return
        if peer.end is not None:
            peer.end.cancel()
        if peer.role == "scheduler":
            self._lose_scheduler(connection, peer.name)
        for node, session in list(peer.sessions.items()):
            self._forget_session(connection, node)
            self._tell(Disconnected(node, session))

    def _lose_scheduler(self, connection: Connection, name: str) -> None:
        """Its tasks go on; what was offered to it goes back. If others stand by for it, the first
        of them takes over (5.2.6); what they know of each other's work is their own affair."""
        if self._frameworks.get(name) is not connection:
            self._standbys[name].remove(connection)
            return
        del self._frameworks[name]
        self._tell(FrameworkGone(name))
        if self._standbys.get(name):
            following = self._standbys[name].popleft()
            self._frameworks[name], self._owners[name] = following, following.peer.caller
            following.send(YourTurn())

    # What the master says.

    def carry_out(self, effect: Send | Do) -> None:
        """Send a message of the master or do what it asks, if the other side is still there."""
        match effect:
            case Send(to, message) if _is_to_agent(message):
                connection = self._sessions.get((to, message.session))
                if connection is not None:
                    connection.send(message, to)
                    self._answer_join(connection, to, message)
            case Send(to, message) if to in self._frameworks:
                self._frameworks[to].send(message)
            case Do(EndSessions(token)):
                waiting = [each for line in self._standbys.values() for each in line]
                for connection in [*self._frameworks.values(), *waiting]:
                    if connection.peer.caller.token == token:
                        connection.abort()
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
        """A part of what a run has written, from the node it ran on. One part of a node at a time,
        and as large as comes in a moment: its heartbeats share the link."""
        pace = self._paces.setdefault(node, ReadPace())
        async with pace.turn:
            began, size = time.monotonic(), min(size, pace.size)
            try:
                part = await self.ask(node, ReadOutput(run, stream, offset, size))
            finally:
                pace.note(time.monotonic() - began)
        assert isinstance(part, Output)
        if part.error:
            raise Refusal(404, part.error)
        return part

    def list_connected(self) -> list[str]:
        return list(self._agents)

    async def ask(self, node: str, message: Message) -> Message:
        """The answer of a node agent to a question that is no order."""
        connection = self._agents.get(node)
        if connection is None:
            raise Refusal(503, f"{node} is not connected, and what was asked for is there")
        try:
            answer: Message = await connection.ask(message, node)
        except (TimeoutError, ConnectionError) as error:
            raise Refusal(503, f"{node} did not answer") from error
        return answer


def _is_to_agent(message: Message) -> TypeGuard[ToAgent]:
    return type(message) in TO_AGENT


def _may_be_issued(hello: object) -> bool:
    """Whether a hello may be that of a scheduler with a token of its own."""
    return isinstance(hello, Hello) and hello.role == "scheduler" and bool(hello.token)


def _check_name(identity: Identity | None, node: str) -> str:
    """A certificate speaks for the node of its name, and for those that are counted after it
    (`n1-1`, `n1-2` …)."""
    if identity is None or identity.role == "master" or node == identity.name:
        return ""
    if node.startswith(f"{identity.name}-"):
        return ""
    return f"expected a node named as the certificate of {identity}, got {node!r}"


def _may_order(message: Any, caller: Caller) -> bool:
    """Whether every task a scheduler wants to launch says what to run, and is its user's to run:
    the network of a node is for operators."""
    for task in message.tasks if isinstance(message, ReplyToOffer | CommitTasks) else ():
        try:
            order = msgspec.convert(task.payload, Order)
        except msgspec.ValidationError:
            return False
        if order.host_network and not caller.is_operator:
            return False
    return True
