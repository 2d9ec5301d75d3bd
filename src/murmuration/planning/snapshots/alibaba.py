"""Alibaba's clusters as snapshots: the GPU cluster of 2023 ("openb"), and the containers of the
2018 contest.

openb's pods have no place; they are to be put on its nodes. The contest's containers have one; of a
day's curve the highest CPU and memory count, so a cluster planned by them is never short.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path

import numpy as np

from murmuration.assignment.problem import APART, Rule
from murmuration.assignment.snapshots.additions import Added, new_nodes
from murmuration.assignment.snapshots.builder import NodeEntry, Snapshot, TaskEntry
from murmuration.base.arrays import Flags
from murmuration.base.errors import InputError
from murmuration.workload.detect import open_trace
from murmuration.workload.formats.source import SourceFile, load
from murmuration.workload.trace import Trace

CONTAINER_FILES = (
    "machine_resources.csv",
    "app_resources.csv",
    "instance_deploy.csv",
    "app_interference.csv",
)


def is_openb(source: SourceFile) -> bool:
    """Whether a file is a list of openb's nodes, by its first line."""
    return any("cpu_milli" in line and "sn," in line for line in source.head(1))


def openb(nodes: Path, pods: Path | None, add: Sequence[Added] = ()) -> Snapshot:
    """Nodes of one file, pods of another to be placed."""
    trace = open_trace(nodes)
    if trace.nodes is None:
        raise InputError(f"{nodes}: expected a list of nodes")
    table = trace.nodes
    entries = [
        NodeEntry(
            name, _natural(table.resources.names, row), {k: str(v) for k, v in attributes.items()}
        )
        for name, row, attributes in zip(
            table.names, table.total.tolist(), table.attributes, strict=True
        )
    ]
    entries += [entry for entry, _ in new_nodes(add, entries)]
    tasks, masks = _pods(open_trace(pods), entries, pods) if pods is not None else ([], {})
    return Snapshot(entries, tasks, masks, format="openb")


def _natural(names: Sequence[str], row: Sequence[int]) -> dict[str, str | float]:
    return {
        name: amount / (1 if name == "memory" else 1_000_000)
        for name, amount in zip(names, row, strict=True)
    }


def _pods(
    trace: Trace, nodes: list[NodeEntry], path: Path
) -> tuple[list[TaskEntry], dict[Hashable, Flags]]:
    from murmuration.cluster.constraints import as_value, node_mask

    jobs = trace.jobs
    if jobs is None:
        raise InputError(f"{path}: expected a list of pods")
    attributes = [{key: as_value(value) for key, value in node.labels.items()} for node in nodes]
    masks: dict[Hashable, Flags] = {
        k: node_mask(wanted, attributes) for k, wanted in enumerate(jobs.constraint_sets)
    }
    tasks = [
        TaskEntry(str(name), _natural(jobs.resources.names, row), str(name), "", int(wants))
        for name, row, wants in zip(
            jobs.job_id, jobs.request.tolist(), jobs.constraint, strict=True
        )
    ]
    return tasks, masks


def find(folder: Path, name: str) -> Path | None:
    """A file of this name, packed or not."""
    return next(
        (
            path
            for path in (folder / name, folder / f"{name}.xz", folder / f"{name}.gz")
            if path.exists()
        ),
        None,
    )


def folder_snapshot(folder: Path, add: Sequence[Added] = ()) -> Snapshot:
    """A folder as Alibaba publishes it."""
    pods = find(folder, "openb_pod_list_default.csv")
    nodes = find(folder, "openb_node_list_all_node.csv")
    if nodes is not None and pods is not None:
        return openb(nodes, pods, add)
    files = [find(folder, name) for name in CONTAINER_FILES]
    present = [path for path in files if path is not None]
    if len(present) < len(CONTAINER_FILES):
        raise InputError(
            f"{folder}: expected a snapshot, or a folder with openb's lists or "
            f"{', '.join(CONTAINER_FILES)}"
        )
    return containers(present, add)


def containers(files: Sequence[Path], add: Sequence[Added] = ()) -> Snapshot:
    """The contest's four tables: nodes, applications, where their containers are, and who disturbs
    whom."""
    machines, apps, deploy, interference = (
        _rows(path, width) for path, width in zip(files, (7, 7, 3, 3), strict=True)
    )
    nodes = [
        NodeEntry(
            name, {"cpu": cpu, "memory": f"{memory}Gi", "disk": disk, "p": p, "m": m, "pm": pm}
        )
        for name, cpu, memory, disk, p, m, pm in machines
    ]
    nodes += [entry for entry, _ in new_nodes(add, nodes)]
    asks = {
        name: _peaks(name, cpu, memory, disk, p, m, pm)
        for name, cpu, memory, disk, p, m, pm in apps
    }
    names = {node.name for node in nodes}
    tasks, members = list[TaskEntry](), dict[str, list[int]]()
    for name, app, machine in deploy:
        if app not in asks or (machine and machine not in names):
            raise InputError(
                f"{files[2]}: container {name} names an application or a node that is not there"
            )
        members.setdefault(app, []).append(len(tasks))
        tasks.append(TaskEntry(name, asks[app], app, machine))
    by_node = np.arange(len(nodes))
    rules = [
        Rule(APART, f"{a} beside {b}", np.array(members[a]), np.array(members[b]), by_node, int(k))
        for a, b, k in interference
        if a in members and b in members and not (a == b and len(members[a]) < 2)
    ]
    return Snapshot(nodes, tasks, {}, rules, format="containers")


def _peaks(
    app: str, cpu: str, memory: str, disk: str, p: str, m: str, pm: str
) -> dict[str, str | float]:
    """What a container asks for: the highest points of its curves, and the contest's limits."""
    peaks = [max(float(point) for point in curve.split("|")) for curve in (cpu, memory)]
    return {"cpu": peaks[0], "memory": f"{peaks[1]:.6f}Gi", "disk": disk, "p": p, "m": m, "pm": pm}


def _rows(path: Path, width: int) -> list[list[str]]:
    lines = load(path).data.decode("utf-8").splitlines()
    rows = [line.split(",") for line in lines if line.strip()]
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            raise InputError(f"{path}, line {number}: expected {width} fields, got {len(row)}")
    return rows
