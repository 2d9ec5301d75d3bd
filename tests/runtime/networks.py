"""A network of a test's own, in which it is root and harms nobody: this thread and what it starts
are in it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

CLONE_NEWNET = 0x40000000


class Host:
    """A network namespace with one link to a bridge, which can be cut or made slow."""

    def __init__(self, number: int, network: str) -> None:
        self.address, self._link = f"{network}.{number}", f"host{number}"
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        space = f"/proc/{self._holder.pid}/ns/net"
        # It is in its namespace a moment after it was started.
        while os.readlink(space) == os.readlink("/proc/thread-self/ns/net"):
            assert self._holder.poll() is None, "no namespace could be made"
            time.sleep(0.01)
        self.prefix = ["nsenter", f"--net={space}"]
        peer = ["peer", "name", "eth0", "netns", str(self._holder.pid)]
        run("ip", "link", "add", self._link, "type", "veth", *peer)
        run("ip", "link", "set", self._link, "master", "bridge", "up")
        run(*self.prefix, "ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            run(*self.prefix, "ip", "link", "set", link, "up")

    def cut(self) -> None:
        run("ip", "link", "set", self._link, "down")

    def slow(self, kilobits: int) -> None:
        """So much per second both ways, and a queue of a second before that."""
        shape = ["root", "tbf", "rate", f"{kilobits}kbit", "burst", "16kb", "latency", "1s"]
        run("tc", "qdisc", "replace", "dev", self._link, *shape)
        run(*self.prefix, "tc", "qdisc", "replace", "dev", "eth0", *shape)

    def heal(self) -> None:
        """Neither cut nor slow."""
        run("ip", "link", "set", self._link, "up")
        for prefix, link in (([], self._link), (self.prefix, "eth0")):
            words = [*prefix, "tc", "qdisc", "delete", "dev", link, "root"]
            subprocess.run(words, check=False, capture_output=True)

    def end(self) -> None:
        self._holder.kill()
        self._holder.wait()


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def joined_hosts(names: Sequence[str], network: str = "10.9.0") -> Iterator[dict[str, Host]]:
    """Hosts that reach each other and this thread, which is 10.9.0.254, over a bridge."""
    with private_network():
        run("ip", "link", "add", "bridge", "type", "bridge")
        run("ip", "address", "add", f"{network}.254/24", "dev", "bridge")
        run("ip", "link", "set", "bridge", "up")
        hosts: dict[str, Host] = {}
        try:
            for number, name in enumerate(names, start=1):
                hosts[name] = Host(number, network)
            yield hosts
        finally:
            for host in hosts.values():
                host.end()


@contextmanager
def private_network() -> Iterator[None]:
    """Be in a new network namespace with a loopback and nothing else; needs root."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "cannot make a network namespace")
    try:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        yield
    finally:
        assert libc.setns(before, CLONE_NEWNET) == 0
        os.close(before)
