"""How much a master keeps of what users submit.

A waiting task takes about 300 bytes of the master, whether it ever runs or not, and an ended one as
much until its job is forgotten. A job may have 100,000 tasks, so a bound on the number of jobs
alone would let one user fill the master's memory in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

#: Ended jobs that are kept, and how many tasks they may have together.
ENDED_MAX = 10_000
ENDED_TASKS_MAX = 1_000_000
#: Tasks that may wait.
WAITING_MAX = 1_000_000


class HasWaiting(Protocol):
    """A job, as far as it matters here: its tasks that wait."""

    waiting: dict[int, None]


def explain_full(queue: Mapping[str, HasWaiting], count: int) -> str:
    """Why so many more tasks may not wait; empty if they may."""
    waiting = sum(len(job.waiting) for job in queue.values())
    if waiting + count <= WAITING_MAX:
        return ""
    return f"{waiting:,} tasks wait, and with {count:,} more there would be over {WAITING_MAX:,}"


class EndedJobs:
    """The names of ended jobs that are still known, and how many tasks each has; in the order in
    which they ended."""

    def __init__(self) -> None:
        self._tasks: dict[str, int] = {}
        self._count = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._tasks)

    def add(self, job: str, tasks: int) -> None:
        assert job not in self._tasks, f"{job} has ended already"
        self._tasks[job] = tasks
        self._count += tasks

    def discard(self, job: str) -> None:
        self._count -= self._tasks.pop(job, 0)

    def forget_oldest(self) -> Iterator[str]:
        """The oldest of them until the rest is within bounds. The last to end stays, however many
        tasks it has: its user has yet to see how it went."""
        while len(self._tasks) > 1 and (
            len(self._tasks) > ENDED_MAX or self._count > ENDED_TASKS_MAX
        ):
            oldest = next(iter(self._tasks))
            self.discard(oldest)
            yield oldest
