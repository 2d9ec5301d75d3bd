"""A second simulator in plain Python, slow and short, that the kernels must agree with to the last
digit.

It shares with them the inputs (nodes, jobs, seeds) and the plain placements; everything that
happens in time is written again here, from the rules in the documentation: a heap of (time, order),
dicts and lists.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.base.random import generator
from murmuration.cluster.constraints import node_mask
from murmuration.placement.registry import resolve
from murmuration.placement.view import JobView, View
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.inputs import DAY_S, make_jobs, make_nodes

#: A job that took no time and found no room comes back after a second.
IDLE_RETRY_S = 1.0


@dataclass
class Job:
    row: int
    left: int
    first: float = math.nan
    full: float = math.nan
    attempts: int = 0
    empty: int = 0
    conflicts: int = 0
    stuck: int = 0
    status: str = "waiting"

    def result(self) -> tuple[Any, ...]:
        times = tuple(None if math.isnan(t) else t for t in (self.first, self.full))
        return (*times, self.attempts, self.conflicts, self.status, self.left)


@dataclass
class Agent:
    """A scheduler: the workloads it serves, its decision times by workload, the rows it may use,
    and its queue."""

    name: str
    workloads: list[str]
    times: dict[str, sc.DecisionTime]
    rows: NDArray[np.bool_]
    rng: np.random.Generator
    queue: list[Job] = field(default_factory=list)
    #: Jobs that found no room, and after how many attempts each is tried again.
    aside: list[tuple[int, Job]] = field(default_factory=list)
    tried: int = 0
    busy: bool = False


class Reference:
    """Monolithic, partitioned and shared-state scheduling."""

    def __init__(self, tables: dict[str, Any]) -> None:
        self.scenario = sc.check(tables)
        self.rules = self.scenario.scheduler
        self.nodes = make_nodes(self.scenario.cluster)
        self.list = make_jobs(self.scenario, self.nodes.resources)
        self.free = self.nodes.total.copy()
        self.sequence = np.zeros(len(self.free), dtype=np.int64)
        self.policy = resolve(self.rules.placement).policy
        self.jobs = [Job(row, int(tasks)) for row, tasks in enumerate(self.list.tasks)]
        self.held = {
            name: np.zeros(len(self.nodes.resources), dtype=np.int64)
            for name in self.list.workloads
        }
        self.busy = dict.fromkeys(self.list.workloads, 0.0)
        self.placed = self.events = self.order = 0
        self.heap: list[tuple[float, int, Callable[[], None]]] = []
        self.now = 0.0
        #: What `levels` says, summed up over time.
        self.area = np.zeros(2 + len(self.nodes.resources))
        self.running = 0
        self.agents = self.make_agents()
        self.owner = self.owners()

    def make_agents(self) -> list[Agent]:
        names, rules = list(self.list.workloads), self.rules
        default = rules.decision.get("default", sc.DecisionTime())
        times = {name: rules.decision.get(name, default) for name in names}
        every = np.ones(len(self.free), dtype=np.bool_)
        if rules.kind == "monolithic":
            single = dict.fromkeys(names, default)
            return [self.agent("all", names, single if rules.paths == "single" else times, every)]
        if rules.kind == "partitioned":
            return [
                self.agent(name, [name], times, rows) for name, rows in self.partitions().items()
            ]
        made = []
        for name in names:
            count = rules.agents.get(name, 1)
            labels = [name] if count == 1 else [f"{name}-{k}" for k in range(count)]
            made += [self.agent(label, [name], times, every) for label in labels]
        return made

    def agent(
        self,
        name: str,
        serves: list[str],
        times: dict[str, sc.DecisionTime],
        rows: NDArray[np.bool_],
    ) -> Agent:
        return Agent(name, serves, times, rows, generator(self.scenario.seed, "scheduler", name))

    def partitions(self) -> dict[str, NDArray[np.bool_]]:
        """Row by row to whoever is most short of its share so far; what the shares leave over is
        nobody's."""
        names, shares = self.list.workloads, dict(self.rules.partition)
        without = [name for name in names if name not in shares]
        shares |= dict.fromkeys(without, (1.0 - sum(shares.values())) / max(len(without), 1))
        shares["nobody"] = max(1.0 - sum(shares[name] for name in names), 0.0)
        rows = {name: np.zeros(len(self.free), dtype=np.bool_) for name in (*names, "nobody")}
        short = dict.fromkeys(rows, 0.0)
        for row in range(len(self.free)):
            short = {name: owed + shares[name] for name, owed in short.items()}
            most = max(short, key=lambda name: short[name])
            rows[most][row] = True
            short[most] -= 1.0
        del rows["nobody"]
        return rows

    def owners(self) -> list[Agent]:
        """The jobs of a workload go to its schedulers in turn."""
        turn = dict.fromkeys(self.list.workloads, 0)
        owners = []
        for code in self.list.workload:
            name = self.list.workloads[code]
            serving = [agent for agent in self.agents if name in agent.workloads]
            owners.append(serving[turn[name] % len(serving)])
            turn[name] += 1
        return owners

    def name(self, job: Job) -> str:
        return self.list.workloads[int(self.list.workload[job.row])]

    def allowed(self, job: Job) -> NDArray[np.bool_]:
        constraints = self.list.constraint_sets[self.list.constraint[job.row]]
        return node_mask(constraints, self.nodes.attributes) & self.owner[job.row].rows

    def can_ever_run(self, job: Job) -> bool:
        """Whether enough tasks fit on the empty cluster: all of them for a gang or in a partition,
        else one."""
        whole = self.list.gang[job.row] or self.rules.kind == "partitioned"
        free, request, room = self.nodes.total.copy(), self.list.request[job.row], 0
        for row in np.flatnonzero(self.allowed(job)):
            while room < job.left and (free[row] >= request).all():
                free[row] -= request
                room += 1
        return room >= (job.left if whole else 1)

    def at(self, time: float, happens: Callable[[], None]) -> None:
        self.order += 1
        heapq.heappush(self.heap, (time, self.order, happens))

    def run(self) -> list[tuple[Any, ...]]:
        horizon, arrived = self.scenario.days * DAY_S, 0
        while True:
            arrival = self.list.submit_s[arrived] if arrived < len(self.jobs) else math.inf
            following = self.heap[0][0] if self.heap else math.inf
            at = float(min(arrival, following))
            self.area += self.levels() * (min(at, horizon) - min(self.now, horizon))
            self.now = at
            if self.now > horizon:
                return [job.result() for job in self.jobs]
            if arrival <= following:
                self.arrive(self.jobs[arrived])
                arrived += 1
            else:
                heapq.heappop(self.heap)[2]()

    def levels(self) -> NDArray[np.float64]:
        """Tasks running, CPU on offer, and what all tasks require of each resource."""
        required = sum(self.held.values())
        return np.array([self.running, self.cpu_offered(), *np.asarray(required)], dtype=np.float64)

    def cpu_offered(self) -> int:
        return 0

    def arrive(self, job: Job) -> None:
        self.events += 1
        if self.can_ever_run(job):
            self.wait(job)
        else:
            job.status = "never"

    def wait(self, job: Job) -> None:
        """To the tail of the queue, behind the jobs of the same priority; one that found no room
        lets all have a turn that wait now, if some of them are of lower priority."""
        agent, priority = self.owner[job.row], self.list.priority
        lower = [other for other in agent.queue if priority[other.row] < priority[job.row]]
        if job.stuck and lower and self.rules.unplaced == "next":
            agent.aside.append((agent.tried + len(agent.queue), job))
        else:
            self.insert(agent, job)
        self.next(agent)

    def insert(self, agent: Agent, job: Job) -> None:
        priority = self.list.priority
        at = sum(priority[other.row] >= priority[job.row] for other in agent.queue)
        agent.queue.insert(at, job)

    def next(self, agent: Agent) -> None:
        if agent.busy:
            return
        alone = not agent.queue
        back = [entry for entry in agent.aside if alone or entry[0] <= agent.tried]
        agent.aside = [entry for entry in agent.aside if entry not in back]
        for _, job in back:
            self.insert(agent, job)
        if not agent.queue:
            return
        agent.tried += 1
        job = agent.queue.pop(0)
        agent.busy = True
        job.attempts += 1
        job.first = self.now if math.isnan(job.first) else job.first
        chosen = self.choose(agent, job, self.free)
        seen = self.sequence[chosen]
        if self.rules.kind != "shared-state":
            np.subtract.at(self.free, chosen, self.list.request[job.row])
        times, began = agent.times[self.name(job)], self.now
        ends = self.now + (times.job_time_s + times.task_time_s * job.left)
        self.at(ends, lambda: self.attempt_ends(agent, job, chosen, seen, began))

    def choose(self, agent: Agent, job: Job, free: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows the plain placement finds; none for a gang that does not fit whole."""
        request = self.list.request[job.row]
        names, attributes, total = self.nodes.names, self.nodes.attributes, self.nodes.total
        view = View(
            self.nodes.resources, names, attributes, total, free, self.allowed(job), self.now
        )
        asked = JobView(str(self.list.job_id[job.row]), self.name(job), job.left, request, 0.0)
        chosen = np.asarray(self.policy.decide(view, asked, agent.rng))
        chosen = chosen[chosen >= 0]
        return chosen[:0] if self.list.gang[job.row] and len(chosen) < job.left else chosen

    def attempt_ends(
        self,
        agent: Agent,
        job: Job,
        chosen: NDArray[np.int64],
        seen: NDArray[np.int64],
        began: float,
    ) -> None:
        self.events += 1
        self.over_policy = False
        accepted = (
            self.commit(job, chosen, seen) if self.rules.kind == "shared-state" else list(chosen)
        )
        self.count(job, len(chosen), len(accepted), self.now - began)
        full = not len(chosen) or self.over_policy
        job.stuck = job.stuck + 1 if full and not accepted else 0
        if self.rules.kind != "shared-state":
            np.add.at(self.sequence, chosen, 1)
        if accepted:
            self.start(job, accepted)
        agent.busy = False
        self.finish(job, len(accepted), self.now - began)
        self.next(agent)

    def count(self, job: Job, claimed: int, accepted: int, spent: float) -> None:
        if claimed == 0:
            job.empty += 1
        else:
            self.busy[self.name(job)] += spent
            job.conflicts += accepted < claimed

    def commit(self, job: Job, chosen: NDArray[np.int64], seen: NDArray[np.int64]) -> list[int]:
        """The assignments that stand: policy first, then the rows as they are now."""
        request, atomic = self.list.request[job.row], self.rules.transaction == "all-or-nothing"
        atomic = atomic or bool(self.list.gang[job.row])
        free, accepted = self.free.copy(), []
        room = self.policy_room(job)
        self.over_policy = room < len(chosen)
        for node, before in list(zip(chosen, seen, strict=True))[:room]:
            stale = self.rules.conflict == "machine" and self.sequence[node] != before
            if not stale and (free[node] >= request).all():
                free[node] -= request
                accepted.append(int(node))
        if atomic and len(accepted) < len(chosen):
            return []
        self.free = free
        np.add.at(self.sequence, accepted, 1)
        return accepted

    def policy_room(self, job: Job) -> int:
        """How many more tasks the workload's quota and the headroom it must leave allow."""
        policy = self.rules.policy.get(self.name(job), sc.PolicySettings())
        total, request = self.nodes.total.sum(axis=0), self.list.request[job.row]
        taken, room = sum(self.held.values()), len(self.list) * 1000
        for r in np.flatnonzero(request):
            if policy.quota is not None:
                own = policy.quota * total[r] - self.held[self.name(job)][r]
                room = min(room, int(own // request[r]))
            if policy.headroom is not None:
                shared = (1.0 - policy.headroom) * total[r] - np.asarray(taken)[r]
                room = min(room, int(shared // request[r]))
        return max(room, 0)

    def start(self, job: Job, nodes: list[int]) -> None:
        self.placed += len(nodes)
        self.running += len(nodes)
        self.held[self.name(job)] += len(nodes) * self.list.request[job.row]
        self.at(self.now + float(self.list.duration_s[job.row]), lambda: self.tasks_end(job, nodes))

    def tasks_end(self, job: Job, nodes: list[int]) -> None:
        self.events += len(nodes)
        self.running -= len(nodes)
        np.add.at(self.free, nodes, self.list.request[job.row])
        self.held[self.name(job)] -= len(nodes) * self.list.request[job.row]

    def finish(self, job: Job, accepted: int, spent: float) -> None:
        """Done, given up, or back to the queue: at once, or after a while."""
        job.left -= accepted
        rules = self.rules
        if job.left == 0:
            job.full, job.status = self.now, "scheduled"
        elif 0 < rules.attempts_max <= job.attempts or 0 < rules.empty_attempts_max <= job.empty:
            job.status = "abandoned"
        else:
            delay = self.delay(job, accepted == 0 and spent == 0.0)
            if delay > 0.0:
                self.at(self.now + delay, lambda: self.wait(job))
            else:
                self.wait(job)

    def delay(self, job: Job, instant: bool) -> float:
        """How long a job stays away from its queue after an attempt that left some of it."""
        rules = self.rules
        if rules.unplaced == "back-off" and job.stuck:
            delay = max(rules.retry_s, IDLE_RETRY_S)
            for _ in range(job.stuck - 1):
                delay = max(delay, min(2 * delay, rules.retry_max_s))
            return delay
        return max(rules.retry_s, IDLE_RETRY_S) if instant else rules.retry_s
