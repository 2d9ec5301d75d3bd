"""A container's bundle: what runc reads about one task, and the folders around it.

The root is an overlay: a given folder, or the node's own root, below; what the task writes above
(`roots.py`). It is mounted in a mount namespace that the launch makes for itself, so the node never
sees a mount and none can be left behind. The task has its own users, processes, mounts, shared
memory, network (`network.py`) unless it asks for the node's, few of root's powers, and an empty
/tmp.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from murmuration.runtime.folder import remove_tree
from murmuration.runtime.node.disks import idmap, own_disk
from murmuration.runtime.node.isolation import folder as files
from murmuration.runtime.node.isolation import network, roots, seccomp, shim
from murmuration.runtime.node.isolation.interface import (
    TERMINAL_KIND,
    Inside,
    RunLimits,
    RunSpec,
    StartFailed,
    TerminalSize,
)
from murmuration.runtime.node.isolation.spawn import DEFAULT_PATH

#: Under the task's folder: the bundle, and in it what the task writes: the layers of the overlay,
#: its /tmp, and its folder of work if it has a disk of its own.
BUNDLE, ROOT, OWN, RUNC, LOG = "container", "root", "own", "runc", "log"
VOLUMES = "volumes"
UPPER, SCRATCH, TMP, OWN_WORK = "own/upper", "own/scratch", "own/tmp", "own/work"
#: In the bundle: which image it is of.
IMAGE = "image"
#: Where a task finds its folder of work.
WORK_IN_CONTAINER = "/murmur"
PERIOD_US = 100_000
QUOTA_US_MIN = 1_000
SHARES_PER_CPU = 1024
SHARES_MIN = 2
CAPABILITIES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
    "SYS_CHROOT",
]
MASKED = [
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    # Whose disks there are on this node, by the names of their tasks.
    "/sys/devices/virtual/block",
]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
#: Arguments: where the root is mounted for those who launched it, runc's folder, the process, where
#: its number goes. runc wants to start from the root's place, which only the launch has seen.
ENTER = """mount -t tmpfs -o mode=755,size=64k murmur "${1%/*}" && mkdir "$1" &&
exec runc --root "$2" --log /dev/null exec --process "$3" --pid-file "$4" task"""


def write(
    spec: RunSpec, environment: dict[str, str], cgroup: str, lower: Path, hidden: Iterable[Path]
) -> Path:
    """Make the bundle. Only its owner may read it: it holds the task's environment."""
    place = spec.folder / BUNDLE
    remove_tree(place)
    place.mkdir(mode=0o700)
    if spec.image is not None:
        (place / IMAGE).write_text(spec.image.key)
    for name in (OWN, UPPER, SCRATCH, TMP, OWN_WORK, VOLUMES):
        (place / name).mkdir()
    for k in range(len(spec.volumes)):
        (place / VOLUMES / str(k)).mkdir()
    first_id = roots.choose_ids(spec.folder, lower)
    # Only in the node's root lies what the node hides.
    private = roots.list_private([spec.folder, *hidden]) if lower == Path("/") else []
    roots.write_upper(place / UPPER, lower, first_id, private)
    roots.write_network_files(place / UPPER, lower, not spec.host_network)
    (place / TMP).chmod(0o1777)
    for path in (place / UPPER, place / TMP):
        os.chown(path, first_id, first_id, follow_symlinks=False)
    for path in (place / OWN_WORK, spec.folder / files.WORK):
        os.chown(path, *find_owner(spec, lower), follow_symlinks=False)
    config = configuration(spec, environment, cgroup, lower)
    (place / "config.json").write_bytes(msgspec.json.encode(config))
    return place


def find_sources(spec: RunSpec) -> list[Path]:
    """Where each volume is mounted from: its folder, or the place at which its users are mapped."""
    mapped = spec.folder / BUNDLE / VOLUMES
    return [
        volume.path if volume.account is None else mapped / str(k)
        for k, volume in enumerate(spec.volumes)
    ]


def map_volumes(spec: RunSpec, lower: Path) -> list[str]:
    """The program that maps the users of volumes, with its arguments; nothing if none are to be.
    All tasks of a run act as one account."""
    pairs = zip(spec.volumes, find_sources(spec), strict=True)
    mapped = [(volume, place) for volume, place in pairs if volume.account is not None]
    if not mapped:
        return []
    account = mapped[0][0].account or (0, 0)
    words = [sys.executable, "-I", "-S", idmap.__file__]
    first_id = roots.choose_ids(spec.folder, lower)
    words += map(str, (first_id, roots.IDS, *account, *find_owner(spec, lower)))
    return words + [str(path) for volume, place in mapped for path in (volume.path, place)]


def has_own_disk(spec: RunSpec) -> bool:
    """Whether what the task writes goes to a disk of its own."""
    return spec.limits.disk > 0 and not own_disk.missing()


def find_owner(spec: RunSpec, lower: Path) -> tuple[int, int]:
    """The user and group of a task's command by their numbers on the node."""
    first_id = roots.choose_ids(spec.folder, lower)
    return first_id + spec.user.uid, first_id + spec.user.gid


def enter(folder: Path, command: Sequence[str], size: TerminalSize | None = None) -> Inside:
    """How runc runs a command in the container of a folder, as the task runs in it: same user,
    powers, filter of system calls, environment and control groups. A terminal is one of the
    container's own, and runc passes on what goes over that of who calls it. It has its size from
    the first: runc gives it that of the caller's only after the command has begun."""
    place, name = folder / BUNDLE, f"enter-{secrets.token_hex(6)}"
    try:
        config = msgspec.json.decode((place / "config.json").read_bytes())
        written, pid_file = place / f"{name}.json", place / f"{name}.pid"
        written.touch(mode=0o600)
        args = shim.enter(command, shim.find_shell(config["process"]["args"]))
        process = {**config["process"], "args": args, "terminal": size is not None}
        if size is not None:
            process["consoleSize"] = {"height": size[0], "width": size[1]}
            process["env"] = [f"TERM={TERMINAL_KIND}", *process["env"]]
        written.write_bytes(msgspec.json.encode(process))
    except OSError as error:
        raise StartFailed(f"task {folder.name} does not run any more") from error
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "murmur-enter"]
    words += [config["root"]["path"], str(place / RUNC), str(written), str(pid_file)]
    path = os.environ.get("PATH", DEFAULT_PATH)
    environment = {"PATH": path, "MURMUR_FOLDER": str(folder)}
    return Inside(words, environment, place, pid_file, (written, pid_file))


def configuration(
    spec: RunSpec, environment: dict[str, str], cgroup: str, lower: Path
) -> dict[str, Any]:
    """runc's configuration of one task (OCI runtime specification)."""
    powers = [f"CAP_{name}" for name in CAPABILITIES]
    first_id = roots.choose_ids(spec.folder, lower)
    ids = [{"containerID": 0, "hostID": first_id, "size": roots.IDS}]
    kinds = ["user", "pid", "mount", "ipc", "uts", "cgroup"]
    shell = spec.image.shell if spec.image else ("sh",)
    folder = (spec.image.folder if spec.image else "") or WORK_IN_CONTAINER
    return {
        "ociVersion": "1.0.2",
        "root": {"path": meeting_point(spec.folder, lower), "readonly": False},
        "process": {
            "terminal": False,
            "user": {
                "uid": spec.user.uid,
                "gid": spec.user.gid,
                "additionalGids": list(spec.user.groups),
            },
            "cwd": folder,
            "args": shim.arguments(spec.task, folder, None, spec.command, shell),
            "env": [f"{name}={value}" for name, value in environment.items()],
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), powers),
            "noNewPrivileges": True,
        },
        "mounts": mounts(spec),
        "hooks": hooks(spec),
        "linux": {
            "cgroupsPath": cgroup,
            "namespaces": [
                {"type": kind} for kind in (kinds if spec.host_network else [*kinds, "network"])
            ],
            "uidMappings": ids,
            "gidMappings": ids,
            "resources": resources(spec.limits),
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
            "seccomp": seccomp.make_filter(),
        },
    }


def meeting_point(folder: Path, lower: Path) -> str:
    """Where the root is mounted: not in the task's folder, through which no user of the container
    could go."""
    return f"{roots.find_meeting_place(folder.resolve(), lower.resolve())}/{ROOT}"


def hooks(spec: RunSpec) -> dict[str, Any]:
    """Without a way out (`network.missing`) a task has its own loopback and nothing else."""
    if spec.host_network or network.missing():
        return {}
    return {"createRuntime": [network.make_hook(spec.folder, spec.ports)]}


def resources(limits: RunLimits) -> dict[str, Any]:
    """Limits in the kernel's terms: a ceiling per tenth of a second, and a weight below it; no swap
    beside memory."""
    limited: dict[str, Any] = {"devices": [{"allow": False, "access": "rwm"}]}
    if limits.cpu:
        quota = max(QUOTA_US_MIN, round(limits.cpu * PERIOD_US))
        shares = max(SHARES_MIN, round(limits.cpu * SHARES_PER_CPU))
        limited["cpu"] = {"quota": quota, "period": PERIOD_US, "shares": shares}
    if limits.memory:
        limited["memory"] = {"limit": limits.memory, "swap": limits.memory}
    if limits.pids:
        limited["pids"] = {"limit": limits.pids + 1}  # the shim is one
    return limited


def mounts(spec: RunSpec) -> list[dict[str, Any]]:
    place = spec.folder / BUNDLE
    work = place / OWN_WORK if has_own_disk(spec) else spec.folder / files.WORK
    quiet, open_ = ["nosuid", "noexec", "nodev"], ["bind", "nosuid", "nodev"]
    # A sysfs shows a network and is mounted by its owner only: the node's is the node's.
    system = ("bind", "/sys", ["rbind"]) if spec.host_network else ("sysfs", "sysfs", [])
    return [
        mount("/proc", "proc", "proc", quiet),
        mount("/dev", "tmpfs", "tmpfs", ["nosuid", "strictatime", "mode=755", "size=65536k"]),
        mount(
            "/dev/pts",
            "devpts",
            "devpts",
            ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
        ),
        mount("/dev/shm", "tmpfs", "shm", [*quiet, "mode=1777"]),
        mount("/dev/mqueue", "mqueue", "mqueue", quiet),
        mount("/sys", system[0], system[1], [*system[2], *quiet, "ro"]),
        # Programs read their own limits here to size themselves.
        mount("/sys/fs/cgroup", "cgroup", "cgroup", [*quiet, "relatime", "ro"]),
        mount("/tmp", "bind", str(place / TMP), open_),
        mount(WORK_IN_CONTAINER, "bind", str(work), open_),
        *(
            mount(volume.at, "bind", str(source), [*open_, "ro" if volume.is_read_only else "rw"])
            for source, volume in zip(find_sources(spec), spec.volumes, strict=True)
        ),
    ]


def mount(destination: str, kind: str, source: str, options: list[str]) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": source, "options": options}
