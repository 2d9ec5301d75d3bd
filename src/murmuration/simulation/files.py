"""The folder of a run: written file by file beside its place and moved there, so that nothing is ever half-written."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import msgspec
import numpy as np
from numpy.typing import NDArray

from murmuration.cluster.errors import InputError
from murmuration.cluster.version import __version__

if TYPE_CHECKING:
    from murmuration.simulation.engine import Run

SUMMARY, TIMING, SCENARIO, SNAPSHOT = "summary.json", "timing.json", "scenario.json", "snapshot.npz"
JOBS, SERIES = "jobs.parquet", "series.parquet"
TICKS, USAGE, DECISIONS, ERRORS = "ticks.csv", "usage.csv", "decisions.csv", "errors.log"


def ready_folder(path: str | Path) -> Path:
    """A folder that can be written, made if it is not there."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from error
    return folder


def check_folder(path: str | Path) -> Path:
    """A folder that could be written, told before a long run starts and not after; nothing is left behind."""
    folder = Path(path)
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        return ready_folder(folder)
    finally:
        for place in missing:
            if place.is_dir():
                place.rmdir()


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under another name, then move it to its place."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
        os.close(handle)
        try:
            write(Path(name))
            os.chmod(name, 0o644)
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def write_text(path: Path, text: str) -> None:
    replace_file(path, lambda target: target.write_text(text, encoding="utf-8"))


def write_json(path: Path, document: Any) -> None:
    write_text(path, msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")


def read_json(path: Path) -> Any:
    """A JSON file of ours; one sentence if it is missing or something else."""
    try:
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected a JSON file of a run: {error}") from error


def write_table(path: Path, table: Mapping[str, NDArray[Any]]) -> None:
    """Columns as Parquet or CSV, by the suffix."""
    import polars as pl

    columns = {
        name: pl.Series(name, array.tolist(), dtype=pl.String) if array.dtype.kind == "U" else pl.Series(name, array)
        for name, array in table.items()
    }
    frame = pl.DataFrame(columns)
    if path.suffix == ".csv":
        replace_file(path, frame.write_csv)
    else:
        replace_file(path, lambda target: frame.write_parquet(target, statistics=False))


def save_run(path: Path, run: Run, label: str) -> None:
    """A snapshot: every array of a run that changes, and the version and scenario it belongs to."""
    arrays: dict[str, Any] = {
        f"{part}.{name}": array for part, record in _parts(run).items() for name, array in record.items()
    }
    replace_file(path, lambda target: np.savez_compressed(target, _label=np.array([__version__, label]), **arrays))


def load_run(path: Path, run: Run, label: str) -> None:
    """Put a run where its snapshot left it, refused if that is of another version or another scenario."""
    try:
        with path.open("rb") as handle, np.load(handle) as stored:
            version, found = stored["_label"]
            if version != __version__ or found != label:
                raise InputError(f"{path}: expected a snapshot of this version and scenario, found another")
            parts = {
                part: {name: np.ascontiguousarray(stored[f"{part}.{name}"]) for name in record}
                for part, record in _parts(run).items()
            }
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        raise InputError(f"{path}: expected a snapshot of a run: {error}") from error
    for part, record in parts.items():
        setattr(run, part, type(getattr(run, part))(**record))


def _parts(run: Run) -> dict[str, dict[str, NDArray[Any]]]:
    """What of a run changes, by the name of the array."""
    parts = {"world": run.world, "parley": run.parley, "measured": run.measured, "batches": run.batches}
    return {name: part._asdict() for name, part in parts.items() if part is not None}
