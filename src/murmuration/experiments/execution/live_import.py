"""The log of a live cluster as a workload and a cluster of the simulator: what nodes joined, and
what jobs came and how long their tasks ran."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from murmuration.base.documents import Document
from murmuration.base.errors import InputError
from murmuration.base.kernel_cache import user_cache
from murmuration.base.resources import Resources, parse_quantity
from murmuration.runtime.folder import STORE
from murmuration.runtime.store.interface import Entry
from murmuration.runtime.store.sqlite import read_log
from murmuration.schedulers.central import messages as ms
from murmuration.workload.exports.rows import (
    ENDLESS_S,
    ExportedJob,
    ExportedNode,
    jobs_of,
    node_table,
)
from murmuration.workload.formats.job_lists import write_jobs
from murmuration.workload.jobs import JobList
from murmuration.workload.nodes import NodeTable, write_nodes


def is_live_log(path: Path) -> bool:
    """Whether a path is the folder or the store of a live cluster."""
    return (path / STORE).is_file() if path.is_dir() else path.name == STORE and path.is_file()


def import_log(path: Path) -> Document:
    """A scenario of what a live cluster did. Its nodes and jobs are written beside the kernels'
    cache, named by what they hold, so that the scenario can be run again when the cluster is
    gone."""
    entries = read_log(path)
    nodes, jobs = nodes_of(entries, str(path)), jobs_in(entries, str(path))
    digest = hashlib.blake2b(
        repr([(entry.number, entry.at_s) for entry in entries]).encode(), digest_size=8
    ).hexdigest()
    folder = user_cache() / "imports" / f"log-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    write_nodes(nodes, folder / "nodes.parquet")
    write_jobs(jobs, folder / "jobs.parquet")
    return {
        "name": "live",
        "cluster": {"trace": str(folder / "nodes.parquet")},
        "workload": {"trace": str(folder / "jobs.parquet")},
    }


def nodes_of(entries: list[Entry], where: str) -> NodeTable:
    """The nodes as they joined last."""
    joined: dict[str, ExportedNode] = {}
    for entry in entries:
        if isinstance(entry.value, ms.AgentJoined):
            event = entry.value
            units = Resources(tuple(event.total))
            sizes = {name: amount / units.unit(name) for name, amount in event.total.items()}
            joined[event.node] = ExportedNode(event.node, sizes, dict(event.attributes))
    if not joined:
        raise InputError(f"{where}: expected nodes that joined, the log has none")
    return node_table(list(joined.values()))


def jobs_in(entries: list[Entry], where: str) -> JobList:
    """The jobs that came. A job ran as long as its tasks did on average; one that still runs, or
    whose tasks never ended by themselves, runs on."""
    return jobs_of(list(_jobs(entries, where)), where)


def _jobs(entries: list[Entry], where: str) -> Iterator[ExportedJob]:
    started: dict[tuple[str, int], float] = {}
    ran: dict[str, list[float]] = {}
    for entry in entries:
        fact = entry.value
        if isinstance(fact, ms.TaskStarted):
            started[fact.job, fact.run] = entry.at_s
        elif isinstance(fact, ms.TaskEnded) and fact.state == "finished":
            begin = started.get((fact.job, fact.run))
            if begin is not None:
                ran.setdefault(fact.job, []).append(max(entry.at_s - begin, 0.001))
    for entry in entries:
        if entry.side == "fact" and isinstance(entry.value, ms.JobSubmitted):
            spec, lasted = entry.value.spec, ran.get(entry.value.job)
            yield ExportedJob(
                name=spec.name,
                workload=spec.user or spec.kind,
                submit_s=entry.at_s,
                tasks=spec.count,
                duration_s=sum(lasted) / len(lasted) if lasted else ENDLESS_S,
                request={
                    name: float(parse_quantity(amount, f"{where}: {spec.name}"))
                    for name, amount in spec.resources.items()
                },
                priority=spec.priority,
                gang=spec.gang,
                production=spec.kind == "service",
                constraints=tuple(spec.constraints),
                user=spec.user,
            )
