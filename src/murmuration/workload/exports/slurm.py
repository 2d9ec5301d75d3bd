"""Slurm: the nodes of `scontrol show nodes`, and the jobs of `sacct --parsable2` (`-P`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from murmuration.base.errors import InputError
from murmuration.base.resources import parse_quantity
from murmuration.workload.exports.rows import (
    ExportedJob,
    ExportedNode,
    jobs_of,
    node_table,
    seconds_of,
)
from murmuration.workload.formats.source import SourceFile
from murmuration.workload.trace import Trace, TraceOptions, count_skipped

MIB = 2.0**20
#: Slurm's units are powers of 1024; without one it means mebibytes.
UNITS = {"": MIB, "K": 2.0**10, "M": MIB, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50}
#: A node in one of these states takes no jobs.
CLOSED = ("DOWN", "DRAIN", "FAIL", "MAINT", "POWER", "FUTURE", "UNKNOWN", "NOT_RESPONDING")
#: What sacct must print.
NEEDED = ("JobID", "Submit", "State")
#: One of these must be among the columns: how long jobs ran.
TIMES = ("ElapsedRaw", "Elapsed", "End")
COMMAND = "sacct -a -P -o JobID,User,Partition,Submit,Start,End,Elapsed,State,NNodes,NCPUS,ReqMem"
Row = Mapping[str, str]


def is_nodes(line: str) -> bool:
    return line.lstrip().startswith("NodeName=")


def is_jobs(line: str) -> bool:
    return "|" in line and "JobID" in line.split("|")


def is_for_people(line: str) -> bool:
    """Columns of blanks, in which sacct cuts what is long."""
    return "|" not in line and line.split()[:1] == ["JobID"]


def read_nodes(source: SourceFile, options: TraceOptions) -> Trace:
    """The nodes that take jobs, with their features and partitions as attributes."""
    text = source.data.decode("utf-8", errors="replace")
    records = [_fields(part) for part in re.split(r"(?m)^(?=\s*NodeName=)", text) if part.strip()]
    open_nodes, closed = [], Counter[str]()
    for number, record in enumerate(records, 1):
        state = record.get("State", "").upper()
        if any(word in state for word in CLOSED):
            closed[state.rstrip("*")] += 1
        else:
            open_nodes.append(_node(record, f"{source.path}, node {number}"))
    if not open_nodes:
        raise InputError(f"{source.path}: expected nodes that take jobs, found none")
    left_out = ((count, f"nodes that are {state}") for state, count in closed.items())
    nodes = node_table(open_nodes)
    return Trace("slurm nodes", len(records), nodes=nodes, skipped=count_skipped(*left_out))


def _fields(text: str) -> dict[str, str]:
    """`Key=value` as scontrol prints them; only `OS` and `Reason` have blanks in their value."""
    return dict(re.findall(r"(?:^|\s)([A-Za-z_:/]+)=(\S*)", text))


def _node(record: Row, where: str) -> ExportedNode:
    cpus = record.get("CPUEfctv") or record.get("CPUTot")
    if not cpus or "RealMemory" not in record:
        raise InputError(f"{where}: expected CPUTot and RealMemory, as scontrol show nodes prints")
    sizes = {"cpu": _number(cpus, where), "memory": _number(record["RealMemory"], where) * MIB}
    attributes: dict[str, str | float] = {}
    for feature in _split_list(record.get("ActiveFeatures", "")):
        attributes[feature] = "true"
    for partition in _split_list(record.get("Partitions", "")):
        attributes[f"partition.{partition}"] = "true"
    return ExportedNode(record["NodeName"], sizes | _gres(record.get("Gres", "")), attributes)


def _split_list(text: str) -> list[str]:
    return [] if text in ("", "(null)") else [part for part in text.split(",") if part]


def _gres(text: str) -> dict[str, float]:
    """`gpu:v100:4(S:0-1)` is four of `gpu`, whatever their type."""
    counts: Counter[str] = Counter()
    for name, count in re.findall(r"([A-Za-z_]\w*)(?::[A-Za-z_][\w.-]*)?:(\d+)", text):
        if name != "S":
            counts[name] += int(count)
    return {name: float(count) for name, count in counts.items()}


def read_jobs(source: SourceFile, options: TraceOptions) -> Trace:
    """Jobs that have run or run. A job is a gang of one task for each of its nodes."""
    rows = list(_rows(source))
    jobs: list[ExportedJob] = []
    steps = never = running = 0
    for number, row in rows:
        where = f"{source.path}, line {number}"
        if "." in row["JobID"]:
            steps += 1
            continue
        seconds = _read_elapsed(row, where)
        if not seconds:
            never += 1
            continue
        state = row["State"].partition(" ")[0]
        running += state == "RUNNING"
        limit = _limit(row, where)
        ran = max(limit, seconds) if state == "RUNNING" else seconds
        jobs.append(_job(row, ran, limit, where))
    assumptions = [
        "a job is one task for each of its nodes, all started together; partitions are workloads"
    ]
    if running:
        assumptions.append(
            f"{running:,} jobs still ran: they run for their time limit, or for as long as they "
            "had run if there is none"
        )
    skipped = count_skipped((never, "jobs that never ran"))
    return Trace(
        "slurm jobs",
        len(rows) - steps,
        jobs_of(jobs, str(source.path)),
        assumptions=tuple(assumptions),
        skipped=skipped,
    )


def _rows(source: SourceFile) -> Iterator[tuple[int, dict[str, str]]]:
    lines = enumerate(source.data.decode("utf-8-sig", errors="replace").splitlines(), 1)
    filled = ((number, line) for number, line in lines if line.strip())
    _, heading = next(filled)
    names = heading.strip().rstrip("|").split("|")
    missing = [name for name in NEEDED if name not in names]
    if not set(TIMES) & set(names):
        missing.append("Elapsed")
    if missing:
        raise InputError(f"{source.path}: expected the column {missing[0]}, as from {COMMAND}")
    # With `-p` every line ends in a separator, with `-P` none does.
    ends = int(heading.rstrip().endswith("|"))
    for number, line in filled:
        fields = line.split("|")
        if len(fields) != len(names) + ends:
            got = len(fields) - ends
            why = "; is | part of a name?" if got > len(names) else ""
            raise InputError(
                f"{source.path}, line {number}: expected {len(names)} fields, got {got}{why}"
            )
        yield number, dict(zip(names, fields, strict=False))


def _job(row: Row, seconds: float, limit: float, where: str) -> ExportedJob:
    tres = _tres(row)
    nodes = max(int(_number(row.get("NNodes") or "1", where)), 1)
    cpus = tres.get("cpu") or _number(
        row.get("NCPUS") or row.get("AllocCPUS") or row.get("ReqCPUS") or "1", where
    )
    memory = tres.get("mem") or _memory(row.get("ReqMem", ""), cpus, nodes, where)
    extra = {name.partition("/")[2]: count for name, count in tres.items() if "gres/" in name}
    request = {"cpu": cpus / nodes, "memory": memory / nodes}
    request |= {name: count / nodes for name, count in extra.items() if ":" not in name}
    return ExportedJob(
        name=row["JobID"],
        workload=row.get("Partition") or "batch",
        submit_s=seconds_of(row["Submit"], where),
        tasks=nodes,
        duration_s=seconds,
        request=request,
        gang=nodes > 1,
        constraints=tuple(f"{name} exists" for name in _features(row.get("Constraints", ""))),
        user=row.get("User", ""),
        requested_s=limit,
    )


def _features(text: str) -> list[str]:
    """Features that a job needs all of; alternatives (`|`) and counts are not understood."""
    parts = [part.strip() for part in re.split(r"[&,]", text) if part.strip()]
    return parts if all(re.fullmatch(r"[A-Za-z_][\w.-]*", part) for part in parts) else []


def _tres(row: Row) -> dict[str, float]:
    """`cpu=16,mem=64G,node=2,gres/gpu=4` of what was given, else of what was asked for."""
    text = row.get("AllocTRES") or row.get("ReqTRES") or ""
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name: _size(value) for name, _, value in pairs}


def _size(text: str) -> float:
    match = re.fullmatch(r"(\d+\.?\d*)([KMGTP]?)", text)
    if match is None:
        return 0.0
    number, unit = float(match[1]), match[2]
    return number * UNITS[unit] if unit else number


def _memory(text: str, cpus: float, nodes: int, where: str) -> float:
    """`4000Mc` is for each CPU, `16Gn` for each node, `64G` (as newer versions print) for the
    job."""
    match = re.fullmatch(r"(\d+\.?\d*)([KMGTP]?)([cn]?)", text)
    if match is None:
        if text in ("", "0"):
            return 0.0
        raise InputError(f"{where}: ReqMem: expected something such as 16G or 4000Mc, got {text!r}")
    times = {"c": cpus, "n": float(nodes), "": 1.0}[match[3]]
    return float(match[1]) * UNITS[match[2]] * times


def _read_elapsed(row: Row, where: str) -> float:
    if row.get("ElapsedRaw"):
        return _number(row["ElapsedRaw"], where)
    if row.get("Elapsed"):
        return _duration(row["Elapsed"], where)
    if row.get("Start", "Unknown")[:1].isdigit() and row.get("End", "Unknown")[:1].isdigit():
        return seconds_of(row["End"], where) - seconds_of(row["Start"], where)
    return 0.0


def _limit(row: Row, where: str) -> float:
    """The time limit in seconds; 0 if there is none."""
    if row.get("TimelimitRaw", "").isdigit():
        return 60.0 * _number(row["TimelimitRaw"], where)
    text = row.get("Timelimit", "")
    return _duration(text, where) if text[:1].isdigit() else 0.0


def _duration(text: str, where: str) -> float:
    """`[days-]hours:minutes:seconds`, also without hours."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(\.\d+)?", text)
    if match is None:
        raise InputError(f"{where}: expected a duration such as 1-02:03:04, got {text!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    return ((days * 24 + hours) * 60 + minutes) * 60.0 + seconds + float(match[5] or 0)


def _number(text: str, where: str) -> float:
    return parse_quantity(text, where)
