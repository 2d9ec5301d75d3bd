"""What pods really use: the table of `kubectl top pods -A`, or the metrics API's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from murmuration.base.errors import InputError
from murmuration.base.resources import parse_quantity
from murmuration.kubernetes.objects import Object, as_utf8, listed, name_of, read_objects
from murmuration.workload.formats.source import SourceFile

KIND = "PodMetrics"
#: The first words of the columns of the table.
SPACE, POD, NAME, CPU, MEMORY = "NAMESPACE", "POD", "NAME", "CPU(cores)", "MEMORY(bytes)"

Amounts = dict[str, float]


def read_usage(source: SourceFile) -> dict[str, Amounts]:
    """CPU and memory by `namespace/name` of a pod."""
    text = as_utf8(source.data).decode("utf-8", errors="replace").lstrip()
    if text[:1] in ("{", "["):
        return _of_metrics(read_objects(source), source)
    lines = [line.split() for line in text.splitlines() if line.strip()]
    return _of_table(lines, source)


def _of_metrics(things: Sequence[Object], source: SourceFile) -> dict[str, Amounts]:
    usage: dict[str, Amounts] = {}
    for thing in things:
        if thing["kind"] == KIND:
            where = f"{source.path}: {name_of(thing)}"
            for container in listed(thing, "containers", where):
                told = container.get("usage")
                if not isinstance(told, Mapping):
                    raise InputError(f"{where}: expected the usage of each container")
                _add(usage, name_of(thing), told.get("cpu", 0), told.get("memory", 0), where)
    if not usage:
        raise InputError(f"{source.path}: expected {KIND} objects of the metrics API, found none")
    return usage


def _of_table(lines: Sequence[Sequence[str]], source: SourceFile) -> dict[str, Amounts]:
    """The table, with or without namespaces; with one line for each container they are added."""
    columns = list(lines[0]) if lines else []
    if not {NAME, CPU, MEMORY} <= set(columns):
        raise InputError(
            f"{source.path}: expected what kubectl top pods -A prints (columns {NAME}, {CPU}, "
            f"{MEMORY}), or the metrics API's JSON"
        )
    usage: dict[str, Amounts] = {}
    for number, line in enumerate(lines[1:], 2):
        where = f"{source.path}, line {number}"
        if len(line) != len(columns):
            raise InputError(f"{where}: expected {len(columns)} columns, got {len(line)}")
        row = dict(zip(columns, line, strict=True))
        name = f"{row.get(SPACE, 'default')}/{row.get(POD, row[NAME])}"
        _add(usage, name, row[CPU], row[MEMORY], where)
    return usage


def _add(usage: dict[str, Amounts], name: str, cpu: object, memory: object, where: str) -> None:
    amounts = usage.setdefault(name, {"cpu": 0.0, "memory": 0.0})
    for key, value in (("cpu", cpu), ("memory", memory)):
        amounts[key] += parse_quantity(value, f"{where}: {key}")  # type: ignore[arg-type]
