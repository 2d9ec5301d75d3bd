"""Ten thousand short tasks on one host: throughput must not decay, memory and store must stay
bounded.

    python benchmarks/throughput.py [--tasks 10000] [--rounds 10] [--plot docs/throughput.svg]

Tasks of `true` as processes of their own, in rounds of one job each over three node agents. After
each round: tasks per second, CPU milliseconds per task of all parts, memory of the master, and the
bytes of its store. The named peer is the first round: the last one by it is the decay. `true` from
a plain loop of `subprocess.run` is measured in the same run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from live import cpu_seconds, parts

from murmuration.experiments.figures.convert import save_figure
from murmuration.reports.figures import Chart, Series
from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import ApiClient
from murmuration.runtime.folder import MASTER_LOCK
from murmuration.runtime.locks import holder
from murmuration.runtime.options import AgentOptions, MasterOptions

CPU, AGENTS = 1_000_000, 3
SMALL = {"cpu": 0.1, "memory": "1Mi"}


class Round(NamedTuple):
    per_s: float
    cpu_ms: float
    memory_mb: float
    store_mb: float


def run_round(client: ApiClient, k: int, tasks: int) -> Round:
    pids = parts(str(client.folder))
    before, began = cpu_seconds(pids), time.monotonic()
    body = {"name": f"round-{k}", "command": ["true"], "count": tasks, "resources": SMALL}
    client.post("jobs", body=body)
    while not client.get("jobs", f"round-{k}", wait_s=10)["ended"]:
        pass
    took = time.monotonic() - began
    used = cpu_seconds(pids) - before
    master = holder(client.folder / MASTER_LOCK)
    pages = int(Path(f"/proc/{master}/statm").read_text().split()[1])
    store = sum(file.stat().st_size for file in client.folder.glob("*.db*"))
    memory_mb = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return Round(tasks / took, 1000 * used / tasks, memory_mb, store / 2**20)


def draw(rounds: list[Round], tasks: int, path: Path) -> None:
    xs = [tasks * (k + 1) for k in range(len(rounds))]
    series = (
        Series("CPU ms per task", xs, [each.cpu_ms for each in rounds], markers=True),
        Series("master, MB", xs, [each.memory_mb for each in rounds], markers=True),
        Series("store, MB", xs, [each.store_mb for each in rounds], markers=True),
    )
    title = f"{tasks * len(rounds):,} × true on one host"
    save_figure(Chart(title, "tasks so far", "after each round", series), path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    each, rounds = options.tasks // options.rounds, list[Round]()
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "cluster"
        agents = [
            AgentOptions(
                folder=str(folder),
                name=f"n{k}",
                resources={"cpu": CPU, "memory": 2**30},
                isolation="process",
            )
            for k in range(AGENTS)
        ]
        master = MasterOptions(folder=str(folder), isolation="process")
        supervisor.start_detached(supervisor.Parts(master, agents))
        try:
            for k in range(options.rounds):
                rounds.append(run_round(ApiClient(folder), k, each))
                print(
                    f"{each * (k + 1):>6,} tasks: {rounds[-1].per_s:6.1f} per s, "
                    f"{rounds[-1].cpu_ms:.2f} CPU ms each, master {rounds[-1].memory_mb:.0f} MB, "
                    f"store {rounds[-1].store_mb:.1f} MB; load {os.getloadavg()[0]:.0f}",
                    flush=True,
                )
        finally:
            supervisor.bring_down(folder, keep=False)
    began = sum(os.times()[:4])
    for _ in range(200):
        subprocess.run(["true"], check=True)
    plain = 1000 * (sum(os.times()[:4]) - began) / 200
    first, last = rounds[0], rounds[-1]
    print(f"CPU per task, last round by first: {last.cpu_ms / first.cpu_ms:.2f}")
    print(f"subprocess.run: {plain:.2f} CPU ms each; ratio {last.cpu_ms / plain:.1f}")
    if options.plot is not None:
        draw(rounds, each, options.plot)


if __name__ == "__main__":
    main()
