"""The units of the wheel under a systemd that runs: as process 1 of namespaces of its own
(`scripts/systemd.sh`), over an overlay of this host's root."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.runtime.clusters import until

ROOT = Path(__file__).parents[2]
JOIN = "--join 127.0.0.1:7100 --token-file /etc/murmur/token"


class Systemd:
    """Commands in the namespaces of a systemd."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def try_run(self, script: str) -> subprocess.CompletedProcess[str]:
        words = ["nsenter", "--target", str(self._pid), "--all", "sh", "-c", script]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)

    def run(self, script: str) -> str:
        done = self.try_run(script)
        assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def show(self, unit: str, name: str) -> str:
        return self.run(f"systemctl show {unit} --property={name} --value")

    def await_output(self, script: str, expected: str) -> None:
        until(lambda: expected in self.try_run(script).stdout)

    def journal(self) -> str:
        return self.try_run("journalctl --no-pager -n 50 -u murmur-master -u murmur-agent").stdout


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    programs = ("unshare", "nsenter", "pivot_root", "useradd")
    if os.geteuid() != 0 or not Path("/lib/systemd/systemd").exists():
        pytest.skip("a systemd of its own needs root and systemd")
    if not Path("/sys/fs/cgroup/systemd").is_dir() or not all(map(shutil.which, programs)):
        pytest.skip("a systemd of its own needs control groups of version 1 here")
    with open(tmp_path / "log", "w") as log:
        words = [str(ROOT / "scripts/systemd.sh"), str(tmp_path)]
        process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
    try:
        until(lambda: (tmp_path / "pid").exists() or process.poll() is not None)
        if process.poll() is not None:
            pytest.skip(f"systemd does not start here: {(tmp_path / 'log').read_text()}")
        made = Systemd(int((tmp_path / "pid").read_text()))
        made.await_output("systemctl is-system-running --wait", "running")
        yield made
    finally:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        remove_groups((tmp_path / "cgroup").read_text().strip())


def remove_groups(name: str) -> None:
    """What the systemd has left in the control groups of this host."""
    for top in Path("/sys/fs/cgroup").glob(f"*/{name}"):
        for place, _, _ in os.walk(top, topdown=False):
            until(partial(remove_group, place))


def remove_group(place: str) -> bool:
    """Processes that were killed are in their group for a moment."""
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(place)
    return not os.path.exists(place)


def start_units(systemd: Systemd) -> None:
    """As docs/operate.md has it, on one host and by the cluster's token."""
    systemd.run("id murmur || useradd --system murmur")
    systemd.run("echo 'OPTIONS=--port 7100 --agents-port 7101' > /etc/murmur/master.env")
    systemd.run("systemctl enable --now murmur-master")
    systemd.await_output("test -s /var/lib/murmur/token && echo there", "there")
    systemd.run("install -m 600 /var/lib/murmur/token /etc/murmur/token")
    options = "--name n1 --join 127.0.0.1:7101 --token-file /etc/murmur/token --isolation process"
    systemd.run(f"echo 'OPTIONS={options}' > /etc/murmur/agent.env")
    systemd.run("systemctl enable --now murmur-agent")
    systemd.await_output(f"murmur status {JOIN}", "n1    up")


def test_units_under_systemd(systemd: Systemd) -> None:
    """They start; the master is not root; what is killed comes back, and tasks go on; a reload
    replaces the agent and no task; a stop ends them."""
    start_units(systemd)
    master = systemd.show("murmur-master", "MainPID")
    assert systemd.run(f"stat -c %U /proc/{master}") == "murmur"
    assert systemd.run(f"grep NoNewPrivs /proc/{master}/status").split()[1] == "1"
    assert systemd.try_run(f"nsenter -t {master} -m touch /usr/x").returncode != 0
    assert systemd.run("stat -c %a:%U /var/lib/murmur /var/lib/murmur-agent").split() == [
        "700:murmur",
        "700:root",
    ]
    job = 'name = "s"\nkind = "service"\ncommand = ["sleep", "100000"]\n'
    systemd.run(f"printf '{job}' > /tmp/s.toml && murmur run {JOIN} /tmp/s.toml")
    systemd.await_output(f"murmur ps {JOIN} s", "running")
    task = systemd.run("pgrep -f 'sleep 100000' -x || pgrep -x sleep")

    systemd.run(f"kill -9 {master}")
    until(lambda: systemd.show("murmur-master", "MainPID") not in ("0", master))
    systemd.await_output(f"murmur status {JOIN}", "n1    up")
    agent = systemd.show("murmur-agent", "MainPID")
    systemd.run("systemctl reload murmur-agent")
    until(lambda: systemd.show("murmur-agent", "MainPID") not in ("0", agent))
    systemd.await_output(f"murmur ps {JOIN} s", "running")
    agent = systemd.show("murmur-agent", "MainPID")
    systemd.run(f"kill -9 {agent}")
    until(lambda: systemd.show("murmur-agent", "MainPID") not in ("0", agent))
    systemd.await_output(f"murmur status {JOIN}", "n1    up")
    assert systemd.run("pgrep -x sleep") == task, systemd.journal()

    systemd.run("systemctl stop murmur-agent")
    assert systemd.try_run("pgrep -x sleep").stdout == ""
    systemd.run("systemctl stop murmur-master")
    for unit in ("murmur-agent", "murmur-master"):
        assert systemd.show(unit, "Result") == "success", systemd.journal()
    assert systemd.run("systemctl --failed --no-legend") == ""
