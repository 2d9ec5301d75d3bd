"""Every request and every node of an auto-scaling run, written as the run goes on, in pieces of
bounded size.

The rows come from the logs of a world (`autoscale/recording.py`), with numbers for names. Here they
get the names back and go to whoever writes them (`Write`). What has not ended at the horizon is
added last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from murmuration.base.arrays import Table
from murmuration.simulation.autoscale import world as w
from murmuration.simulation.results.parts import Write

REQUESTS, NODES = "requests.parquet", "nodes.parquet"
FILES = (REQUESTS, NODES)
#: Rows of the logs beyond what one event may write.
ROOM = 1 << 17


def make_logs(requests: int, slots: int) -> tuple[w.Array, w.Array]:
    """Logs for a world with room for so many requests and nodes."""
    return np.zeros(requests + ROOM, w.REQUEST_ROW), np.zeros(slots + ROOM, w.NODE_ROW)


class AutoscaleLog:
    """Gives the rows of a world's logs their names and passes them on."""

    def __init__(self, type_names: Sequence[str], write: Write) -> None:
        self.types, self.write = np.array(type_names, dtype=np.str_), write

    def drain(self, world: w.AutoscaleWorld) -> None:
        """Pass on what was logged since the last time."""
        requests, nodes = (int(world.state[f"{name}_logged"][0]) for name in ("requests", "nodes"))
        assert requests <= len(world.request_log) and nodes <= len(world.node_log), (
            "the logs hold all that one event may write"
        )
        if requests:
            self.write(REQUESTS, request_table(world.request_log[:requests]))
        if nodes:
            self.write(NODES, self.node_table(world.node_log[:nodes]))
        world.state["requests_logged"] = world.state["nodes_logged"] = 0

    def close(self, world: w.AutoscaleWorld) -> None:
        """Pass on the rest, with what has not ended."""
        self.drain(world)
        self.write(REQUESTS, request_table(requests_in_flight(world)))
        self.write(NODES, self.node_table(nodes_there(world)))

    def node_table(self, rows: w.Array) -> Table:
        return {
            "node": rows["number"].copy(),
            "type": self.types[rows["kind"]],
            "ordered_s": rows["ordered"].copy(),
            "up_s": rows["up"].copy(),
            "left_s": rows["left"].copy(),
            "gone_s": rows["gone"].copy(),
            "why": np.array(w.NODE_ENDS, dtype=np.str_)[rows["why"]],
            "orders": rows["orders"].copy(),
        }


def request_table(rows: w.Array) -> Table:
    return {
        "request": rows["number"].copy(),
        "node": rows["node"].copy(),
        "issued_s": rows["issued"].copy(),
        "takes_s": rows["takes"].copy(),
        "start_s": rows["started"].copy(),
        "end_s": rows["ended"].copy(),
        "hops": rows["hops"].astype(np.int64),
        "why": np.array(w.REQUEST_ENDS, dtype=np.str_)[rows["why"]],
    }


def requests_in_flight(world: w.AutoscaleWorld) -> w.Array:
    """The requests that run or wait at the horizon. What a crashed node ran is lost since then."""
    running = world.ends["request"][: world.state["ends"][0]]
    waiting = [
        request
        for slot in np.flatnonzero(world.nodes["queued"]).tolist()
        for request in _queue(world, slot)
    ]
    requests = world.requests[np.concatenate([running, np.array(waiting, dtype=np.int64)])]
    node = world.nodes[requests["node"]]
    rows = np.zeros(len(requests), w.REQUEST_ROW)
    for name in ("number", "issued", "takes", "started", "hops"):
        rows[name] = requests[name]
    crashed = node["status"] == w.CRASHED
    rows["node"], rows["ended"] = node["number"], np.where(crashed, node["left_at"], np.nan)
    rows["why"] = np.where(crashed, w.LOST, w.IN_FLIGHT)
    return rows


def _queue(world: w.AutoscaleWorld, slot: int) -> list[int]:
    """The requests that wait at a node, the oldest first."""
    requests, request = list[int](), int(world.nodes["head"][slot])
    for _ in range(int(world.nodes["queued"][slot])):
        requests.append(request)
        request = int(world.requests["next"][request])
    return requests


def nodes_there(world: w.AutoscaleWorld) -> w.Array:
    """The nodes that are paid for at the horizon."""
    ends = {w.STARTING: w.STILL_STARTING, w.UP: w.STILL_UP, w.LEAVING: w.STILL_LEAVING}
    nodes = world.nodes[: world.state["slots"][0]]
    nodes = nodes[np.isin(nodes["status"], list(ends))]
    rows = np.zeros(len(nodes), w.NODE_ROW)
    rows["number"], rows["kind"], rows["orders"] = nodes["number"], nodes["kind"], 1
    rows["ordered"], rows["up"], rows["left"] = (
        nodes[f"{name}_at"] for name in ("ordered", "up", "left")
    )
    rows["gone"] = np.nan
    rows["why"] = [ends[status] for status in nodes["status"].tolist()]
    return rows
