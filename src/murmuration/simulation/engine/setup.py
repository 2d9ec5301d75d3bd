"""The parts of a run that do not change while it runs: its inputs, its schedulers, and how nodes
will change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from murmuration.base.arrays import Amounts, Floats, Indices, Times
from murmuration.base.resources import Resources
from murmuration.cluster.reasons import Never
from murmuration.placement.registry import Placement
from murmuration.schedulers.architecture import Scheduler
from murmuration.simulation.architectures.architecture import Architecture
from murmuration.simulation.scenarios import scenario as sc
from murmuration.workload.jobs import JobList
from murmuration.workload.node_events import absent, rows_of
from murmuration.workload.nodes import REMOVE, NodeEvents, NodeTable


@dataclass(frozen=True)
class NodeChanges:
    """The size a node has from a time on, by time; zeros where it is gone. `start` is what each
    node has at time 0."""

    start: Amounts
    time_s: Times
    node: Indices
    total: Amounts

    @property
    def max_total(self) -> Amounts:
        """The most each node ever has."""
        largest = self.start.copy()
        np.maximum.at(largest, self.node, self.total)
        return largest

    def capacity(self, times: Times) -> Floats:
        """What all nodes together have at each of these times; a change counts from its own time
        on."""
        size = self.start.copy()
        steps = np.empty((len(self.time_s) + 1, size.shape[1]))
        steps[0] = size.sum(axis=0)
        for k, (node, total) in enumerate(zip(self.node, self.total, strict=True)):
            steps[k + 1] = steps[k] + total - size[node]
            size[node] = total
        return steps[np.searchsorted(self.time_s, times, side="right")]

    def capacity_mean(self, seconds: float) -> Floats:
        """What all nodes together have, on average until then."""
        times = np.concatenate([[0.0], self.time_s[(self.time_s > 0) & (self.time_s < seconds)]])
        lasts = np.diff(times, append=seconds)
        return np.asarray(
            (self.capacity(times) * lasts[:, None]).sum(axis=0) / seconds, dtype=np.float64
        )


def node_changes(nodes: NodeTable, events: NodeEvents | None) -> NodeChanges:
    """What happens to the nodes, by their rows."""
    if events is None:
        return NodeChanges(nodes.total, np.empty(0), np.empty(0, np.int64), nodes.total[:0])
    start = np.where(absent(events, nodes.names)[:, None], 0, nodes.total)
    total = np.where((events.kind == REMOVE)[:, None], 0, events.total)
    rows, later = rows_of(events, nodes.names), events.time_s >= 0.0
    # What happened before the run begins is how it begins; of one node the last change counts.
    for row, size in zip(rows[~later], total[~later], strict=True):
        start[row] = size
    return NodeChanges(start, events.time_s[later], rows[later], total[later])


@dataclass(frozen=True)
class Setup:
    """Everything about a run that does not change while it runs."""

    architecture: Architecture
    scenario: sc.Scenario
    nodes: NodeTable
    jobs: JobList
    schedulers: tuple[Scheduler, ...]
    placement: Placement
    #: Jobs that can never run, by row, with the reason.
    infeasible: dict[int, Never]
    #: How nodes come, go and change.
    changes: NodeChanges
    #: The row of each job's scheduler.
    owner: Indices
    #: Whether every task and every attempt is recorded.
    detail: bool = False
    #: Whether the placement is a ranking whose score of a row depends on no other row.
    row_wise: bool = False

    @property
    def resources(self) -> Resources:
        return self.nodes.resources

    @property
    def has_usage(self) -> bool:
        """Whether what tasks use is measured apart from what they request."""
        return self.jobs.curves is not None or self.architecture.measures_usage

    @property
    def has_tasks(self) -> bool:
        """Whether every task has a row of its own."""
        return self.has_usage or self.architecture.has_tasks

    @property
    def has_index(self) -> bool:
        """Whether every change of a row is logged, so that a ranking can keep scores. Measured
        usage changes all rows all the time."""
        return self.row_wise and self.architecture.logs_changes and not self.has_tasks

    @property
    def slots(self) -> int:
        """How many attempts a scheduler may have under way at once."""
        return self.architecture.slots(self.scenario)
