"""A real etcd on this host: one member or three, each ended by its process id."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.kubernetes.control_plane import free_ports

from murmuration.runtime.net.addresses import Address
from murmuration.runtime.net.certificates import AUTHORITY, CERTIFICATE, KEY, client_context
from murmuration.runtime.net.etcd_client import EtcdClient, EtcdError

READY_S = 120.0


class Members:
    """The members of one etcd; they can be killed and started again."""

    def __init__(
        self, folder: Path, count: int, tls: Path | None = None, host: str = "127.0.0.1"
    ) -> None:
        self._tls, ports = tls, free_ports(2 * count)
        scheme, secure = ("http", []) if tls is None else ("https", _secure_options(tls))
        self.addresses = [Address(host, port) for port in ports[:count]]
        peers = [f"http://127.0.0.1:{port}" for port in ports[count:]]
        cluster = ",".join(f"m{k}={peer}" for k, peer in enumerate(peers))
        self._folder = folder
        self._commands = [
            [
                *("etcd", "--name", f"m{k}", "--data-dir", str(folder / f"m{k}")),
                *("--listen-client-urls", f"{scheme}://{address}"),
                *("--advertise-client-urls", f"{scheme}://{address}", *secure),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", cluster, "--logger", "zap"),
            ]
            for k, (address, peer) in enumerate(zip(self.addresses, peers, strict=True))
        ]
        self._processes = [self._start(k) for k in range(count)]

    def _start(self, k: int) -> subprocess.Popen[bytes]:
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        with (self._folder / f"m{k}.log").open("ab") as log:
            return subprocess.Popen([*guard, *self._commands[k]], stdout=log, stderr=log)

    @property
    def url(self) -> str:
        return "etcd://" + ",".join(map(str, self.addresses))

    def client(self, timeout_s: float = 30.0) -> EtcdClient:
        tls = None if self._tls is None else client_context(self._tls)
        return EtcdClient(self.addresses, tls, timeout_s)

    def wait(self) -> None:
        client, ends = self.client(2.0), time.monotonic() + READY_S
        while True:
            try:
                client.commit([], [])
                break
            except EtcdError as error:
                assert time.monotonic() < ends, f"etcd is not ready: {error}"
                time.sleep(0.1)
        client.close()

    def kill(self, k: int) -> None:
        self._processes[k].kill()
        self._processes[k].wait()

    def start(self, k: int) -> None:
        self._processes[k] = self._start(k)

    def pause(self, k: int) -> None:
        self._processes[k].send_signal(signal.SIGSTOP)

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def _secure_options(tls: Path) -> list[str]:
    """Clients must show a certificate of the same authority."""
    files = {"cert-file": CERTIFICATE, "key-file": KEY, "trusted-ca-file": AUTHORITY}
    return ["--client-cert-auth", *(f"--{name}={tls / file}" for name, file in files.items())]


@contextmanager
def running_etcd(
    folder: Path, count: int = 1, tls: Path | None = None, host: str = "127.0.0.1"
) -> Iterator[Members]:
    if shutil.which("etcd") is None:
        pytest.skip("no etcd: it is in Debian's etcd-server")
    folder.mkdir(parents=True, exist_ok=True)
    members = Members(folder, count, tls, host)
    try:
        members.wait()
        yield members
    finally:
        members.end()
