"""The root of a container as its users see it: numbers of users that are nobody's on the node, and
an upper layer that hides what is private and lets a task write beside what is the node's.

User 0 of a container is an ordinary one of the node, from a range that the task's folder chooses.
So a task reads what everybody may read, and what the node keeps for its root or for a user is out
of reach by its mode alone. On top of that, whole folders that hold people's data and the state of
services look empty.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Where systemd keeps the users of containers too: no account of a host lies there.
FIRST_ID, IDS, RANGES = 524_288, 65_536, 28_671
#: In these a task may put and replace files, in a layer of its own.
WRITABLE = ("", "etc", "var", "usr/local", "opt", "srv", "mnt", "media")
#: These look empty, and are the task's own.
PRIVATE = (
    *("home", "root", "run"),
    *("var/lib", "var/log", "var/spool", "var/mail", "var/backups"),
)
#: Without these no program runs, whoever calls them a home.
NEEDED = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/dev")))
#: Places at which the root is mounted where only the launch sees it.
MEETING_PLACES = ("/mnt", "/media", "/srv", "/opt", "/tmp")
RESOLVER = "/etc/resolv.conf"
NETWORK_FILES = ("/etc/hosts", RESOLVER)
#: Where systemd names the servers behind its own.
RESOLVED = Path("/run/systemd/resolve/resolv.conf")
USER_ID_MIN, NOBODY = 1000, 65_534
OPAQUE = "trusted.overlay.opaque"


def choose_ids(folder: Path, lower: Path) -> int:
    """The first of a container's numbers of users: that of the owner of its root, if that is an
    ordinary user, else one that the folder decides."""
    owner = lower.stat().st_uid
    if owner >= IDS:
        return owner
    return choose_range(os.fsencode(folder.resolve()))


def choose_range(name: bytes) -> int:
    """The first of a range of users that a name decides."""
    digest = hashlib.blake2b(name, digest_size=8).digest()
    return FIRST_ID + IDS * (int.from_bytes(digest) % RANGES)


def find_meeting_place(*used: Path) -> str:
    """A folder everybody can enter that is above none of these, to mount a root at."""
    for place in MEETING_PLACES:
        if os.path.isdir(place) and not any(path.is_relative_to(place) for path in used):
            return place
    return MEETING_PLACES[-1]


def write_upper(upper: Path, lower: Path, first_id: int, hidden: Iterable[Path]) -> None:
    """Fill the upper layer of a root over `lower`; `hidden` folders of it look empty."""
    upper.chmod(stat.S_IMODE(lower.stat().st_mode))
    for name in WRITABLE:
        if place := _copy_folder(upper, lower, name):
            os.chown(place, first_id, first_id)
    for path in hidden:
        name = str(path).lstrip("/")
        above = _copy_folder(upper, lower, os.path.dirname(name))
        if above is None or not _is_folder(lower / name):
            continue
        place = upper / name
        place.mkdir(exist_ok=True)
        os.setxattr(place, OPAQUE, b"y")
        os.chown(place, first_id, first_id)
        place.chmod(0o755)


def write_network_files(upper: Path, lower: Path, is_own: bool) -> None:
    """Names and name servers as the node has them. A resolver on the node's own loopback is no use
    in another network: there, those it asks itself are taken."""
    place = _copy_folder(upper, lower, "etc")
    if place is None:
        return
    for name in NETWORK_FILES:
        with contextlib.suppress(OSError):
            text = Path(name).read_text()
            if is_own and name == RESOLVER and _is_local(text) and RESOLVED.exists():
                text = RESOLVED.read_text()
            (place / Path(name).name).write_text(text)
            (place / Path(name).name).chmod(0o644)


def _is_local(text: str) -> bool:
    lines = [line.split() for line in text.splitlines() if line.startswith("nameserver")]
    return all(words[1:] and words[1].startswith(("127.", "::1")) for words in lines)


def list_private(hidden: Iterable[Path]) -> list[Path]:
    """The folders of the node's root that look empty, none of them inside another one."""
    paths = {Path("/", name) for name in PRIVATE} | set(_homes()) | set(hidden)
    real = {Path(os.path.realpath(path)) for path in paths if path.is_dir()}
    return sorted(path for path in real if not any(above in real for above in path.parents))


def _homes() -> Iterator[Path]:
    """Homes of people, not of services."""
    for user in pwd.getpwall():
        home = Path(user.pw_dir)
        is_person = user.pw_uid == 0 or user.pw_uid >= USER_ID_MIN
        if is_person and not any(
            place.is_relative_to(home) or home.is_relative_to(place) for place in NEEDED
        ):
            yield home


def _copy_folder(upper: Path, lower: Path, name: str) -> Path | None:
    """The folder of this name in the upper layer, made with the owners and modes that it and those
    above it have below: what is closed there stays closed."""
    above, below = upper, lower
    for part in Path(name).parts:
        above, below = above / part, below / part
        if not _is_folder(below):
            return None
        if not above.exists():
            known = below.stat()
            above.mkdir()
            os.chown(above, known.st_uid, known.st_gid)
            above.chmod(stat.S_IMODE(known.st_mode))
    return above


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
