"""What a warm connection to a standby wins: how long a master that begins to lead takes until it
has heard the hello of every node agent, over connections that were there, and over new ones.

    python benchmarks/warm.py [--connections 1000] [--clear]

Connections are encrypted, each from its own node agent, as on as many hosts; master and agents
share this machine. Cold is what it is without warm connections: dial, handshake, hello, and once
more where the door was too full.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.runtime.authorities import TestAuthority

from murmuration.runtime.client.links import Links
from murmuration.runtime.master.peers import Peers
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.master.usage import UsageMeter
from murmuration.runtime.net.addresses import Address
from murmuration.runtime.net.callers import Doorkeeper
from murmuration.runtime.net.certificates import client_context, server_context
from murmuration.runtime.net.directory import Credentials, FolderDirectory
from murmuration.runtime.net.sockets import listen
from murmuration.runtime.net.wire import Hello, HelloAnswer
from murmuration.runtime.options import MasterOptions
from murmuration.schedulers.central.master import CentralMaster

TOKEN = "a token of some length"


class OneMaster(FolderDirectory):
    """A directory of one address."""

    def __init__(self, address: Address, credentials: Credentials) -> None:
        self._address, self._known = address, credentials

    def list_masters(self) -> list[Callable[[], Address]]:
        return [lambda: self._address]

    def credentials(self) -> Credentials:
        return self._known


async def measure(count: int, is_warm: bool, folder: Path, is_clear: bool) -> tuple[float, float]:
    """Seconds until all have said hello to the master that leads, and CPU seconds of both sides."""
    loop = asyncio.get_running_loop()
    settings, _, _ = live_settings(MasterOptions(folder=str(folder)))
    master = CentralMaster(settings, 1)
    doorkeeper = Doorkeeper(TOKEN, lambda _: None, lambda *_: None)
    peers = Peers(master, UsageMeter(), time.time, doorkeeper, lambda _: None)
    server_tls = None if is_clear else server_context(folder / "m")
    client_tls = None if is_clear else client_context(folder / "n")
    server, address = await listen(loop, peers.make_protocol, "127.0.0.1", [0], server_tls)
    joined: list[HelloAnswer] = []
    hello = Hello("", "agent", waits=True)

    def join(_: object, answer: HelloAnswer) -> None:
        joined.append(answer)

    def ignore(*_: object) -> None:
        """Nothing is said, and who is lost dials again."""

    directory = OneMaster(address, Credentials(TOKEN, client_tls=client_tls))
    links = [Links(directory, hello, ignore, join, ignore, ignore) for _ in range(count)]
    tasks = [asyncio.create_task(each.keep()) for each in links] if is_warm else []
    while is_warm and sum(each.count_waiting() for each in links) < count:
        await asyncio.sleep(0.05)
    began, cpu = time.perf_counter(), time.process_time()
    peers.lead(1)
    tasks = tasks or [asyncio.create_task(each.keep()) for each in links]
    while len(joined) < count:
        await asyncio.sleep(0.001)
    taken = time.perf_counter() - began, time.process_time() - cpu
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    server.close()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--clear", action="store_true", help="without certificates")
    options = parser.parse_args()
    logging.disable()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with tempfile.TemporaryDirectory() as folder:
        authority = TestAuthority(Path(folder))
        authority.issue("m", "master")
        authority.issue("n", "agent")
        for is_warm in (False, True):
            times = [
                asyncio.run(measure(options.connections, is_warm, Path(folder), options.clear))
                for _ in range(options.times)
            ]
            wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
            name = "warm" if is_warm else "cold"
            print(
                f"{name}: {options.connections:,} hellos in {wall:.2f} s, {cpu:.2f} CPU s of both "
                f"sides (median of {options.times})"
            )


if __name__ == "__main__":
    main()
