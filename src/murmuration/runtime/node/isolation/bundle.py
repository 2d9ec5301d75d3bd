"""A container's bundle: what runc reads about one task, and the folders around it.

The root is an overlay: a given folder, or the node's own root, below; what the task writes above.
It is mounted in a mount namespace that the launch makes for itself, so the node never sees a mount
and none can be left behind. The task shares the node's network; it has its own processes, mounts
and shared memory, few of root's powers, and an empty /tmp.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from murmuration.runtime.folder import remove_tree
from murmuration.runtime.node.isolation import folder as files
from murmuration.runtime.node.isolation import seccomp, shim
from murmuration.runtime.node.isolation.interface import RunLimits, RunSpec

#: Under the task's folder: the bundle, and in it the layers of the overlay.
BUNDLE, ROOT, UPPER, SCRATCH, TMP, RUNC, LOG = (
    "container",
    "root",
    "upper",
    "scratch",
    "tmp",
    "runc",
    "log",
)
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
]
#: Files and folders of a host that no task has to do with.
SECRETS = ["/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers"]
PRIVATE_IN_HOME = [".murmur", ".ssh", ".gnupg", ".aws", ".kube", ".docker", ".netrc"]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
#: Files about the network that a node's own mounts may hide from an overlay of its root.
NETWORK_FILES = ("/etc/hosts", "/etc/resolv.conf")


def write(
    spec: RunSpec, environment: dict[str, str], cgroup: str, lower: Path, hidden: Iterable[Path]
) -> Path:
    """Make the bundle. Only its owner may read it: it holds the task's environment."""
    place = spec.folder / BUNDLE
    remove_tree(place)
    place.mkdir(mode=0o700)
    for name in (ROOT, UPPER, SCRATCH, TMP):
        (place / name).mkdir()
    (place / UPPER).chmod(0o755)
    (place / TMP).chmod(0o1777)
    config = configuration(spec, environment, cgroup, lower, [spec.folder, *hidden])
    (place / "config.json").write_bytes(msgspec.json.encode(config))
    return place


def configuration(
    spec: RunSpec, environment: dict[str, str], cgroup: str, lower: Path, hidden: Iterable[Path]
) -> dict[str, Any]:
    """runc's configuration of one task (OCI runtime specification)."""
    powers = [f"CAP_{name}" for name in CAPABILITIES]
    return {
        "ociVersion": "1.0.2",
        "root": {"path": ROOT, "readonly": False},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "cwd": WORK_IN_CONTAINER,
            "args": shim.arguments(spec.task, WORK_IN_CONTAINER, None, spec.command),
            "env": [f"{name}={value}" for name, value in environment.items()],
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), powers),
            "noNewPrivileges": True,
        },
        "mounts": mounts(spec.folder, lower),
        "linux": {
            "cgroupsPath": cgroup,
            "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "cgroup")],
            "resources": resources(spec.limits),
            # What is masked in the node's root is named as the node names it.
            "maskedPaths": MASKED + (list_hidden(hidden) if lower == Path("/") else []),
            "readonlyPaths": READ_ONLY,
            "seccomp": seccomp.make_filter(),
        },
    }


def list_hidden(hidden: Iterable[Path]) -> list[str]:
    """What looks empty of the node's root: what the agent hides, its passwords and host keys, and
    in every user's home the keys and the usual folder of a cluster. runc skips what is not there,
    and what a link leads to is hidden too."""
    homes = {Path(user.pw_dir) for user in pwd.getpwall()} - {Path("/")}
    private = [home / name for home in sorted(homes) for name in PRIVATE_IN_HOME]
    host_keys = Path("/etc/ssh").glob("ssh_host_*_key")
    secrets = [path for path in (*map(Path, SECRETS), *host_keys, *private) if path.exists()]
    return [str(path) for path in hidden] + sorted({os.path.realpath(path) for path in secrets})


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


def mounts(folder: Path, lower: Path) -> list[dict[str, Any]]:
    place = folder / BUNDLE
    quiet = ["nosuid", "noexec", "nodev"]
    mounts = [
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
        mount("/sys", "sysfs", "sysfs", [*quiet, "ro"]),
        # Programs read their own limits here to size themselves.
        mount("/sys/fs/cgroup", "cgroup", "cgroup", [*quiet, "relatime", "ro"]),
        mount("/tmp", "bind", str(place / TMP), ["bind", "nosuid", "nodev"]),
        mount(WORK_IN_CONTAINER, "bind", str(folder / files.WORK), ["bind", "nosuid", "nodev"]),
    ]
    for name in NETWORK_FILES:
        there = lower / name.lstrip("/")
        if is_plain(Path(name)) and (is_plain(there) or not os.path.lexists(there)):
            mounts.append(mount(name, "bind", name, ["bind", "ro"]))
    return mounts


def mount(destination: str, kind: str, source: str, options: list[str]) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": source, "options": options}


def is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
