"""Pods per second on a real API server: ours beside kube-scheduler 1.20.2, in one run.

    python benchmarks/kubernetes.py [--nodes 1000] [--pods 3000] [--placement least-allocated]
        [--architecture shared-state --schedulers 2]

One control plane (etcd and kube-apiserver as `scripts/kubernetes.sh` builds them), node objects of
4 CPUs and 32 GiB, pods of 100m and 500Mi. For each scheduler all its pods are there before it
starts; both watch, bind and write an event per pod. They take turns (theirs, ours, ours, theirs),
so that a cluster that fills up and a host that is busy burden both alike. The rate is from the
first binding to the last, as a watch sees them; CPU is that of the scheduler's process over the
same time, and of the API server's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from murmuration.kubernetes.api.access import find_access
from murmuration.kubernetes.api.client import NODES, PODS, Kind, KubeClient, Listed
from murmuration.kubernetes.api.follow import Change, Follower

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.kubernetes.control_plane import ControlPlane, Program, programs, real_node, real_pod

THEIRS, OURS = "kube-scheduler", "murmuration"
TURNS = (THEIRS, OURS, OURS, THEIRS)
AT_ONCE = 64


@dataclass(frozen=True)
class Figures:
    """What one turn of one scheduler took."""

    scheduler: str
    pods_per_s: float
    cpu_ms: float
    server_ms: float


class Watch:
    """When pods of one turn were first seen bound."""

    def __init__(self, prefix: str, programs: list[Program]) -> None:
        self.prefix, self.programs = prefix, programs
        self.bound: set[str] = set()
        self.first_s = self.last_s = 0.0
        self.cpu_first: list[float] = []
        self.cpu_last: list[float] = []

    def on_list(self, kind: Kind, listed: Listed) -> None:
        self.look([Change("ADDED", item) for item in listed.items])

    def on_changes(self, kind: Kind, changes: list[Change]) -> None:
        self.look(changes)

    def look(self, changes: list[Change]) -> None:
        before = len(self.bound)
        for change in changes:
            metadata, spec = change.thing["metadata"], change.thing["spec"]
            assert isinstance(metadata, dict) and isinstance(spec, dict)
            if spec.get("nodeName") and str(metadata["name"]).startswith(self.prefix):
                self.bound.add(str(metadata["name"]))
        if len(self.bound) > before:
            self.last_s, self.cpu_last = time.perf_counter(), self.cpu()
            if not before:
                self.first_s, self.cpu_first = self.last_s, self.cpu_last

    def cpu(self) -> list[float]:
        return [program.cpu_s() for program in self.programs]


async def create_all(client: KubeClient, path: str, things: list[dict[str, object]]) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def create(thing: dict[str, object]) -> None:
        async with gate:
            await client.create(path, thing)

    await asyncio.gather(*(create(thing) for thing in things))


def start(plane: ControlPlane, scheduler: str, arguments: argparse.Namespace) -> dict[str, Program]:
    """The processes of a scheduler, by name."""
    if scheduler == THEIRS:
        speed = ("--kube-api-qps=5000", "--kube-api-burst=5000")
        return {THEIRS: plane.start(THEIRS, "--leader-elect=false", *speed)}
    words: list[str | Path] = [sys.executable, "-c", "from murmuration.cli import main; main()"]
    words += ["kube", "schedule", "--kubeconfig", plane.kubeconfig]
    words += ["--placement", arguments.placement, "--architecture", arguments.architecture]
    names = [f"{OURS}-{k}" for k in range(arguments.schedulers)]
    started = {name: Program(plane.folder, [*words, "--identity", name]) for name in names}
    plane.programs |= started
    return started


async def take_turn(
    plane: ControlPlane, number: int, scheduler: str, arguments: argparse.Namespace
) -> Figures:
    """All pods of one turn, from the first binding to the last."""
    name = "default-scheduler" if scheduler == THEIRS else OURS
    async with KubeClient(find_access(plane.kubeconfig), AT_ONCE) as client:
        things = [real_pod(f"t{number}-{k}", scheduler=name) for k in range(arguments.pods)]
        await create_all(client, PODS.path("default"), things)
        started = start(plane, scheduler, arguments)
        watch = Watch(f"t{number}-", [*started.values(), plane.programs["server"]])
        follower = Follower(client, PODS, watch.on_list, watch.on_changes)
        task = asyncio.create_task(follower.run())
        while len(watch.bound) < arguments.pods:
            await asyncio.sleep(0.2)
            for program in started.values():
                assert program.process.poll() is None, program.log.read_text()[-2000:]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    for name, program in started.items():
        program.process.send_signal(signal.SIGTERM)
        program.process.wait()
        plane.programs.pop(name)
    seconds, count = watch.last_s - watch.first_s, arguments.pods
    *cpu, server = (b - a for a, b in zip(watch.cpu_first, watch.cpu_last, strict=True))
    return Figures(scheduler, count / seconds, 1e3 * sum(cpu) / count, 1e3 * server / count)


def run(plane: ControlPlane, arguments: argparse.Namespace) -> list[Figures]:
    async def add_nodes() -> None:
        async with KubeClient(find_access(plane.kubeconfig), AT_ONCE) as client:
            nodes = [real_node(f"node-{k}") for k in range(arguments.nodes)]
            await create_all(client, NODES.path(), nodes)

    asyncio.run(add_nodes())
    figures = []
    for number, scheduler in enumerate(TURNS):
        figures.append(asyncio.run(take_turn(plane, number, scheduler, arguments)))
        one = figures[-1]
        print(
            f"{one.scheduler:15} {one.pods_per_s:7.0f} pods/s  CPU per pod: scheduler "
            f"{one.cpu_ms:5.2f} ms, API server {one.server_ms:5.2f} ms",
            flush=True,
        )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--placement", default="least-allocated")
    parser.add_argument("--architecture", default="monolithic")
    parser.add_argument("--schedulers", type=int, default=1, help="how many of ours share the work")
    arguments = parser.parse_args()
    if not (programs() / "built").exists():
        raise SystemExit("no control plane: scripts/kubernetes.sh builds it")
    load = os.getloadavg()[0]
    print(f"{arguments.nodes} nodes, {arguments.pods} pods a turn, load {load:.1f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(Path(folder))
        try:
            figures = run(plane, arguments)
        finally:
            plane.stop()
    for label, key in (("pods per second", "pods_per_s"), ("CPU per pod", "cpu_ms")):
        ours, theirs = (
            statistics.fmean(getattr(f, key) for f in figures if f.scheduler == name)
            for name in (OURS, THEIRS)
        )
        print(f"{label}: {ours / theirs:.2f} × kube-scheduler's")


if __name__ == "__main__":
    main()
