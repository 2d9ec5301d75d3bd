"""A cluster's log again: its events told to a master like the one that wrote it.

The master decides by the events it is told and their times alone, so a log of events gives the
facts of the log again. Heartbeats are not in a log, so a replayed master cannot know when a lease
ends; but the log has the fact that it did (`NodeIsLost`), and the replay tells it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np

from murmuration.cluster.reasons import Explanation
from murmuration.schedulers.agent import Note
from murmuration.schedulers.central.explain import ExplainingRound
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.central.messages import LeaseEnded, NodeIsLost, Recover, TaskPlaced
from murmuration.schedulers.central.placing import Rows


@dataclass
class Replay:
    """The result of a replay: how many facts of the log the master noted again, and the first
    difference."""

    events: int = 0
    decisions: int = 0
    facts: int = 0
    same: int = 0
    #: The number in the log, the fact there, and the one noted instead.
    difference: tuple[int, Any, Any] | None = None

    @property
    def agrees(self) -> bool:
        return self.same == self.facts and self.difference is None


@dataclass
class _Replayer:
    result: Replay = field(default_factory=Replay)
    master: CentralMaster | None = None
    #: Facts that were noted and are not met in the log yet.
    out: deque[Any] = field(default_factory=deque)

    def begin(self, master: CentralMaster) -> None:
        self.master, self.out = master, deque()
        master.leases.agent_timeout_s = math.inf

    def event(self, number: int, at_s: float, event: Any, lost: list[str]) -> None:
        """Tell the next event, and before it of the nodes that were found lost with it."""
        if self.master is None:
            return
        if self.out and not isinstance(event, Recover):
            # Before a new master starts, the old one may have died with facts it had not written.
            self._differ(number, None, self.out[0])
        self.result.events += 1
        ended = [] if isinstance(event, LeaseEnded) else [LeaseEnded(node) for node in lost]
        self.out = deque(
            effect.fact
            for message in [*ended, event]
            for effect in self.master.handle(message, at_s)
            if isinstance(effect, Note)
        )

    def fact(self, number: int, fact: Any) -> None:
        if self.master is None:
            return
        self.result.facts += 1
        self.result.decisions += isinstance(fact, TaskPlaced)
        noted = self.out.popleft() if self.out else None
        if noted == fact:
            self.result.same += 1
        else:
            self._differ(number, fact, noted)

    def _differ(self, number: int, logged: Any, noted: Any) -> None:
        if self.result.difference is None:
            self.result.difference = (number, logged, noted)


Line = tuple[int, float, str, Any]


def replay(
    log: Iterable[Line],
    make: Callable[[Any], CentralMaster],
    look: Callable[[int, float], None] = lambda number, at_s: None,
) -> Replay:
    """Feed the events of a log to a master like the one that wrote it, and compare what comes out.

    A log whose beginning was dropped is taken up where the next master started. Before each line
    somebody may `look` at what the master has become.
    """
    replayer, lines = _Replayer(), list(log)
    for k, (number, at_s, side, value) in enumerate(lines):
        look(number, at_s)
        if side == "options":
            replayer.begin(make(value))
        elif side == "event":
            replayer.event(number, at_s, value, _lost_with(lines, k))
        else:
            replayer.fact(number, value)
    return replayer.result


def _lost_with(lines: list[Line], k: int) -> list[str]:
    """The nodes whose loss is a fact of the event in this line."""
    # By number: an iterator over the rest of the log would begin at its start for every event.
    rest = map(lines.__getitem__, range(k + 1, len(lines)))
    facts = takewhile(lambda line: line[2] == "fact", rest)
    return [value.node for *_, value in facts if isinstance(value, NodeIsLost)]


class WatchedMaster(CentralMaster):
    """A master that explains what it decides about one job."""

    def __init__(
        self, settings: CentralSettings, seed: int, wanted: str, decisions: list[Explanation]
    ) -> None:
        super().__init__(settings, seed)
        self._wanted, self._decisions = wanted, decisions

    def round(self, rows: Rows, rng: np.random.Generator) -> ExplainingRound:
        settings = self.settings
        return ExplainingRound(
            settings.resources,
            settings.placement,
            self.jobs,
            rows,
            rng,
            self._now,
            wanted=self._wanted,
            decisions=self._decisions,
        )
