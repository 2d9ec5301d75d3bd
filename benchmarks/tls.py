"""What an encrypted connection costs its server: memory, and CPU time to accept it.

    python benchmarks/tls.py [--connections 500]

The peer is asyncio's own TLS server with the same certificates (`create_server(ssl=…)`, buffers and
tickets as they are by default). Each server is a process of its own; the clients are in this one.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from murmuration.runtime.net.addresses import Address
from murmuration.runtime.net.authority import (
    CertificateOrder,
    create_authority,
    issue_certificate,
)
from murmuration.runtime.net.certificates import client_context, server_context
from murmuration.runtime.net.sockets import dial, listen
from murmuration.runtime.net.transport import Connection

KINDS = ("clear text", "asyncio", "murmur")
HOST, TIMEOUT_S = "127.0.0.1", 60.0


def resident_kib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1024


async def serve(kind: str, folder: Path) -> None:
    """Listen until standard input ends; for each line on it, print memory and CPU time so far."""
    loop, kept = asyncio.get_running_loop(), []

    def make_protocol() -> Connection:
        kept.append(Connection(lambda *_: None, lambda _: None))
        return kept[-1]

    if kind == "asyncio":
        context = server_context(folder)
        context.num_tickets = 2
        server = await loop.create_server(make_protocol, HOST, 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
    else:
        tls = None if kind == "clear text" else server_context(folder)
        port = (await listen(loop, make_protocol, HOST, [0], tls))[1].port
    print(port, flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(resident_kib(), time.process_time(), flush=True)


def measure(kind: str, folder: Path, count: int) -> tuple[float, float]:
    """KiB and CPU milliseconds that one connection takes."""
    command = [sys.executable, __file__, "--serve", kind, "--folder", str(folder / "server")]
    tls = None if kind == "clear text" else client_context(folder / "client")
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        address = Address(HOST, int(server.stdout.readline()))

        def ask() -> tuple[float, float]:
            server.stdin.write("\n")
            server.stdin.flush()
            memory, cpu = server.stdout.readline().split()
            return float(memory), float(cpu)

        lines = [dial(address, TIMEOUT_S, tls) for _ in range(20)]
        before = ask()
        lines += [dial(address, TIMEOUT_S, tls) for _ in range(count)]
        # The last handshake ends on the server a little after it has ended here.
        time.sleep(1.0)
        after = ask()
        for line in lines:
            line.close()
        server.stdin.close()
    return (after[0] - before[0]) / count, 1000 * (after[1] - before[1]) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.serve, given.folder))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        create_authority(folder / "ca")
        for name, role in (("server", "master"), ("client", "agent")):
            reached = (HOST,) if role == "master" else ()
            issue_certificate(folder / "ca", CertificateOrder(name, role, reached), folder / name)
        costs = {kind: measure(kind, folder, given.connections) for kind in KINDS}
    print(
        f"{given.connections} connections   KiB each   CPU ms each   memory ÷ murmur   CPU ÷ murmur"
    )
    for kind, (memory, cpu) in costs.items():
        ratios = memory / costs["murmur"][0], cpu / costs["murmur"][1]
        print(f"{kind:16s} {memory:12.1f} {cpu:13.2f} {ratios[0]:17.2f} {ratios[1]:14.2f}")


if __name__ == "__main__":
    main()
