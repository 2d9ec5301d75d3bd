"""Which command made a folder of results, so that no other command replaces them in silence and
every report can say where it comes from.

A folder holds `command.json`: the command as it was given, the version, and a digest of the runs it
asked for. A command that asks for the same runs may write there again (its results are the same, or
`--resume` goes on with them); any other gets a folder of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from murmuration.base import files
from murmuration.base.version import __version__

COMMAND = "command.json"
#: File systems take names of 255 bytes; what follows the name (a number, the runs' own folders)
#: needs some of them.
NAME_MAX = 120


class RecordedSpec(Protocol):
    """What a record says of a run that was asked for."""

    @property
    def label(self) -> str: ...
    @property
    def tables(self) -> Mapping[str, object]: ...


class CommandRecord(msgspec.Struct, frozen=True):
    """What made the results of a folder."""

    command: str
    version: str
    digest: str


def record_command(command: str, specs: Iterable[RecordedSpec]) -> CommandRecord:
    """The record of a command that asks for these runs, in any number of replicas."""
    runs = repr([(spec.label, spec.tables) for spec in specs])
    digest = hashlib.blake2b(runs.encode(), digest_size=8).hexdigest()
    return CommandRecord(command, __version__, digest)


def name_folder(base: str, settings: Sequence[str], days: float | None) -> str:
    """A name that says what differs from the scenario as it is."""
    changed = []
    for key, _, value in (text.partition("=") for text in settings):
        changed.append(f"{key.rpartition('.')[2]}={value}")
    changed += [] if days is None else [f"days={days:g}"]
    name = "-".join([base, *changed])
    safe = "".join(c if c.isalnum() or c in "-_.=" else "_" for c in name)
    if len(safe) <= NAME_MAX:
        return safe
    return f"{safe[: NAME_MAX - 9]}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()}"


def choose_folder(folder: Path, record: CommandRecord) -> Path:
    """This folder, or with a number behind its name if another command's results are in it."""
    number = 1
    chosen = folder
    while chosen.exists() and not _is_of(chosen, record):
        number += 1
        chosen = folder.with_name(f"{folder.name}-{number}")
    return chosen


def _is_of(folder: Path, record: CommandRecord) -> bool:
    stored = read_record(folder)
    return not any(folder.iterdir()) if stored is None else stored.digest == record.digest


def write_record(folder: Path, record: CommandRecord) -> None:
    files.write_json(folder / COMMAND, record)


def read_record(folder: Path) -> CommandRecord | None:
    """The record of a folder; None if there is none that can be read."""
    try:
        return msgspec.json.decode((folder / COMMAND).read_bytes(), type=CommandRecord)
    except (OSError, msgspec.DecodeError):
        return None


def forget(folder: Path, made: Iterable[Path]) -> None:
    """Take the record away if nothing came of the command, and the folders made for it, innermost
    first."""
    if [path.name for path in folder.iterdir()] == [COMMAND]:
        (folder / COMMAND).unlink()
        for place in made:
            place.rmdir()
