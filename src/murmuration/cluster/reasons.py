"""Reasons as values: made where the fact is known, rendered elsewhere. "Not now" and "never" are
different types, because only the first is tried again."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Wait:
    """Not now: what is short, and the event that may change it."""

    reason: str
    wakes_on: str = "a task ends"


@dataclass(frozen=True)
class Never:
    """Not ever on this cluster: no event will help."""

    reason: str


@dataclass(frozen=True)
class ScoredNode:
    """One node as a decision saw it."""

    node: str
    free: str
    score: float | None = None


@dataclass(frozen=True)
class PickedNode:
    """A node that was chosen: for how many tasks, what it had free, its score before the first of
    them, and its rank among the nodes with room (1 is the best; None without scores)."""

    node: str
    tasks: int
    free: str
    score: float | None = None
    rank: int | None = None


@dataclass(frozen=True)
class Explanation:
    """One decision: nodes considered, filtered and why, scores, what was chosen, and what would
    unblock the rest."""

    job: str
    workload: str
    attempt: int
    at_s: float
    tasks: int
    request: str
    considered: int
    #: How many nodes each reason ruled out.
    filtered: dict[str, int]
    feasible: int
    best: tuple[ScoredNode, ...]
    #: How many tasks go to each chosen node, in order of choice.
    chosen: tuple[tuple[str, int], ...]
    placed: int
    verdict: Wait | Never | None
    unblock: tuple[str, ...] = ()
    queued_behind: int = 0
    notes: tuple[str, ...] = field(default=())
    #: How the policy chooses among the nodes with room, in a sentence.
    how: str = ""
    #: The first of the chosen nodes, in order of choice.
    picked: tuple[PickedNode, ...] = ()
