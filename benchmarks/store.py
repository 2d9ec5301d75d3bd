"""How long a master takes to start from a store of many tasks, in SQLite and in etcd.

    python benchmarks/store.py [--tasks 100000] [--jobs 1000]

The store is filled as a master fills it: jobs are submitted, their tasks placed and started. Timed
is what a master does before it can listen: opening, reading, and building its tables. The peer is
the plainest way to read the same bytes: `SELECT *` of the tables, and ranges over all keys. etcd is
one member on this host.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.runtime.etcd import Members

from murmuration.base.resources import Resources
from murmuration.placement.registry import resolve
from murmuration.runtime.master.process import unexamined_memory
from murmuration.runtime.store.etcd import EtcdStore
from murmuration.runtime.store.interface import Entry, Store
from murmuration.runtime.store.sqlite import SqliteStore
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.central.messages import JobSubmitted, TaskPlaced, TaskStarted
from murmuration.workload.job_spec import JobSpec

GOAL_S = 3.0
#: Facts in one batch, as a busy master writes them.
BATCH = 5_000


def make_facts(jobs: int, each: int) -> Iterator[object]:
    for j in range(jobs):
        spec = JobSpec(
            name=f"job-{j}", command=["serve", "--port", "80"], count=each, resources={"cpu": 1}
        )
        yield JobSubmitted(spec.name, j, 0, spec)
        for k in range(each):
            node = f"node-{(j * each + k) % 5_000}"
            yield TaskPlaced(spec.name, k, 1, node)
            yield TaskStarted(spec.name, k, 1, node)


def fill(store: Store, jobs: int, each: int) -> None:
    store.recover(1)
    batch: list[Entry] = []
    for number, fact in enumerate(make_facts(jobs, each), start=store.last_number() + 1):
        batch.append(Entry(number, 1e9, "fact", fact))
        if len(batch) == BATCH:
            store.write(batch)
            batch = []
    store.write(batch)
    store.close()


def measure(work: Callable[[], object]) -> tuple[float, float]:
    """Wall and CPU seconds of this process, and of the children it has waited for."""
    wall, cpu = time.monotonic(), sum(os.times()[:4])
    work()
    return time.monotonic() - wall, sum(os.times()[:4]) - cpu


def start(open_store: Callable[[], Store], tasks: int) -> None:
    """What a master does before it can listen."""
    with unexamined_memory():
        store = open_store()
        master = CentralMaster(CentralSettings(Resources(), resolve("first-fit")), 1)
        master.handle(store.recover(1), 1e9)
    assert len(master.jobs.runs) == tasks
    store.close()


def report(name: str, ours: tuple[float, float], peer: str, theirs: tuple[float, float]) -> None:
    print(
        f"{name}: a master starts after {ours[0]:.2f} s ({ours[1]:.2f} CPU s; goal {GOAL_S:g} s); "
        f"{peer} {theirs[0]:.2f} s ({theirs[1]:.2f} CPU s); ratio {ours[1] / theirs[1]:.1f}"
    )


def run_sqlite(folder: Path, jobs: int, each: int) -> None:
    path = folder / "store.db"
    fill(SqliteStore(path), jobs, each)
    ours = measure(lambda: start(lambda: SqliteStore(path), jobs * each))

    def select() -> None:
        with sqlite3.connect(path) as database:
            for table in ("jobs", "tasks"):
                database.execute(f"SELECT * FROM {table}").fetchall()

    report("SQLite", ours, "SELECT *", measure(select))


def read_all(members: Members) -> None:
    """Every byte of the store, page by page."""
    client, key, end = members.client(), "/murmuration/", "/murmuration0"
    while page := client.scan(key, end, 64):
        key = page[-1].key + "\0"
    client.close()


def run_etcd(folder: Path, jobs: int, each: int) -> None:
    members = Members(folder, 1)
    try:
        members.wait()
        fill(EtcdStore(members.client(), "main"), jobs, each)
        ours = measure(lambda: start(lambda: EtcdStore(members.client(), "main"), jobs * each))
        peer = measure(lambda: read_all(members))
        report("etcd", ours, "ranges over all keys", peer)
        size = sum(file.stat().st_size for file in folder.rglob("db"))
        print(f"etcd: {size / 2**20:.0f} MiB on disk")
    finally:
        members.end()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=1_000)
    options = parser.parse_args()
    each = options.tasks // options.jobs
    print(f"{options.jobs * each:,} tasks in {options.jobs:,} jobs; load {os.getloadavg()[0]:.1f}")
    for run in (run_sqlite, run_etcd):
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder), options.jobs, each)


if __name__ == "__main__":
    main()
