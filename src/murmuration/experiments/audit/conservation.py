"""What must hold of every run: no node is given more than it has, no task is in two places, and
every task that was placed has ended or runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from murmuration.experiments.audit.folder import (
    ENDED,
    PLACED_AGAIN,
    Flags,
    Integers,
    RecordedRun,
)

#: Times are sums of others: they agree to rounding.
CLOSE = 1e-6


def find_broken(run: RecordedRun) -> Iterator[str]:
    """What does not hold, each as a sentence."""
    yield from _times(run)
    yield from _lengths(run)
    yield from _places(run)
    yield from _counts(run)
    yield from _homes(run)
    if (kept := kept_within_capacity(run)) is not None:
        yield from _capacity(run, kept)


def _say(run: RecordedRun, rows: Flags, what: str) -> Iterator[str]:
    """A sentence on the first of these stays."""
    if rows.any():
        k = int(np.flatnonzero(rows)[0])
        stays = run.stays
        task = f"task {stays.index[k]} of job {run.jobs.ids[stays.job[k]]}"
        node = run.nodes.names[stays.node[k]]
        more = f" ({int(rows.sum())} such stays)" if rows.sum() > 1 else ""
        yield f"{task} on {node} from {stays.start[k]:.6g} s: {what}{more}"


def _times(run: RecordedRun) -> Iterator[str]:
    stays = run.stays
    yield from _say(run, stays.start < run.jobs.submit[stays.job] - CLOSE, "starts before its job")
    yield from _say(run, stays.end < stays.start, "ends before it starts")
    yield from _say(run, stays.end > run.horizon + CLOSE, "ends after the run")
    outside = (stays.index < 0) | (stays.index >= run.jobs.tasks[stays.job])
    yield from _say(run, outside, "its job has no task of that number")


def _lengths(run: RecordedRun) -> Iterator[str]:
    """A task that finished ran for its time, on however many nodes; one that was killed, ran less;
    whatever runs has not run for longer."""
    began = chain_starts(run)
    lasted, duration = run.stays.end - began, run.jobs.duration[run.stays.job]
    slack = CLOSE * np.maximum(1.0, run.stays.end)
    finished = run.stays.why == "finished"
    yield from _say(run, finished & (np.abs(lasted - duration) > slack), "did not run for its time")
    yield from _say(run, lasted > duration + slack, "runs for longer than its time")
    killed = run.stays.why == "killed"
    yield from _say(run, killed & (lasted > duration - CLOSE), "was not killed before its end")


def by_task(run: RecordedRun) -> Integers:
    """The stays in the order of their tasks, and of each task in the order of time; where a task
    moved on at once, by the end."""
    stays = run.stays
    return np.lexsort((stays.end, stays.start, stays.index, stays.job))


def chain_starts(run: RecordedRun) -> np.ndarray:
    """When the task of each stay began, on whichever node."""
    stays, order = run.stays, by_task(run)
    # The last start of a task before or at each stay, in the order of tasks; a stay that a move
    # began takes the one before it.
    position = np.where(stays.begins[order], np.arange(len(order)), 0)
    first = np.maximum.accumulate(position)
    began = np.empty(len(order))
    began[order] = stays.start[order][first]
    return began


def _places(run: RecordedRun) -> Iterator[str]:
    """A task is on one node, or on its way from one to the next."""
    stays, order = run.stays, by_task(run)
    before, after = order[:-1], order[1:]
    same = (stays.job[before] == stays.job[after]) & (stays.index[before] == stays.index[after])
    overlap = stays.start[after] < stays.end[before] - CLOSE
    moves = stays.source[after] == stays.node[before]
    wrong = np.zeros(len(order), np.bool_)
    wrong[after] = same & overlap & ~moves
    yield from _say(run, wrong, "it is on another node at the same time")
    orphans = np.zeros(len(order), np.bool_)
    orphans[after] = ~stays.begins[after] & ~same
    if len(order):
        orphans[order[0]] = not stays.begins[order[0]]
    yield from _say(run, orphans, "it moved from where it never was")


def _homes(run: RecordedRun) -> Iterator[str]:
    """Nobody stays on a node that is gone."""
    stays, gone = run.stays, run.nodes.change_total.max(axis=1, initial=0) == 0
    outlives = np.zeros(len(stays.job), np.bool_)
    for time, node in zip(run.nodes.change_time[gone], run.nodes.change_node[gone], strict=True):
        outlives |= (stays.node == node) & (stays.start < time) & (stays.end > time + CLOSE)
    yield from _say(run, outlives & (stays.start < run.horizon), "its node has left")


def _counts(run: RecordedRun) -> Iterator[str]:
    """Placed = ended + running, in all and by job."""
    stays, jobs = run.stays, len(run.jobs.ids)
    placed = np.bincount(stays.job[stays.begins], minlength=jobs)
    ended = np.bincount(stays.job[stays.ends(*ENDED)], minlength=jobs)
    running = np.zeros(jobs, np.int64)
    tasks = np.unique(np.stack([stays.job, stays.index])[:, stays.running], axis=1)
    np.add.at(running, tasks[0], 1)
    again = np.bincount(stays.job[stays.ends(*PLACED_AGAIN)], minlength=jobs)
    for k in np.flatnonzero(placed != ended + running)[:1]:
        yield (
            f"job {run.jobs.ids[k]}: {placed[k]} tasks were placed, {ended[k]} ended and "
            f"{running[k]} run"
        )
    for k in np.flatnonzero(placed - again > run.jobs.tasks)[:1]:
        yield f"job {run.jobs.ids[k]}: more tasks were placed than it has ({run.jobs.tasks[k]})"
    promised = np.zeros(jobs, np.int64)
    np.add.at(promised, run.attempts.job, run.attempts.placed)
    allowed = promised >= placed if answers_later(run) else promised == placed
    for k in np.flatnonzero(~allowed)[:1]:
        yield (
            f"job {run.jobs.ids[k]}: its attempts placed {promised[k]} tasks, {placed[k]} started"
        )


def answers_later(run: RecordedRun) -> bool:
    """Whether tasks start some time after the attempt that placed them: batched offers."""
    if run.kind != "offers":
        return False
    from murmuration.simulation.architectures.offers.settings import OfferRules

    return run.scenario.scheduler.settings_of(OfferRules).batch_s > 0.0


def kept_within_capacity(run: RecordedRun) -> Flags | None:
    """The jobs whose requests no node may exceed: all, or production alone where others get what is
    not used; None where nodes themselves decide what to accept."""
    if run.kind == "negotiation":
        return None
    if run.has_usage and run.scenario.scheduler.reclaim:
        return run.jobs.production
    return np.ones(len(run.jobs.ids), np.bool_)


def _capacity(run: RecordedRun, kept: Flags) -> Iterator[str]:
    """What a task is given is there when it starts. At one time ends come first, then changes of
    nodes, then starts; a node that shrinks may hold more than it has until tasks end."""
    stays, nodes = run.stays, run.nodes
    counted = np.flatnonzero(kept[stays.job])
    if not len(counted):
        return
    request = run.jobs.request[stays.job[counted]]
    change = nodes.change_total - _sizes_before(run)
    time = np.concatenate([stays.end[counted], nodes.change_time, stays.start[counted]])
    rank = np.repeat([0, 1, 2], [len(counted), len(change), len(counted)])
    node = np.concatenate([stays.node[counted], nodes.change_node, stays.node[counted]])
    room = np.concatenate([request, change, -request])
    # A stay that has not ended gives nothing back.
    room[: len(counted)][stays.running[counted]] = 0
    order = np.lexsort((rank, time, node))
    free = np.cumsum(room[order], axis=0)
    first = np.searchsorted(node[order], np.arange(len(nodes.names)))
    offset = np.where((first > 0)[:, None], free[np.maximum(first - 1, 0)], 0)
    prefilled = 0 if run.has_usage else nodes.prefilled
    left = free - offset[node[order]] + (nodes.start - prefilled)[node[order]]
    wrong = np.zeros(len(stays.job), np.bool_)
    over = (rank[order] == 2) & (left < 0).any(axis=1)
    wrong[counted[order[over] - len(counted) - len(change)]] = True
    yield from _say(run, wrong, "its node has no room for it")


def _sizes_before(run: RecordedRun) -> Integers:
    """What each changed node had before the change."""
    size, before = run.nodes.start.copy(), np.zeros_like(run.nodes.change_total)
    for k, node in enumerate(run.nodes.change_node):
        before[k], size[node] = size[node], run.nodes.change_total[k]
    return before
