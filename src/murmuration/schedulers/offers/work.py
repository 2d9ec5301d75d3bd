"""A framework scheduler that survives: its own crashes, its connection's and its master's (5.2.6).

It works off pieces of work, each a task that is to run once to its end, by offers or by optimistic
transactions. It is an agent of the contract (`schedulers/agent.py`) and shows what a scheduler from
outside has to do so that no piece is lost and none runs twice:

- **A run has a name of its own**, `piece.number`, and the number is noted before a master hears of
  it (`WorkTried`). Whatever becomes of a reply, nobody gives the same name to another run.
- **A run is in doubt until its end is told.** A new connection, and from time to time an old one,
  begins with the question which of the runs are still alive (`Reconcile`). A master says so only of
  runs that nobody can have any more; until then the piece is not tried again.
- **Offers end with the connection** on which they were made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from murmuration.schedulers.agent import (
    Connected,
    Disconnected,
    Effect,
    Message,
    Note,
    Send,
    Wake,
)
from murmuration.schedulers.offers.ledger import fits
from murmuration.schedulers.offers.messages import (
    CommitTasks,
    Committed,
    FromFramework,
    Reconcile,
    Register,
    ReplyToOffer,
    ResourceOffer,
    SetNeedsOffers,
    Status,
    StatusUpdate,
    SyncTable,
    Table,
    TableRow,
    Task,
    Vector,
)

#: How often it asks again: after runs in doubt, and for the table if something waits.
ASK_S = 5.0


class WorkMessage(Message, frozen=True):
    """A message of this framework's own."""

    protocol: ClassVar[str] = "work"


class Piece(msgspec.Struct, frozen=True):
    """A task that is to run once to its end; the payload says what it does."""

    name: str
    request: Vector
    payload: object = None


class SubmitWork(WorkMessage, frozen=True):
    """A client asks for a piece of work; asked twice, it is done once."""

    piece: Piece


class WorkAccepted(WorkMessage, frozen=True):
    piece: Piece


class WorkTried(WorkMessage, frozen=True):
    """A master is about to hear of this run."""

    piece: str
    run: int


class WorkFreed(WorkMessage, frozen=True):
    """The run is over and the work is not done: it waits again."""

    piece: str
    run: int


class WorkDone(WorkMessage, frozen=True):
    piece: str


@dataclass(slots=True)
class _Progress:
    piece: Piece
    #: How often it was tried, and whether the last run may be alive.
    tries: int = 0
    is_out: bool = False
    is_done: bool = False

    @property
    def run(self) -> str:
        return f"{self.piece.name}.{self.tries}"


class WorkMemory:
    """All pieces of a framework, in the order in which they came."""

    def __init__(self) -> None:
        self.pieces: dict[str, _Progress] = {}

    def apply(self, fact: Message, now: float) -> None:
        match fact:
            case WorkAccepted(piece):
                self.pieces[piece.name] = _Progress(piece)
            case WorkTried(name, run):
                self.pieces[name].tries, self.pieces[name].is_out = run, True
            case WorkFreed(name, run):
                if self.pieces[name].tries == run:
                    self.pieces[name].is_out = False
            case WorkDone(name):
                self.pieces[name].is_done, self.pieces[name].is_out = True, False


class WorkFramework:
    """The state machine."""

    def __init__(self, name: str, memory: WorkMemory, by_offers: bool, weight: float = 1.0) -> None:
        self.name, self.memory, self.by_offers, self.weight = name, memory, by_offers, weight
        self._master = ""
        self._session = 0
        self._transaction = 0
        self._next_s = math.inf
        self._needs = False
        self._out: list[Effect] = []
        self._now = 0.0

    @property
    def due(self) -> float:
        return self._next_s

    def handle(self, event: Message, now: float) -> list[Effect]:
        self._now, self._out = now, []
        match event:
            case SubmitWork(piece):
                self._on_submit(piece)
            case Connected(peer, session):
                self._on_connected(peer, session)
            case Disconnected(_, session) if session == self._session:
                self._master, self._next_s = "", math.inf
            case ResourceOffer(offer=offer, slices=slices):
                free = {part.node: part.unlimited for part in slices}
                self._send(ReplyToOffer(self.name, offer, self._try_out(free), ASK_S))
            case Table(rows=rows):
                self._commit(rows)
            case Committed(refused=refused):
                for run in refused:
                    self._free(run)
            case StatusUpdate(task=run, status=status):
                self._on_status(run, status)
            case Wake():
                self._ask()
        self._say_needs()
        return self._out

    def _on_submit(self, piece: Piece) -> None:
        if piece.name not in self.memory.pieces:
            self._note(WorkAccepted(piece))
            self._next_s = self._now if self._master else math.inf

    # The connection.

    def _on_connected(self, peer: str, session: int) -> None:
        self._master, self._session, self._needs = peer, session, False
        self._send(Register(self.name, self.weight))
        self._ask()

    def _ask(self) -> None:
        """What became of the runs in doubt; and what is free, if something waits."""
        self._next_s = self._now + ASK_S if self._master else math.inf
        if runs := tuple(each.run for each in self.memory.pieces.values() if each.is_out):
            self._send(Reconcile(self.name, runs))
        if not self.by_offers and self._waiting():
            self._send(SyncTable(self.name))

    def _say_needs(self) -> None:
        needs = self.by_offers and bool(self._master) and bool(self._waiting())
        if needs != self._needs:
            self._needs = needs
            self._send(SetNeedsOffers(self.name, needs))

    # Runs.

    def _waiting(self) -> list[_Progress]:
        return [each for each in self.memory.pieces.values() if not each.is_out | each.is_done]

    def _commit(self, rows: Sequence[TableRow]) -> None:
        tasks = self._try_out({row.node: row.free for row in rows})
        if tasks:
            self._transaction += 1
            seen = {row.node: row.sequence for row in rows}
            read = tuple(seen[task.node] for task in tasks)
            self._send(CommitTasks(self.name, self._transaction, tasks, read))

    def _try_out(self, free: dict[str, Vector]) -> tuple[Task, ...]:
        """Runs for what waits, first fit."""
        tasks = []
        for each in self._waiting():
            node = next((n for n, left in free.items() if fits(each.piece.request, left)), None)
            if node is not None:
                free[node] = tuple(map(int.__sub__, free[node], each.piece.request))
                self._note(WorkTried(each.piece.name, each.tries + 1))
                tasks.append(Task(each.run, node, each.piece.request, payload=each.piece.payload))
        return tuple(tasks)

    def _on_status(self, run: str, status: Status) -> None:
        if status is Status.FINISHED:
            each = self._find(run)
            if each is not None:
                self._note(WorkDone(each.piece.name))
        elif status is not Status.RUNNING:
            self._free(run)

    def _free(self, run: str) -> None:
        each = self._find(run)
        if each is not None:
            self._note(WorkFreed(each.piece.name, each.tries))

    def _find(self, run: str) -> _Progress | None:
        """The piece whose run in doubt this is; of an older one nothing is to be heard."""
        each = self.memory.pieces.get(run.rpartition(".")[0])
        return each if each is not None and each.is_out and each.run == run else None

    def _note(self, fact: Message) -> None:
        self.memory.apply(fact, self._now)
        self._out.append(Note(fact))

    def _send(self, message: FromFramework) -> None:
        if self._master:
            self._out.append(Send(self._master, message))
