"""The settings of negotiation, the only place that has them: `scheduler.negotiation` of a scenario.

The agents that exchange messages and the bulk round read the same struct. Defaults are the paper's
values where it gives them; it leaves open how often nodes report and brokers exchange, how fast a
transfer is, and everything about lost messages.

Both fidelities obey every setting but those in `MESSAGES_ONLY`: in a bulk round no message is lost
or late, and every broker passes on all it knows, so there is nothing for these to decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from murmuration.base.settings import NODES_MAX, check_number, check_word
from murmuration.placement.allocation_scores import INITIAL, MOVE
from murmuration.schedulers.negotiation.selection import (
    EXACT_MAX,
    TABU_PATIENCE,
    TABU_RESTARTS,
    TABU_STEPS,
)

#: Where `brokers` is 0: one for as many nodes as the paper's single broker served.
NODES_PER_BROKER = 12_500
#: Tasks of which every set may be tried, at most: the sets double with each.
EXACT_LIMIT = 24
#: Settings about single messages, which a bulk round does not have.
MESSAGES_ONLY = frozenset(
    {
        "exchange_reports",
        "retry_s",
        "retry_max_s",
        "hold_s",
        "rounds",
        "unanswered_max",
        "unanswering_s",
    }
)


class TabuSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The limits of the paper's tabu search (6.1)."""

    restarts: int = TABU_RESTARTS
    steps: int = TABU_STEPS
    #: How long to go on without a better set; in steps, or with `counts_restarts` in restarts.
    #: The paper can be read both ways.
    patience: int = TABU_PATIENCE
    counts_restarts: bool = False


class NegotiationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How node agents, entry agents and brokers behave."""

    #: The score for new tasks; "recorded": they start where the trace has them.
    initial: str = "sias-gain"
    #: The score for migrations; "none": nothing moves.
    move: str = "sras"
    #: How many brokers; 0 stands for one per 12,500 nodes.
    brokers: int = 0
    #: How often a node measures its tasks and reports to its broker.
    report_s: float = 60.0
    #: How often a broker tells another what it knows, and how many reports it passes on.
    exchange_s: float = 60.0
    exchange_reports: int = 200
    #: A broker does not recommend a node whose report is older.
    expiry_s: float = 180.0
    #: Suitable nodes a broker scores for a new task and for a migration, and how many it returns.
    scored_new: int = 200
    scored_move: int = 2000
    candidates: int = 15
    #: How many new tasks ask at a time (in bulk: of one job); 0: all of them.
    portion: int = 20
    #: How long to wait for an answer; in bulk, the time of one round.
    answer_s: float = 20.0
    #: How long a recommendation is good, and how long a task that was forced on a node stays.
    recommendation_s: float = 240.0
    #: How fast a task is transferred.
    mb_per_s: float = 125.0
    #: A message that must arrive is repeated after `retry_s`, then after twice as long each time,
    #: up to `retry_max_s`.
    retry_s: float = 5.0
    retry_max_s: float = 60.0
    #: How long a target keeps room beyond twice the time the transfer should take.
    hold_s: float = 120.0
    #: How often a broker is asked before a negotiation is given up.
    rounds: int = 3
    #: "best": the best set of tasks to give away, or a local search above `exact_max` tasks;
    #: "tabu": the paper's search.
    selection: Literal["best", "tabu"] = "best"
    exact_max: int = EXACT_MAX
    tabu: TabuSettings = TabuSettings()
    # From the paper's future work (section 9), off by default.
    #: So many nodes whose load is at most `underused_load` are scored beyond the limits.
    underused: int = 0
    underused_load: float = 0.0
    #: The share of nodes that look in each report period whether giving one task away would fill
    #: them more evenly.
    proactive: float = 0.0
    #: A node that left so many requests in a row unanswered is not recommended for
    #: `unanswering_s`; 0: never.
    unanswered_max: int = 0
    unanswering_s: float = 300.0

    def score(self, new: bool) -> int:
        """The score for a new task, or for one that moves: its place in `SCORES`."""
        return INITIAL.index(self.initial) if new else MOVE.index(self.move)

    def score_limit(self, new: bool) -> int:
        """How many suitable nodes a broker scores for a new task, or for one that moves."""
        return self.scored_new if new else self.scored_move

    @property
    def moves(self) -> bool:
        """Whether running tasks move at all."""
        return self.move != "none"

    def broker_count(self, nodes: int) -> int:
        """How many brokers serve so many nodes."""
        return self.brokers or max(1, round(nodes / NODES_PER_BROKER))

    @property
    def offload_s(self) -> float:
        """How often one node looks whether to off-load, so that in each report period the share
        `proactive` of all nodes does; 0 is never."""
        return self.report_s / self.proactive if self.proactive > 0.0 else 0.0


def find_problems(settings: NegotiationSettings, key: str) -> Iterator[str]:
    """What makes no sense, each as a sentence that names the key."""
    yield from check_word(f"{key}.initial", settings.initial, INITIAL)
    yield from check_word(f"{key}.move", settings.move, MOVE)
    for name, low, high in _RANGES:
        yield from check_number(f"{key}.{name}", getattr(settings, name), low=low, high=high)
    for name in ("restarts", "steps", "patience"):
        value = getattr(settings.tabu, name)
        yield from check_number(f"{key}.tabu.{name}", value, low=1, high=1e4)


_ANY = float("inf")
#: The smallest and largest value of each number.
_RANGES: tuple[tuple[str, float, float], ...] = (
    ("report_s", 0.001, _ANY),
    ("exchange_s", 0.001, _ANY),
    ("expiry_s", 0.001, _ANY),
    ("answer_s", 0.001, _ANY),
    ("recommendation_s", 0.001, _ANY),
    ("mb_per_s", 0.001, _ANY),
    ("scored_new", 1, NODES_MAX),
    ("scored_move", 1, NODES_MAX),
    ("candidates", 1, NODES_MAX),
    ("portion", 0, NODES_MAX),
    ("brokers", 0, NODES_MAX),
    ("underused", 0, NODES_MAX),
    ("exact_max", 0, EXACT_LIMIT),
    ("proactive", 0.0, 1.0),
    ("exchange_reports", 1, NODES_MAX),
    ("retry_s", 0.001, _ANY),
    ("retry_max_s", 0.001, _ANY),
    ("hold_s", 0.001, _ANY),
    ("rounds", 1, 1e6),
    ("underused_load", 0.0, 1.0),
    ("unanswered_max", 0, 1e6),
    ("unanswering_s", 0.001, _ANY),
)
