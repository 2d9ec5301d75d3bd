"""What users of batch systems add to a queue, once more and plainly: users with limits and shares,
jobs that make way, reservations. Processors are all alike; nothing here is shared with the program.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True)
class UserJob:
    submit: float
    size: int
    lasts: float
    user: str = ""
    priority: int = 0


@dataclass
class Cluster:
    """First come first served, or by priority, on so many processors."""

    processors: int
    by_priority: bool = False
    preempt: str = "no"
    jobs_max: float = inf
    cpu_max: float = inf
    #: (from, until, processors, users)
    reservations: list[tuple[float, float, int, tuple[str, ...]]] = field(default_factory=list)

    def run(self, jobs: list[UserJob]) -> list[float]:
        """When each job last started."""
        self.jobs, self.starts = jobs, [float("nan")] * len(jobs)
        self.left = [job.lasts for job in jobs]
        self.ends: dict[int, float] = {}
        self.inside: dict[int, int] = {}
        waiting: list[int] = []
        times = {job.submit for job in jobs} | {t for r in self.reservations for t in r[:2]}
        while times:
            now = min(times)
            times.remove(now)
            for j in [j for j, end in self.ends.items() if end == now]:
                del self.ends[j]
                self.inside.pop(j, None)
            waiting += [j for j, job in enumerate(jobs) if job.submit == now]
            again = True
            while again:
                again = self.look(waiting, now)
            times |= {end for end in self.ends.values() if end > now}
            waiting = [j for j in waiting if j not in self.ends]
            if any(end == now for end in self.ends.values()):
                times.add(now)
        return self.starts

    def look(self, waiting: list[int], now: float) -> bool:
        """Start from the head; says whether somebody made way, and the queue is to be looked at
        again."""
        waiting.sort(key=lambda j: (-self.jobs[j].priority if self.by_priority else 0, j))
        for j in [j for j in waiting if j not in self.ends]:
            job = self.jobs[j]
            mine = [k for k in self.ends if self.jobs[k].user == job.user]
            if len(mine) >= self.jobs_max:
                continue
            if sum(self.jobs[k].size for k in mine) + job.size > self.cpu_max:
                continue
            window = self.window_for(j, now)
            if window is None and not self.fits(j, now):
                if self.preempt == "no" or not self.make_way(j, waiting, now):
                    return False
                self.begin(j, now, None)
                return True
            self.begin(j, now, window)
        return False

    def begin(self, j: int, now: float, window: int | None) -> None:
        self.starts[j], self.ends[j] = now, now + self.left[j]
        if window is not None:
            self.inside[j] = window

    def free(self) -> int:
        return self.processors - sum(self.jobs[k].size for k in self.ends)

    def window_for(self, j: int, now: float) -> int | None:
        """The reservation a job may run in: open, its user's, long enough, with room."""
        job = self.jobs[j]
        for k, (start, end, size, users) in enumerate(self.reservations):
            taken = sum(self.jobs[i].size for i, window in self.inside.items() if window == k)
            is_open = start <= now and now + job.lasts <= end
            if is_open and job.user in users and taken + job.size <= size:
                return k if job.size <= self.free() else None
        return None

    def fits(self, j: int, now: float) -> bool:
        """Whether a job leaves every reservation its processors, at every moment it runs."""
        job, end = self.jobs[j], now + self.left[j]
        if job.size > self.free():
            return False
        moments = [now, *(r[0] for r in self.reservations if now < r[0] < end)]
        for t in moments:
            running = sum(
                self.jobs[k].size
                for k, stop in self.ends.items()
                if k not in self.inside and stop > t
            )
            kept = sum(r[2] for r in self.reservations if r[0] <= t < r[1])
            late = sum(
                self.jobs[k].size
                for k, window in self.inside.items()
                if self.reservations[window][1] <= t < self.ends[k]
            )
            if running + kept + late + job.size > self.processors:
                return False
        return True

    def make_way(self, j: int, waiting: list[int], now: float) -> bool:
        """End running jobs of lower priority, the lowest and then the latest first, until there is
        room, but for those whose room is not needed then; none if all are not enough."""
        job, victims, room = self.jobs[j], [], self.free()
        lower = [k for k in self.ends if self.jobs[k].priority < job.priority]
        for k in sorted(lower, key=lambda k: (self.jobs[k].priority, -self.starts[k], -k)):
            if room >= job.size:
                break
            victims.append(k)
            room += self.jobs[k].size
        if room < job.size or not victims:
            return False
        for k in reversed(victims.copy()):
            if room - self.jobs[k].size >= job.size:
                room -= self.jobs[k].size
                victims.remove(k)
        for k in victims:
            if self.preempt == "suspend":
                self.left[k] = self.ends[k] - now
            del self.ends[k]
            if k not in waiting:
                waiting.append(k)
        return True
