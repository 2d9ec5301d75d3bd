"""What holds over time: means of what runs and is required, and how full the nodes are at each
sample, from single stays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from murmuration.experiments.audit.folder import (
    ENDED,
    Flags,
    Floats,
    Integers,
    RecordedRun,
)

TYPES = ("idle", "sta", "ta", "pa", "da", "overloaded")
#: What a task that is not measured yet counts as using: a tenth of its request to agents that
#: negotiate (Sliwko and Getov, 5.1), all of it to everybody else.
UNMEASURED = {"negotiation": 0.1}


def capacity_mean(run: RecordedRun) -> Floats:
    """What the nodes that are there have, on average."""
    return _mean_over_time(run, run.nodes.start, run.nodes.change_total)


def nodes_mean(run: RecordedRun) -> float:
    there = (run.nodes.start.max(axis=1, keepdims=True) > 0).astype(np.int64)
    later = (run.nodes.change_total.max(axis=1, keepdims=True, initial=0) > 0).astype(np.int64)
    return float(_mean_over_time(run, there, later)[0])


def _mean_over_time(run: RecordedRun, start: Integers, later: Integers) -> Floats:
    """The mean of a sum over nodes, each of which has a value from a time on."""
    value, last, area = start.copy(), 0.0, np.zeros(start.shape[1])
    for time, node, total in zip(run.nodes.change_time, run.nodes.change_node, later, strict=True):
        if time >= run.horizon:
            break
        area += value.sum(axis=0) * (time - last)
        value[node], last = total, float(time)
    mean: Floats = (area + value.sum(axis=0) * (run.horizon - last)) / run.horizon
    return mean


def task_seconds(run: RecordedRun) -> Floats:
    """For how long each job's tasks ran, each counted once, also while it moves."""
    stays, seconds = run.stays, np.zeros(len(run.jobs.ids))
    np.subtract.at(seconds, stays.job[stays.begins], stays.start[stays.begins])
    ended = stays.ends(*ENDED)
    np.add.at(seconds, stays.job[ended], stays.end[ended])
    tasks = np.unique(np.stack([stays.job, stays.index])[:, stays.running], axis=1)
    np.add.at(seconds, tasks[0], run.horizon)
    return seconds


def required_mean(run: RecordedRun, jobs: Flags) -> Floats:
    """The mean of what these jobs' tasks request of all nodes, in amounts."""
    seconds = np.where(jobs, task_seconds(run), 0.0)
    total: Floats = seconds @ run.jobs.request.astype(np.float64)
    return total / run.horizon


class RecordedUse:
    """What each stay's task counts as using, by the measurement before. Tasks are measured every
    `usage_s`; agents that negotiate measure those of time 0 as they place them."""

    def __init__(self, run: RecordedRun) -> None:
        self.run, job = run, run.stays.job
        self.request, self.curve = run.jobs.request[job], run.jobs.curve[job]
        self.period = run.scenario.scheduler.usage_s
        share = UNMEASURED.get(run.kind, 1.0)
        guess = np.minimum(self.request, (self.request * share).astype(np.int64) + 1)
        self.unmeasured = np.where((self.curve < 0)[:, None], self.request, guess)
        # A task that moves is measured as what it is, not as a newcomer to its node.
        from murmuration.experiments.audit.conservation import chain_starts

        self.began = chain_starts(run)

    def at(self, measured_at: float, rows: Integers) -> Integers:
        """What these stays count as using after a measurement, until the next."""
        curves = self.run.curves
        used = self.unmeasured[rows].copy()
        known = self.is_measured(measured_at, rows)
        if curves is None or not known.any():
            return used
        chosen = rows[known]
        since = measured_at - self.run.stays.curve_start[chosen]
        point = (since / curves.step_s).astype(np.int64)
        points = curves.share.shape[1]
        point = point % points if curves.cyclic else np.minimum(point, points - 1)
        share = curves.share[self.curve[chosen], point].astype(np.float64)
        amount = np.maximum((self.request[chosen] * share).astype(np.int64), 1)
        used[known] = np.where(self.request[chosen] > 0, amount, 0)
        return used

    def when_moved(self) -> Floats:
        """The megabytes of each move: a hundred, and in MiB what the task uses of memory, or its
        request where that is not measured yet (Sliwko and Getov, 6.1)."""
        stays, memory = self.run.stays, self.run.resources.index("memory")
        moves = np.flatnonzero(~stays.begins)
        bytes_ = self.request[moves, memory].astype(np.float64)
        for time in np.unique(stays.start[moves]):
            then = stays.start[moves] == time
            measured_at = np.floor(time / self.period + 1e-9) * self.period
            used = self.at(float(measured_at), moves[then])[:, memory]
            known = self.is_measured(float(measured_at), moves[then])
            bytes_[then] = np.where(known, used, bytes_[then])
        megabytes: Floats = 100.0 + bytes_ / 2**20
        return megabytes

    def is_measured(self, measured_at: float, rows: Integers) -> Flags:
        known: Flags = self.began[rows] < measured_at
        if self.run.kind == "negotiation":
            known = known | (self.began[rows] == 0.0)
        return known & (self.curve[rows] >= 0)

    def intervals(self) -> Iterator[tuple[float, float]]:
        """The times between two measurements."""
        count = int(np.ceil(self.run.horizon / self.period - 1e-9))
        for k in range(count):
            yield k * self.period, min((k + 1) * self.period, self.run.horizon)

    def mean(self) -> Floats:
        """The mean over time of what all tasks use; under way a task counts on both its nodes."""
        stays, area = self.run.stays, np.zeros(self.request.shape[1])
        for start, end in self.intervals():
            rows = np.flatnonzero((stays.start < end) & (stays.end > start))
            lasts = np.minimum(stays.end[rows], end) - np.maximum(stays.start[rows], start)
            area += lasts @ self.at(start, rows).astype(np.float64)
        return area / self.run.horizon


def sampled_means(run: RecordedRun) -> tuple[Floats, float, float]:
    """What samples show, on average: how many nodes are of each type, how uneven their loads are,
    and how much of the free room is in useless pieces. Where usage is measured the tasks of time 0
    are placed after the first sample, which says nothing then."""
    usage = RecordedUse(run) if run.has_usage else None
    times = run.sample_times[1 if usage is not None and len(run.sample_times) > 1 else 0 :]
    types, imbalances, fragments = [], [], []
    for time in times:
        total, used, guaranteed = table_at(run, usage, float(time))
        types.append(count_types(total, used, guaranteed))
        imbalances.append(imbalance(total, used))
        fragments.append(fragmentation(run, total, used, float(time)))
    mean: Floats = np.mean(types, axis=0)
    return mean, float(np.mean(imbalances)), float(np.mean(fragments))


def table_at(
    run: RecordedRun, usage: RecordedUse | None, time: float
) -> tuple[Integers, Integers, Integers]:
    """What each node has, what is used of it and what is guaranteed, just before a time."""
    stays = run.stays
    rows = np.flatnonzero((stays.start < time) & (stays.end >= time))
    used, guaranteed = run.nodes.prefilled.copy(), np.zeros_like(run.nodes.start)
    if usage is None:
        amounts = run.jobs.request[stays.job[rows]]
    else:
        measured_at = (np.ceil(time / usage.period - 1e-9) - 1) * usage.period
        amounts = usage.at(float(measured_at), rows)
    np.add.at(used, stays.node[rows], amounts)
    production = rows[run.jobs.production[stays.job[rows]]]
    np.add.at(guaranteed, stays.node[production], run.jobs.request[stays.job[production]])
    return sizes_at(run, time), used, guaranteed


def imbalance(total: Integers, used: Integers) -> float:
    """The standard deviation of the loads of the nodes that are there; a node's load is that of its
    fullest resource."""
    there = (total > 0).any(axis=1)
    load = np.where(total > 0, used / np.maximum(total, 1), 0.0).max(axis=1)
    return float(load[there].std()) if there.any() else 0.0


def fragmentation(run: RecordedRun, total: Integers, used: Integers, time: float) -> float:
    """Of the average tasks that would fit into all free room at once, the share that does not fit
    into it as it lies. A task under way is one task, and requires its room once."""
    stays = run.stays
    rows = np.flatnonzero((stays.start < time) & (stays.end >= time))
    task = np.unique(np.stack([stays.job[rows], stays.index[rows]]), axis=1)
    running = task.shape[1] + run.nodes.prefilled_tasks
    required = run.jobs.request[task[0]].sum(axis=0) + run.nodes.prefilled.sum(axis=0)
    asked = required > 0
    if not running or not asked.any():
        return 0.0
    free = np.maximum(total - used, 0)[:, asked].astype(np.float64)
    pooled = np.floor(free.sum(axis=0) * running / required[asked]).min()
    fits = np.floor(free * running / required[asked]).min(axis=1).sum()
    return float(1.0 - fits / pooled) if pooled > 0 else 0.0


def sizes_at(run: RecordedRun, time: float) -> Integers:
    """What each node has just before a time."""
    size, nodes = run.nodes.start.copy(), run.nodes
    for k in np.flatnonzero(nodes.change_time < time):
        size[nodes.change_node[k]] = nodes.change_total[k]
    return size


def count_types(total: Integers, used: Integers, guaranteed: Integers) -> Floats:
    """Sliwko and Getov, sections 5 and 7.5. A resource that a node does not have says nothing."""
    there, has = (total > 0).any(axis=1), total > 0
    over = ((used > total) | (guaranteed > total)).any(axis=1)
    # Compared as amounts, because 0.9 of a node is where a rounded share may fall either way.
    above90 = (has & (used > 0.9 * total)).any(axis=1)
    from70 = np.where(has, used >= 0.7 * total, True).all(axis=1) & has.any(axis=1)
    below70 = np.where(has, used < 0.7 * total, True).all(axis=1)
    idle = (used == 0).all(axis=1)
    kind = np.select([idle, over, above90, below70, from70], [0, 5, 1, 3, 2], default=4)
    return np.bincount(kind[there], minlength=len(TYPES)).astype(np.float64)
