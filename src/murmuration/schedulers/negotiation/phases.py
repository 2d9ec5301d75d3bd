"""The phases of a negotiation, and which message leads from one to which: the whole state machine
of the giving side, as data.

A negotiation about a task that is not listed under a message stays in its phase. An agent checks
after every event that its negotiations went no other way; `scripts/draw_phases.py` draws the
diagram of `docs/negotiation.md` from the table.
"""

from __future__ import annotations

from enum import Enum

from murmuration.schedulers.agent import Message, Wake
from murmuration.schedulers.negotiation.messages import (
    GetCandidateNodesResponse,
    Measured,
    MigrationFinished,
    NodeGone,
    NotTaken,
    SubmitTask,
    TakenOver,
    TaskFinished,
    TaskMigrationAcceptanceResponse,
    TaskMigrationProcessConfirmationResponse,
    TaskMigrationProcessErrorResponse,
    TaskMigrationRejectionResponse,
)


class NegotiationPhase(Enum):
    """What a negotiation waits for."""

    NONE = "nothing: there is no negotiation about the task"
    BROKER = "candidates of a broker"
    NODES = "answers of candidates"
    ROOM = "room at the target"
    TRANSFER = "the transfer"
    HAND_OVER = "the target to take over"
    PAUSE = "a better time"


_P = NegotiationPhase
Phases = frozenset[NegotiationPhase]


def _to(*phases: NegotiationPhase) -> Phases:
    return frozenset(phases)


#: A negotiation that is given up: a node keeps its task; an entry agent tries again later.
_GIVEN_UP = _to(_P.NONE, _P.PAUSE)
#: No answer from a broker: ask again, or give up.
_NEXT_ROUND = _GIVEN_UP | _to(_P.BROKER)
#: The next candidate is asked for room; if there is none left, a broker is asked again, or the
#: negotiation is given up.
CHOICE = _NEXT_ROUND | _to(_P.ROOM)

#: (phase, message) → the phases it may lead to. `Wake` stands for an answer that did not come in
#: time, and for the start of an agent.
NEXT_PHASES: dict[tuple[NegotiationPhase, type[Message]], Phases] = {
    # A new task asks at once, or pauses until it is its turn.
    (_P.NONE, SubmitTask): _to(_P.BROKER, _P.PAUSE),
    (_P.NONE, Measured): _to(_P.BROKER),
    (_P.NONE, Wake): _to(_P.BROKER, _P.HAND_OVER, _P.PAUSE),
    (_P.BROKER, GetCandidateNodesResponse): CHOICE | _to(_P.NODES),
    (_P.BROKER, Wake): _NEXT_ROUND,
    (_P.NODES, TaskMigrationAcceptanceResponse): CHOICE,
    (_P.NODES, TaskMigrationRejectionResponse): CHOICE,
    (_P.NODES, NodeGone): CHOICE,
    (_P.NODES, Wake): CHOICE,
    (_P.ROOM, TaskMigrationProcessConfirmationResponse): _to(_P.TRANSFER, _P.HAND_OVER),
    (_P.ROOM, TaskMigrationProcessErrorResponse): CHOICE,
    (_P.ROOM, NodeGone): CHOICE,
    (_P.ROOM, Wake): CHOICE,
    (_P.TRANSFER, MigrationFinished): CHOICE | _to(_P.HAND_OVER),
    (_P.TRANSFER, NodeGone): CHOICE,
    # Only an answer of the target, or the news that it is gone, ends a hand-over: see `giver.py`.
    (_P.HAND_OVER, TakenOver): _to(_P.NONE),
    (_P.HAND_OVER, NotTaken): CHOICE,
    (_P.HAND_OVER, NodeGone): CHOICE,
    (_P.PAUSE, Wake): _to(_P.BROKER),
    # The task ends while it still runs here.
    (_P.BROKER, TaskFinished): _to(_P.NONE),
    (_P.NODES, TaskFinished): _to(_P.NONE),
    (_P.ROOM, TaskFinished): _to(_P.NONE),
    (_P.TRANSFER, TaskFinished): _to(_P.NONE),
}


def may_lead(phase: NegotiationPhase, message: type[Message], to: NegotiationPhase) -> bool:
    """Whether a message may lead from one phase to another."""
    return phase is to or to in NEXT_PHASES.get((phase, message), ())
