"""The settings of a swarm's agents: the rules that its bulk form has too, and the times of the
message protocol."""

from __future__ import annotations

from dataclasses import dataclass

from murmuration.schedulers.swarm.pheromone import BIN_PACK, QUADRATIC


@dataclass(frozen=True)
class SwarmSettings:
    """The settings of every node of a swarm; the first block means what it means in a scenario."""

    strategy: int = BIN_PACK
    form: int = QUADRATIC
    overload: float = 1.0
    underload: float = 1.0
    #: Each container decides once in this time, at a moment of its own (the paper's T).
    step_s: float = 5.0
    size_weighted: bool = False
    #: After this long without an answer the next node of the ring is asked.
    answer_s: float = 1.0
    #: A node repeats that it keeps room after this long, so that a source that has forgotten the
    #: move can say so.
    keep_s: float = 30.0
    #: The first and the longest pause between two repetitions of a hand-over.
    retry_s: float = 1.0
    retry_max_s: float = 30.0
