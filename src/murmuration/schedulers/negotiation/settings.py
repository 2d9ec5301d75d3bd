"""The numbers of negotiation, with the paper's values where it gives them."""

from __future__ import annotations

from dataclasses import dataclass

from murmuration.placement.allocation_scores import SCORES
from murmuration.schedulers.negotiation.selection import TABU_PATIENCE, TABU_RESTARTS, TABU_STEPS


@dataclass(frozen=True)
class Settings:
    """How agents and brokers behave. The paper leaves open: how often nodes report and brokers
    exchange, how long a transfer takes, and everything about lost messages."""

    #: Scores of new tasks and of tasks that move.
    initial: str = "sias-gain"
    move: str = "sras"
    report_s: float = 60.0
    exchange_s: float = 60.0
    #: Reports a broker passes on in one exchange.
    exchange_reports: int = 200
    expiry_s: float = 180.0
    scored_new: int = 200
    scored_move: int = 2000
    candidates: int = 15
    answer_s: float = 20.0
    recommendation_s: float = 240.0
    mb_per_s: float = 125.0
    #: A message that must arrive is repeated after this time, then after twice as long, up to the
    #: longest.
    retry_s: float = 5.0
    retry_longest_s: float = 60.0
    #: How long a target keeps room beyond the time the transfer should take.
    hold_s: float = 120.0
    #: Rounds with a broker before a negotiation is given up.
    rounds: int = 3
    #: "best": the best set, or a local search; "tabu": the paper's, with its limits.
    selection: str = "best"
    tabu_restarts: int = TABU_RESTARTS
    tabu_steps: int = TABU_STEPS
    tabu_patience: int = TABU_PATIENCE
    tabu_counts_restarts: bool = False
    #: From the paper's future work; off by default. Nodes below `underused_load`, as many as this,
    #: are scored beyond the limits, and passed on to all brokers.
    underused: int = 0
    underused_load: float = 0.2
    #: How often a disproportional node tries to move one task for a better score; 0 is never.
    offload_s: float = 0.0
    #: Requests in a row without an answer before a node is left out for a while; 0 is never.
    unanswered_most: int = 0
    unanswering_s: float = 300.0

    def kind(self, new: bool) -> int:
        """The score for a new task, or for one that moves."""
        return SCORES.index(self.initial if new else self.move)

    def scored(self, new: bool) -> int:
        return self.scored_new if new else self.scored_move
