"""A catalogue of node types, the user's own: what `--types` reads.

[[type]]
name = "m5.large"        # one of the built-in catalogue needs no more

[[type]]
name = "rack-7"
cpu = 32                 # what pods get of it
memory = "120Gi"
pods = 110
price = 0.9              # an hour
resources = { "nvidia.com/gpu" = 2 }
labels = { pool = "gpu" }
zones = ["a", "b"]       # where there are any; all zones of the cluster if left out
most = 12                # how many there are; any number if left out
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from murmuration.assignment.snapshots.additions import TypeEntry, type_of
from murmuration.base.errors import InputError
from murmuration.base.resources import parse_quantity
from murmuration.workload.formats.source import load


class _Type(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    cpu: str | float | None = None
    memory: str | float | None = None
    pods: int = 110
    price: str | float | None = None
    resources: dict[str, str | float] = {}
    labels: dict[str, str] = {}
    zones: list[str] = []
    most: int | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    type: list[_Type]


def read_types(path: Path) -> list[TypeEntry]:
    """The types of a catalogue, at least one and each once."""
    source = load(path)
    path = source.path
    try:
        file = msgspec.convert(tomllib.loads(source.data.decode("utf-8-sig")), _File)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"{path}: expected a catalogue of [[type]] tables: {error}") from None
    names = [entry.name for entry in file.type]
    if not names or len(set(names)) < len(names):
        raise InputError(f"{path}: expected at least one [[type]], and each name once")
    return [_entry(entry, f"{path}: type {entry.name}") for entry in file.type]


def _entry(told: _Type, where: str) -> TypeEntry:
    known = type_of(told.name)
    sized = told.cpu is not None and told.memory is not None and told.price is not None
    if not sized and known is None:
        raise InputError(f"{where}: expected cpu, memory and price")
    if told.most is not None and told.most < 1:
        raise InputError(f"{where}: most: expected at least 1, got {told.most}")
    amounts: dict[str, str | float] = {} if known is None else dict(known.amounts)
    if told.cpu is not None:
        amounts["cpu"] = told.cpu
    if told.memory is not None:
        amounts["memory"] = told.memory
    if known is None:
        amounts["pods"] = float(told.pods)
    price = known.price if known is not None else 0.0
    if told.price is not None:
        price = parse_quantity(told.price, f"{where}: price")
    for name, amount in (amounts | told.resources).items():
        parse_quantity(amount, f"{where}: {name}")
    labels = {**(known.labels if known is not None else {}), **told.labels}
    amounts |= told.resources
    return TypeEntry(told.name, amounts, price, labels, tuple(told.zones), told.most)
