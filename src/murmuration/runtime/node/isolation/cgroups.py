"""Control groups of both kinds: where a task's are, what they have counted, who is in them, and
their removal.

A task's groups lie under the agent's own, in every hierarchy, so whatever limits the agent limits
its tasks too. In version 1 (and in hybrids of both) each controller is a hierarchy with its own
idea of where the agent is; in version 2 there is one. runc makes the groups and sets the limits;
this module says where, and reads them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from murmuration.runtime.node.isolation import processes

NEEDED = ("cpu", "memory", "pids")
CGROUP_KINDS = ("cgroup", "cgroup2")
#: Version 2 lets a group hold processes or limits for groups below, not both: the agent steps down
#: into this one.
AGENTS = "murmur-agents"
MOVES = 20
REMOVAL_S = 5.0
NANOSECONDS, MICROSECONDS = 1e9, 1e6

Folders = dict[str, str]


class Hierarchy(msgspec.Struct, frozen=True):
    """A mounted tree of groups: its controllers (none in version 2), the mount, and this process's
    place in it."""

    controllers: tuple[str, ...]
    mount: Path
    own: Path


class Cgroups(Protocol):
    """One kind of control groups."""

    version: int

    def folders(self, name: str) -> Folders:
        """Where the groups of a task will be, by controller."""

    def runc_path(self, name: str) -> str:
        """The same for runc's configuration."""

    def usage(self, folders: Folders) -> tuple[float, int]:
        """CPU seconds so far, and bytes that the kernel could not simply take back."""

    def oom_kills(self, folders: Folders) -> int:
        """Processes ended because the task was over its memory."""


class Version1:
    """One hierarchy per controller. Where both versions are mounted, the controllers that count are
    here."""

    version = 1

    def __init__(self, hierarchies: list[Hierarchy]) -> None:
        self._hierarchies = hierarchies

    def folders(self, name: str) -> Folders:
        return {
            controller: str(hierarchy.own / name)
            for hierarchy in self._hierarchies
            for controller in hierarchy.controllers or ("",)
        }

    def runc_path(self, name: str) -> str:
        return name  # relative: under the caller's own group in each hierarchy

    def usage(self, folders: Folders) -> tuple[float, int]:
        memory = number(folders["memory"], "memory.usage_in_bytes")
        idle = counts(folders["memory"], "memory.stat").get("total_inactive_file", 0)
        return number(folders["cpuacct"], "cpuacct.usage") / NANOSECONDS, max(0, memory - idle)

    def oom_kills(self, folders: Folders) -> int:
        return counts(folders["memory"], "memory.oom_control").get("oom_kill", 0)


class Version2:
    """One hierarchy for everything."""

    version = 2

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._mount = hierarchy.mount
        self._own = hierarchy.own.parent if hierarchy.own.name == AGENTS else hierarchy.own

    def prepare(self) -> None:
        """Hand the controllers down to the tasks' groups; the root may do so with processes in it,
        others not."""
        for left in reversed(range(MOVES)):
            if self._own != self._mount:
                self._step_down()
            try:
                (self._own / "cgroup.subtree_control").write_text(
                    " ".join(f"+{name}" for name in NEEDED)
                )
                return
            except OSError as error:
                if error.errno != errno.EBUSY or not left:  # a process was forked meanwhile
                    raise

    def _step_down(self) -> None:
        (self._own / AGENTS).mkdir(exist_ok=True)
        for pid in (self._own / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (self._own / AGENTS / "cgroup.procs").write_text(pid)

    def folders(self, name: str) -> Folders:
        return {"": str(self._own / name)}

    def runc_path(self, name: str) -> str:
        return f"/{(self._own / name).relative_to(self._mount)}"

    def usage(self, folders: Folders) -> tuple[float, int]:
        memory = number(folders[""], "memory.current")
        idle = counts(folders[""], "memory.stat").get("inactive_file", 0)
        return counts(folders[""], "cpu.stat").get("usage_usec", 0) / MICROSECONDS, max(
            0, memory - idle
        )

    def oom_kills(self, folders: Folders) -> int:
        return counts(folders[""], "memory.events").get("oom_kill", 0)


def select_known(folders: Folders, name: str, mounts: str | None = None) -> Folders:
    """Of folders that were written down, those that can be groups of this name: directly named
    so, inside a mounted hierarchy, reached by no link. Whoever acts as root on a path that was read
    from a file acts on nothing else."""
    mounts = Path("/proc/self/mountinfo").read_text() if mounts is None else mounts
    places = [Path(place) for kind, _, place, _ in list_mounts(mounts) if kind in CGROUP_KINDS]
    return {
        controller: folder
        for controller, folder in folders.items()
        if os.path.basename(folder) == name
        and os.path.realpath(folder) == folder
        and any(Path(folder).is_relative_to(place) for place in places)
    }


def read(folder: str, name: str) -> str:
    """A file of a group, empty once the group is gone."""
    try:
        descriptor = os.open(Path(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(descriptor) as file, contextlib.suppress(OSError):
        return file.read()
    return ""


def number(folder: str, name: str) -> int:
    text = read(folder, name).strip()
    return int(text) if text.isdecimal() else 0


def counts(folder: str, name: str) -> dict[str, int]:
    """A file of lines `name number`."""
    pairs = (line.split() for line in read(folder, name).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def pids(folders: Folders) -> set[int]:
    """Everybody in any of the groups; a launch that was cut short may have entered only some."""
    return {
        int(word) for folder in folders.values() for word in read(folder, "cgroup.procs").split()
    }


def first_process(folders: Folders) -> int | None:
    """The process that is number 1 in its own eyes: a container's shim."""
    for pid in pids(folders):
        with contextlib.suppress(OSError):
            numbers = re.search(
                r"^NSpid:\s(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE
            )
            if numbers and numbers[1].split()[1:] and numbers[1].split()[-1] == "1":
                return pid
    return None


def end(folders: Folders) -> None:
    """SIGKILL to everybody in the groups until nobody is."""
    kill(folders)
    processes.end_all(lambda: pids(folders))


def kill(folders: Folders) -> None:
    """SIGKILL, once, to everybody in the groups; in version 2 the kernel does it in one go. With
    its first process the kernel ends the whole container."""
    for folder in folders.values():
        with contextlib.suppress(OSError):
            descriptor = os.open(Path(folder, "cgroup.kill"), os.O_WRONLY | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "w") as file:
                file.write("1")
                continue
        processes.send(pids({"": folder}), signal.SIGKILL)


def remove(folders: Folders) -> None:
    """Remove the groups, with what the task may have made below. A group lingers for moments after
    its last process."""
    deadline = time.monotonic() + REMOVAL_S
    for folder in set(folders.values()):
        while os.path.isdir(folder):
            for below, _, _ in os.walk(folder, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(below)
            if time.monotonic() > deadline:
                raise TimeoutError(f"control group {folder} is still in use")
            if os.path.isdir(folder):
                time.sleep(0.005)


def hierarchies(mounts: str, own: str) -> list[Hierarchy]:
    """The mounted hierarchies, from the texts of /proc/self/mountinfo and /proc/self/cgroup."""
    result = []
    for line in own.splitlines():
        _, names, path = line.split(":", 2)
        wanted = set(names.split(",")) - {""}
        for kind, known, mount, root in list_mounts(mounts):
            if (kind == "cgroup" and wanted and wanted <= known) or (
                kind == "cgroup2" and not wanted
            ):
                result.append(
                    Hierarchy(
                        tuple(sorted(wanted)), Path(mount), Path(mount) / strip_root(path, root)
                    )
                )
                break
    return result


def list_mounts(mounts: str) -> Iterator[tuple[str, set[str], str, str]]:
    """Kind, options, mount point and mounted root of every mount."""
    for line in mounts.splitlines():
        words, _, rest = line.partition(" - ")
        root, mount = words.split()[3:5]
        yield rest.split()[0], set(rest.split()[-1].split(",")), mount, root


def strip_root(path: str, root: str) -> str:
    """A place in a hierarchy of which only the part under `root` is mounted."""
    relative = os.path.relpath(path, root)
    return "" if relative.startswith("..") or relative == "." else relative


def find(mounts: str | None = None, own: str | None = None) -> Cgroups | str:
    """The kind of control groups of this node, or in a sentence what is missing."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text() if mounts is None else mounts
        own = Path("/proc/self/cgroup").read_text() if own is None else own
    except OSError as error:
        return f"no control groups: {error}"
    known = hierarchies(mounts, own)
    if {*NEEDED, "cpuacct"} <= {
        controller for hierarchy in known for controller in hierarchy.controllers
    }:
        return Version1(known)
    unified = next((hierarchy for hierarchy in known if not hierarchy.controllers), None)
    if unified is None:
        return "no control groups are mounted"
    given = set(read(str(unified.own), "cgroup.controllers").split())
    missing = [controller for controller in NEEDED if controller not in given]
    if missing:
        return f"control groups lack the controllers {', '.join(missing)}"
    return Version2(unified)
