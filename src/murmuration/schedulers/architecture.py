"""Architectures as data: who the schedulers of a cluster are, what each may read, and how its
writes are accepted.

monolithic   one scheduler, all rows, exclusive
partitioned  one scheduler per workload, its own rows, exclusive
offers       one scheduler per workload (a framework), the rows it was offered, exclusive while it
             holds the offer
shared-state any number of schedulers per workload, all rows, committed optimistically
negotiation  no scheduler: node agents ask brokers where there might be room, and the node asked
             decides
swarm        one scheduler that places what arrives; then each task is an agent that reads its node
             and those it asks
genetic      one scheduler, all rows, exclusive: what has arrived is searched as a batch, and
             running tasks may be moved
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from murmuration.base.errors import InputError


@dataclass(frozen=True)
class Timing:
    """How long one attempt takes: a part per job and a part per task."""

    job_s: float = 0.1
    task_s: float = 0.005


@dataclass(frozen=True)
class Scheduler:
    """One scheduler: its workloads, how long it decides, what it may read, how it commits."""

    name: str
    workloads: tuple[str, ...]
    timing: Mapping[str, Timing]
    #: The rows it may use; None stands for all of them.
    rows: NDArray[np.bool_] | None = field(default=None, compare=False)
    #: Reads rows that others may take meanwhile, and learns of conflicts when it commits.
    optimistic: bool = False
    machine: bool = False
    atomic: bool = False


def make_monolithic(
    workloads: Sequence[str], timing: Mapping[str, Timing], single_path: bool
) -> list[Scheduler]:
    """One scheduler for everything; single-path takes the default time for every job (3.1)."""
    times = {name: timing["default"] if single_path else timing[name] for name in workloads}
    return [Scheduler("all", tuple(workloads), times)]


def make_partitioned(
    workloads: Sequence[str], timing: Mapping[str, Timing], shares: Mapping[str, float], nodes: int
) -> list[Scheduler]:
    """One scheduler per workload with rows of its own (4.2.1); workloads without a share split what
    is left."""
    owners = partition_rows(partition_shares(workloads, shares), nodes)
    return [
        Scheduler(name, (name,), {name: timing[name]}, rows=owners == index)
        for index, name in enumerate(workloads)
    ]


def partition_shares(workloads: Sequence[str], shares: Mapping[str, float]) -> list[float]:
    """The share of each workload, in order."""
    without = [name for name in workloads if name not in shares]
    left = 1.0 - sum(shares.values())
    if without and left <= 0.0:
        raise InputError(f"scheduler.partition: nothing is left for workload {without[0]!r}")
    return [shares.get(name, left / max(len(without), 1)) for name in workloads]


def partition_rows(shares: Sequence[float], nodes: int) -> NDArray[np.int64]:
    """The owner of each row (−1: nobody), spread evenly so that every partition has its part of
    each group of nodes.

    Each row goes to whoever has the most left to get; what the shares leave over is owed to
    nobody."""
    owed_per_row = np.array([*shares, max(0.0, 1.0 - sum(shares))])
    owed = np.zeros(len(owed_per_row))
    owners = np.empty(nodes, dtype=np.int64)
    for row in range(nodes):
        owed += owed_per_row
        owners[row] = owed.argmax()
        owed[owners[row]] -= 1.0
    return np.where(owners < len(shares), owners, -1)


def make_shared_state(
    workloads: Sequence[str],
    timing: Mapping[str, Timing],
    counts: Mapping[str, int],
    machine: bool,
    atomic: bool,
) -> list[Scheduler]:
    """Any number of schedulers per workload over the same rows (6.2); several of one workload take
    its jobs in turn."""
    schedulers = []
    for name in workloads:
        count = counts.get(name, 1)
        for k in range(count):
            label = name if count == 1 else f"{name}-{k}"
            schedulers.append(
                Scheduler(
                    label,
                    (name,),
                    {name: timing[name]},
                    optimistic=True,
                    machine=machine,
                    atomic=atomic,
                )
            )
    return schedulers


def frameworks(
    workloads: Sequence[str], timing: Mapping[str, Timing], optimistic: bool
) -> list[Scheduler]:
    """One framework per workload; with optimistic offers the same resources go to several of them
    (6.2.2)."""
    return [
        Scheduler(name, (name,), {name: timing[name]}, optimistic=optimistic) for name in workloads
    ]


def assign_jobs(
    schedulers: Sequence[Scheduler], workloads: Sequence[str], workload: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The scheduler of each job: the one that serves its workload; several take turns."""
    owner = np.zeros(len(workload), dtype=np.int64)
    for index, name in enumerate(workloads):
        serving = np.array(
            [k for k, each in enumerate(schedulers) if name in each.workloads], dtype=np.int64
        )
        rows = np.flatnonzero(workload == index)
        owner[rows] = serving[np.arange(len(rows)) % len(serving)]
    return owner
