"""The parts of Nomad's documents that are read, with their types: a document of another shape is
one sentence that says where it differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import msgspec

from murmuration.base.documents import JsonObject
from murmuration.base.errors import InputError
from murmuration.base.words import plain_types

# Keys are written as Nomad writes them; any may be missing or null.


class CpuPart(TypedDict, total=False):
    CpuShares: float | None


class MemoryPart(TypedDict, total=False):
    MemoryMB: float | None


class Device(TypedDict, total=False):
    Type: str
    Instances: list[object] | None
    DeviceIDs: list[str] | None


class ResourceParts(TypedDict, total=False):
    Cpu: CpuPart | None
    Memory: MemoryPart | None
    Devices: list[Device] | None


class ListedNode(TypedDict, total=False):
    NodeResources: ResourceParts | None
    ReservedResources: ResourceParts | None
    Attributes: dict[str, object] | None
    Meta: dict[str, object] | None


class AllocatedParts(TypedDict, total=False):
    Tasks: dict[str, ResourceParts] | None


class TaskTimes(TypedDict, total=False):
    StartedAt: str | None
    FinishedAt: str | None


class Allocation(TypedDict, total=False):
    CreateTime: int | None
    AllocatedResources: AllocatedParts | None
    TaskStates: dict[str, TaskTimes] | None


class TaskNeeds(TypedDict, total=False):
    CPU: float | None
    MemoryMB: float | None


class GroupTask(TypedDict, total=False):
    Resources: TaskNeeds | None


class TaskGroup(TypedDict, total=False):
    Count: int | None
    Tasks: list[GroupTask] | None


class InspectedJob(TypedDict, total=False):
    Priority: int | None
    TaskGroups: list[TaskGroup] | None


def check_nodes(things: Sequence[JsonObject], where: str) -> None:
    _check(things, ListedNode, where)


def check_allocations(things: Sequence[JsonObject], where: str) -> None:
    _check(things, Allocation, where)


def check_jobs(things: Sequence[JsonObject], where: str) -> None:
    _check(things, InspectedJob, where)


def _check(things: Sequence[JsonObject], shape: type, where: str) -> None:
    for number, thing in enumerate(things, 1):
        try:
            msgspec.convert(thing, shape)
        except msgspec.ValidationError as error:
            raise InputError(f"{where}, entry {number}: {_name_place(str(error))}") from error


def _name_place(text: str) -> str:
    """`Expected `float`, got `str` - at `$.A.B`` as `A.B: expected a number, got text`."""
    what, _, place = text.partition(" - at ")
    return f"{place.strip('`').removeprefix('$.')}: {plain_types(what[:1].lower() + what[1:])}"
