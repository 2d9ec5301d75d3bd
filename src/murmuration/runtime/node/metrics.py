"""What a node agent tells Prometheus, on loopback: a node agent's certificate is not good for
listening to other hosts, and what is told here is no secret of this one."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from murmuration.base.version import __version__
from murmuration.runtime.folder import write_private
from murmuration.runtime.metrics import (
    CONTENT_TYPE,
    MetricFamily,
    count_by,
    gauge,
    process_families,
    render,
)
from murmuration.runtime.net.addresses import Address
from murmuration.runtime.net.sockets import listen

if TYPE_CHECKING:
    from murmuration.runtime.node.process import Hosted

HOST = "127.0.0.1"
HEAD_MAX = 8192
#: The file in a node's folder that says where its metrics are.
METRICS_FILE = "metrics"


def list_agent_metrics(
    hosted: Sequence[Hosted], folder: Path, is_connected: bool, now: float
) -> list[MetricFamily]:
    """Of all node agents of one process together."""
    agents = [one.agent for one in hosted]
    used = [usage for one in hosted for usage in one.usage.values()]
    phases = Counter(run.phase.name.lower() for agent in agents for run in agent.runs.values())
    left = min((agent.lease_s - now for agent in agents), default=0.0)
    cpu_s, memory = sum(cpu_s for cpu_s, _ in used), sum(memory for _, memory in used)
    free, term = shutil.disk_usage(folder).free, max(agent.term for agent in agents)
    info, states = count_by({__version__: 1}), count_by(phases)
    return [
        MetricFamily("murmur_agent_info", "gauge", "What this agent is", ("version",), info),
        gauge("murmur_agent_nodes", "Nodes it speaks for", len(agents)),
        gauge("murmur_agent_connected", "1 if it has a connection to a master", is_connected),
        gauge("murmur_agent_term", "The term of the last master", term),
        gauge("murmur_agent_lease_seconds", "Until tasks end without a master", left),
        MetricFamily("murmur_agent_runs", "gauge", "Runs it has", ("phase",), states),
        gauge("murmur_agent_runs_cpu_seconds", "CPU time of what runs", cpu_s),
        gauge("murmur_agent_runs_memory_bytes", "Memory of what runs", memory),
        gauge("murmur_agent_disk_free_bytes", "Free where tasks have their folders", free),
        *process_families(),
    ]


class MetricsProtocol(asyncio.Protocol):
    """One request, one answer."""

    def __init__(self, tell: Callable[[], str]) -> None:
        self._tell, self._head = tell, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(10.0, transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._head += data
        if b"\r\n\r\n" not in self._head and len(self._head) <= HEAD_MAX:
            return
        is_asked = self._head.startswith((b"GET /metrics ", b"GET /metrics?"))
        body = self._tell() if is_asked else "expected GET /metrics\n"
        status = "200 OK" if is_asked else "404 Not Found"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nConnection: close\r\n"
        text = body.encode()
        self._transport.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(text) + text)
        self._transport.close()


async def serve_metrics(
    port: int, folder: Path, families: Callable[[], list[MetricFamily]]
) -> asyncio.Server:
    """Listen on loopback; where is in a file of the node's folder."""
    server, at = await listen(
        asyncio.get_running_loop(),
        lambda: MetricsProtocol(lambda: render(families())),
        HOST,
        [port],
    )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(folder / METRICS_FILE, f"{Address(HOST, at.port).url}/metrics\n")
    return server
