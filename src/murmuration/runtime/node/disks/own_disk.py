"""A disk of a container's own: a file of the node with a file system in it, so large as the task
may write. The kernel keeps the bound: who writes more is told that no space is left, and neither
the node's disk nor another task notices.

The file is sparse, so that it takes what was written and not what may be, and what is deleted is
given back. It is mounted in the mount namespace of the launch, through a loop device that the
kernel frees with the last mount: whatever is killed at whatever moment, only the file is left. It
holds a file system that this module made and only the kernel has written to.

A task's files are gone if its node goes, so nothing in here is written with a barrier or a journal.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import struct
from pathlib import Path

#: In the task's folder.
DISK = "disk"
DISK_FULL = "its disk was full"
LOOP_CONTROL = "/dev/loop-control"
BLOCK = 4096
#: A file system that is smaller cannot hold what every container finds in its root.
LIMIT_MIN = 2**20
#: The tables of files are a fiftieth of the file system; the kernel keeps another fiftieth of its
#: blocks, or so many, for itself.
PART, KEPT_MAX, FIXED = 50, 4096, 2**20
#: One file for so many bytes: a task cannot use up the node's inodes either.
BYTES_PER_FILE = 16_384
#: Where a file system of this kind describes itself, and in that: how many blocks it has, how many
#: of them and of its files are free, and its magic number.
SUPERBLOCK_AT, SUPERBLOCK = 1024, struct.Struct("<4xI4xII36xH")
MAGIC = 0xEF53
#: So few blocks beside those that are kept are none.
SPARE_BLOCKS = 64

#: Arguments are the launch's; the folder `own` is filled and becomes the disk's.
MAKE = (
    f'truncate -s "$4" ../{DISK} && '
    f"mkfs.ext4 -q -F -b {BLOCK} -i {BYTES_PER_FILE} -m 0 -O ^has_journal,^resize_inode "
    f"-E nodiscard,lazy_itable_init=1,root_owner=0:0 -d own ../{DISK} && "
    f"mount -t ext4 -o loop,nodev,nosuid,noatime,discard,nobarrier,noinit_itable ../{DISK} own"
)


@functools.cache
def missing() -> str:
    """Why containers cannot have disks of their own here; empty if they can."""
    if shutil.which("mkfs.ext4") is None:
        return "mkfs.ext4 is not installed (e2fsprogs)"
    return "" if os.path.exists(LOOP_CONTROL) else f"there is no {LOOP_CONTROL}"


def find_size(limit: int, place: Path) -> int:
    """How large a file is that takes so many bytes of a task's files; no larger than the disk it
    lies on, so that nobody's wish makes tables for more than there is."""
    node = os.statvfs(place)
    limit = max(min(limit, node.f_blocks * node.f_frsize), LIMIT_MIN)
    whole = limit + limit // PART + min(limit // PART, KEPT_MAX * BLOCK) + FIXED
    return -(-whole // BLOCK) * BLOCK


def has_own(folder: Path) -> bool:
    """Whether the task of this folder was given a disk of its own."""
    return (folder / DISK).exists()


def is_mounted(folder: Path) -> bool:
    """Whether the kernel still writes to the task's disk: it lets go some moments after the last
    process. A lease to read is given only for a file that nobody has open to write."""
    with contextlib.suppress(OSError), open(folder / DISK, "rb") as file:
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except BlockingIOError:
            return True
    return False


def is_full(folder: Path) -> bool:
    """Whether the disk of a task that has ended was left without room for a file."""
    try:
        with open(folder / DISK, "rb") as file:
            file.seek(SUPERBLOCK_AT)
            description = file.read(SUPERBLOCK.size)
    except OSError:
        return False
    if len(description) < SUPERBLOCK.size:
        return False
    blocks, free, files, magic = SUPERBLOCK.unpack(description)
    is_out = files == 0 or free <= min(blocks // PART, KEPT_MAX) + SPARE_BLOCKS
    return bool(magic == MAGIC and is_out)
