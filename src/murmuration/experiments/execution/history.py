"""What became of a job of a live cluster, and why: its facts in the log, and each decision about it
made again.

The master decides by the events in its log alone (`murmur replay`), so a decision that was made an
hour ago can still be explained: the log is replayed, and the round that placed the job says what it
saw.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from murmuration.base.documents import Json
from murmuration.cluster.reasons import Explanation
from murmuration.experiments.live import read_entries
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.options import MasterOptions
from murmuration.schedulers.central import messages as ms
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.replaying import WatchedMaster, replay

#: Attempts at a job that are kept, the first and the last.
KEPT = 100


@dataclass(frozen=True)
class HistoryLine:
    """Something that happened to a job or to one of its tasks."""

    at_s: float
    task: str
    what: str


@dataclass(frozen=True)
class JobHistory:
    """The facts about a job in order, and the decisions about it that could be made again.
    `agrees`: whether the replay gave the facts of the log, so that they are those that were
    made."""

    lines: tuple[HistoryLine, ...]
    decisions: tuple[Explanation, ...]
    attempts: int
    agrees: bool


def read_history(path: Path, job: str) -> JobHistory:
    """The history of a job from the log of the cluster in a folder."""
    entries = read_entries(path)
    decisions: list[Explanation] = []

    def make(options: MasterOptions) -> CentralMaster:
        return WatchedMaster(live_settings(options)[0], options.seed, job, decisions)

    result = replay(((e.number, e.at_s, e.side, e.value) for e in entries), make)
    lines = [
        line
        for entry in entries
        if entry.side == "fact" and getattr(entry.value, "job", None) == job
        for line in _describe(entry.at_s, entry.value)
    ]
    kept = decisions if len(decisions) <= 2 * KEPT else decisions[:KEPT] + decisions[-KEPT:]
    return JobHistory(tuple(lines), tuple(kept), len(decisions), result.agrees)


def _describe(at_s: float, fact: Json) -> Iterator[HistoryLine]:
    task = f"{fact.job}.{fact.index}" if hasattr(fact, "index") else fact.job
    match fact:
        case ms.JobSubmitted():
            yield HistoryLine(at_s, task, "submitted")
        case ms.TaskPlaced(node=node):
            yield HistoryLine(at_s, task, f"placed on {node}")
        case ms.TaskStarted(node=node):
            yield HistoryLine(at_s, task, f"started on {node}")
        case ms.TaskStopping(reason=reason):
            yield HistoryLine(at_s, task, f"told to stop: {reason}")
        case ms.TaskSuspended(node=node, reason=reason):
            yield HistoryLine(at_s, task, f"suspended on {node}: {reason}")
        case ms.TaskWentOn(node=node):
            yield HistoryLine(at_s, task, f"goes on on {node}")
        case ms.TaskHealth(healthy=healthy, reason=reason):
            yield HistoryLine(at_s, task, "healthy" if healthy else reason)
        case ms.TaskEnded():
            again = "; to run again" if fact.state == "waiting" else ""
            reason = fact.reason or f"code {fact.code}"
            where = f" on {fact.node}" if fact.node else ""
            yield HistoryLine(at_s, task, f"ended{where} ({reason}){again}")
        case ms.JobKilled():
            yield HistoryLine(at_s, task, "killed by a client")
        case ms.JobChanged(spec=spec, rollout=rollout):
            phase = f", {rollout.phase}" if rollout.phase else ""
            reason = f": {rollout.reason}" if rollout.reason else ""
            words = f"version {rollout.version} with {spec.count} tasks{phase}{reason}"
            yield HistoryLine(at_s, task, words)
        case ms.JobEnded(status=status):
            yield HistoryLine(at_s, task, f"{status}")
