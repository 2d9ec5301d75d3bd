"""A volume as the account of a task's user: the user of a container, who is nobody on the node,
appears in the volume as an account of the node, and nobody else of the container does.

The kernel does it where the volume is mounted (an id-mapped mount, Linux 5.12): what lies on disk
is the account's, and ordinary modes decide what that may read and write. The files of everybody
else are nobody's to the container, so that no power over files counts for them; and other users of
the container own nothing there and leave nothing.

runc 1.1 cannot ask for it, so the launch does, in its own mount namespace, before runc: this file
is run as a program and imports nothing of the package, for the time a start takes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

#: System calls, by their numbers on every architecture since Linux 5.
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
OPEN_TREE_CLONE, MOVE_MOUNT_EMPTY_PATH = 1, 4
MOUNT_ATTR_IDMAP = 0x0010_0000
CLONE_NEWUSER = 0x1000_0000
#: Numbers of users and groups, the last of which is none.
IDS_END = 2**32 - 1
_libc = ctypes.CDLL(None, use_errno=True)


class MountAttributes(ctypes.Structure):
    """As `mount_setattr` takes them."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "users")]


def call(number: int, *arguments: object) -> int:
    """A system call, or what the kernel says against it."""
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def map_ids(account: int, own: int, first: int, count: int) -> str:
    """Numbers on disk, in a mount, and how many: the account is the task's own number, others are
    themselves, and those of its container are nobody."""
    ranges = [
        (0, 0, account),
        (account, own, 1),
        (account + 1, account + 1, first - account - 1),
        (first + count, first + count, IDS_END - first - count),
    ]
    return "\n".join(f"{inside} {outside} {size}" for inside, outside, size in ranges if size > 0)


def make_users(maps: tuple[str, str]) -> int:
    """A namespace with these numbers of users and of groups; it lives as long as this
    descriptor."""
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(go[1])
        os.write(ready[1], b"." if _libc.unshare(CLONE_NEWUSER) == 0 else b"!")
        os.read(go[0], 1)
        os._exit(0)
    try:
        if os.read(ready[0], 1) != b".":
            raise OSError("no namespace of users can be made")
        for name, text in zip(("uid", "gid"), maps, strict=True):
            Path(f"/proc/{pid}/{name}_map").write_text(text)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def mount_mapped(source: str, target: str, users: int) -> None:
    """Mount a folder with its users mapped; mounts below it are not seen."""
    tree = call(OPEN_TREE, AT_FDCWD, os.fsencode(source), OPEN_TREE_CLONE | os.O_CLOEXEC)
    wanted = MountAttributes(MOUNT_ATTR_IDMAP, 0, 0, users)
    size = ctypes.sizeof(wanted)
    call(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, ctypes.byref(wanted), size)
    call(MOVE_MOUNT, tree, b"", AT_FDCWD, os.fsencode(target), MOVE_MOUNT_EMPTY_PATH)


def main(words: list[str]) -> None:
    """Arguments: the first number of the container and how many it has, user and group of the
    account, user and group of the task on the node, then pairs of source and target."""
    first, count, user, group, own_user, own_group = (int(word) for word in words[:6])
    maps = map_ids(user, own_user, first, count), map_ids(group, own_group, first, count)
    users = make_users(maps)
    for source, target in zip(words[6::2], words[7::2], strict=True):
        try:
            mount_mapped(source, target, users)
        except OSError as error:
            sys.exit(f"volume {source}: its users cannot be mapped here: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
