"""Files are written under another name and then moved to their place, so that a reader sees the old
file or the new one, never a part. This is the one place that does so."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from murmuration.base.errors import InputError

if TYPE_CHECKING:
    # Commands read and write files without tables too, and NumPy is slow to import.
    from murmuration.base.arrays import Table


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
    """Check that a folder can be written, before a long run starts and not after; nothing is left
    behind."""
    folder = Path(path)
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        return ready_folder(folder)
    finally:
        for place in missing:
            if place.is_dir():
                place.rmdir()


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under another name, then move it to its place; its folder is made if needed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_beside(path, write)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file into a folder that is there already: a user named it, and may have mistyped
    it."""
    if path.is_dir():
        raise InputError(f"{path}: expected a file to write, this is a folder")
    try:
        _write_beside(path, lambda target: target.write_bytes(data))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written ({why_failed(error)})") from None


def _write_beside(path: Path, write: Callable[[Path], object]) -> None:
    """Write in the same folder, because only within a file system a move is atomic."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    try:
        write(Path(name))
        # A temporary file is readable by its owner alone.
        os.chmod(name, 0o644)
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def why_failed(error: Exception) -> str:
    """The system's word for an error, without the path that the sentence already names."""
    return str(getattr(error, "strerror", None) or error).rstrip(".").lower()


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


def write_table(path: Path, table: Table) -> None:
    """Columns as Parquet or CSV, by the suffix."""
    import polars as pl

    columns = {
        name: pl.Series(name, array.tolist(), dtype=pl.String)
        if array.dtype.kind == "U"
        else pl.Series(name, array)
        for name, array in table.items()
    }
    frame = pl.DataFrame(columns)
    if path.suffix == ".csv":
        replace_file(path, frame.write_csv)
    else:
        replace_file(path, lambda target: frame.write_parquet(target, statistics=False))
