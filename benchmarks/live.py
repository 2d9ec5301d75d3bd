"""A live cluster on this host: 1,000 tasks of `true` beside Dask and Ray, idle cost, and listings
of 10,000 tasks.

    python benchmarks/live.py [--tasks 1000] [--without-peers]

Each system runs the same command so many times as processes of its own: here as tasks of a job over
three node agents, in Dask and Ray as `subprocess.run(["true"])` in local workers. Wall time is from
the first submission to the last recorded end; CPU time is that of the whole tree of processes,
tasks included. The clusters are up before the clock starts. Listings are timed as a user sees them:
the whole command, from start to exit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import ApiClient
from murmuration.runtime.options import AgentOptions, EmulatedNode, MasterOptions

CPU, GB = 1_000_000, 10**9
AGENTS, AT_ONCE = 3, 10
TICKS = os.sysconf("SC_CLK_TCK")
IDLE_S = 10.0
LISTED = 10_000


def cpu_seconds(pids: set[int]) -> float:
    """CPU seconds of these processes and of the children they have waited for."""
    total = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15])) / TICKS
    return total


def descendants(root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    family, waiting = {root}, [root]
    while waiting:
        new = children.get(waiting.pop(), [])
        family.update(new)
        waiting += new
    return family


def parts(folder: str) -> set[int]:
    """The processes of a cluster, by the folder in their command lines."""
    pids = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if os.fsencode(folder) in (entry / "cmdline").read_bytes():
                    pids.add(int(entry.name))
            except OSError:
                continue
    return pids


def measured(who: Callable[[], set[int]], work: Callable[[], None]) -> tuple[float, float]:
    before, began = cpu_seconds(who()), time.perf_counter()
    work()
    wall = time.perf_counter() - began
    return wall, cpu_seconds(who()) - before


def ours(tasks: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="murmur-bench-") as folder:
        agents = [
            AgentOptions(
                folder=folder,
                name=f"n{k}",
                resources={"cpu": CPU, "memory": GB},
                isolation="process",
            )
            for k in range(AGENTS)
        ]
        supervisor.start_detached(supervisor.Parts(MasterOptions(folder=folder), agents))
        try:
            client = ApiClient(Path(folder))

            def work() -> None:
                request = {"cpu": 1 / AT_ONCE, "memory": "16Mi"}
                body = {"name": "bench", "command": ["true"], "count": tasks, "resources": request}
                client.post("jobs", body=body)
                while not (job := client.get("jobs", "bench", wait_s=20))["ended"]:
                    pass
                assert job["code"] == 0

            result = measured(lambda: parts(folder), work)
            idle(folder)
            return result
        finally:
            supervisor.bring_down(Path(folder), keep=True)


def idle(folder: str) -> None:
    """What a node agent costs when nothing happens."""
    agents = {
        pid for pid in parts(folder) if b"runtime.node" in Path(f"/proc/{pid}/cmdline").read_bytes()
    }
    agents = {pid for pid in agents if not agents & {parent_of(pid)}}
    before = cpu_seconds(agents)
    time.sleep(IDLE_S)
    share = (cpu_seconds(agents) - before) / IDLE_S / len(agents)
    sizes = [memory(pid, "VmRSS") for pid in agents]
    watchdogs = max(memory(pid, "VmRSS") for pid in descendants_of(agents))
    print(
        f"idle node agent: {max(sizes) / 1e6:.1f} MB resident, {share:.2%} of a core over "
        f"{IDLE_S:.0f} s;"
        f" its watchdog {watchdogs / 1e6:.1f} MB, mostly shared"
    )


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def descendants_of(pids: set[int]) -> set[int]:
    return {child for pid in pids for child in descendants(pid)} - pids


def memory(pid: int, what: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def true() -> int:
    return subprocess.run(["true"], check=True).returncode


def dask(tasks: int) -> tuple[float, float]:
    from distributed import Client as DaskClient
    from distributed import LocalCluster

    with (
        LocalCluster(
            n_workers=AGENTS, threads_per_worker=AT_ONCE, dashboard_address=None, memory_limit=None
        ) as cluster,
        DaskClient(cluster) as client,
    ):
        client.submit(true, pure=False).result()
        return measured(
            lambda: descendants(os.getpid()),
            lambda: (
                [f.result() for f in [client.submit(true, pure=False) for _ in range(tasks)]]
                and None
            ),
        )


def ray(tasks: int) -> tuple[float, float]:
    import ray as rayed

    rayed.init(
        num_cpus=AGENTS, include_dashboard=False, configure_logging=False, log_to_driver=False
    )
    try:
        remote = rayed.remote(num_cpus=1 / AT_ONCE)(true)
        rayed.get(remote.remote())
        everyone = lambda: descendants(os.getpid())  # noqa: E731
        return measured(
            everyone, lambda: rayed.get([remote.remote() for _ in range(tasks)]) and None
        )
    finally:
        rayed.shutdown()


def compare(tasks: int, peers: bool) -> None:
    systems: dict[str, Callable[[int], tuple[float, float]]] = {"murmur": ours}
    systems |= {"Dask": dask, "Ray": ray} if peers else {}
    rows: dict[str, tuple[float, float]] = {}
    for name, run in systems.items():
        try:
            rows[name] = run(tasks)
        except ImportError as error:
            print(f"{name}: not installed ({error})")
    print(f"{tasks:,} × true{'':<12}wall s   CPU s   wall ÷ murmur   CPU ÷ murmur")
    for name, (wall, cpu) in rows.items():
        base = rows["murmur"]
        print(f"{name:<24}{wall:>7.2f}{cpu:>8.2f}{wall / base[0]:>16.2f}{cpu / base[1]:>15.2f}")


def listings() -> None:
    """`murmur ps` and `why` with 10,000 tasks, half of them running on emulated nodes."""
    with tempfile.TemporaryDirectory(prefix="murmur-bench-") as folder:
        nodes = [EmulatedNode(f"n{k}", {"cpu": 50 * CPU, "memory": 50 * GB}) for k in range(100)]
        agent = AgentOptions(folder=folder, name="emulated", resources={}, emulated=nodes)
        supervisor.start_detached(supervisor.Parts(MasterOptions(folder=folder), [agent]))
        try:
            client = ApiClient(Path(folder))
            body = {
                "name": "big",
                "command": ["x"],
                "count": LISTED,
                "resources": {"cpu": 1},
                "kind": "service",
            }
            client.post("jobs", body=body, duration_s=100_000)
            while client.get("status")["tasks"].get("running", 0) < LISTED // 2:
                time.sleep(0.1)
            for arguments in (["ps"], ["ps", "big"], ["why", "big"], ["status"]):
                walls, cpus = zip(
                    *(timed([*arguments, "--dir", folder]) for _ in range(7)), strict=True
                )
                wall, cpu = statistics.median(walls), statistics.median(cpus)
                print(
                    f"murmur {' '.join(arguments):<10} {wall:.3f} s (best {min(walls):.3f}), "
                    f"{cpu:.3f} CPU s of it here"
                )
        finally:
            supervisor.bring_down(Path(folder), keep=True)


def timed(arguments: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of one command."""
    command = [sys.executable, "-c", "from murmuration.cli import main; main()", *arguments]
    began, before = time.perf_counter(), os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    cpu = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    return time.perf_counter() - began, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--without-peers", action="store_true")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    compare(options.tasks, not options.without_peers)
    listings()


if __name__ == "__main__":
    main()
