"""Nomad: nodes and allocations as its API has them, and job specifications.

`nomad operator api '/v1/nodes?resources=true'` and `'/v1/allocations?resources=true'`, or one
`nomad node status -json ID`; `nomad job inspect JOB` where there are no allocations. Nomad counts
CPU in MHz: 1,000 of them are one CPU here, of nodes and of jobs alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from murmuration.base.documents import JsonObject
from murmuration.base.errors import InputError
from murmuration.workload.exports.nomad_shapes import check_allocations, check_jobs, check_nodes
from murmuration.workload.exports.rows import (
    ENDLESS_S,
    ExportedJob,
    ExportedNode,
    jobs_of,
    node_table,
    seconds_of,
)
from murmuration.workload.trace import Trace, count_skipped

MIB = 2.0**20
MHZ = 1000.0
NANOSECONDS = 1e-9
NODES = "nomad operator api '/v1/nodes?resources=true'"
ASSUMED = "1,000 MHz are one CPU"
Thing = JsonObject


def is_nodes(things: Sequence[Thing]) -> bool:
    return all("Datacenter" in thing and "NodeClass" in thing for thing in things)


def is_allocations(things: Sequence[Thing]) -> bool:
    return all("TaskGroup" in thing and "ClientStatus" in thing for thing in things)


def is_jobs(things: Sequence[Thing]) -> bool:
    return all("TaskGroups" in _job_of(thing) for thing in things)


def _job_of(thing: Thing) -> Thing:
    """`nomad job inspect` prints the job below `Job`."""
    job = thing.get("Job", thing)
    return job if isinstance(job, Mapping) else {}


def read_nodes(things: Sequence[Thing], where: str) -> Trace:
    """The nodes that are ready and eligible; what is reserved for their systems is left out."""
    check_nodes(things, where)
    usable = [
        thing
        for thing in things
        if thing.get("Status", "ready") == "ready"
        and not thing.get("Drain")
        and thing.get("SchedulingEligibility", "eligible") == "eligible"
    ]
    nodes = node_table([_node(thing, where) for thing in usable]) if usable else None
    if nodes is None:
        raise InputError(f"{where}: expected nodes that are ready and eligible, found none")
    skipped = count_skipped((len(things) - len(usable), "nodes that take no allocations"))
    return Trace("nomad nodes", len(things), nodes=nodes, assumptions=(ASSUMED,), skipped=skipped)


def _node(thing: Thing, where: str) -> ExportedNode:
    resources = thing.get("NodeResources")
    name = str(thing.get("Name") or thing.get("ID"))
    if not isinstance(resources, Mapping):
        raise InputError(f"{where}: node {name}: expected NodeResources, as from {NODES}")
    reserved = thing.get("ReservedResources") or {}
    sizes = {
        "cpu": (_inner(resources, "Cpu", "CpuShares") - _inner(reserved, "Cpu", "CpuShares")) / MHZ,
        "memory": MIB
        * (_inner(resources, "Memory", "MemoryMB") - _inner(reserved, "Memory", "MemoryMB")),
    }
    for device in resources.get("Devices") or ():
        kind = str(device.get("Type", "device"))
        sizes[kind] = sizes.get(kind, 0.0) + len(device.get("Instances") or ())
    attributes: dict[str, str | float] = {"datacenter": str(thing["Datacenter"])}
    attributes |= {"class": str(thing["NodeClass"])} if thing.get("NodeClass") else {}
    attributes |= {key: str(value) for key, value in (thing.get("Attributes") or {}).items()}
    attributes |= {f"meta.{key}": str(value) for key, value in (thing.get("Meta") or {}).items()}
    return ExportedNode(name, sizes, attributes)


def _inner(table: Thing, outer: str, inner: str) -> float:
    return float((table.get(outer) or {}).get(inner) or 0.0)


def read_allocations(things: Sequence[Thing], where: str) -> Trace:
    """Each allocation is a job of one task: services run on, batch allocations for as long as they
    did."""
    check_allocations(things, where)
    started = [thing for thing in things if _span(thing, where) is not None]
    jobs = [_allocation(thing, where) for thing in started]
    skipped = count_skipped((len(things) - len(started), "allocations that never started"))
    return Trace(
        "nomad allocations",
        len(things),
        jobs_of(jobs, where),
        assumptions=(ASSUMED, "each allocation is a job of one task; what still runs runs on"),
        skipped=skipped,
    )


def _span(thing: Thing, where: str) -> tuple[float, float] | None:
    """When the tasks of an allocation started and ended; it goes on while one runs."""
    begins, ends = [], []
    for state in (thing.get("TaskStates") or {}).values():
        if str(state.get("StartedAt") or "0001")[:4] != "0001":
            begins.append(seconds_of(state["StartedAt"], where))
            over = str(state.get("FinishedAt") or "0001")[:4] != "0001"
            ends.append(seconds_of(state["FinishedAt"], where) if over else float("inf"))
    return (min(begins), max(ends)) if begins else None


def _allocation(thing: Thing, where: str) -> ExportedJob:
    span = _span(thing, where)
    assert span is not None, "it has started"
    lasted = min(span[1] - span[0], ENDLESS_S)
    created = thing.get("CreateTime")
    tasks = ((thing.get("AllocatedResources") or {}).get("Tasks") or {}).values()
    if not tasks:
        raise InputError(
            f"{where}: allocation {thing.get('ID')}: expected AllocatedResources, as from nomad "
            "operator api '/v1/allocations?resources=true'"
        )
    request: dict[str, float] = {
        "cpu": sum(_inner(task, "Cpu", "CpuShares") for task in tasks) / MHZ,
        "memory": sum(_inner(task, "Memory", "MemoryMB") for task in tasks) * MIB,
    }
    for device in (each for task in tasks for each in task.get("Devices") or ()):
        kind = str(device.get("Type", "device"))
        request[kind] = request.get(kind, 0.0) + len(device.get("DeviceIDs") or ())
    service = thing.get("JobType", "service") in ("service", "system", "sysbatch")
    return ExportedJob(
        name=str(thing.get("Name") or thing["ID"]),
        workload=str(thing.get("JobType") or "service"),
        submit_s=float(created) * NANOSECONDS if created else span[0],
        tasks=1,
        duration_s=lasted,
        request=request,
        production=service,
        user=str(thing.get("Namespace") or ""),
    )


def read_jobs(things: Sequence[Thing], where: str) -> Trace:
    """Jobs as they are specified: each task group is a job that is there at time 0 and runs on."""
    specs = [_job_of(thing) for thing in things]
    check_jobs(specs, where)
    jobs = [job for spec in specs if not spec.get("Stop") for job in _groups(spec)]
    assumptions = (ASSUMED, "specifications do not say when jobs came: all are there at time 0")
    return Trace("nomad jobs", len(things), jobs_of(jobs, where), assumptions=assumptions)


def _groups(job: Thing) -> list[ExportedJob]:
    groups = []
    for group in job.get("TaskGroups") or ():
        count = group.get("Count")
        if count == 0:  # Scaled down to nothing; without a count it is one.
            continue
        resources = [task.get("Resources") or {} for task in group.get("Tasks") or ()]
        request = {
            "cpu": sum(float(each.get("CPU") or 0.0) for each in resources) / MHZ,
            "memory": sum(float(each.get("MemoryMB") or 0.0) for each in resources) * MIB,
        }
        groups.append(
            ExportedJob(
                name=f"{job.get('ID')}.{group.get('Name')}",
                workload=str(job.get("Type") or "service"),
                submit_s=0.0,
                tasks=1 if count is None else count,
                duration_s=ENDLESS_S,
                request=request,
                priority=int(job.get("Priority") or 0),
                production=job.get("Type", "service") != "batch",
                user=str(job.get("Namespace") or ""),
            )
        )
    return groups
