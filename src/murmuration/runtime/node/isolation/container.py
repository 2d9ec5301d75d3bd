"""Containers by runc: CPU, memory and processes limited by the kernel, the node's files out of
reach. Needs root.

The launch is a chain that replaces itself, with the lock on the task's state handed down it: a
mount namespace, the overlay in it, runc, and at the end the shim as process 1 of the container.
Nothing but the container stays. When the shim ends the kernel ends everything in the container;
nothing can escape it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from murmuration.runtime.folder import remove_tree
from murmuration.runtime.isolations import RUNC
from murmuration.runtime.node.disks import own_disk
from murmuration.runtime.node.isolation import bundle, cgroups, network, processes, shim
from murmuration.runtime.node.isolation import folder as files
from murmuration.runtime.node.isolation.ending import Ending, has_ended
from murmuration.runtime.node.isolation.interface import (
    OUT_OF_MEMORY,
    EndOrder,
    Exit,
    Handle,
    Inside,
    RunLimits,
    RunSpec,
    StartFailed,
    TerminalSize,
)
from murmuration.runtime.node.isolation.spawn import DEFAULT_PATH, spawn

LAUNCH_S = 60.0
#: How long a shim may take for its first report once its launch has ended.
REPORT_S = 5.0
ENDING_S = 30.0
REAP_S = 0.5
#: How long the disk of a task that has ended is waited for.
RELEASE_S = 5.0
#: What runc and its helpers say when the node lacks something, the network of the hook included.
NODE_FAULTS = (
    "no space left on device",
    "too many open files",
    "resource temporarily unavailable",
    "read-only file system",
    "input/output error",
    "running hook",
)
USER_NAMESPACES = Path("/proc/sys/user/max_user_namespaces")
#: Arguments: the bundle, options of the overlay, where to mount it, bytes of a disk of its own or
#: nothing, and a program that maps users of volumes, if it is there. Descriptor 3, the lock, goes
#: on to the container.
LAUNCH = f"""umask 022; cd "$1" || exit 1
{{ if [ "$4" ]; then {own_disk.MAKE}; fi &&
mount -t tmpfs -o mode=755,size=64k murmur "${{3%/*}}" && mkdir "$3" &&
mount -t overlay overlay -o "$2" "$3" && shift 4 && "$@"; }} 2>{bundle.LOG} || exit 1
exec runc --root {bundle.RUNC} --log {bundle.LOG} --log-format json \\
  run --detach --preserve-fds 1 task"""


def missing(root: Path = Path("/")) -> str:
    """Why no container can be run here, in a sentence; empty if one can."""
    if os.geteuid() != 0 or not processes.may(processes.CAP_SYS_ADMIN):
        return "containers need root and its power over mounts and namespaces"
    for program in ("runc", "unshare", "mount"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if USER_NAMESPACES.exists() and USER_NAMESPACES.read_text().strip() == "0":
        return f"user namespaces are turned off ({USER_NAMESPACES})"
    if not (root / "bin/sh").exists():
        return f"the root folder {root} has no /bin/sh"
    groups = cgroups.find()
    if isinstance(groups, str):
        return groups
    folders = groups.folders("task")
    own = Path(folders.get("memory") or folders[""]).parent
    return "" if os.access(own, os.W_OK) else f"control groups cannot be made in {own}"


class Container(Ending):
    """Tasks as runc containers over the node's root or a given one; `hidden` folders of the node
    look empty to them."""

    name = RUNC
    is_slow = True
    has_networks = True

    def __init__(self, root: Path = Path("/"), hidden: Iterable[Path] = ()) -> None:
        self._root, self._hidden = root.resolve(), [path.resolve() for path in hidden]
        if any(sign in str(self._root) for sign in ":,\\"):
            raise StartFailed(f"root folder {root}: expected a path without : , and \\")
        groups = cgroups.find()
        if reason := missing(self._root):
            raise StartFailed(reason)
        assert not isinstance(groups, str)
        if isinstance(groups, cgroups.Version2):
            groups.prepare()
        self._cgroups = groups
        #: Launchers of commands beside a task, which somebody else waits for.
        self._kept: set[int] = set()
        self._reaped_s = 0.0
        processes.become_parent()

    def start(self, spec: RunSpec) -> Handle:
        files.check(spec)
        name = group_name(spec.folder)
        folders = self._cgroups.folders(name)
        lower = spec.image.root if spec.image else self._root
        environment = {"PATH": DEFAULT_PATH, "MURMUR_TASK": spec.task, **spec.env}
        try:
            record = files.Record(self.name, spec.task, spec.limits, folders, spec.ports)
            with files.open_folder(spec, record) as opened:
                path = self._cgroups.runc_path(name)
                place = bundle.write(spec, environment, path, lower, self._hidden)
                prepare_network(spec)
                give_outputs(opened, *bundle.find_owner(spec, lower))
                code = launch(spec, place, opened, lower)
            report = await_shim(spec.folder) if code == 0 else files.state(spec.folder)
            if code != 0 or report.pid is None:
                raise explain_failure(spec, code, report)
        except files.TakenError:
            raise
        except StartFailed:
            self.clean(spec.folder)
            raise
        return self._find_container(spec.task, spec.folder, spec.limits, folders)

    def recover(self, folder: Path) -> Handle | None:
        record = files.record(folder, self.name)
        if record is None:
            return None
        groups = self._groups(folder, record)
        if await_shim(folder).pid is None:
            self.clean(folder)
        handle = self._find_container(record.task, folder, record.limits, groups)
        return None if handle.ended and handle.ended.lost else handle

    def poll(self, handle: Handle) -> Exit | None:
        self._reap()
        if handle.ended is None and has_ended(handle):
            handle.ended = None if self._is_undecided(handle) else self._finish(handle)
        elif handle.ended is None:
            self._carry_on(handle)
        return handle.ended

    def kill_all(self, folders: Sequence[Path]) -> None:
        """One look at the groups of each; a launch under way is left to `clean`."""
        for folder in folders:
            cgroups.kill(self._cgroups.folders(group_name(folder)))

    def usage(self, handle: Handle) -> tuple[float, int]:
        if not handle.ended:
            handle.used = self._cgroups.usage(handle.cgroups)
        return handle.used

    def enter(
        self, handle: Handle, command: Sequence[str], size: TerminalSize | None = None
    ) -> Inside:
        return bundle.enter(handle.folder, command, size)

    def keep_child(self, pid: int, is_kept: bool) -> None:
        (self._kept.add if is_kept else self._kept.discard)(pid)

    def _reap(self) -> None:
        """Wait for what launchers that were killed have left: a container whose processes nobody
        waits for does not end."""
        if time.monotonic() >= self._reaped_s + REAP_S:
            self._reaped_s = time.monotonic()
            processes.reap_orphans(self._kept)

    def clean(self, folder: Path) -> None:
        record = files.record(folder, self.name)
        groups = self._groups(folder, record)
        deadline = time.monotonic() + ENDING_S
        while files.is_locked(folder) and time.monotonic() < deadline:
            processes.end_all(lambda: launchers(folder))
            cgroups.end(groups)
        cgroups.end(groups)
        cgroups.remove(groups)
        while own_disk.is_mounted(folder) and time.monotonic() < deadline:
            time.sleep(0.002)
        if record is not None and record.ports:
            network.release(folder)
        remove_tree(folder / bundle.BUNDLE)
        files.drop_set_user_bits(folder / files.WORK)
        processes.reap_orphans(self._kept)

    def _groups(self, folder: Path, record: files.Record | None) -> cgroups.Folders:
        """The groups of a folder's task: where they would be made now, or where an agent in
        another group has made them."""
        name = group_name(folder)
        written = cgroups.select_known(record.cgroups, name) if record else {}
        return {**self._cgroups.folders(name), **written}

    def _others(self, handle: Handle) -> set[int]:
        return cgroups.pids(handle.cgroups) - {handle.pid}

    def _end(self, handle: Handle) -> None:
        """With its first process the kernel ends the whole container."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle.fileno(), signal.SIGKILL)

    def _find_container(
        self, task: str, folder: Path, limits: RunLimits, folders: cgroups.Folders
    ) -> Handle:
        """The container of a folder, by its groups: running, or ended."""
        order = files.order(folder)
        handle = Handle(task, folder, 0, limits, child=False, order=order, cgroups=folders)
        while files.is_locked(folder):
            handle.pid = cgroups.first_process(folders) or 0
            if handle.pid:
                with contextlib.suppress(ProcessLookupError):
                    handle.fileno()
                    return handle
            time.sleep(0.002)
        while self._is_undecided(handle):
            time.sleep(0.002)
        handle.ended = self._finish(handle)
        return handle

    def _finish(self, handle: Handle) -> Exit:
        if handle.pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(handle.pid, os.WNOHANG)
        handle.used = (self._cgroups.usage(handle.cgroups)[0], 0)
        ended = files.exit_of(handle.folder, handle.order)
        if handle.order is None and ended.code != 0 and (reason := self._find_reason(handle)):
            # Noted, since the group that knows is about to go.
            handle.order = EndOrder(reason, 0.0)
            files.give_order(handle.folder, handle.order)
            ended = files.exit_of(handle.folder, handle.order)
        return ended

    def _is_undecided(self, handle: Handle) -> bool:
        """Whether it will be known in a moment that a task failed for want of disk."""
        if handle.order is not None or files.state(handle.folder).code == 0:
            return False
        handle.watched = handle.watched or time.monotonic()
        is_late = time.monotonic() > handle.watched + RELEASE_S
        return own_disk.is_mounted(handle.folder) and not is_late

    def _find_reason(self, handle: Handle) -> str:
        """What the kernel refused to a task that did not end well."""
        if self._cgroups.oom_kills(handle.cgroups):
            return OUT_OF_MEMORY
        return own_disk.DISK_FULL if own_disk.is_full(handle.folder) else ""


def group_name(folder: Path) -> str:
    """A name for the control groups that no other folder's task has; the folder alone decides."""
    digest = hashlib.blake2b(os.fsencode(folder.resolve()), digest_size=6).hexdigest()
    return f"murmur-{folder.name}-{digest}"


def prepare_network(spec: RunSpec) -> None:
    """What the node must have before a container can have a network."""
    if spec.host_network:
        return
    reason = network.missing()
    if not reason:
        network.prepare(spec.folder.parent)
    elif spec.ports:
        sentence = f"ports need a network for containers: {reason}"
        raise StartFailed(sentence) from OSError(errno.ENOSYS, sentence)


def give_outputs(opened: files.Files, user: int, group: int) -> None:
    """A program may open its output again by name (`/dev/stdout`); the state is not its to open."""
    for descriptor in (opened.stdout, opened.stderr):
        os.fchown(descriptor, user, group)


def launch(spec: RunSpec, place: Path, opened: files.Files, lower: Path) -> int:
    """Start the container and wait for the launch, not for the task. Killed before that, we leave
    it to finish."""
    layers = f"{spec.image.shell_layer}:{lower}" if spec.image else lower
    options = f"lowerdir={layers},upperdir={bundle.UPPER},workdir={bundle.SCRATCH}"
    disk = str(own_disk.find_size(spec.limits.disk, place)) if bundle.has_own_disk(spec) else ""
    meeting_point = bundle.meeting_point(place.parent, lower)
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", LAUNCH, "murmur-launch"]
    words += [str(place), options, meeting_point, disk]
    words += bundle.map_volumes(spec, lower)
    environment = {"PATH": os.environ.get("PATH", DEFAULT_PATH), "MURMUR_FOLDER": str(place.parent)}
    # A group of its own, so that no terminal interrupts it; the agent's session, so that nobody
    # else waits for it.
    pid = spawn(shutil.which("unshare") or "unshare", words, environment, opened, setpgroup=0)
    with os.fdopen(os.pidfd_open(pid)) as watched:
        if not processes.has_ended(watched.fileno(), LAUNCH_S):
            processes.send([pid], signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def await_shim(folder: Path) -> shim.ShimState:
    """What the shim reports first; empty if no launch is on the way to one. A launch that was cut
    off may have left a container that waits indefinitely for its start."""
    while True:
        launching = bool(launchers(folder))
        report = files.await_state(folder, REPORT_S)
        if report != shim.ShimState() or not launching:
            return report


def launchers(folder: Path) -> set[int]:
    """What is still on its way to a container for this folder."""
    mark = processes.mark(folder)
    return {
        pid
        for pid in processes.all_pids()
        # A task inside a container may call itself what it likes.
        if pid != os.getpid() and processes.carries(pid, mark) and processes.is_outside(pid)
    }


def explain_failure(spec: RunSpec, code: int, report: shim.ShimState) -> StartFailed:
    """Why a container does not run: as the shim reports, or as runc has logged. Of runc's reasons
    only those that surely are the node's are called so: one that lies in the task would mark every
    node it comes to."""
    if report.failed:
        return StartFailed(report.failed)
    log = (
        files.read_bytes(spec.folder / bundle.BUNDLE / bundle.LOG).decode(errors="replace").strip()
    )
    last = log.splitlines()[-1] if log else f"the launch ended with code {code}"
    with contextlib.suppress(ValueError, TypeError, KeyError):
        last = json.loads(last)["msg"]
    failure = StartFailed(f"container: {last}")
    if any(sign in last.lower() for sign in NODE_FAULTS):
        failure.__cause__ = OSError(errno.EIO, last)
    return failure
