"""Gangs: pods that get their nodes together or not at all.

Nothing is held for a gang that is not complete. Bindings are separate acts all the same, and one of
them may be refused; a gang that stays in pieces for too long is released, so that it does not hold
what others could use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

RELEASE_S = 60.0


@dataclass
class Gang:
    """The members of a gang that are known."""

    size: int = 1
    waiting: set[str] = field(default_factory=set)
    #: Those that have a node, or are being bound, with their identities.
    lying: dict[str, str] = field(default_factory=dict)
    #: Since when some have a node and some have not.
    parted_s: float = math.inf

    def is_complete(self) -> bool:
        return len(self.waiting) + len(self.lying) >= self.size


@dataclass
class Gangs:
    """All gangs by name."""

    release_s: float = RELEASE_S
    gangs: dict[str, Gang] = field(default_factory=dict)
    _of: dict[str, str] = field(default_factory=dict)

    def waits(self, name: str, key: str, size: int) -> None:
        gang = self.gangs.setdefault(name, Gang())
        gang.size = size
        gang.waiting.add(key)
        gang.lying.pop(key, None)
        self._of[key] = name

    def lies(self, name: str, key: str, uid: str) -> None:
        gang = self.gangs.setdefault(name, Gang())
        gang.waiting.discard(key)
        gang.lying[key] = uid
        self._of[key] = name

    def goes(self, key: str) -> None:
        """A pod is no more, or no member of a gang any more."""
        name = self._of.pop(key, "")
        if name:
            gang = self.gangs[name]
            gang.waiting.discard(key)
            gang.lying.pop(key, None)
            if not gang.waiting and not gang.lying:
                del self.gangs[name]

    def of(self, key: str) -> str:
        return self._of.get(key, "")

    def release(self, now: float) -> list[tuple[str, str, str]]:
        """Members of gangs that have been in pieces for too long: name of the gang, pod, identity.
        Each gang is released once, and then has time again."""
        released = []
        for name, gang in self.gangs.items():
            if not gang.waiting or not gang.lying or len(gang.lying) >= gang.size:
                gang.parted_s = math.inf
            elif gang.parted_s == math.inf:
                gang.parted_s = now
            elif now >= gang.parted_s + self.release_s:
                gang.parted_s = now
                released += [(name, key, uid) for key, uid in gang.lying.items()]
        return released

    def due(self) -> float:
        return min((g.parted_s + self.release_s for g in self.gangs.values()), default=math.inf)
