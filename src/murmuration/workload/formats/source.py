"""Input files: read whole, unpacked by content."""

from __future__ import annotations

import gzip
import lzma
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

from murmuration.base.errors import InputError
from murmuration.base.files import why_failed

PARQUET_MAGIC = b"PAR1"
HEAD_BYTES = 1 << 16
#: The name that stands for standard input.
STANDARD_INPUT = "-"


@dataclass(frozen=True)
class SourceFile:
    """A file that was read: its path for messages, and its content after unpacking."""

    path: Path
    data: bytes

    @property
    def is_parquet(self) -> bool:
        return self.data.startswith(PARQUET_MAGIC)

    def head(self, lines: int = 200) -> list[str]:
        """The first lines that are not blank, for telling formats apart."""
        text = self.data[:HEAD_BYTES].decode("utf-8-sig", errors="replace")
        return [line for line in text.splitlines() if line.strip()][:lines]


def keep_input(path: Path | None) -> Path | SourceFile | None:
    """Standard input for `-`, which can be read only once; another path as it is."""
    return path if path is None or str(path) != STANDARD_INPUT else load(path)


def load(path: str | Path | SourceFile) -> SourceFile:
    """Read a file, or standard input for `-`; gzip and xz are known by their first bytes, whatever
    the name says. What was read already is taken as it is."""
    if isinstance(path, SourceFile):
        return path
    path = Path(path)
    if str(path) == STANDARD_INPUT:
        return _check_content(Path("standard input"), sys.stdin.buffer.read())
    if path.is_dir():
        raise InputError(f"{path}: expected a file, this is a folder")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({why_failed(error)})") from None
    return _check_content(path, data)


def _check_content(path: Path, data: bytes) -> SourceFile:
    """The content of a file that is not empty, unpacked."""
    data = _unpack(path, data)
    if not data or data.isspace():
        raise InputError(f"{path}: the file is empty")
    if path.suffix.lower() == ".parquet" and not data.startswith(PARQUET_MAGIC):
        raise InputError(f"{path}: expected a Parquet file, its first bytes are not those of one")
    return SourceFile(path, data)


def find_beside(path: Path, word: str) -> Path | None:
    """The first file in the same folder, other than this one, with this word in its name."""
    try:
        siblings = [
            other
            for other in path.absolute().parent.iterdir()
            if word in other.name and other.name != path.name
        ]
    except OSError:
        return None
    return min((path.parent / other.name for other in siblings if other.is_file()), default=None)


def _unpack(path: Path, data: bytes) -> bytes:
    """The bytes inside a gzip or xz file; other files as they are."""
    try:
        if data.startswith(b"\x1f\x8b"):
            return gzip.decompress(data)
        if data.startswith(b"\xfd7zXZ\x00"):
            return lzma.decompress(data)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise InputError(
            f"{path}: the compressed file is truncated or damaged ({why_failed(error)})"
        ) from None
    return data
