"""Many clients of one API: how long reads take, and whether any fails.

    python benchmarks/api.py [--clients 200] [--per-second 5] [--seconds 60] [--plot docs/api.svg]

A cluster of its own with emulated nodes and running tasks; each client has a connection of its own
and reads in turn the status, the nodes, the jobs and one job. The peer is the standard library's
`ThreadingHTTPServer` with one fixed answer, under the same clients in the same run. Latency is wall
time, and suffers from whatever else the machine does; the CPU time of the server does not.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from murmuration.experiments.figures.convert import save_figure
from murmuration.reports.figures import Chart, Series
from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import ApiClient
from murmuration.runtime.folder import MASTER_LOCK
from murmuration.runtime.locks import holder
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.options import AgentOptions, EmulatedNode, MasterOptions

CPU, NODES, TASKS = 1_000_000, 100, 400
GOAL_S = 0.1
PATHS = ("/v1/status", "/v1/nodes", "/v1/jobs", "/v1/jobs/web")
PEER = """
from http.server import *
class Fixed(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "2000"); self.end_headers()
        self.wfile.write(b"x" * 2000)
    def log_message(self, *words): pass
class Server(ThreadingHTTPServer):
    request_queue_size = 512
server = Server(("127.0.0.1", 0), Fixed)
print(server.server_port, flush=True)
server.serve_forever()
"""


async def read_answer(reader: asyncio.StreamReader) -> int:
    """Read one answer; its status."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    sizes = [int(line.split(":")[1]) for line in head if line.startswith("content-length")]
    await reader.readexactly(sizes[0])
    return int(head[0].split()[1])


async def run_client(
    port: int, head: str, first: int, per_s: float, until_s: float
) -> tuple[list[float], int]:
    """Latencies, and how many answers were no answers."""
    await asyncio.sleep(first / 200.0 / per_s)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times: list[float] = []
    errors, k, due = 0, first, time.monotonic()
    while due < until_s:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        began = time.monotonic()
        writer.write(f"GET {PATHS[k % len(PATHS)]} HTTP/1.1\r\n{head}\r\n\r\n".encode())
        errors += await read_answer(reader) != 200
        times.append(time.monotonic() - began)
        k, due = k + 1, due + 1.0 / per_s
    writer.close()
    return times, errors


async def run_clients(
    port: int, head: str, clients: int, per_s: float, seconds: float
) -> tuple[list[float], int]:
    until_s = time.monotonic() + seconds
    runs = [run_client(port, head, k, per_s, until_s) for k in range(clients)]
    results = await asyncio.gather(*runs)
    return sorted(t for times, _ in results for t in times), sum(errors for _, errors in results)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def share(times: list[float], part: float) -> float:
    return times[min(len(times) - 1, int(part * len(times)))]


def measure(name: str, pid: int, port: int, head: str, options: argparse.Namespace) -> list[float]:
    before = cpu_seconds(pid)
    times, errors = asyncio.run(
        run_clients(port, head, options.clients, options.per_second, options.seconds)
    )
    used = cpu_seconds(pid) - before
    print(
        f"{name}: {len(times):,} reads, {errors} errors; median {share(times, 0.5) * 1000:.1f} ms, "
        f"p99 {share(times, 0.99) * 1000:.1f} ms (goal {GOAL_S * 1000:.0f} ms); "
        f"{1000 * used / len(times):.2f} CPU ms each",
        flush=True,
    )
    return times


def draw(ours: list[float], peer: list[float], path: Path, clients: int) -> None:
    parts = [k / 1000 for k in range(1000)]
    series = [
        Series(name, [100 * part for part in parts], [1000 * share(times, part) for part in parts])
        for name, times in (("murmuration", ours), ("http.server", peer))
    ]
    chart = Chart(
        f"{clients} clients of the API",
        "percent of reads",
        "milliseconds at most",
        tuple(series),
        y_log=True,
        lines=(("goal for 99 %", 1000 * GOAL_S),),
    )
    save_figure(chart, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--per-second", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    nodes = [EmulatedNode(f"n{k}", {"cpu": 4 * CPU, "memory": 2**33}) for k in range(NODES)]
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "cluster"
        agent = AgentOptions(
            folder=str(folder), name="n", resources={}, isolation="process", emulated=nodes
        )
        master = MasterOptions(folder=str(folder), isolation="process")
        supervisor.start_detached(supervisor.Parts(master, [agent]))
        try:
            body = {"name": "web", "command": ["x"], "kind": "service", "count": TASKS}
            ApiClient(folder).post("jobs", body=body | {"resources": {"cpu": 1}}, duration_s=1e6)
            directory, pid = FolderDirectory(folder), holder(folder / MASTER_LOCK)
            assert pid is not None
            token = directory.credentials().token
            head = f"Host: localhost\r\nAuthorization: Bearer {token}"
            print(f"load {os.getloadavg()[0]:.1f}; {NODES} nodes, {TASKS} tasks")
            ours = measure("API", pid, directory.leader().api.port, head, options)
        finally:
            supervisor.bring_down(folder, keep=False)
    peer = subprocess.Popen([sys.executable, "-c", PEER], stdout=subprocess.PIPE, text=True)
    try:
        assert peer.stdout is not None
        port = int(peer.stdout.readline())
        theirs = measure("http.server", peer.pid, port, "Host: localhost", options)
    finally:
        peer.kill()
        peer.wait()
    print(f"median by that of http.server: {share(ours, 0.5) / share(theirs, 0.5):.1f}")
    if options.plot is not None:
        draw(ours, theirs, options.plot, options.clients)


if __name__ == "__main__":
    main()
