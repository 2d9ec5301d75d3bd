"""Queue disciplines of batch systems once more, written from their definitions: processors that are
all alike, jobs that need a number of them for a time and say how long. Nothing here is shared with
the program."""

from __future__ import annotations

import heapq
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    submit: float
    size: int
    lasts: float
    asks: float


def simulate(jobs: list[Job], processors: int, discipline: str) -> list[float]:
    """When each job starts."""
    starts = [float("nan")] * len(jobs)
    ends: list[tuple[float, int]] = []
    queue: list[int] = []
    arrivals = sorted(range(len(jobs)), key=lambda j: (jobs[j].submit, j))
    while arrivals or ends:
        now = min(
            jobs[arrivals[0]].submit if arrivals else float("inf"),
            ends[0][0] if ends else float("inf"),
        )
        while ends and ends[0][0] == now:
            heapq.heappop(ends)
        while arrivals and jobs[arrivals[0]].submit == now:
            queue.append(arrivals.pop(0))
        free = processors - sum(jobs[j].size for _, j in ends)
        # What runs, by the end it is expected to have: never in the past.
        running = sorted((max(starts[j] + jobs[j].asks, now), jobs[j].size) for _, j in ends)
        queue.sort(key=lambda j: order(jobs, j, discipline))
        for j in RULES[discipline](jobs, queue, running, free, now):
            starts[j] = now
            heapq.heappush(ends, (now + jobs[j].lasts, j))
            queue.remove(j)
    return starts


def order(jobs: list[Job], j: int, discipline: str) -> tuple[float, ...]:
    if discipline == "sjf":
        return jobs[j].asks, j
    if discipline == "ljf":
        return -jobs[j].asks, j
    return jobs[j].submit, j


Running = list[tuple[float, int]]


def strict(jobs: list[Job], queue: list[int], running: Running, free: int, now: float) -> list[int]:
    """From the head, as long as each fits."""
    started = []
    for j in queue:
        if jobs[j].size > free:
            break
        free -= jobs[j].size
        started.append(j)
    return started


def easy(jobs: list[Job], queue: list[int], running: Running, free: int, now: float) -> list[int]:
    """The head gets a reservation; others start if they end before it or leave it enough."""
    started = strict(jobs, queue, running, free, now)
    rest = [j for j in queue if j not in started]
    if not rest:
        return started
    free -= sum(jobs[j].size for j in started)
    ends = sorted(running + [(now + jobs[j].asks, jobs[j].size) for j in started])
    head, rest = rest[0], rest[1:]
    shadow = min(
        t for t, _ in ends if free + sum(s for end, s in ends if end <= t) >= jobs[head].size
    )
    spare = free + sum(s for end, s in ends if end <= shadow) - jobs[head].size
    for j in rest:
        if jobs[j].size <= free and (now + jobs[j].asks <= shadow or jobs[j].size <= spare):
            started.append(j)
            free -= jobs[j].size
            if now + jobs[j].asks > shadow:
                spare -= jobs[j].size
    return started


def conservative(
    jobs: list[Job], queue: list[int], running: Running, free: int, now: float
) -> list[int]:
    """Each in turn gets the earliest time at which it fits beside all before it."""
    taken: list[tuple[float, float, int]] = [(now, end, size) for end, size in running]
    processors = free + sum(size for _, size in running)
    started = []
    for j in queue:
        job = jobs[j]
        times = sorted({now, *(end for _, end, _ in taken if end > now)})
        for start in times:
            inside = {start, *(t for t in times if start < t < start + job.asks)}
            inside |= {t for t, _, _ in taken if start < t < start + job.asks}
            if all(
                sum(s for a, b, s in taken if a <= t < b) + job.size <= processors for t in inside
            ):
                break
        taken.append((start, start + job.asks, job.size))
        # By the plan there is room; one that overran its time may still be in the way.
        if start == now and job.size <= free:
            started.append(j)
            free -= job.size
    return started


RULES = {"fcfs": strict, "sjf": strict, "ljf": strict, "easy": easy, "conservative": conservative}
