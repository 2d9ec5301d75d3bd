"""A shell for containers whose image has none: the node's own, with the libraries it needs, in a
layer above the image.

The shim that stands between agent and command is a shell script, and an image may have nothing but
one program. The layer holds a folder that no image has a use for, and the shell is started through
its own loader, so that it meets no library of the image.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import msgspec

from murmuration.runtime.folder import remove_tree

PLACE = ".murmur"
PT_INTERP = 3


class Shell(msgspec.Struct, frozen=True):
    """The layer, and how the shell in it is called."""

    layer: Path
    words: tuple[str, ...]


def make_shell(folder: Path, program: Path = Path("/bin/sh")) -> Shell:
    """The layer of the node's shell, below this folder; made if it is not there."""
    program = program.resolve()
    loader = read_loader(program)
    sources = [(program, "sh")]
    if loader is not None:
        sources += [(loader.resolve(), "ld.so"), *list_libraries(program, loader)]
    digest = hashlib.sha256()
    for path, name in sources:
        digest.update(name.encode() + b"\0" + path.read_bytes())
    layer = folder / f"shell-{digest.hexdigest()[:16]}"
    if not layer.exists():
        _fill(layer, sources)
    inside = f"/{PLACE}"
    start = () if loader is None else (f"{inside}/ld.so", "--library-path", inside)
    return Shell(layer, (*start, f"{inside}/sh"))


def _fill(layer: Path, sources: list[tuple[Path, str]]) -> None:
    """All of it or nothing, whenever the agent is killed."""
    fresh = Path(tempfile.mkdtemp(prefix="new-", dir=layer.parent))
    try:
        (fresh / PLACE).mkdir()
        for path, name in sources:
            shutil.copyfile(path, fresh / PLACE / name)
            (fresh / PLACE / name).chmod(0o755)
        for place in (fresh, fresh / PLACE):
            place.chmod(0o755)
        fresh.rename(layer)
    except OSError:
        remove_tree(fresh)
        raise


def read_loader(program: Path) -> Path | None:
    """The program that loads a program's libraries, as its ELF header names it; None if it is
    static."""
    data = program.read_bytes()
    if data[:4] != b"\x7fELF" or data[4] != 2 or data[5] != 1:
        return None
    (offset,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for k in range(count):
        kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", data, offset + k * size)
        if kind == PT_INTERP:
            return Path(os.fsdecode(data[start : start + length].rstrip(b"\0")))
    return None


def list_libraries(program: Path, loader: Path) -> list[tuple[Path, str]]:
    """What the loader would load for a program: the file, and the name it is asked for by."""
    words = [str(loader), "--list", str(program)]
    found = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    pairs = [line.split(" => ") for line in found.splitlines() if " => " in line]
    return [(Path(right.split()[0]).resolve(), left.strip()) for left, right in pairs]
