"""Handing a request to workers until one confirms that it has it.

A message that is not answered costs a hop, as one that is lost does in the bulk form, and goes to
whomever the sender then chooses. A worker that answers that it leaves costs none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from murmuration.autoscaling.agents.links import draw_by_capacity
from murmuration.autoscaling.agents.messages import HandRequest, Link
from murmuration.autoscaling.agents.outlet import Outlet
from murmuration.autoscaling.agents.settings import DepasSettings
from murmuration.autoscaling.overlay import TRIES
from murmuration.base.arrays import RandomState


@dataclass(slots=True, eq=False)
class Handing:
    """A request under way to a worker."""

    request: int
    entry: str
    hops: int
    issued: float
    target: str = ""


class Handings:
    """The requests one agent is handing on. `candidates` are those it may choose from."""

    def __init__(
        self,
        name: str,
        settings: DepasSettings,
        rng: RandomState,
        outlet: Outlet,
        candidates: Callable[[], list[Link]],
        drop: Callable[[str], None],
        reject: Callable[[Handing], None],
    ) -> None:
        self._name, self._settings, self._rng, self._outlet = name, settings, rng, outlet
        self._candidates, self._drop, self._reject = candidates, drop, reject
        self._open: dict[int, Handing] = {}
        #: How often in a row a worker has not answered.
        self._misses: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def hand(self, handing: Handing) -> None:
        """Send the request to a candidate drawn by capacity; reject it if there is none."""
        candidates = self._candidates()
        if not candidates:
            self._open.pop(handing.request, None)
            self._reject(handing)
            return
        handing.target = candidates[draw_by_capacity(candidates, self._rng)].node
        self._open[handing.request] = handing
        age = self._outlet.now - handing.issued
        message = HandRequest(self._name, handing.entry, handing.request, handing.hops, age)
        self._outlet.after(self._settings.answer_s, self._when_late, handing, handing.hops)
        self._outlet.send(handing.target, message)

    def on_taken(self, request: int, node: str) -> None:
        """A worker has the request."""
        self._misses.pop(node, None)
        handing = self._open.get(request)
        if handing is not None and handing.target == node:
            del self._open[request]

    def on_departed(self, node: str) -> None:
        """A worker leaves: what was on its way there goes to another."""
        for handing in [h for h in self._open.values() if h.target == node]:
            self.hand(handing)

    def _when_late(self, handing: Handing, hops: int) -> None:
        if self._open.get(handing.request) is not handing or handing.hops != hops:
            return
        misses = self._misses[handing.target] = self._misses.get(handing.target, 0) + 1
        if misses >= TRIES:
            del self._misses[handing.target]
            self._drop(handing.target)
        if handing.hops >= self._settings.hops_max:
            del self._open[handing.request]
            self._reject(handing)
        else:
            handing.hops += 1
            self.hand(handing)
