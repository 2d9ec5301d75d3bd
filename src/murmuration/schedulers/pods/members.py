"""Which of several schedulers takes a pod: each is known by a lease that it renews, and a pod goes
to the one whose name together with the pod's gives the largest number, so that all who know the
same schedulers agree, and one that comes or goes takes or leaves only its own share.

Schedulers that do not agree for a while do no harm: the API lets a pod be bound once, and nodes
have a commit point.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

from murmuration.schedulers.pods.cluster import PodInfo


@dataclass
class Members:
    """The schedulers there are; an empty name for the only one."""

    me: str = ""
    #: One whose lease has not changed for so long, by our clock, is gone.
    lasts_s: float = math.inf
    _seen: dict[str, float] = field(default_factory=dict)

    def see(self, name: str, now: float) -> bool:
        """A scheduler has renewed its lease; whether it is new."""
        new = name not in self._seen and name != self.me
        self._seen[name] = now
        return new

    def lose(self, name: str) -> bool:
        """A scheduler has given up its lease; whether it was there."""
        return self._seen.pop(name, None) is not None and name != self.me

    def expire(self, now: float) -> bool:
        """Whether somebody has been silent for too long."""
        silent = [name for name, at in self._seen.items() if now >= at + self.lasts_s]
        return sum(self.lose(name) for name in silent) > 0

    @property
    def due(self) -> float:
        others = [at for name, at in self._seen.items() if name != self.me]
        return min(others, default=math.inf) + self.lasts_s

    def takes(self, info: PodInfo) -> bool:
        """Whether a pod is ours; the pods of a gang go to one scheduler."""
        if not self.me:
            return True
        key = info.gang or info.uid
        return max({self.me, *self._seen}, key=lambda name: _draw(name, key)) == self.me


def _draw(name: str, key: str) -> bytes:
    return hashlib.blake2b(f"{name}\n{key}".encode(), digest_size=8).digest()
