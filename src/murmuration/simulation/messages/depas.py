"""A small system of DEPAS nodes in virtual time, message by message, and what must hold of it.

The set-up decides nothing. It issues requests, processes those that workers start, rents and gives
back nodes, and keeps a list of its own of who is a member.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from murmuration.autoscaling.agents.entry_point import EntryPoint
from murmuration.autoscaling.agents.messages import (
    AddNode,
    HandRequest,
    KindOffered,
    LeaveRefused,
    LeaveSystem,
    Link,
    ProcessRequest,
    ReplyToClient,
    RequestIssued,
    RequestProcessed,
    ShutDown,
)
from murmuration.autoscaling.agents.settings import DepasSettings
from murmuration.autoscaling.agents.worker import Worker, WorkerMemory
from murmuration.autoscaling.depas import FORMULAS
from murmuration.base.random import generator, state
from murmuration.schedulers.agent import Agent, Do, Effect, Message
from murmuration.simulation.autoscale.scenario import AutoscaleScenario, type_schedule, workload
from murmuration.simulation.messages.drive import BrokenError, Checker, Disk, Party, VirtualDriver
from murmuration.simulation.messages.network import FaultSettings, Network

ENTRY = "entry"
#: Seconds between two samples.
SAMPLE_S = 1.0
#: Links to nodes that are gone for longer have been found out by probes.
LINKS_DIE_S = 90.0


@dataclass(frozen=True)
class System:
    """What is run: kinds of nodes by capacity, the kind to add from when on, the nodes there are at
    the start, and the rate of requests as steps (second, requests/s)."""

    kinds: dict[str, int]
    offers: Sequence[tuple[float, str]]
    initial: dict[str, int]
    rate: Sequence[tuple[float, float]]
    settings: DepasSettings = field(default_factory=DepasSettings)
    nodes_min: int = 1
    nodes_max: int = 1000
    seed: int = 1

    def rate_at(self, time: float) -> float:
        return max((step for step in self.rate if step[0] <= time), key=lambda step: step[0])[1]

    def offered_at(self, time: float) -> KindOffered:
        kind = max(offer for offer in self.offers if offer[0] <= time)[1]
        return KindOffered(kind, self.kinds[kind])


class WorkerHost(Party):
    """A rented node: it processes what its agent starts; a crash ends that too."""

    def __init__(
        self, name: str, world: DepasWorld, capacity: int, introducers: tuple[Link, ...]
    ) -> None:
        super().__init__(name, Disk(WorkerMemory(), world.write_s, world.disk_rng))
        self.capacity, self._world, self._introducers = capacity, world, introducers
        self._life = 0

    def start(self, memory: Any, life: int) -> Agent:
        """A node that starts again knows nobody any more."""
        self._life, world = life, self._world
        system, initial = world.system, world.driver.now == 0.0
        cycle_s = system.settings.cycle_s
        return Worker(
            self.name,
            self.capacity,
            system.offered_at(world.driver.now),
            ENTRY,
            system.settings,
            state(system.seed, self.name, str(life)),
            memory,
            introducers=self._introducers if life == 1 else (),
            first_decision_s=cycle_s * (1.0 + float(world.rng.random())) if initial else cycle_s,
        )

    def do(self, act: Message) -> None:
        world, driver = self._world, self._world.driver
        if isinstance(act, ProcessRequest):
            seconds = world.system.settings.execution_s * float(world.rng.exponential())
            driver.at(driver.now + seconds, self._end_request, act.request, self._life)
        elif isinstance(act, AddNode):
            world.add_node(act)
        elif isinstance(act, LeaveSystem):
            world.leave(self.name)
        elif isinstance(act, ShutDown):
            driver.at(driver.now, world.give_back, self.name)
        else:
            super().do(act)

    def _end_request(self, request: int, life: int) -> None:
        if life == self._life:
            self._world.driver.tell(self.name, RequestProcessed(request))

    def stop(self) -> None:
        self._world.gone_s.setdefault(self.name, self._world.driver.now)
        self._life = 0


class EntryHost(Party):
    """The host of the entry point: it answers clients."""

    def __init__(self, world: DepasWorld) -> None:
        super().__init__(ENTRY)
        self._world = world

    def start(self, memory: Any, life: int) -> Agent:
        system = self._world.system
        known = self._world.first_known if life == 1 else ()
        return EntryPoint(ENTRY, system.settings, state(system.seed, ENTRY, str(life)), known)

    def do(self, act: Message) -> None:
        if isinstance(act, ReplyToClient):
            self._world.reply(act)
        else:
            super().do(act)


class DepasWorld:
    """Workers, the entry point, clients, and whoever rents the nodes."""

    def __init__(
        self, system: System, faults: FaultSettings | None = None, write_s: float = 0.0
    ) -> None:
        self.system, self.write_s = system, write_s
        self.rng = generator(system.seed, "requests")
        self.disk_rng = generator(system.seed, "disks") if write_s > 0.0 else None
        self.network = Network(faults or FaultSettings(), generator(system.seed, "network"))
        self.driver = VirtualDriver(self.network)
        self.hosts: dict[str, WorkerHost] = {}
        #: Nodes that left, and since when a node is not a member.
        self.left: set[str] = set()
        self.gone_s: dict[str, float] = {}
        self.answered: dict[int, bool] = {}
        self.issued = 0
        self.counts: Counter[str] = Counter()
        self.samples: list[tuple[float, float, int]] = []
        self._first_nodes()
        self.driver.add(EntryHost(self))
        self.driver.inflict(self.network.faults)
        for at, _ in system.offers[1:]:
            self.driver.at(at, self._offer)
        self.driver.at(0.0, self._issue)
        self.driver.at(SAMPLE_S, self._sample)

    def _first_nodes(self) -> None:
        """The first nodes are up; each knows some of the others, drawn at random."""
        links = [
            Link(f"{kind}-{k}", self.system.kinds[kind])
            for kind, count in self.system.initial.items()
            for k in range(count)
        ]
        rng, degree = generator(self.system.seed, "links"), self.system.settings.degree
        picked = rng.permutation(len(links))[: self.system.settings.entry_min]
        self.first_known = tuple(links[k] for k in picked)
        for link in links:
            others = [other for other in links if other is not link]
            picked = rng.permutation(len(others))[:degree]
            self._add(link, tuple(others[k] for k in picked))

    def _add(self, link: Link, introducers: tuple[Link, ...]) -> None:
        host = self.hosts[link.node] = WorkerHost(link.node, self, link.capacity, introducers)
        self.driver.add(host)

    # Whoever rents the nodes.

    @property
    def members(self) -> list[str]:
        """The nodes that are up and have not left."""
        up = self.driver.is_up
        return [name for name in self.hosts if up(name) and name not in self.left]

    def capacity(self) -> int:
        return sum(self.hosts[name].capacity for name in self.members)

    def add_node(self, act: AddNode) -> None:
        if len(self.members) >= self.system.nodes_max:
            self.counts["refused"] += 1
            return
        self.counts["added"] += 1
        name = f"{act.kind}-new-{self.counts['added']}"
        # The node starts when the one that asked for it is done.
        link = Link(name, self.system.kinds[act.kind])
        self.driver.at(self.driver.now, self._add, link, (act.introducer,))

    def leave(self, name: str) -> None:
        if name in self.left:
            return
        if len(self.members) <= self.system.nodes_min:
            self.driver.at(self.driver.now, self.driver.tell, name, LeaveRefused())
        else:
            self.counts["removed"] += 1
            self.left.add(name)
            self.gone_s[name] = self.driver.now

    def give_back(self, name: str) -> None:
        if name in self.left:
            self.driver.crash(name, math.inf)

    def _offer(self) -> None:
        for name in self.members:
            self.driver.tell(name, self.system.offered_at(self.driver.now))

    # Clients.

    def _issue(self) -> None:
        """A request, and then the next, after an exponential time."""
        rate = self.system.rate_at(self.driver.now)
        self.driver.at(self.driver.now + float(self.rng.exponential(1.0 / rate)), self._issue)
        if self.driver.is_up(ENTRY):
            self.issued += 1
            self.driver.tell(ENTRY, RequestIssued(self.issued))

    def reply(self, act: ReplyToClient) -> None:
        if act.request in self.answered:
            raise BrokenError(f"request {act.request} is answered twice")
        self.answered[act.request] = act.ok

    # Figures.

    def _sample(self) -> None:
        now = self.driver.now
        self.driver.at(now + SAMPLE_S, self._sample)
        self.samples.append((now, self.system.rate_at(now), self.capacity()))

    def run(self, until: float) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Go on to a time; returns (second, rate, capacity) for every second so far."""
        self.driver.run(until)
        return np.array(self.samples, dtype=np.float64)

    def workers(self) -> Iterator[Worker]:
        for name in self.members:
            yield self.driver.agent(name)


def find_reached(links: dict[str, set[str]]) -> set[str]:
    """The nodes that are connected with the first one, whichever way links point."""
    either: dict[str, set[str]] = {name: set() for name in links}
    for name, others in links.items():
        for other in others & links.keys():
            either[name].add(other)
            either[other].add(name)
    seen: set[str] = set()
    ahead = list(links)[:1]
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead += either[name] - seen
    return seen


class DepasChecker(Checker):
    """Nobody answers a request twice (the world itself says so), a node that left takes none, and
    in the end there is one overlay and the capacity is inside the band."""

    #: A small system cannot meet the band exactly, and it watches a random workload.
    slack = 0.15

    def __init__(self, world: DepasWorld, calm_s: float) -> None:
        self._world, self._calm_s = world, calm_s

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        agent = driver.agent(name)
        if isinstance(agent, Worker):
            agent.check()
            starts = any(isinstance(e, Do) and isinstance(e.act, ProcessRequest) for e in effects)
            if name in self._world.left and isinstance(event, HandRequest) and starts:
                raise BrokenError(f"{name} has left and takes request {event.request}")

    def end(self, driver: VirtualDriver) -> None:
        self._check_overlay()
        self._check_band()
        self._check_requests()

    def _check_overlay(self) -> None:
        world = self._world
        links = {w.name: {n.node for n in w.membership.neighbours} for w in world.workers()}
        apart = links.keys() - find_reached(links)
        if apart:
            raise BrokenError(f"the overlay is in pieces: {', '.join(sorted(apart))} are apart")
        old = {name for name, at in world.gone_s.items() if at < world.driver.now - LINKS_DIE_S}
        for name, others in links.items():
            if dead := (others & old) - links.keys():
                raise BrokenError(f"{name} still has a link to {', '.join(dead)}, which is gone")

    def _check_band(self) -> None:
        world, rules = self._world, self._world.system.settings
        rows = np.array([row for row in world.samples if row[0] >= self._calm_s])
        capacity, work = rows[:, 2].mean(), rows[:, 1].mean() * rules.execution_s
        low = work / (rules.target_load + rules.band) * (1.0 - self.slack)
        high = work / (rules.target_load - rules.band) * (1.0 + self.slack)
        if not low <= capacity <= high:
            raise BrokenError(
                f"the capacity is {capacity:.1f} after the calm, expected {low:.1f} to {high:.1f}"
            )

    def _check_requests(self) -> None:
        """What is not answered is young enough to be under way."""
        world, agent = self._world, self._world.driver.agent(ENTRY)
        recent = world.system.settings.outcome_s * world.system.rate_at(world.driver.now)
        if len(agent.waiting) > 2.0 * recent + 100.0:
            raise BrokenError(f"{len(agent.waiting)} requests have no answer")


def system_of(scenario: AutoscaleScenario) -> System:
    """The system that a scenario of `murmur autoscale` describes, as far as agents have its
    options: the estimate is that of the neighbourhood, nodes start at once, and the entry point
    knows `entry_min` workers."""
    scaler, requests, overlay = scenario.autoscaler, scenario.requests, scenario.autoscaler.overlay
    kinds = {kind.name: kind.capacity for kind in scaler.type}
    names = list(kinds)
    rates = workload(scenario)
    settings = DepasSettings(
        target_load=scaler.target_load,
        band=scaler.band,
        cycle_s=scaler.cycle_s,
        window_s=scaler.window_s,
        formula=FORMULAS.index(scaler.formula),
        execution_s=requests.execution_s,
        degree=overlay.degree,
        overlay_s=overlay.cycle_s,
        exchange=overlay.exchange,
        probes=overlay.probes,
        queue_max=requests.queue_max,
        hops_max=requests.hops_max,
        entry_min=requests.entry_min,
        entry_s=requests.entry_s,
    )
    return System(
        kinds,
        [(at, names[kind]) for at, kind in type_schedule(scaler)],
        {kind.name: kind.initial for kind in scaler.type},
        list(zip(rates.time_s.tolist(), rates.rate.tolist(), strict=False)),
        settings,
        scaler.nodes_min,
        scaler.nodes_max,
        scenario.seed,
    )
