"""Many services on a real cluster: does any run twice when its agent is frozen, do they settle with
a short lease, and does reading hold up the master? Root is not needed.

    python benchmarks/many.py frozen --count 200 --lease 60
    python benchmarks/many.py burst --count 400 --lease 3
    python benchmarks/many.py reads --count 20000 --lease 10
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from murmuration.base.errors import InputError
from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import ApiClient
from murmuration.runtime.folder import NODES
from murmuration.runtime.locks import holder
from murmuration.runtime.node.watchdog import AGENT_LOCK
from murmuration.runtime.options import AgentOptions, MasterOptions

SMALL = {"cpu": 0.005, "memory": "1Mi"}
READERS = 150
#: Holds a lock of its task for as long as it lives, whatever its end; who does not get it says so.
WITNESS = """exec 9>>"$1/lock.$MURMUR_INDEX"
flock -n 9 || echo "$MURMUR_TASK" >> "$1/twice"
trap '' TERM; while :; do sleep 600; done"""


def make_parts(folder: Path, lease_s: float) -> supervisor.Parts:
    """Two nodes of plain processes."""
    resources = {"cpu": 4_000_000, "memory": 2**33}
    agents = [
        AgentOptions(folder=str(folder), name=name, resources=dict(resources), isolation="process")
        for name in ("n1", "n2")
    ]
    master = MasterOptions(folder=str(folder), agent_timeout_s=lease_s, isolation="process")
    return supervisor.Parts(master, agents)


def submit(client: ApiClient, name: str, count: int, command: list[str], **fields: Any) -> None:
    body = {"name": name, "command": command, "count": count, "resources": SMALL, **fields}
    client.post("jobs", body=body)


def list_running(client: ApiClient, job: str) -> list[Any]:
    rows = client.get("tasks", job=job)["tasks"]
    return [row for row in rows if row["state"] == "running"]


def await_true(holds: Callable[[], bool]) -> float:
    """Seconds until it holds."""
    began = time.monotonic()
    while not holds():
        time.sleep(0.1)
    return time.monotonic() - began


def measure_frozen(client: ApiClient, count: int) -> None:
    """All on one node, whose agent then stands still: its watchdog ends them in time, or not."""
    seen = Path(tempfile.mkdtemp(prefix="many-", dir=client.folder.parent))
    client.post("nodes", "n2", "drain", body={"on": True})
    submit(client, "web", count, ["sh", "-c", WITNESS, "sh", str(seen)], kind="service")
    await_true(lambda: len(list_running(client, "web")) == count)
    client.post("nodes", "n2", "drain", body={"on": False})
    pid = holder(client.folder / NODES / "n1" / AGENT_LOCK)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    moved_s = await_true(
        lambda: sum(row["node"] == "n2" for row in list_running(client, "web")) == count
    )
    twice = (seen / "twice").read_text().split() if (seen / "twice").exists() else []
    print(f"{count} services moved after {moved_s:.1f} s; {len(set(twice))} ran twice at once")


def measure_burst(client: ApiClient, count: int, lease_s: float) -> None:
    submit(client, "web", count, ["sleep", "100000"], kind="service")
    up_s = await_true(lambda: len(list_running(client, "web")) == count)
    time.sleep(3 * lease_s)
    rows = list_running(client, "web")
    again = sum(row["run"] > 1 for row in rows)
    print(f"{count} services up after {up_s:.1f} s, {len(rows)} three leases later", end="; ")
    print(f"{again} had to run again")


def measure_reads(client: ApiClient, count: int) -> None:
    submit(client, "web", 20, ["sleep", "100000"], kind="service")
    await_true(lambda: len(list_running(client, "web")) == 20)
    waiting = {"cpu": 4, "memory": "8Gi"}
    submit(client, "many", count, ["true"], resources=waiting)
    worst_s, began = 0.0, time.monotonic()
    with ThreadPoolExecutor(READERS) as threads:
        reads = [threads.submit(client.get, "tasks") for _ in range(READERS)]
        while not all(read.done() for read in reads):
            asked = time.monotonic()
            client.get("status")
            worst_s = max(worst_s, time.monotonic() - asked)
    took_s = time.monotonic() - began
    kept = sum(row["run"] == 1 for row in list_running(client, "web"))
    print(f"{READERS} reads of {count} tasks in {took_s:.1f} s", end="; ")
    print(f"status took at most {worst_s:.2f} s; {kept} of 20 services went on")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["frozen", "burst", "reads"])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--lease", type=float, default=60.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "cluster"
        supervisor.start_detached(make_parts(folder, given.lease))
        client = ApiClient(folder)
        try:
            if given.what == "frozen":
                measure_frozen(client, given.count)
            elif given.what == "burst":
                measure_burst(client, given.count, given.lease)
            else:
                measure_reads(client, given.count)
            print(f"load {os.getloadavg()[0]:.0f}")
        finally:
            try:
                supervisor.bring_down(folder, keep=False)
            except InputError as error:
                print(error)


if __name__ == "__main__":
    main()
