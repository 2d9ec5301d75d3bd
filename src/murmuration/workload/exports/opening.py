"""Which export is this? A file of one system's tool, or a folder of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from murmuration.base.documents import Json, JsonObject
from murmuration.base.errors import InputError
from murmuration.cluster.constraints import Constraint
from murmuration.workload.exports import kubernetes, nomad, slurm
from murmuration.workload.formats.source import SourceFile, load
from murmuration.workload.jobs import JobList, merge
from murmuration.workload.nodes import NodeTable
from murmuration.workload.trace import Trace, TraceOptions

#: Files of a folder that are looked at.
FILES_MAX = 100
PARTITION = "partition."


def open_export(source: SourceFile, options: TraceOptions) -> Trace | None:
    """The nodes and jobs of an export; None if it is none."""
    if source.is_parquet:
        return None
    head = source.head(1)
    line = head[0].lstrip() if head else ""
    if slurm.is_nodes(line):
        return slurm.read_nodes(source, options)
    if slurm.is_jobs(line):
        return slurm.read_jobs(source, options)
    if slurm.is_for_people(line):
        raise InputError(
            f"{source.path}: expected fields separated by |, as from {slurm.COMMAND}; got columns "
            "for reading, in which long values are cut"
        )
    return _open_json(source) if line[:1] in ("{", "[") else None


def _open_json(source: SourceFile) -> Trace | None:
    try:
        document = msgspec.json.decode(source.data)
    except msgspec.DecodeError:
        # Lines of JSON are a trace of another kind.
        return None
    things, where = _things(document), str(source.path)
    if not things:
        return None
    if nomad.is_nodes(things):
        return nomad.read_nodes(things, where)
    if nomad.is_allocations(things):
        return nomad.read_allocations(things, where)
    if nomad.is_jobs(things):
        return nomad.read_jobs(things, where)
    return kubernetes.read_objects(things, where) if kubernetes.is_objects(things) else None


def _things(document: Json) -> list[JsonObject]:
    """The objects of a document: a list, a Kubernetes `List`, or one object."""
    if isinstance(document, Mapping) and isinstance(document.get("items"), list):
        document = document["items"]
    listed = document if isinstance(document, list) else [document]
    return listed if all(isinstance(each, Mapping) for each in listed) else []


def is_folder(path: Path) -> bool:
    """Whether some file of a folder is an export."""
    return path.is_dir() and any(_peek(each) for each in _files(path))


def _files(path: Path) -> list[Path]:
    return sorted(each for each in path.iterdir() if each.is_file())[:FILES_MAX]


def _peek(path: Path) -> bool:
    """Whether a file looks like an export, by its first bytes."""
    try:
        with path.open("rb") as handle:
            start = handle.read(4096).decode("utf-8", errors="replace").lstrip()
    except OSError:
        return False
    line = start.partition("\n")[0]
    looks_json = start[:1] in ("{", "[") and path.suffix in (".json", "")
    return slurm.is_nodes(line) or slurm.is_jobs(line) or looks_json


def read_folder(path: Path, options: TraceOptions) -> Trace:
    """The exports of a folder together: nodes of one file, jobs of others."""
    opened = [open_export(load(each), options) for each in _files(path) if _peek(each)]
    traces = [trace for trace in opened if trace is not None]
    nodes = next((trace.nodes for trace in traces if trace.nodes is not None), None)
    recorded = [trace for trace in traces if trace.jobs is not None]
    # What ran says more than what was specified.
    seen = [trace for trace in recorded if trace.kind != "nomad jobs"] or recorded
    if not traces:
        raise InputError(f"{path}: expected exports of a cluster, found none")
    jobs = _join([trace.jobs for trace in seen if trace.jobs is not None])
    if nodes is not None and jobs is not None:
        jobs = keep_partitions(jobs, nodes)
    return Trace(
        " and ".join(dict.fromkeys(trace.kind for trace in traces)),
        sum(trace.rows for trace in traces),
        jobs,
        nodes,
        assumptions=tuple(dict.fromkeys(text for t in traces for text in t.assumptions)),
        skipped=tuple(text for trace in traces for text in trace.skipped),
    )


def _join(lists: Sequence[JobList]) -> JobList | None:
    return merge(list(lists)) if lists else None


def keep_partitions(jobs: JobList, nodes: NodeTable) -> JobList:
    """Jobs of a partition that only some nodes are in may use those alone."""
    partial = {
        name
        for name in jobs.workloads
        if 0 < sum(f"{PARTITION}{name}" in node for node in nodes.attributes) < len(nodes)
    }
    if not partial:
        return jobs
    sets: dict[tuple[Constraint, ...], int] = {
        each: code for code, each in enumerate(jobs.constraint_sets)
    }
    codes = []
    for workload, constraint in zip(jobs.workload.tolist(), jobs.constraint.tolist(), strict=True):
        tests, name = jobs.constraint_sets[constraint], jobs.workloads[workload]
        if name in partial:
            tests = (*tests, Constraint(f"{PARTITION}{name}", "exists"))
        codes.append(sets.setdefault(tests, len(sets)))
    column = np.array(codes, dtype=np.int64)
    return replace(jobs, constraint=column, constraint_sets=tuple(sets))
