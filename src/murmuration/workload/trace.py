"""A trace: what a file holds in the terms of this program, with what had to be assumed and what was
left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from murmuration.base.arrays import Flags
from murmuration.base.errors import InputError
from murmuration.workload.formats.table import TraceTable
from murmuration.workload.generators import Tables
from murmuration.workload.jobs import JobList
from murmuration.workload.nodes import NodeEvents, NodeTable


@dataclass(frozen=True)
class TraceOptions:
    """What traces do not say. Each reader takes what it needs, and says so among the
    assumptions."""

    #: Size of a task where the trace has none: CPUs and bytes.
    task_cpu: float = 1.0
    task_memory: float = 1e9
    #: Duration of a task where the trace has none; each reader has its own value for None.
    duration_s: float | None = None
    #: Map input bytes per task.
    block_bytes: float = 64e6
    #: The largest node, to which Google's sizes are normalised: CPUs and bytes.
    full_cpu: float = 32.0
    full_memory: float = 128.0 * 2**30
    #: Keep the jobs that were there before the trace began.
    initial: bool = False
    #: Jobs whose tasks and sizes stand in for those a trace lacks, drawn with `rng`.
    shapes: JobList | None = None
    rng: np.random.Generator | None = None
    #: Stop at the first row that makes no sense, instead of leaving it out.
    strict: bool = False
    #: A file of what the jobs use.
    usage: str | None = None
    #: Google's jobs by their scheduling class: each is a workload, 2 and 3 are production.
    by_class: bool = False
    #: Read no more than the nodes and what happens to them.
    nodes_only: bool = False


@dataclass(frozen=True)
class Trace:
    """One file, read: jobs, nodes, changes of nodes or distributions, whichever it holds."""

    kind: str
    rows: int
    jobs: JobList | None = None
    nodes: NodeTable | None = None
    events: NodeEvents | None = None
    #: Observed distributions by workload.
    tables: Mapping[str, Tables] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def count_skipped(*reasons: tuple[int, str]) -> tuple[str, ...]:
    """One line per reason that left something out."""
    return tuple(f"{count:,} {what}" for count, what in reasons if count)


@dataclass
class LeftOut:
    """The rows of a trace that make no sense: counted, the first of each kind named; when strict,
    it stops there."""

    strict: bool = False
    lines: list[str] = field(default_factory=list)

    def without(self, table: TraceTable, bad: Flags, what: str) -> Flags:
        """Which rows stay."""
        if bad.any():
            where = table.where(int(bad.argmax()))
            if self.strict:
                raise InputError(f"{where}: {what}")
            count = int(bad.sum())
            self.lines.append(
                f"{count:,} {'row' if count == 1 else 'rows'} with {what}, the first at {where}"
            )
        return ~bad
