"""The pods that wait: by priority, then by age; those that found no node wait before they try
again, twice as long each time, and only if something has changed."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

from murmuration.schedulers.pods.cluster import PodInfo

BACKOFF_MIN_S, BACKOFF_MAX_S = 1.0, 10.0
#: A pod is tried again after this long though nothing is known to have changed.
AGAIN_S = 60.0


@dataclass
class WaitingPod:
    """A pod in the queue."""

    info: PodInfo
    #: The order in which it was first seen.
    number: int
    attempts: int = 0
    #: Not in line until then.
    rests_until: float = -math.inf
    #: In line again by then, whatever happens.
    again_s: float = math.inf
    in_line: bool = False
    #: What was last said of it.
    told: str = ""


@dataclass
class PodQueue:
    """Pods in line, and pods that rest."""

    pods: dict[str, WaitingPod] = field(default_factory=dict)
    _line: list[tuple[int, str, int, str]] = field(default_factory=list)
    _resting: dict[str, WaitingPod] = field(default_factory=dict)
    _count: int = 0
    #: Something has changed since the resting pods were looked at.
    _room: bool = False

    def __len__(self) -> int:
        return len(self.pods)

    def add(self, info: PodInfo) -> None:
        """A pod is new, or has changed: it need not rest."""
        known = self.pods.get(info.key)
        if known is not None and known.info.uid == info.uid:
            known.info = info
            self.wake(info.key)
            return
        self._count += 1
        self.pods[info.key] = WaitingPod(info, self._count)
        self._resting.pop(info.key, None)
        self.wake(info.key)

    def remove(self, key: str) -> WaitingPod | None:
        self._resting.pop(key, None)
        return self.pods.pop(key, None)

    def put_back(self, pod: WaitingPod) -> None:
        """A pod that was taken out waits again."""
        self.pods[pod.info.key] = pod
        pod.in_line = False

    def wake(self, key: str) -> None:
        """Put a pod in line."""
        pod = self.pods[key]
        self._resting.pop(key, None)
        if not pod.in_line:
            pod.in_line, pod.again_s = True, math.inf
            info = pod.info
            heapq.heappush(self._line, (-info.priority, info.created, pod.number, key))

    def take(self) -> WaitingPod | None:
        """The next pod in line, which then neither is in line nor rests."""
        while self._line:
            _, _, number, key = heapq.heappop(self._line)
            pod = self.pods.get(key)
            if pod is not None and pod.number == number and pod.in_line:
                pod.in_line = False
                return pod
        return None

    def rest(self, pod: WaitingPod, now: float) -> None:
        """A pod found no node: it waits a while, and then for a change."""
        pod.attempts += 1
        wait_s = min(BACKOFF_MIN_S * 2.0 ** min(pod.attempts - 1, 10), BACKOFF_MAX_S)
        pod.rests_until, pod.again_s, pod.in_line = now + wait_s, now + AGAIN_S, False
        self._resting[pod.info.key] = pod

    def on_room(self) -> None:
        """Something may have opened a node to somebody."""
        self._room = True

    def refill(self, now: float) -> None:
        """Put in line who has rested and may find something new."""
        if self._resting and (self._room or any(p.again_s <= now for p in self._resting.values())):
            for key, pod in list(self._resting.items()):
                if pod.again_s <= now or (self._room and pod.rests_until <= now):
                    self.wake(key)
                elif self._room:
                    pod.again_s = min(pod.again_s, pod.rests_until)
        self._room = False

    def due(self, now: float) -> float:
        """When somebody may be in line."""
        if self._line:
            return now
        if self._room and self._resting:
            return min(max(now, pod.rests_until) for pod in self._resting.values())
        return min((pod.again_s for pod in self._resting.values()), default=math.inf)
