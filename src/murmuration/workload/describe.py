"""A trace in figures, and one workload of a list as distributions to draw from."""

from __future__ import annotations

from typing import Any

import numpy as np

from murmuration.base.arrays import Floats, Integers
from murmuration.base.errors import InputError, unknown
from murmuration.base.resources import Resources
from murmuration.workload.formats.sizes import unit
from murmuration.workload.generators import Tables
from murmuration.workload.jobs import JobList
from murmuration.workload.nodes import EVENT_NAMES, NodeEvents, NodeTable
from murmuration.workload.trace import Trace


def tables_of(jobs: JobList, workload: str | None = None) -> Tables:
    """Gaps, tasks, durations and requests of one workload, or of all jobs together."""
    if workload is not None:
        if workload not in jobs.workloads:
            raise InputError(str(unknown("workload", workload, jobs.workloads)))
        jobs = jobs.select(jobs.workload == jobs.workloads.index(workload))
    gaps = np.diff(jobs.submit_s)
    # Gaps of zero alone would let no time pass.
    gaps = gaps if gaps.any() else np.empty(0)
    return Tables(gaps, jobs.tasks.astype(np.float64), jobs.duration_s.copy(), jobs.request.copy())


def describe(trace: Trace) -> dict[str, Any]:
    """What a trace holds, as one JSON document; a part that it does not hold is null."""
    return {
        "kind": trace.kind,
        "rows": trace.rows,
        "jobs": None if trace.jobs is None else _span(trace.jobs),
        "usage": None if trace.jobs is None else _usage(trace.jobs),
        "workloads": {} if trace.jobs is None else _workloads(trace.jobs),
        "nodes": None if trace.nodes is None else _nodes(trace.nodes),
        "events": None if trace.events is None else _events(trace.events),
        "tables": {name: _tables(tables) for name, tables in trace.tables.items()},
        "assumptions": list(trace.assumptions),
        "skipped": list(trace.skipped),
    }


def _span(jobs: JobList) -> dict[str, Any]:
    return {
        "jobs": len(jobs),
        "tasks": int(jobs.tasks.sum()),
        "first_submit_s": float(jobs.submit_s[0]),
        "last_submit_s": float(jobs.submit_s[-1]),
        "constrained": int((jobs.constraint > 0).sum()),
        "production": int(jobs.production.sum()),
        "recorded": int((jobs.recorded >= 0).sum()),
    }


def _usage(jobs: JobList) -> dict[str, Any] | None:
    """What tasks use of what they request: mean over their curves, weighted by request, and the
    highest point."""
    if jobs.curves is None:
        return None
    share, mine = jobs.curves.share, jobs.select(jobs.curve >= 0)
    weight = (mine.request * mine.tasks[:, None]).astype(np.float64)
    mean = (share.mean(axis=1)[mine.curve] * weight).sum(axis=0) / np.where(
        weight.any(axis=0), weight.sum(axis=0), 1.0
    )
    highest = share.max(axis=1)[mine.curve].max(axis=0, initial=0.0)
    return {
        "jobs": len(mine),
        "curves": len(np.unique(mine.curve)),
        "points": share.shape[1],
        "step_s": jobs.curves.step_s,
        "cyclic": jobs.curves.cyclic,
        "mean": dict(zip(jobs.resources.names, mean.tolist(), strict=True)),
        "max": dict(zip(jobs.resources.names, highest.tolist(), strict=True)),
    }


def _workloads(jobs: JobList) -> dict[str, Any]:
    """One line per workload that has jobs; means are over jobs."""
    described = {}
    for k, name in enumerate(jobs.workloads):
        mine = jobs.select(jobs.workload == k)
        if len(mine):
            described[name] = {
                "jobs": len(mine),
                "tasks": int(mine.tasks.sum()),
                "gap_s_mean": _mean(np.diff(mine.submit_s)),
                "tasks_mean": _mean(mine.tasks),
                "duration_s_mean": _mean(mine.duration_s),
                "size_mean": _natural(jobs.resources, mine.request.mean(axis=0)),
            }
    return described


def _mean(values: Floats | Integers) -> float | None:
    return float(values.mean()) if len(values) else None


def _natural(resources: Resources, row: Floats | Integers) -> dict[str, float]:
    """Amounts in the units of our files."""
    names = ("mem_gb" if name == "memory" else name for name in resources.names)
    return {label: float(row[k]) / unit(resources.names[k]) for k, label in enumerate(names)}


def _nodes(nodes: NodeTable) -> dict[str, Any]:
    """The nodes by size, the most frequent first."""
    sizes, counts = np.unique(nodes.total, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    mix = [{"nodes": int(counts[k]), **_natural(nodes.resources, sizes[k])} for k in order]
    # As floats: the sum of many large nodes may pass the exact integers.
    total = _natural(nodes.resources, nodes.total.sum(axis=0, dtype=np.float64))
    return {
        "nodes": len(nodes),
        "total": total,
        "mix": mix,
        "attributes": sorted({a for n in nodes.attributes for a in n}),
    }


def _events(events: NodeEvents) -> dict[str, Any]:
    counts = {name: int((events.kind == k).sum()) for k, name in enumerate(EVENT_NAMES)}
    nodes = len(np.unique(events.node_id))
    return {
        **counts,
        "nodes": nodes,
        "first_s": float(events.time_s[0]),
        "last_s": float(events.time_s[-1]),
    }


def _tables(tables: Tables) -> dict[str, Any]:
    columns = {"gap_s": tables.gaps_s, "tasks": tables.tasks, "duration_s": tables.durations_s}
    return {name: {"values": len(v), "mean": _mean(v)} for name, v in columns.items() if len(v)}
