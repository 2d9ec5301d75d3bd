"""A cluster's folder: where it lies, the names of what is in it (the token, where its API listens,
its store, the folders of its node agents), who may own it, and what of it is Murmuration's.

Whoever can write in the folder can run commands as its owner, so nothing in it is believed unless
it is the owner's alone: not the folder, not the way to it, not the files.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from murmuration.base.errors import InputError

TOKEN, API, STORE, NODES, UP = "token", "api.json", "store.db", "nodes", "up.json"
#: The folder of a part's certificate. An operator puts it there, so no command removes it.
TLS = "tls"
MASTER_LOCK, UP_LOCK = "master.lock", "up.lock"
#: Says that a cluster was made here. What else has a name of a cluster's files is then its own.
MARK = ".murmur"
_BEFORE = ("-before", "-before-wal", "-before-shm")
STORE_FILES = tuple(f"{STORE}{end}" for end in ("", "-wal", "-shm", "-mark", *_BEFORE))
#: A log, and the part of it before the last rotation.
LOG_ENDS = ("", ".1")
LOGS = tuple(f"{name}.log{end}" for name in ("master", "up") for end in LOG_ENDS)
#: Every file that a cluster has whatever its nodes are called.
FILES = (TOKEN, API, UP, UP_LOCK, MASTER_LOCK, *STORE_FILES, *LOGS, MARK)
#: What a node's folder has, one or the other, and nobody else's.
NODE_FILES = ("identity", "agent.lock")
GROUP_WRITES, OTHERS_WRITE, OTHERS = 0o020, 0o002, 0o077


def find_folder(given: Path | None) -> Path:
    """The cluster's folder: as given, else MURMUR_DIR, else ~/.murmur."""
    if given is not None:
        return given.absolute()
    from_environment = os.environ.get("MURMUR_DIR")
    return Path(from_environment).absolute() if from_environment else Path.home() / ".murmur"


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, mode 600; a link in its place is replaced, not followed."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    beside.replace(path)


def open_private(path: str | Path, flags: int) -> int:
    """For `open(…, opener=open_private)`: never through a link; a file that is made is for its
    owner alone."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


# Whose it is.


def check_folder(folder: Path) -> None:
    """InputError if somebody else owns the folder, can write in it, or can put another one in its
    place; or if something in it that a cluster reads is not its owner's."""
    place = Path(os.path.realpath(folder))
    check_own(folder, os.lstat(folder))
    check_own(place, os.lstat(place))
    for above in place.parents:
        _check_way(folder, above)
    for name in (*FILES, NODES):
        with contextlib.suppress(FileNotFoundError):
            check_own(place / name, os.lstat(place / name), may_be_link=False)


def check_own(path: Path, seen: os.stat_result, may_be_link: bool = True) -> None:
    """InputError if somebody else owns it or can write to it."""
    if seen.st_uid != os.geteuid():
        raise InputError(
            f"{path}: expected it to belong to user {os.geteuid()}, who uses it; it belongs to "
            f"user {seen.st_uid}"
        )
    if stat.S_ISLNK(seen.st_mode):
        if not may_be_link:
            raise InputError(f"{path}: expected a file or a folder, got a link")
    elif seen.st_mode & (GROUP_WRITES | OTHERS_WRITE):
        raise InputError(
            f"{path}: expected that nobody else can write to it; murmur trusts it after "
            f"chmod go-w {path}"
        )


def _check_way(folder: Path, above: Path) -> None:
    """Whoever can rename a folder above can put another one in its place; in /tmp nobody can."""
    seen = os.lstat(above)
    open_to = GROUP_WRITES if seen.st_gid not in (0, os.getegid()) else 0
    writable = seen.st_mode & (open_to | OTHERS_WRITE) and not seen.st_mode & stat.S_ISVTX
    if writable or seen.st_uid not in (0, os.geteuid()):
        raise InputError(
            f"{folder}: expected that nobody else can rename the folders above it; {above} "
            f"belongs to user {seen.st_uid} and has mode {stat.S_IMODE(seen.st_mode):o}"
        )


def check_secret(path: Path, remedy: str) -> None:
    """A token or a key that others can read is no secret."""
    mode = os.lstat(path).st_mode
    if mode & OTHERS:
        raise InputError(f"{path}: expected mode 600, got {stat.S_IMODE(mode):o}; {remedy}")


# What of it is Murmuration's.


def is_cluster(folder: Path) -> bool:
    """Whether a cluster was made here; those of earlier versions have a store and no mark."""
    return (folder / MARK).exists() or ((folder / STORE).exists() and (folder / TOKEN).exists())


def claim(folder: Path) -> None:
    """Make a folder a cluster's, for its owner alone. Refused if it holds files under a cluster's
    names that are no cluster's: they would be overwritten now and deleted later."""
    if not is_cluster(folder):
        for name in (*FILES, NODES):
            if os.path.lexists(folder / name):
                raise InputError(
                    f"{folder / name}: expected no file of this name in a folder for a new "
                    "cluster; choose another folder with --dir"
                )
        write_private(folder / MARK, "A cluster of Murmuration; murmur down removes it.\n")
    for path in (*list_made(folder), folder / NODES):
        with contextlib.suppress(FileNotFoundError):
            mode = os.lstat(path).st_mode
            if not stat.S_ISLNK(mode) and mode & OTHERS:
                path.chmod(stat.S_IMODE(mode) & ~OTHERS)


def list_made(folder: Path) -> list[Path]:
    """What Murmuration made in a folder, by name: files, logs of its parts, folders of its nodes.
    Not all of it need be there."""
    nodes = list_nodes(folder)
    names = {*(node.name for node in nodes), *_list_started(folder)}
    logs = [folder / f"{name}.log{end}" for name in sorted(names) for end in LOG_ENDS]
    return [*(folder / name for name in FILES), *logs, *nodes]


def list_nodes(folder: Path) -> list[Path]:
    """The folders of nodes that have been here."""
    return [
        path
        for path in (folder / NODES).glob("*")
        if path.is_dir() and any((path / name).exists() for name in NODE_FILES)
    ]


def _list_started(folder: Path) -> list[str]:
    """The names of the agents that were started here last; emulated ones have no folders."""
    import msgspec

    try:
        parts = msgspec.json.decode((folder / UP).read_bytes())
        return [checked for agent in parts["agents"] if (checked := Path(agent["name"]).name)]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def remove_tree(path: Path) -> None:
    """Remove what a task has left, however deep it is nested; never through a link."""
    import shutil
    import subprocess

    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        subprocess.run(["rm", "-rf", "--", str(path)], check=False, stderr=subprocess.DEVNULL)


def remove_made(folder: Path) -> None:
    """Remove what Murmuration made in a folder; the folder too if that was all."""
    for path in list_made(folder):
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        else:
            path.unlink(missing_ok=True)
    for place in (folder / NODES, folder):
        with contextlib.suppress(OSError):
            place.rmdir()
