"""The recording of a cluster: a header, then one line for everything that was told or decided.

Two parties write one. A scheduler (`murmur kube schedule --record`) writes every event it was told,
its wakes among them, and every binding it decided on: its decisions can be repeated exactly. An
observer (`murmur kube watch --record`) writes what the API showed, whoever scheduled: arrivals and
departures, to be scheduled again by another policy.

A line is `[seconds, name, value]`; seconds are those of the writer's clock, in full precision. Who
wrote which field (`managedFields`, half of an object) is left out. A line that was cut by a kill
is the last one, and is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from murmuration.base.errors import InputError
from murmuration.base.files import ready_folder, why_failed
from murmuration.kubernetes.api.snapshot import without_managers
from murmuration.kubernetes.scheduling.options import SchedulerOptions
from murmuration.schedulers.agent import REGISTRY, Do, Message, Send
from murmuration.schedulers.pods.messages import BindPod, ThingLost, ThingSeen, ThingsListed

FILE = "cluster.jsonl"
FORMAT = "murmuration-cluster-log/1"
BOUND = "bound"
_encode = msgspec.json.Encoder().encode


class RecordedBinding(msgspec.Struct, frozen=True):
    """A scheduler decided that a pod goes to a node."""

    pod: str
    uid: str
    node: str


class RecordHeader(msgspec.Struct, frozen=True):
    """Who wrote a recording, of which cluster, and when it began."""

    format: str
    #: The identity of the cluster: that of its namespace kube-system.
    cluster: str
    #: Seconds since 1970.
    began_s: float
    #: What the scheduler that wrote it was asked to do; None for an observer.
    scheduler: SchedulerOptions | None = None


class RecordLine(msgspec.Struct, frozen=True):
    """One line: something told to the writer, or a decision of its."""

    at_s: float
    what: Message | RecordedBinding


@dataclass
class ClusterRecorder:
    """Writes a recording. As the notes of a driver (`runtime/drive.py: Notes`) it is given every
    event before the agent is."""

    file: IO[bytes]
    lines: int = 0

    @classmethod
    def create(cls, folder: Path, header: RecordHeader) -> ClusterRecorder:
        path = ready_folder(folder) / FILE
        try:
            file = path.open("xb")
        except FileExistsError:
            raise InputError(f"{path}: a recording is there already; name another folder") from None
        file.write(_encode(header) + b"\n")
        file.flush()
        return cls(file)

    def add_event(self, event: Message, now: float) -> None:
        self._add(now, event.key, strip(event))

    def add_fact(self, fact: Message, now: float) -> None:
        raise AssertionError(f"nothing is to be kept: {fact}")

    def add_binding(self, binding: RecordedBinding, now: float) -> None:
        self._add(now, BOUND, binding)

    def write(self) -> None:
        """At the end of a turn. Nothing rests on a recording, so nobody waits for the disk."""
        self.file.flush()

    def close(self) -> None:
        self.file.close()

    def _add(self, now: float, name: str, value: object) -> None:
        self.lines += 1
        self.file.write(_encode((now, name, value)) + b"\n")

    def watch_acts(
        self, carry_out: Callable[[Send | Do], None], clock: Callable[[], float]
    ) -> Callable[[Send | Do], None]:
        """Write bindings down on their way to the hands."""

        def carry(effect: Send | Do) -> None:
            if isinstance(effect, Do) and isinstance(effect.act, BindPod):
                act = effect.act
                self.add_binding(RecordedBinding(act.pod, act.uid, act.node), clock())
            carry_out(effect)

        return carry


def strip(event: Message) -> Message:
    """An event without what no decision looks at."""
    match event:
        case ThingsListed(kind, things):
            return ThingsListed(kind, [dict(without_managers(thing)) for thing in things])
        case ThingSeen(kind, thing):
            return ThingSeen(kind, dict(without_managers(thing)))
        case ThingLost(kind, thing):
            return ThingLost(kind, dict(without_managers(thing)))
    return event


@dataclass(frozen=True)
class ClusterLog:
    """A recording that is read."""

    path: Path
    header: RecordHeader
    _lines: list[bytes] = field(repr=False)

    @classmethod
    def open(cls, folder: Path) -> ClusterLog:
        path = folder / FILE if folder.is_dir() else folder
        try:
            lines = path.read_bytes().splitlines()
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({why_failed(error)})") from None
        try:
            header = msgspec.json.decode(lines[0] if lines else b"", type=RecordHeader)
        except msgspec.DecodeError as error:
            raise InputError(
                f"{path}, line 1: expected the header of a recording: {error}"
            ) from None
        if header.format != FORMAT:
            raise InputError(f"{path}, line 1: expected format {FORMAT!r}, got {header.format!r}")
        return cls(path, header, lines[1:])

    def __iter__(self) -> Iterator[RecordLine]:
        for number, line in enumerate(self._lines, 2):
            try:
                yield read_line(line)
            except (msgspec.DecodeError, KeyError) as error:
                # Only the last line may have been cut.
                if number <= len(self._lines):
                    raise InputError(f"{self.path}, line {number}: {error}") from None


def read_line(line: bytes) -> RecordLine:
    at_s, name, value = msgspec.json.decode(line, type=tuple[float, str, msgspec.Raw])
    kind: type[Message] | type[RecordedBinding]
    kind = RecordedBinding if name == BOUND else REGISTRY[name]
    return RecordLine(at_s, msgspec.json.decode(value, type=kind))


def is_recording(path: Path) -> bool:
    """Whether a path is a recording of a cluster, rather than a live cluster's own log."""
    return (path / FILE).is_file() or path.suffix == ".jsonl"
