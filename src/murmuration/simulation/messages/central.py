"""The central protocol on the virtual driver: a master, node agents, and the hosts they run on.

Masters and node agents crash at any moment and come back with what is on their disks; processes
outlive the agents that started them, until a lease ends: then the agent ends them, or the host's
watchdog if there is no agent. Agents keep connections to the master, which break.

Only the hosts are written for the simulation; master and node agents are the objects that ship. So
a host must be as unhelpful as a real one. It starts and ends processes late, and an order that is
under way when its agent dies may or may not be carried out. It tells an agent nothing about the
past: one that starts again sees processes, a journal and exit codes, and nothing of what an earlier
agent had in mind. And what really runs where (`CentralCluster.began`, `ended`) is recorded apart
from what any agent believes, because a checker that asked the agents would only find out whether
they agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from murmuration.cluster.constraints import Attributes
from murmuration.schedulers.agent import Message
from murmuration.schedulers.central import memory
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.central.messages import (
    JOBS,
    Ended,
    HangUp,
    Recover,
    SubmitJob,
    TaskStopping,
)
from murmuration.schedulers.central.node_agent import (
    CentralNodeAgent,
    Exited,
    Found,
    Freeze,
    GiveUp,
    Kill,
    Leased,
    NodeMemory,
    RunForgotten,
    RunStopping,
    Start,
    Started,
    Thaw,
    ending,
)
from murmuration.schedulers.central.services.health import CheckHealth, HealthSeen
from murmuration.schedulers.offers.messages import MASTER
from murmuration.simulation.messages.drive import BrokenError, Disk, Party, VirtualDriver
from murmuration.simulation.messages.network import FaultSettings, OrderedNetwork
from murmuration.workload.job_spec import JobSpec

#: A write to disk takes up to this, and its acknowledgement as long again.
WRITE_S = 0.01
#: How much later than the agent a host's watchdog ends what runs without a lease.
WATCH_S = 0.5
#: It looks again after this, at the soonest: what it ends takes a moment to be gone.
LOOK_S = 0.1
#: With faults: what a process takes at most to start and to end at once; with patience, its grace.
START_S, KILL_S = 0.3, 0.2
#: A task says in its environment with which code it ends.
CODE = "CODE"
#: … and how long it is well.
SICK = "SICK"


class FoldedDisk(Disk):
    """A master's disk as the tables its facts fold to."""

    memory: memory.MasterMemory

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(memory.MasterMemory(), WRITE_S, rng)

        #: Tasks that were to be killed by an order that was written.
        self.killed: set[tuple[str, int]] = set()

    def write(self, facts: Sequence[tuple[Message, float]]) -> None:
        super().write(facts)
        for fact, _ in facts:
            if isinstance(fact, TaskStopping) and fact.reason == "killed":
                self.killed.add((fact.job, fact.index))

    def has_job(self, name: str) -> bool:
        return self.memory.has_job(name)

    def last_run(self, job: str, index: int) -> int:
        """The last run of a task that was placed; 0 if none was."""
        return self.memory.last_run(job, index)


class MasterParty(Party):
    """The master and its disk."""

    def __init__(
        self, cluster: CentralCluster, settings: CentralSettings, seed: int, disk: Disk
    ) -> None:
        super().__init__(MASTER, disk)
        self._cluster, self._settings, self._seed = cluster, settings, seed

    def start(self, memory: Any, life: int) -> CentralMaster:
        self._recover: Recover = memory.recover(life - 1, self._seed)
        return CentralMaster(self._settings, self._seed)

    def first_events(self) -> Sequence[Message]:
        return [self._recover]

    def do(self, act: Message) -> None:
        assert isinstance(act, HangUp)
        self._cluster.connections.hang_up(act.node, act.session)


class _NodeDisk(Disk):
    """A node's disk: the ends of runs, and with each the journal of its process."""

    def __init__(self, host: HostParty, rng: np.random.Generator) -> None:
        super().__init__(NodeMemory(), WRITE_S, rng)
        self._host = host

    def write(self, facts: Sequence[tuple[Message, float]]) -> None:
        super().write(facts)
        for fact, _ in facts:
            if isinstance(fact, RunForgotten):
                self._host.journal.pop(fact.run, None)
                self._host.exits.pop(fact.run, None)


class HostParty(Party):
    """A node: its agent, and the processes on it, which do not need the agent to go on."""

    def __init__(
        self, cluster: CentralCluster, name: str, total: dict[str, int], attributes: Attributes
    ) -> None:
        super().__init__(name, None)
        self.disk = _NodeDisk(self, cluster.rng)
        self._cluster, self._driver = cluster, cluster.driver
        self._total, self._attributes = total, attributes
        #: What it has, in the order of the cluster's resources.
        self.totals = tuple(total.get(name, 0) for name in cluster.settings.resources.names)
        #: When the lease ends, by this host's clock.
        self.lease_s = math.inf
        #: When each process began.
        self.processes: dict[str, float] = {}
        #: What was ordered, and the exit codes that processes left behind.
        self.journal: dict[str, Start] = {}
        self.exits: dict[str, tuple[int | None, int | None]] = {}
        #: When processes end by themselves; and of those that were suspended, on disk, what is left
        #: of their time limits, and what they have still to do.
        self._ends: dict[str, float] = {}
        self.frozen: dict[str, float] = {}
        self._to_do: dict[str, float] = {}
        self._watched = False
        #: Until when the watchdog is gone, and until when nothing can be started here.
        self._unwatched_s = self._sick_s = -math.inf
        #: Counts the starts of the host; what was under way in an earlier one is void.
        self._boots = 0
        self.reboots_s: list[float] = []

    def start(self, memory: NodeMemory, life: int) -> CentralNodeAgent:
        """An agent starts and finds what the one before it has left."""
        timeout_s = self._cluster.settings.agent_timeout_s
        agent = CentralNodeAgent(
            self.name, self.name, self._total, dict(self._attributes), timeout_s
        )
        running = [
            Found(
                start.launch.framework,
                run,
                start.launch.request,
                start.ends_s,
                start.launch.order.health,
                self.frozen.get(run),
            )
            for run, start in self.journal.items()
            if run in self.processes
        ]
        untold = [
            self._trace(run, memory.stopping.get(run))
            for run in self.journal
            if run not in self.processes and run not in memory.ended
        ]
        now = self._driver.clock(self.name)
        ended = [*memory.ended.values(), *untold]
        agent.find(running, ended, now, memory.stopping, self.lease_s)
        return agent

    def _trace(self, run: str, stop: RunStopping | None) -> Ended:
        """How a run ended that no agent saw ending, after what it was told to stop for."""
        code, signal = self.exits.get(run, (None, None))
        asked, why = (None, "") if stop is None else (stop.asked, stop.reason)
        exited = Exited(run, code, signal)
        return ending(self.journal[run].launch.framework, exited, asked, why)

    def do(self, act: Message) -> None:
        match act:
            case Start():
                self._start(act)
            case Kill(run, _, at_once):
                grace_s = self.journal[run].launch.order.grace_s
                later = self._delay_s(KILL_S if at_once else grace_s)
                self._after(later, self.end_process, run, None, 9 if at_once else 15)
            case Freeze(run, left_s):
                self._freeze(run, left_s)
            case Thaw(run, ends_s):
                self._thaw(run, ends_s)
            case CheckHealth(run, number):
                self._after(self._delay_s(START_S), self._see, run, number)
            case Leased(until_s):
                self.lease_s = until_s
            case HangUp(node, session):
                self._cluster.connections.hang_up(node, session)
            case GiveUp(reason):
                raise BrokenError(f"{self.name} was refused: {reason}")
            case _:
                super().do(act)

    def _delay_s(self, longest_s: float) -> float:
        """What an act takes: nothing without faults."""
        slow = self._cluster.is_slow
        return longest_s * float(self._cluster.rng.random()) if slow else 0.0

    def _after(self, seconds: float, call: Callable[..., None], *arguments: object) -> None:
        """Call later, in this boot of the host: what was under way when it went down is void."""
        self._driver.at(self._driver.now + seconds, self._in_boot, self._boots, call, arguments)

    def _in_boot(self, boot: int, call: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if boot == self._boots:
            call(*arguments)

    def _start(self, act: Start) -> None:
        """What was ordered is in the journal before anything of it is started."""
        self.journal[act.launch.run] = act
        life = self._driver.life(self.name)
        self._after(self._delay_s(START_S), self._begin, act, life)

    def _begin(self, act: Start, life: int) -> None:
        run, order = act.launch.run, act.launch.order
        # The fork is the agent's own act, so it dies with the agent; a process, once begun, does
        # not. Whoever comes next finds the order in the journal and no process: it was never begun.
        if self._driver.life(self.name) != life:
            return
        if self._driver.clock(self.name) >= act.until_s:
            self._driver.tell(self.name, Exited(run, reason="its lease was over"))
            return
        if self._driver.now < self._sick_s:
            reason = "no space left on device"
            self._driver.tell(self.name, Exited(run, reason=reason, started=False, node_fault=True))
            return
        self.processes[run] = self._driver.now
        self._cluster.began(self.name, run, order.ports)
        if order.duration_s is not None:
            self._end_later(run, order.duration_s)
        self._watch()
        self._driver.tell(self.name, Started(run))

    def _end_later(self, run: str, seconds: float) -> None:
        self._ends[run] = self._driver.now + seconds
        self._after(seconds, self._finish, run, self._ends[run])

    def _finish(self, run: str, end_s: float) -> None:
        """A process has done its work, unless it was suspended since."""
        if self._ends.get(run) == end_s:
            code = int(self.journal[run].launch.order.environment.get(CODE, "0"))
            self.end_process(run, code, None)

    def _freeze(self, run: str, left_s: float) -> None:
        """What a process has still to do is kept by the kernel, not by the agent."""
        if run in self.processes and run not in self.frozen:
            self.frozen[run] = left_s
            if run in self._ends:
                self._to_do[run] = self._ends.pop(run) - self._driver.now

    def _thaw(self, run: str, ends_s: float) -> None:
        if self.frozen.pop(run, None) is None:
            return
        self.journal[run] = msgspec.structs.replace(self.journal[run], ends_s=ends_s)
        if run in self._to_do:
            self._end_later(run, self._to_do.pop(run))

    def _see(self, run: str, number: int) -> None:
        """Whether a process is well; if it is gone, nobody answers."""
        if run in self.processes:
            sick_s = float(self.journal[run].launch.order.environment.get(SICK, "inf"))
            is_well = self._driver.now - self.processes[run] < sick_s
            self._driver.tell(self.name, HealthSeen(run, number, "" if is_well else "it is sick"))

    # What goes wrong with a host.

    def kill_watchdog(self, seconds: float) -> None:
        """The watchdog dies; the agent's look once a second brings another one."""
        self._unwatched_s = self._driver.now + seconds

    def fall_sick(self, seconds: float) -> None:
        """For a while nothing can be started here: the disk is full."""
        self._sick_s = self._driver.now + seconds

    def reboot(self, seconds: float) -> None:
        """The host goes down with everything on it, and its clock starts at zero again."""
        if self._driver.is_gone(self.name):
            return
        self._driver.crash(self.name)
        self._boots += 1
        self.reboots_s.append(self._driver.now)
        for run in list(self.processes):
            self._cluster.ended(self.name, run, self.processes.pop(run), None)
            self._forget_times(run)
        self.lease_s, self._watched = math.inf, False
        self._driver.jump(self.name, -self._driver.clock(self.name))
        self._driver.at(self._driver.now + seconds, self._driver.start, self.name)

    def end_process(self, run: str, code: int | None, signal: int | None) -> None:
        """A process ends. The agent is told if there is one; an exit code is left behind for one
        that comes later."""
        if run not in self.processes:
            return
        self._cluster.ended(self.name, run, self.processes.pop(run), code)
        self._forget_times(run)
        if code is not None or signal is not None:
            self.exits[run] = code, signal
        self._driver.tell(self.name, Exited(run, code, signal))

    def _forget_times(self, run: str) -> None:
        for times in (self._ends, self.frozen, self._to_do):
            times.pop(run, None)

    def _watch(self) -> None:
        """Have the watchdog look when the lease, as it is now, has ended."""
        if not self._watched and self.processes and self.lease_s < math.inf:
            self._watched = True
            ends = self._driver.now + self.lease_s - self._driver.clock(self.name)
            at = max(ends + WATCH_S, self._unwatched_s)
            self._after(max(at - self._driver.now, LOOK_S), self._look)

    def _look(self) -> None:
        """End what runs without a lease, whether there is an agent or not."""
        self._watched = False
        is_there = self._driver.now >= self._unwatched_s
        if is_there and self._driver.clock(self.name) >= self.lease_s:
            for run in list(self.processes):
                self._after(self._delay_s(KILL_S), self.end_process, run, None, None)
        self._watch()


@dataclass(frozen=True)
class Span:
    """One run of one task: from when to when, on which node."""

    run: str
    node: str
    start_s: float
    end_s: float
    #: How it ended by itself; None if it was ended, or nobody knows.
    code: int | None = None
    framework: str = JOBS


class CentralCluster:
    """A master, its nodes, the connections between them, and what really ran where."""

    def __init__(
        self,
        settings: CentralSettings,
        nodes: Mapping[str, dict[str, int]],
        seed: int,
        rng: np.random.Generator,
        faults: FaultSettings | None = None,
        disk: Callable[[], Any] | None = None,
        clocks: Mapping[str, float] | None = None,
        attributes: Mapping[str, Attributes] | None = None,
    ) -> None:
        self.settings, self.rng, self.spans = settings, rng, list[Span]()
        #: Pairs of runs of one task that ran at the same time: there must be none.
        self.overlaps: list[tuple[str, str]] = []
        self._running: dict[str, set[str]] = {}
        #: How many runs were told to make way for another job.
        self.preempted = 0
        #: The ports that are in use on each node, by run; and those that two runs used at once.
        self.ports: dict[tuple[str, int], str] = {}
        self.port_clashes: list[str] = []
        #: Whether starting and ending processes takes time.
        self.is_slow = faults is not None
        self.connections = self._make_network(faults)
        self.driver = VirtualDriver(self.connections)
        self.disk: Any = disk() if disk is not None else FoldedDisk(rng)
        offsets, known = clocks or {}, attributes or {}
        self.hosts = {
            name: HostParty(self, name, total, known.get(name, {})) for name, total in nodes.items()
        }
        self._add_masters(seed, offsets)
        for name, host in self.hosts.items():
            self.driver.add(host, offset_s=offsets.get(name, 0.0))
            self.connections.dial(name)
        if faults is not None:
            self.driver.inflict(faults)

    # What a cluster of several masters does otherwise.

    def _make_network(self, faults: FaultSettings | None) -> OrderedNetwork:
        return OrderedNetwork(self.rng, lambda name: MASTER, faults)

    def _add_masters(self, seed: int, clocks: Mapping[str, float]) -> None:
        party = MasterParty(self, self.settings, seed, self.disk)
        self.driver.add(party, offset_s=clocks.get(MASTER, 0.0))

    @property
    def masters(self) -> Sequence[str]:
        return (MASTER,)

    def master_at(self, name: str) -> CentralMaster | None:
        """The master of a party, if it has one that is up."""
        agent = self.driver.agent(name) if name == MASTER else None
        assert agent is None or isinstance(agent, CentralMaster)
        return agent

    @property
    def leader(self) -> str:
        """The party whose master leads."""
        return MASTER

    # What clients do.

    @property
    def master(self) -> CentralMaster | None:
        return self.master_at(self.leader)

    def tell_leader(self, event: Message) -> None:
        """A client or an operator asks for something, once."""
        if self.master is not None:
            self.driver.tell(self.leader, event)

    def submit(self, spec: JobSpec, duration_s: float | None) -> None:
        self.tell_leader(SubmitJob(spec, duration_s))

    def submit_surely(self, spec: JobSpec, duration_s: float | None) -> None:
        """A client that asks again until its job is on disk."""
        if self.disk.has_job(spec.name):
            return
        if self.master is not None and spec.name not in self.master.jobs.jobs:
            self.submit(spec, duration_s)
        self.driver.at(self.driver.now + 1.0, self.submit_surely, spec, duration_s)

    def is_quiet(self, jobs: int) -> bool:
        """Whether the master knows so many jobs, all of them have ended for good, and no host runs
        anything. Messages and leases may still be under way."""
        if self.master is None or not self.driver.has_sent_all(self.leader):
            return False
        known = self.master.jobs.jobs.values()
        ended = len(known) >= jobs and all(job.status for job in known)
        return ended and not any(host.processes for host in self.hosts.values())

    # What really runs.

    def began(self, node: str, run: str, ports: Sequence[int] = ()) -> None:
        for port in ports:
            other = self.ports.setdefault((node, port), run)
            if other != run:
                self.port_clashes.append(f"{other} and {run} use port {port} of {node}")
        others = self._running.setdefault(run.rpartition(".")[0], set())
        self.overlaps += [(other, f"{run} on {node}") for other in sorted(others)]
        others.add(f"{run} on {node}")

    def ended(self, node: str, run: str, start_s: float, code: int | None) -> None:
        self._running[run.rpartition(".")[0]].discard(f"{run} on {node}")
        self.ports = {place: user for place, user in self.ports.items() if user != run}
        framework = self.hosts[node].journal[run].launch.framework
        self.spans.append(Span(run, node, start_s, self.driver.now, code, framework))
