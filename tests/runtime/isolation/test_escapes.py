"""Tasks that attack their node: what root does for a task rests on nothing a task can write."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.isolation.conftest import LIMIT_S, House, until

from murmuration.runtime.node.isolation import cgroups, container, shim
from murmuration.runtime.node.isolation import folder as files

#: Reopens the file that the shim holds, and claims that the control groups of this task are its
#: folder of work, in which a host's process is listed and `cgroup.kill` is a link to a host's file.
FORGE = """
import json, os, sys
victim, target, name = sys.argv[1:]
work = next(l.split()[3] for l in open("/proc/self/mountinfo") if l.split()[4] == "/murmur")
for place in (".", name):
    os.makedirs(place, exist_ok=True)
    open(f"{place}/cgroup.procs", "w").write(victim)
    os.symlink(target, f"{place}/cgroup.kill")
groups = {"x": work, "y": f"{work}/{name}", "cpu": f"{work}/{name}"}
limits = {"cpu": 1.0, "memory": 0, "pids": 0}
record = {"isolation": "runc", "task": "a", "limits": limits, "cgroups": groups}
try:
    descriptor = os.open("/proc/1/fd/3", os.O_RDWR)
    os.pwrite(descriptor, json.dumps(record).encode() + b"\\n", 0)
except PermissionError:
    print("refused")
"""


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the host that no task has to do with."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_container_makes_its_agent_harm_nobody(
    runc: House, tmp_path: Path, victim: subprocess.Popen[bytes]
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    name = container.group_name(runc.base / "a")
    handle = runc.start("a", "python3", "-c", FORGE, str(victim.pid), str(precious), name)
    runc.wait(handle)
    assert (handle.folder / "work/cgroup.kill").is_symlink(), runc.output("a", "stderr")
    assert runc.output("a") == "refused\n", "the file the shim holds is not the container's"
    # Were it otherwise, nothing would follow from it.
    record = files.record(handle.folder, "runc")
    assert record is not None and "x" not in record.cgroups
    runc.isolation.clean(handle.folder)
    assert victim.poll() is None and precious.read_text() == "precious"


def test_groups_that_were_written_down_are_believed_only_in_a_hierarchy(tmp_path: Path) -> None:
    name = "murmur-a-0123456789ab"
    mounts = (
        f"1 2 0:3 / {tmp_path}/fs rw - cgroup2 cgroup2 rw\n4 5 0:6 / {tmp_path} rw - ext4 d rw\n"
    )
    real, elsewhere = tmp_path / "fs/agents" / name, tmp_path / "work" / name
    for folder in (real, elsewhere):
        folder.mkdir(parents=True)
    (tmp_path / "fs/link").symlink_to(elsewhere.parent)
    written = {
        "": str(real),
        "elsewhere": str(elsewhere),
        "link": str(tmp_path / "fs/link" / name),
        "dots": str(tmp_path / "fs/../work" / name),
        "parent": str(real.parent),
    }
    assert cgroups.select_known(written, name, mounts) == {"": str(real)}


def test_no_file_of_a_group_is_opened_through_a_link(
    tmp_path: Path, victim: subprocess.Popen[bytes]
) -> None:
    (tmp_path / "list").write_text(str(victim.pid))
    group = tmp_path / "group"
    group.mkdir()
    (group / "cgroup.procs").symlink_to(tmp_path / "list")
    (group / "cgroup.kill").symlink_to(tmp_path / "list")
    cgroups.end({"": str(group)})
    assert victim.poll() is None and (tmp_path / "list").read_text() == str(victim.pid)


@pytest.mark.parametrize(
    "text",
    ["exit " + "9" * 5000, "exit 256", "exit -1", "exit ²", "pid " + "9" * 5000, "\0" * 70000],
)
def test_an_end_that_cannot_be_is_none(text: str) -> None:
    assert shim.read(f"{text}\n") == shim.ShimState()


def test_a_sentence_of_a_task_is_shown_without_its_control_signs() -> None:
    sentence = shim.read("failed \x1b[31mred\x07 " + "x" * 5000 + "\n").failed
    assert sentence.startswith("[31mred x") and sentence.isprintable() and len(sentence) <= 300


def test_an_end_that_was_wiped_does_not_hold_up_the_next_agent(runc: House) -> None:
    """It calls itself a launch of its own folder, by the variable a launch is known by."""
    folder = runc.base / "a"
    handle = runc.shell("a", "echo up; sleep 600", MURMUR_FOLDER=str(folder))
    until(lambda: "up" in runc.output("a"))
    (folder / files.STATE).write_bytes(b"")
    assert files.state(folder) == shim.ShimState() and files.is_locked(folder)
    assert container.launchers(folder) == set()
    runc.isolation.kill(handle, 0.0)
    runc.wait(handle)


@pytest.mark.parametrize("name", [files.STDOUT, files.STATE, files.RECORD, files.ORDER])
def test_a_pipe_in_place_of_a_file_holds_up_nobody(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    script = (
        "import sys; from pathlib import Path;"
        "from murmuration.runtime.node.isolation import folder;"
        "place = Path(sys.argv[1]); print(folder.read_bytes(place / sys.argv[2]),"
        " folder.is_locked(place), folder.state(place).code, folder.order(place))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), name],
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    assert shown.stdout == "b'' False None None\n"


#: Each asks the kernel for something by its number (x86-64), and exits with the error's number.
CALL = (
    "import ctypes, sys; c = ctypes.CDLL(None, use_errno=True); "
    "sys.exit(0 if c.syscall(*map(int, sys.argv[1:])) != -1 else ctypes.get_errno())"
)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls of x86-64")
@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        (("425", "1", "0"), 38),  # io_uring_setup
        (("250", "0", "-3", "1"), 1),  # keyctl: a new session
        (("272", str(0x10000000)), 1),  # unshare: users
        (("56", str(0x10000011), "0", "0", "0", "0"), 1),  # clone with users of its own
        (("435", "0", "0"), 38),  # clone3
        (("321", "0", "0", "0"), 1),  # bpf
        (("298", "0", "0", "-1", "-1", "0"), 1),  # perf_event_open
    ],
)
def test_the_kernel_is_not_asked_for_what_leads_out(
    runc: House, numbers: tuple[str, ...], code: int
) -> None:
    handle = runc.start("a", "python3", "-c", CALL, *numbers)
    assert runc.wait(handle).code == code, runc.output("a", "stderr")


def test_no_other_user_gets_powers_by_namespaces(runc: House) -> None:
    """As an ordinary user, who may make a namespace of users wherever it is allowed, and is root
    in it."""
    other = "setpriv --reuid=1000 --regid=1000 --clear-groups"
    ended, _ = runc.run("a", f"{other} unshare -Urm true")
    assert ended.code not in (0, None)
    ended, out = runc.run("b", f"{other} id -u; (echo x) | cat")
    assert (ended.code, out) == (0, "1000\nx\n"), "what is ordinary works"


def test_secrets_of_the_host_look_empty(runc: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home, and the folder of another cluster, not below /tmp, of which a task has its own."""
    place = "/var/tmp"
    with (
        tempfile.TemporaryDirectory(dir=place) as home,
        tempfile.TemporaryDirectory(dir=place) as cluster,
    ):
        (Path(home) / ".murmur").mkdir()
        (Path(home) / ".murmur/token").write_text("se" + "cret")
        (Path(home) / "program").write_text("open")
        user = pwd.struct_passwd(("u", "x", 1000, 1000, "", home, "/bin/sh"))
        monkeypatch.setattr(pwd, "getpwall", lambda: [user])
        other = Path(cluster) / "token"
        other.write_text("se" + "cret")
        other.chmod(0o600)
        script = f"cat /etc/shadow {other}; ls -A {home} /root /home /run /var/lib /var/log"
        _, out = runc.run("a", script)
    empty = {line for line in out.splitlines() if line and not line.endswith(":")}
    assert Path("/etc/shadow").read_text() and empty == set(), out


def test_no_program_is_left_that_makes_others_root(runc: House) -> None:
    script = "mkdir d; for f in d/x y; do cp /bin/true $f; chmod 6755 $f; done; ln -s /bin/su z"
    before = os.stat("/bin/su").st_mode if os.path.exists("/bin/su") else None
    runc.run("a", script)
    assert (runc.base / "a/work/d/x").stat().st_mode & 0o6000
    runc.isolation.clean(runc.base / "a")
    left = [runc.base / "a/work" / name for name in ("d/x", "y")]
    assert [oct(path.stat().st_mode & 0o7777) for path in left] == ["0o755", "0o755"]
    assert before is None or os.stat("/bin/su").st_mode == before


def test_nothing_is_written_through_a_link_where_a_group_is_killed(tmp_path: Path) -> None:
    group, target = tmp_path / "group", tmp_path / "target"
    group.mkdir()
    target.write_text("precious")
    (group / "cgroup.kill").symlink_to(target)
    (group / "cgroup.procs").write_text("")
    cgroups.kill({"x": str(group)})
    assert target.read_text() == "precious"
