"""A cluster in virtual time of the processes that ship: `MasterProcess` on its SQLite store,
`AgentProcess` with its executor, journal and watchdog, frames on connections, and clients that wait
for answers. What really ran, and who was told what, is written down for the checks."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.runtime.virtual.hosts import VirtualHost, VirtualTask
from tests.runtime.virtual.network import VirtualNetwork
from tests.runtime.virtual.world import World, start_loop

from murmuration.runtime.folder import STORE
from murmuration.runtime.master.process import MasterProcess
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.node.executor import Executor
from murmuration.runtime.node.process import AgentProcess, Hosted
from murmuration.runtime.options import AgentOptions, MasterOptions
from murmuration.runtime.store.sqlite import SqliteStore, open_store
from murmuration.schedulers.agent import Message
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.messages import Drain, KillJob, SubmitJob
from murmuration.workload.job_spec import JobSpec

CPU, GB = 1_000_000, 10**9
MASTER_HOST = "master-host"
#: A supervisor starts again what has ended, after so long at most.
RESTART_S = 1.0


@dataclass(frozen=True)
class Span:
    """One run that really ran, from when to when; the code if it ended by itself or by a signal it
    was told of."""

    run: str
    node: str
    boot: int
    start_s: float
    end_s: float
    code: int | None

    @property
    def task(self) -> str:
        return self.run.rpartition(".")[0]


@dataclass
class Witnessed:
    """What really happened."""

    spans: list[Span] = field(default_factory=list)
    #: The names of all runs: none is used twice.
    runs: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    #: Jobs whose submission was answered for; and kills, with the last run each task had by then.
    submitted: set[str] = field(default_factory=set)
    killed: dict[str, int] = field(default_factory=dict)
    #: When each thing went wrong: from, to, which host.
    faults: list[tuple[float, float, str]] = field(default_factory=list)


class VirtualCluster:
    """One master and some nodes."""

    def __init__(self, folder: Path, seed: int, nodes: int, **options: Any) -> None:
        self.world, self.folder, self.options = World(seed), folder, options
        self.network = VirtualNetwork(self.world)
        self.seen = Witnessed()
        FolderDirectory(folder).create()
        names = [f"n{k}" for k in range(nodes)]
        self.hosts = {n: VirtualHost(self.world, self.network, n, self) for n in names}
        self.master_host = VirtualHost(self.world, self.network, MASTER_HOST, self)
        self.agents: dict[str, AgentProcess] = {}
        self.gone: set[str] = set()
        #: What the clock of each master showed beyond the world's time, by its epoch.
        self.offsets_s: list[float] = []
        self._lock, self._store = -1, None  # type: int, SqliteStore | None
        self.process: MasterProcess | None = None
        self.running: dict[str, VirtualTask] = {}
        self._watch_log()
        self.start_master()
        for name in names:
            self.start_agent(name)

    def _watch_log(self) -> None:
        """What a driver cannot handle it logs; here that is an error."""
        world = self.world

        class Errors(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                said = record.exc_info[1] if record.exc_info else ""
                world.errors.append(f"{record.getMessage()} {said!r}")

        self._handler = Errors(logging.ERROR)
        logging.getLogger("murmuration").addHandler(self._handler)

    def close(self) -> None:
        logging.getLogger("murmuration").removeHandler(self._handler)
        self.kill_master()
        for name in self.hosts:
            self.kill_agent(name)
            self.hosts[name].reboot()

    # The master.

    @property
    def master(self) -> CentralMaster | None:
        return None if self.process is None else self.process._master

    def start_master(self) -> None:
        if self.process is not None:
            return
        host = self.master_host
        directory = FolderDirectory(self.folder)
        base, offset_s = host.wall() - host.monotonic(), host.offset_s
        loop = host.agent = start_loop(self.world, MASTER_HOST, self.network)
        options = MasterOptions(folder=str(self.folder), isolation="process", **self.options)
        process = MasterProcess(options, directory, lambda: base + host.monotonic())

        def opened() -> SqliteStore:
            self._lock = directory._lock
            self.offsets_s.append(offset_s)
            self._store = open_store(self.folder)
            return self._store

        self.process = process
        task = loop.inside(loop.create_task, process.run(opened))
        task.add_done_callback(lambda done: self._master_ended(process, done))

    def _master_ended(self, process: MasterProcess, done: asyncio.Task[None]) -> None:
        if self.process is process:
            if not done.cancelled() and done.exception() is not None:
                self.world.errors.append(f"the master ended: {done.exception()!r}")
            self._store = None  # it closed it itself
            self.kill_master()
            self._restart(self.start_master)

    def kill_master(self) -> None:
        if self.process is None:
            return
        assert self.master_host.agent is not None
        self.master_host.agent.kill()
        self.process = None
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _restart(self, start: Callable[..., None], *arguments: Any) -> None:
        self.world.after(RESTART_S * self.world.rng.uniform(0.2, 1.0), start, *arguments)

    # Node agents.

    def start_agent(self, name: str) -> None:
        if name in self.agents or name in self.gone:
            return
        host = self.hosts[name]
        loop = host.agent = start_loop(self.world, name, self.network)
        options = AgentOptions(
            folder=str(self.folder), name=name, resources={"cpu": 2 * CPU, "memory": 8 * GB}
        )
        process = loop.inside(AgentProcess, options, host)
        self.agents[name] = process
        task = loop.inside(loop.create_task, process.run())
        task.add_done_callback(lambda done: self._agent_ended(name, process, done))

    def _agent_ended(self, name: str, process: AgentProcess, done: asyncio.Task[None]) -> None:
        if self.agents.get(name) is process:
            if not done.cancelled() and done.exception() is not None:
                self.world.errors.append(f"{name} ended: {done.exception()!r}")
            self.kill_agent(name)
            self._restart(self.start_agent, name)

    def hosted(self, name: str) -> Hosted:
        (hosted,) = self.agents[name]._hosted.values()
        return hosted

    def kill_agent(self, name: str) -> None:
        """SIGKILL. What the process had open, its kernel closes."""
        if name not in self.agents:
            return
        hosted, loop = self.hosted(name), self.hosts[name].agent
        del self.agents[name]
        assert loop is not None and hosted._lease is not None
        loop.kill()
        self.hosts[name].dies_at = None
        executor = hosted.executor
        assert isinstance(executor, Executor)
        hosted._lease.close()
        for descriptor in (hosted._lock, executor._journal._file):
            os.close(descriptor)
        self.hosts[name].agent = None

    def terminate(self, name: str) -> None:
        """SIGTERM to a node agent, or to the master."""
        loop = (self.hosts.get(name) or self.master_host).agent
        if loop is not None:
            loop.signal(signal.SIGTERM)

    def reboot(self, name: str, seconds: float) -> None:
        """A host goes down with everything on it, for a while or for good."""
        host = self.hosts[name]
        if host.agent is not None:
            self.network.power_off(host.agent, seconds)
        self.kill_agent(name)
        host.reboot()
        if seconds < float("inf"):
            self.world.after(seconds, self.start_agent, name)
        else:
            self.gone.add(name)

    # Clients.

    def ask(self, message: Message, answered: Callable[[], None]) -> None:
        """What the API does: the answer comes when what was asked for is on disk."""
        loop = self.master_host.agent
        if self.process is None or loop is None or not hasattr(self.process, "driver"):
            return
        task = loop.inside(loop.create_task, self.process.driver.ask(message))
        task.add_done_callback(lambda done: None if done.exception() else answered())

    def submit_surely(self, spec: JobSpec) -> None:
        """A client that asks again until its job is taken."""

        def answered() -> None:
            self.seen.submitted.add(spec.name)
            if not self.stored("SELECT 1 FROM jobs WHERE name = ?", spec.name):
                self.seen.broken.append(f"{spec.name} was answered for and is not on disk")

        if self.master is not None and spec.name not in self.master.jobs.jobs:
            if spec.name in self.seen.submitted:
                self.seen.broken.append(f"{spec.name} was answered for and is forgotten")
            self.ask(SubmitJob(spec), answered)
        self.world.after(1.0, self.submit_surely, spec)

    def submit_again(self, spec: JobSpec) -> None:
        """The name of a job that has ended may be used again."""
        job = self.master.jobs.jobs.get(spec.name) if self.master is not None else None
        if job is not None and job.status:
            self.seen.killed = {
                task: run
                for task, run in self.seen.killed.items()
                if task.rpartition(".")[0] != spec.name
            }
            self.ask(SubmitJob(spec), lambda: None)

    def kill(self, job: str, index: int | None) -> None:
        """A client that kills a job or a task; if it is answered, no task may start anew."""
        master = self.master
        record = master.jobs.jobs.get(job) if master is not None else None
        if record is None or record.status:
            return
        tasks = record.tasks if index is None else [record.tasks[index]]

        def answered() -> None:
            if index is None or record.spec.kind != "service":
                for task in tasks:
                    self.seen.killed.setdefault(f"{job}.{task.index}", task.run)

        self.ask(KillJob(job, index), answered)

    def drain(self, node: str, on: bool, now: bool = False) -> None:
        self.ask(Drain(node, on, now), lambda: None)

    def stored(self, query: str, *values: Any) -> list[Any]:
        """What is on the master's disk at this moment, as another process sees it."""
        uri = f"file:{self.folder / STORE}?mode=ro"
        reader = sqlite3.connect(uri, uri=True)
        try:
            return reader.execute(query, values).fetchall()
        finally:
            reader.close()

    # What really runs.

    def began(self, node: str, task: VirtualTask) -> None:
        name, _, number = task.run.rpartition(".")
        job, _, index = name.rpartition(".")
        if task.run in self.seen.runs:
            self.seen.broken.append(f"{task.run} began a second time, on {node}")
        self.seen.runs.add(task.run)
        other = self.running.get(name)
        if other is not None:
            self.seen.broken.append(f"{other.run} ran still when {task.run} began on {node}")
        self.running[name] = task
        query = "SELECT run FROM tasks WHERE job = ? AND idx = ?"
        stored = self.stored(query, job, int(index))
        if not stored or stored[0][0] < int(number):
            self.seen.broken.append(f"{task.run} began and its placement is not on disk")
        if int(number) > self.seen.killed.get(name, int(number)):
            self.seen.broken.append(f"{name} was killed, and {task.run} began after that")

    def ended(self, node: str, task: VirtualTask, code: int | None) -> None:
        name = task.run.rpartition(".")[0]
        if self.running.get(name) is task:
            del self.running[name]
        boots = self.hosts[node].boots
        self.seen.spans.append(Span(task.run, node, boots, task.began_s, self.world.now, code))
