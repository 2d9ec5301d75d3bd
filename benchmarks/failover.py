"""Fail-over with many node agents: how long after `kill -9` of the leader the API answers again,
and how long until every node agent is connected to the next one.

    python benchmarks/failover.py [--nodes 1000] [--times 10] [--processes 10] [--plot F.svg]

The peer is the paper's own figure (Mesos: 4 to 8 s to reconnect). Two masters on one etcd; the node
agents are emulated, with real messages over a connection for each process. Tasks of a service run
meanwhile: none may be lost or run again.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.runtime.clusters import CPU, until
from tests.runtime.masters import ManyMasters, many_masters

from murmuration.experiments.figures.convert import save_figure
from murmuration.reports.figures import Chart, Series
from murmuration.runtime.client.requests import ApiClient
from murmuration.runtime.options import EmulatedNode

PAPER_S = (4.0, 8.0)
#: Until the first answer, and until all are connected.
GOALS_S = (3.0, 4.0)


def emulated(processes: int, nodes: int) -> list[list[EmulatedNode]]:
    """The nodes of each agent process."""
    each = [nodes // processes + (k < nodes % processes) for k in range(processes)]
    return [
        [EmulatedNode(f"n{p}-{k}", {"cpu": 4 * CPU, "memory": 2**33}) for k in range(count)]
        for p, count in enumerate(each)
    ]


def nodes_up(client: ApiClient) -> int:
    return sum(row["state"] == "up" for row in client.get("nodes")["nodes"])


def fail_over(cluster: ManyMasters, nodes: int) -> tuple[float, float]:
    """Seconds until the first answer, and until all are connected."""
    leader = cluster.leader
    cluster.kill(leader)
    began = time.monotonic()
    client = cluster.client
    answered = time.monotonic() - began
    until(lambda: nodes_up(client) == nodes)
    connected = time.monotonic() - began
    cluster.start(leader)
    return answered, connected


def draw(times: list[tuple[float, float]], nodes: int, path: Path) -> None:
    answered, connected = zip(*times, strict=True)
    ks = list(range(1, len(times) + 1))
    chart = Chart(
        f"kill -9 of the leader, {nodes:,} node agents",
        "fail-over",
        "seconds",
        (
            Series("first answer", ks, list(answered), markers=True),
            Series("all connected", ks, list(connected), markers=True),
        ),
        lines=(
            ("goal, first answer", GOALS_S[0]),
            ("goal, all connected", GOALS_S[1]),
            ("the paper, at most", PAPER_S[1]),
        ),
    )
    save_figure(chart, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    nodes = emulated(options.processes, options.nodes)
    with (
        tempfile.TemporaryDirectory() as folder,
        many_masters(
            Path(folder), agents=options.processes, emulated=nodes, leader_timeout_s=2
        ) as cluster,
    ):
        until(lambda: nodes_up(cluster.client) == options.nodes)
        body = {"name": "web", "command": ["x"], "kind": "service", "count": options.nodes}
        # On a busy machine a leader may lose its short lease meanwhile; who asks twice has one job.
        order = body | {"resources": {"cpu": 1}}
        until(lambda: cluster.client.post("jobs", body=order, duration_s=1e6))
        before = {row["task"]: row["run"] for row in cluster.running("web", options.nodes)}
        times = [fail_over(cluster, options.nodes) for _ in range(options.times)]
        after = {row["task"]: row["run"] for row in cluster.running("web", options.nodes)}
    for name, values in zip(
        ("first answer", "all connected"), zip(*times, strict=True), strict=True
    ):
        print(
            f"{name}: median {statistics.median(values):.2f} s, largest {max(values):.2f} s "
            f"({options.times} × kill -9, {options.nodes:,} node agents)"
        )
    print(f"the paper: {PAPER_S[0]:g} to {PAPER_S[1]:g} s until all are connected")
    if options.plot is not None:
        draw(times, options.nodes, options.plot)
    print(f"services that were started again: {sum(before[t] != after[t] for t in before)}")


if __name__ == "__main__":
    main()
