"""Several masters on one etcd and node agents that join any of them, as processes of their own,
each with its own folder as if on a host of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.kubernetes.control_plane import free_ports
from tests.runtime.authorities import TestAuthority
from tests.runtime.clusters import CPU, WAIT_S, until
from tests.runtime.etcd import Members, running_etcd
from tests.runtime.networks import Host

from murmuration.base.errors import InputError
from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import ApiClient
from murmuration.runtime.folder import TLS
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.options import AgentOptions, EmulatedNode, MasterOptions


class ManyMasters:
    """Masters `m0`, `m1` … and node agents `n0`, `n1` …; a part that has ended can be started
    again."""

    def __init__(
        self,
        folder: Path,
        etcd: Members,
        masters: int,
        agents: int,
        authority: TestAuthority | None,
        hosts: Mapping[str, Host],
        emulated: Sequence[list[EmulatedNode]],
        **more: Any,
    ) -> None:
        self.folder, self.etcd, self._authority, self._hosts = folder, etcd, authority, hosts
        ports = free_ports(masters)
        join = [f"{self._address(f'm{k}')}:{port}" for k, port in enumerate(ports)]
        self._options: dict[str, msgspec.Struct] = {}
        for k, port in enumerate(ports):
            self._options[f"m{k}"] = MasterOptions(
                folder=self._place(f"m{k}"),
                host=self._address(f"m{k}"),
                store=etcd.url,
                agents_port=port,
                isolation="process",
                **more,
            )
        for k in range(agents):
            self._options[f"n{k}"] = AgentOptions(
                folder=self._place(f"n{k}"),
                name=f"n{k}",
                resources={"cpu": 2 * CPU, "memory": 2**31},
                attributes={"host": f"h{k}"},
                isolation="process",
                join=join,
                emulated=emulated[k] if emulated else [],
            )
        self.parts: dict[str, subprocess.Popen[bytes]] = {}
        for name in self._options:
            self.start(name)

    def _place(self, name: str) -> str:
        """The folder of a part, with the cluster's token in it."""
        place = self.folder / name
        FolderDirectory(place).create("a-token-that-all-of-them-know-of-this-cluster")
        if self._authority is not None:
            is_master = name.startswith("m")
            addresses = (self._address(name),) if is_master else ()
            made = self._authority.issue(name, "master" if is_master else "agent", *addresses)
            shutil.copytree(made, place / TLS)
        return str(place)

    def _address(self, name: str) -> str:
        return self._hosts[name].address if name in self._hosts else "127.0.0.1"

    def start(self, name: str) -> None:
        kind = "master" if name.startswith("m") else "node"
        prefix = self._hosts[name].prefix if name in self._hosts else []
        command = [*prefix, sys.executable, "-m", f"murmuration.runtime.{kind}.process"]
        path = os.pathsep.join(entry for entry in sys.path if entry)
        with (self.folder / f"{name}.log").open("ab") as log:
            self.parts[name] = subprocess.Popen(
                [*command, msgspec.json.encode(self._options[name]).decode()],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )

    def options(self, master: str) -> MasterOptions:
        found = self._options[master]
        assert isinstance(found, MasterOptions)
        return found

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        self.parts[name].send_signal(number)
        if number == signal.SIGKILL:
            self.parts[name].wait()

    @property
    def leader(self) -> str:
        """The master that says it leads."""

        def leading() -> str:
            for name, part in self.parts.items():
                if name.startswith("m") and part.poll() is None:
                    with contextlib.suppress(InputError, OSError, AssertionError):
                        place = self.folder / name
                        # One that was suspended does not answer; do not wait for it.
                        is_stopped = state_of(part.pid) == "T"
                        if not is_stopped and FolderDirectory(place).leader().pid == part.pid:
                            ApiClient(place).get("status")
                            return name
            return ""

        return str(until(leading, WAIT_S))

    @property
    def client(self) -> ApiClient:
        return ApiClient(self.folder / self.leader)

    def tasks(self, job: str) -> list[Any]:
        return list(self.client.get("tasks", job=job)["tasks"])

    def wait(self, job: str) -> list[Any]:
        """The tasks of a job when it has ended."""
        until(lambda: self.client.get("jobs", job)["ended"])
        return self.tasks(job)

    def running(self, job: str, count: int) -> list[Any]:
        def rows() -> list[Any]:
            found = [row for row in self.tasks(job) if row["state"] == "running"]
            return found if len(found) == count else []

        return list(until(rows))

    def end(self) -> None:
        for name, part in self.parts.items():
            part.kill()
            part.wait()
            supervisor.sweep(self.folder / name)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@contextmanager
def many_masters(
    folder: Path,
    masters: int = 2,
    agents: int = 2,
    members: int = 1,
    secure: bool = False,
    hosts: Mapping[str, Host] | None = None,
    emulated: Sequence[list[EmulatedNode]] = (),
    **more: Any,
) -> Iterator[ManyMasters]:
    """With `secure`, every connection is by certificates, those to etcd included. With `hosts`,
    each part that is named there is on that host, and etcd on this one."""
    authority = TestAuthority(folder / "made") if secure else None
    here = "10.9.0.254" if hosts else "127.0.0.1"
    tls = None if authority is None else authority.issue("etcd", "master", here)
    more |= {} if tls is None else {"store_tls": str(tls)}
    with running_etcd(folder / "etcd", members, tls, here) as etcd:
        cluster = ManyMasters(
            folder, etcd, masters, agents, authority, hosts or {}, emulated, **more
        )
        try:
            yield cluster
        finally:
            cluster.end()
            shutil.rmtree(folder / "etcd", ignore_errors=True)
