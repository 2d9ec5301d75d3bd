"""What must hold in every run of the central protocol on the virtual driver: nothing runs twice,
nothing is lost, nothing is repeated needlessly, what was acknowledged is carried out, and in the
end everything that is not in use is free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from murmuration.schedulers.agent import Effect, Message, Note
from murmuration.schedulers.central.jobs import CentralTaskState, JobRecord
from murmuration.schedulers.central.messages import (
    JOBS,
    Launch,
    NodeIsLost,
    TaskStopping,
    TaskSuspended,
)
from murmuration.schedulers.central.node_agent import RunPhase
from murmuration.schedulers.central.queue.preemption import PREEMPTED
from murmuration.simulation.messages.central import CODE, CentralCluster, Span
from murmuration.simulation.messages.drive import BrokenError, Checker, VirtualDriver

#: An order takes no longer than this to be written, sent and carried out.
SETTLE_S = 2.0


class ClusterChecker(Checker):
    """Looks at a whole cluster."""

    def __init__(self, cluster: CentralCluster) -> None:
        self.cluster = cluster


class NoTaskRunsTwice(ClusterChecker):
    """At no time do two processes of one task run."""

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        if self.cluster.overlaps:
            raise BrokenError("at one time there ran {} and {}".format(*self.cluster.overlaps[0]))
        if self.cluster.port_clashes:
            raise BrokenError(self.cluster.port_clashes[0])


class LedgerAddsUp(ClusterChecker):
    """The amounts of the master's ledger add up after every event."""

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        if (master := self.cluster.master_at(name)) is not None:
            master.resource_manager.check()


class OrderedRunIsOnDisk(ClusterChecker):
    """A node agent hears of a run only after the decision is on the master's disk."""

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        if isinstance(event, Launch) and event.framework == JOBS:
            job, index, run = event.run.rsplit(".", 2)
            if self.cluster.disk.last_run(job, int(index)) < int(run):
                raise BrokenError(f"{event.run} was ordered on {name} and is not on disk")


class AllIsWellInTheEnd(ClusterChecker):
    """After the faults: every job is where it should be, on the nodes, in the master's table and
    on its disk."""

    def end(self, driver: VirtualDriver) -> None:
        master = self.cluster.master
        if master is None:
            raise BrokenError("the master did not come back")
        runs = {
            run
            for host in self.cluster.hosts.values()
            for run in host.processes
            if host.journal[run].launch.framework == JOBS
        }
        if runs != set(master.jobs.runs):
            different = sorted(runs ^ set(master.jobs.runs))
            raise BrokenError(f"what runs is not what the master knows: {different}")
        for job in master.jobs.jobs.values():
            self._check_job(job)
        self._check_disk(master.jobs.jobs)

    def _check_job(self, job: JobRecord) -> None:
        """A service that nobody killed runs; a job that was killed is; any other has the outcome
        that its tasks' codes give it, whatever went wrong around them."""
        counts, code = job.counts(), int(job.spec.environment.get(CODE, "0"))
        was_killed = (
            any(task.stopped_for == "killed" for task in job.tasks)
            or counts[CentralTaskState.KILLED]
        )
        if job.spec.kind == "service" and not job.killed:
            wanted = counts == {CentralTaskState.RUNNING: job.spec.count}
        elif job.killed:
            wanted = job.status == CentralTaskState.KILLED
        elif was_killed:
            wanted = bool(job.status)
        else:
            wanted = job.status == (CentralTaskState.FAILED if code else CentralTaskState.FINISHED)
        if not wanted:
            raise BrokenError(f"job {job.name} has tasks {dict(counts)} in the end, {job.status}")

    def _check_disk(self, jobs: dict[str, JobRecord]) -> None:
        stored = {job.spec.name: job for job in self.cluster.disk.load().recover(0, 0).jobs}
        if set(stored) != set(jobs):
            raise BrokenError(f"jobs on disk and in memory differ: {set(stored) ^ set(jobs)}")
        for name, job in jobs.items():
            for run in stored[name].runs:
                task = job.tasks[run.index]
                # What waited when its job was killed is closed by that fact.
                waits = task.state is CentralTaskState.KILLED and stored[name].killed
                if run.run != task.run or run.status not in (
                    task.state,
                    "waiting" if waits else "",
                ):
                    raise BrokenError(f"{name}.{run.index} is {task.state}, on disk {run.status}")


class AllIsFreeInTheEnd(ClusterChecker):
    """What the master believes to be in use, of nodes and of ports, is what runs."""

    def end(self, driver: VirtualDriver) -> None:
        master = self.cluster.master
        assert master is not None
        used: Counter[tuple[str, int]] = Counter()
        for job, task in master.jobs.runs.values():
            used.update((task.node, port) for port in job.spec.ports if port)
        held: Counter[tuple[str, int]] = Counter()
        for node, ports in master.jobs.ports.items():
            held.update({(node, port): times for port, times in ports.items()})
        if +held != used:
            raise BrokenError(f"ports are held that nobody uses: {dict(+held)}, used {dict(used)}")
        for name, row in master.resource_manager.ledger.nodes.items():
            runs = {run for framework, run in row.tasks if framework == JOBS}
            if runs != set(master.jobs.runs_on(name)):
                raise BrokenError(f"the ledger has {sorted(row.tasks)} on {name}")


class OrdersAreCarriedOut(ClusterChecker):
    """A kill that is on the master's disk, and so was acknowledged, is carried out: the task does
    not run again."""

    def end(self, driver: VirtualDriver) -> None:
        master = self.cluster.master
        assert master is not None
        for name, index in getattr(self.cluster.disk, "killed", ()):
            job = master.jobs.jobs.get(name)
            if job is None or (job.spec.kind == "service" and not job.killed):
                continue
            if job.tasks[index].state not in (CentralTaskState.KILLED, CentralTaskState.FINISHED):
                raise BrokenError(f"{name}.{index} was killed and is {job.tasks[index].state}")


class NothingIsRepeated(ClusterChecker):
    """A task that ended well is not run once more, whoever crashes: only a node that the master
    gave up in between, or that rebooted, may have taken the news with it."""

    def __init__(self, cluster: CentralCluster) -> None:
        super().__init__(cluster)
        self._given_up: list[tuple[str, float]] = []

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        for effect in effects if name in self.cluster.masters else ():
            if isinstance(effect, Note) and isinstance(effect.fact, NodeIsLost):
                self._given_up.append((effect.fact.node, driver.now))

    def end(self, driver: VirtualDriver) -> None:
        well = [span for span in self.cluster.spans if span.code == 0 and span.framework == JOBS]
        for span in well:
            task = span.run.rpartition(".")[0]
            for later in self.cluster.spans:
                is_again = later.run.rpartition(".")[0] == task and later.start_s > span.start_s
                if is_again and not self._is_excused(span, later.start_s):
                    raise BrokenError(f"{span.run} ended well, and {later.run} was run after it")

    def _is_excused(self, span: Span, until_s: float) -> bool:
        reboots = [(span.node, at_s) for at_s in self.cluster.hosts[span.node].reboots_s]
        return any(
            node == span.node and span.start_s <= at_s <= until_s
            for node, at_s in (*self._given_up, *reboots)
        )


class OnlyLowerPrioritiesMakeWay(ClusterChecker):
    """A run makes way for a job of higher priority that waits, and a gang does so whole."""

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        facts = [effect.fact for effect in effects if isinstance(effect, Note)]
        stops = [fact for fact in facts if isinstance(fact, TaskStopping | TaskSuspended)]
        made_way = [stop for stop in stops if stop.reason.startswith(PREEMPTED)]
        master = self.cluster.master_at(name)
        if master is None or not made_way:
            return
        jobs = master.jobs.jobs
        self.cluster.preempted += len(made_way)
        for stop in made_way:
            victim, other = jobs[stop.job], jobs[stop.reason.removeprefix(PREEMPTED)]
            waits = other.waiting or isinstance(stop, TaskSuspended)
            if victim.spec.priority >= other.spec.priority or not waits:
                raise BrokenError(f"{stop.job}.{stop.index} makes way for {other.name}")
            if victim.spec.gang and any(
                task.state in (CentralTaskState.RUNNING, CentralTaskState.STARTING)
                for task in victim.tasks
            ):
                raise BrokenError(f"a part of {stop.job} makes way for {other.name}")


class SuspendedAsDecided(ClusterChecker):
    """What does nothing in the end is what the master has suspended; and while a run stands still,
    its room is not counted as its own."""

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        master = self.cluster.master_at(name)
        if master is None:
            return
        for run, (job, task) in master.jobs.runs.items():
            held = master.resource_manager.ledger.tasks.get((JOBS, run))
            if held is not None and (held.task.request[0] == 0) != task.is_suspended:
                raise BrokenError(
                    f"{run} of {job.name} is {task.state} and holds {held.task.request}"
                )

    def end(self, driver: VirtualDriver) -> None:
        master = self.cluster.master
        assert master is not None
        decided = {run for run, (_, task) in master.jobs.runs.items() if task.is_suspended}
        frozen = {run for host in self.cluster.hosts.values() for run in host.frozen}
        if frozen != decided:
            raise BrokenError(f"suspended are {sorted(frozen)}, decided was {sorted(decided)}")


class SuspensionsArrive(ClusterChecker):
    """While master and agent are connected, what the agent suspends is what the master has decided,
    but for the moment that orders take: an order that was lost with a connection is said again on
    the next one."""

    def __init__(self, cluster: CentralCluster) -> None:
        super().__init__(cluster)
        self._seen_s = 0.0
        #: Runs that are not as decided: since which connection and decision, and for how long.
        self._wrong: dict[str, tuple[tuple[int, bool], float]] = {}

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        # A party may have been paused since the last event, which nobody was told of.
        passed_s, self._seen_s = min(driver.now - self._seen_s, SETTLE_S / 4), driver.now
        before, self._wrong = self._wrong, {}
        for run, state in self._differences(driver):
            known, for_s = before.get(run, (state, 0.0))
            for_s = for_s + passed_s if known == state else 0.0
            self._wrong[run] = state, for_s
            if for_s > SETTLE_S:
                decided = "suspended" if state[1] else "not suspended"
                raise BrokenError(f"{run} is decided to be {decided}, and its agent never heard")

    def _differences(self, driver: VirtualDriver) -> Iterator[tuple[str, tuple[int, bool]]]:
        master, leader = self.cluster.master, self.cluster.leader
        if master is None or driver.is_paused(leader):
            return
        for node, host in self.cluster.hosts.items():
            line, agent = driver.network.line(leader, node), driver.agent(node)
            if line < 0 or agent is None or driver.is_paused(node):
                continue
            for run in host.processes.keys() & master.jobs.runs.keys():
                task, record = master.jobs.runs[run][1], agent.runs.get(run)
                is_wrong = task.is_suspended != (run in host.frozen)
                is_under_way = task.state in (CentralTaskState.RUNNING, CentralTaskState.SUSPENDED)
                is_known = record is not None and record.phase is RunPhase.RUNNING
                if is_wrong and is_under_way and is_known and task.node == node:
                    yield run, (line, task.is_suspended)


CHECKERS = (
    SuspendedAsDecided,
    SuspensionsArrive,
    OnlyLowerPrioritiesMakeWay,
    NoTaskRunsTwice,
    OrderedRunIsOnDisk,
    LedgerAddsUp,
    AllIsWellInTheEnd,
    AllIsFreeInTheEnd,
    OrdersAreCarriedOut,
    NothingIsRepeated,
)
