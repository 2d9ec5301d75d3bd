"""Many node agents on one master: how much later than its ten seconds a task ends, when every slot
is taken (the paper's 5.5.6, figure 5.10).

    python benchmarks/scale.py [--nodes 1000 10000 50000] [--frameworks 200] [--interval 0]
        [--plot F.svg] [--keep RESULTS.json] [--table] [--virtual]

A master in a process of its own, with its store in SQLite on the disk, and real connections: node
agents share some, every framework has its own, at most 500 in all. The other end of all of them is
one process (`scale_emulator.py`) whose tasks only take their time: N(30 s, 10 s), two per node. The
probe is a framework of its own with one task of ten seconds: from its first word, its connection
included, to the news of the end.

With `--virtual` there are no sockets, and time is the CPU time of the master (`scale_virtual.py`):
the figures of a master with a core of its own, on a machine that has none to spare.

`--interval` is the master's `--allocation-interval`: offers are made together so often.

`--keep` adds the results to a file; whatever it has of other sizes is drawn and tabled too.
`--table` prints the rows of the table in `docs/performance.md`.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import scale_virtual
from scale_emulator import Load, Outcome

from murmuration.base.errors import InputError
from murmuration.experiments.figures.convert import save_figure
from murmuration.reports.figures import Chart, Series
from murmuration.runtime.net.directory import FolderDirectory, Leader
from murmuration.runtime.options import MasterOptions

PAPER_S, GOAL_S, MEMORY_GB = 1.0, 0.2, 2.0
#: Connections of node agents; with 200 frameworks and the probes they are fewer than 500.
CONNECTIONS = 250
#: A node agent's lease; it is heard twelve times in that.
LEASE_S = 600.0
START_S = 60.0

Results = dict[str, float]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def peak_gb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 2**20
    raise AssertionError("a process has a peak of memory")


class RealMaster(NamedTuple):
    pid: int
    address: str
    token: str


@contextmanager
def real_master(folder: Path, interval_s: float) -> Iterator[RealMaster]:
    """A master of its own, as it ships."""
    directory = FolderDirectory(folder)
    directory.create()
    options = MasterOptions(
        folder=str(folder), agent_timeout_s=LEASE_S, allocation_interval_s=interval_s
    )
    text = msgspec.json.encode(options).decode()
    command = [sys.executable, "-m", "murmuration.runtime.master.process", text]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        frames = await_leader(directory).frames
        token = directory.credentials().token
        yield RealMaster(process.pid, f"{frames.host}:{frames.port}", token)
    finally:
        process.kill()
        process.wait()


def await_leader(directory: FolderDirectory) -> Leader:
    end = time.monotonic() + START_S
    while True:
        try:
            return directory.leader()
        except InputError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def run_load(master: RealMaster, load: Load) -> tuple[Outcome, float, float]:
    """What the emulator saw while all slots were taken, and the CPU seconds of the master and all
    seconds then."""
    emulator = Path(__file__).with_name("scale_emulator.py")
    command = [sys.executable, str(emulator), master.address, master.token]
    command.append(msgspec.json.encode(load).decode())
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "full\n", "the emulator has failed"
        before, began = cpu_seconds(master.pid), time.monotonic()
        outcome = msgspec.json.decode(process.stdout.readline(), type=Outcome)
        return outcome, cpu_seconds(master.pid) - before, time.monotonic() - began
    finally:
        process.kill()
        process.wait()


def measure(nodes: int, frameworks: int, probes: int, seed: int, interval_s: float) -> Results:
    connections = min(CONNECTIONS, nodes)
    load = Load(nodes, connections, frameworks, probes, seed, LEASE_S / 12)
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as base,
        real_master(Path(base) / "cluster", interval_s) as master,
    ):
        outcome, cpu_s, seconds = run_load(master, load)
        memory_gb = peak_gb(master.pid)
    assert not outcome.lost, f"{outcome.lost} tasks were lost"
    return {
        "nodes": nodes,
        "interval_s": interval_s,
        "connections": connections + frameworks,
        "median_s": statistics.median(outcome.delays_s),
        "largest_s": max(outcome.delays_s),
        "tasks_per_s": outcome.launched / outcome.seconds,
        "messages_per_s": (outcome.received + outcome.sent) / outcome.seconds,
        "core": cpu_s / seconds,
        "cpu_ms_per_task": 1000.0 * cpu_s / outcome.launched,
        "emulator_core": outcome.cpu_s / outcome.seconds,
        "memory_gb": memory_gb,
        "load": os.getloadavg()[0],
        "wall_s": time.monotonic() - began,
    }


def tell(r: Results) -> None:
    print(
        f"{r['nodes']:>7,.0f} nodes: extra delay median {r['median_s']:.3f} s, largest "
        f"{r['largest_s']:.3f} s (goal {GOAL_S:g} s, the paper {PAPER_S:g} s, ratio "
        f"{r['median_s'] / PAPER_S:.2f}); {r['tasks_per_s']:,.0f} tasks/s, "
        f"{r['cpu_ms_per_task']:.3f} CPU ms each, {r['core']:.2f} of a core; "
        f"{r['memory_gb']:.2f} GB (goal {MEMORY_GB:g} GB); took {r['wall_s']:.0f} s",
        flush=True,
    )


def keep(results: list[Results], path: Path | None) -> list[Results]:
    """These and what a file has of other sizes, by size; written there."""
    if path is None:
        return results
    older = msgspec.json.decode(path.read_bytes(), type=list[Results]) if path.exists() else []
    by_size = {r["nodes"]: r for r in (*older, *results)}
    merged = [by_size[nodes] for nodes in sorted(by_size)]
    path.write_bytes(msgspec.json.format(msgspec.json.encode(merged), indent=1) + b"\n")
    return merged


def draw(results: list[Results], path: Path) -> None:
    series = []
    for is_virtual, of in ((False, ""), (True, ", a core of its own, no sockets")):
        some = [each for each in results if ("virtual" in each) == is_virtual]
        xs = [each["nodes"] for each in some]
        for name, is_dotted in (("median", False), ("largest", True)):
            ys = [each[f"{name}_s"] for each in some]
            if ys:
                series.append(Series(f"{name}{of}", xs, ys, markers=True, dotted=is_dotted))
    chart = Chart(
        "Extra delay of a task of ten seconds",
        "node agents, every slot taken",
        "seconds",
        tuple(series),
        x_log=True,
        y_log=True,
        lines=(("the paper, at most", PAPER_S), ("goal", GOAL_S)),
    )
    save_figure(chart, path)


def print_table(results: list[Results]) -> None:
    for r in results:
        print(
            f"| {r['nodes']:,.0f} | {r['median_s']:.3f} s | {r['largest_s']:.3f} s "
            f"| {r['tasks_per_s']:,.0f} | {r['cpu_ms_per_task']:.2f} | {r['core']:.2f} "
            f"| {r['memory_gb']:.2f} GB |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="*", default=[1_000, 10_000, 50_000])
    parser.add_argument("--frameworks", type=int, default=200)
    parser.add_argument("--probes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--interval", type=float, default=0.0)
    parser.add_argument("--virtual", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    results: list[Results] = []
    how = "time is the master's CPU time" if options.virtual else "over sockets, in real time"
    print(f"load {os.getloadavg()[0]:.1f}; {how}")
    for nodes in options.nodes:
        run = scale_virtual.measure if options.virtual else measure
        results.append(
            run(nodes, options.frameworks, options.probes, options.seed, options.interval)
        )
        gc.collect()
        tell(results[-1])
    results = keep(results, options.keep)
    if options.table:
        print_table(results)
    if options.plot is not None:
        draw(results, options.plot)


if __name__ == "__main__":
    main()
