"""A small cluster of negotiating node agents, brokers and an entry agent on the virtual driver,
message by message. It decides nothing.

Here are the set-up and the figures; the hosts are in `hosts.py`, the invariants in
`checks.py`, and random fault schedules in `faults.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from murmuration.base.random import generator
from murmuration.cluster.allocation_types import NAMES, allocation_type
from murmuration.schedulers.agent import Message
from murmuration.schedulers.negotiation.broker import Broker
from murmuration.schedulers.negotiation.candidates import rate_nodes
from murmuration.schedulers.negotiation.entry_agent import EntryAgent
from murmuration.schedulers.negotiation.memory import NegotiationMemory, TaskAdmitted, TaskState
from murmuration.schedulers.negotiation.messages import (
    Attributes,
    MobileTask,
    NodeGone,
    SubmitTask,
    ToBroker,
    ToEntry,
    ToNode,
    Vector,
)
from murmuration.schedulers.negotiation.node_agent import NegotiatingNode, Searches
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.simulation.messages.drive import BrokenError, Disk, Party, VirtualDriver
from murmuration.simulation.messages.negotiation.checks import (
    HostsObey,
    OneOwner,
    TasksSettled,
    TrueSpeakers,
    owns,
)
from murmuration.simulation.messages.negotiation.hosts import Arrival, Hosts
from murmuration.simulation.messages.network import FaultSettings, Network

__all__ = ["Arrival", "BrokenError", "Compiled", "NegotiatingCluster"]

ENTRY = "entry"
#: Whoever knows that a node is down for good and has made sure that nothing of it runs.
MEMBERSHIP = "membership"
#: Longer than a disk takes to write what an agent says at once.
WRITES_MAX_S = 60
#: Figures that are counted per minute.
COUNTED = (
    "migrations",
    "forced",
    "megabytes",
    "attempts",
    "collisions",
    "requests",
    "rejections",
    "placed",
    "given_up",
)


@dataclass
class Compiled:
    """The decision functions agents and brokers call: plain, or compiled for long runs. Both choose
    the same."""

    searches: Searches = field(default_factory=Searches)
    rate: Any = rate_nodes

    @classmethod
    def make(cls) -> Compiled:
        """Compiled functions."""
        from murmuration.simulation.architectures.negotiation.kernels import (
            run_rate,
            run_select,
            run_tabu,
        )

        return cls(Searches(run_select, run_tabu), run_rate)


class NegotiatingCluster:
    """Nodes, brokers, an entry agent, and the network between them. With `checked`, the checkers
    look after every step; a write to a disk takes up to `write_s`; `clocks` says by how much those
    of some parties differ."""

    def __init__(
        self,
        nodes: Mapping[str, Vector],
        arrivals: Sequence[Arrival],
        settings: NegotiationSettings | None = None,
        brokers: int = 1,
        seed: int = 1,
        faults: FaultSettings | None = None,
        attributes: Mapping[str, Attributes] | None = None,
        monitor_s: float = 60.0,
        functions: Compiled | None = None,
        checked: bool = False,
        write_s: float = 0.0,
        clocks: Mapping[str, float] | None = None,
    ) -> None:
        self.settings = settings or NegotiationSettings()
        self.nodes, self.attributes, self.seed = dict(nodes), attributes or {}, seed
        self.arrivals = {arrival.task.name: arrival for arrival in arrivals}
        self.brokers = [f"broker-{k}" for k in range(brokers)]
        self.functions, self.resources = functions or Compiled(), len(next(iter(nodes.values())))
        self.network = Network(faults or FaultSettings(), generator(seed, "network"))
        self.driver = VirtualDriver(self.network)
        self.hosts = Hosts(list(nodes), self.arrivals, self.driver, self.settings.mb_per_s)
        self.dead: set[str] = set()
        #: What is on the disk of each agent that has one.
        self.memories: dict[str, NegotiationMemory] = {
            name: NegotiationMemory(TaskState.WAITING if name == ENTRY else TaskState.RUNNING)
            for name in (*nodes, ENTRY)
        }
        self.series: dict[str, list[float]] = {
            name: [] for name in (*NAMES, *COUNTED, "running", "waiting")
        }
        self._monitor_s, self._write_s, self._clocks = monitor_s, write_s, dict(clocks or {})
        self._counts: dict[str, float] = {}
        self._begin()
        self.driver.checkers.append(TasksSettled(self))
        if checked:
            self.driver.checkers += [HostsObey(self), OneOwner(self), TrueSpeakers()]

    def _begin(self) -> None:
        """Everything that is known before the start."""
        rng = generator(self.seed, "phases")
        for arrival in self.arrivals.values():
            if arrival.node is not None:
                self.memories[arrival.node].apply(TaskAdmitted(arrival.task), 0.0)
                self.hosts.run_task(arrival.node, arrival.task)
            else:
                self.driver.at(arrival.at_s, self._submit, arrival.task)
        for name in self.brokers:
            self.driver.add(BrokerParty(name, self))
        for name in (*self.nodes, ENTRY):
            self.driver.add(GiverParty(name, self, self._disk(name)))
        for name, seconds in self._clocks.items():
            self.driver.jump(name, seconds)
        for name in self.nodes:
            self.driver.at(
                float(rng.uniform(0, self._monitor_s)), self.hosts.measure, name, self._monitor_s
            )
        self.driver.inflict(self.network.faults)
        self.driver.at(60.0, self._sample)

    def _disk(self, name: str) -> Disk:
        rng = generator(self.seed, "disk", name) if self._write_s > 0.0 else None
        return Disk(self.memories[name], self._write_s, rng)

    def run(self, until_s: float) -> dict[str, NDArray[np.float64]]:
        """Go on to a time; returns one row per simulated minute so far."""
        self.driver.run(until_s)
        return {name: np.array(values, dtype=float) for name, values in self.series.items()}

    @property
    def agents(self) -> dict[str, Any]:
        """Every agent by name; None while it is down."""
        return {name: self.driver.agent(name) for name in self.driver.names}

    def check_settled(self) -> None:
        """Nothing is under way any more, and every task runs on exactly one node. Disks that still
        write are waited for."""
        for _ in range(WRITES_MAX_S):
            if all(map(self.driver.has_sent_all, self.memories)):
                break
            self.driver.run(self.driver.now + 1.0)
        self.driver.finish()

    def calm(self) -> None:
        """Nothing is measured and nothing off-loaded any more: what is under way comes to its
        end."""
        self.hosts.measuring = False
        self.settings = msgspec.structs.replace(self.settings, proactive=0.0)
        for agent in self.agents.values():
            if agent is not None:
                agent.settings = self.settings

    # What happens to the cluster.

    def _submit(self, task: MobileTask) -> None:
        """A client submits a task, and again after a second while nobody answers."""
        if not self.driver.is_up(ENTRY):
            self.driver.at(self.driver.now + 1.0, self._submit, task)
        else:
            self.driver.tell(ENTRY, SubmitTask(task))
            self.driver.at(self.driver.now + 1.0, self._submit_again, task)

    def _submit_again(self, task: MobileTask) -> None:
        """An entry agent that crashed before it noted the task does not know it: its client, who
        was not answered, submits it again."""
        known = any(task.name in memory.tasks for memory in self.memories.values())
        if not known and task.name not in self.hosts.started:
            self._submit(task)

    def lose_node(self, name: str) -> None:
        """A node is down for good. The others hear of it a little later, each at its own time."""
        self.dead.add(name)
        memory = self.memories[name]
        owned = {task for task, entry in memory.tasks.items() if owns(self, entry)}
        self.hosts.lose_node(name, owned, set(memory.taken.values()))
        rng = generator(self.seed, "gone", name)
        for other in (*self.brokers, *self.nodes, ENTRY):
            heard = self.driver.now + float(rng.uniform(10, 120))
            self.driver.at(heard, self.driver.tell, other, NodeGone(MEMBERSHIP, name))

    # Figures.

    def keep_counts(self, agent: Any) -> None:
        """Keep what an agent counted that has crashed."""
        for key, value in agent.counts.items():
            self._counts[key] = self._counts.get(key, 0) + value

    def counts(self) -> dict[str, float]:
        """What all agents counted so far."""
        total = dict(self._counts)
        for name, agent in self.agents.items():
            if agent is not None and name not in self.brokers:
                for key, value in agent.counts.items():
                    total[key] = total.get(key, 0) + value
        return total

    def _sample(self) -> None:
        self.driver.at(self.driver.now + 60.0, self._sample)
        kinds = [0] * len(NAMES)
        for name in self.nodes:
            agent = self.driver.agent(name)
            if agent is not None:
                total, sums = np.array(agent.total), agent.sums
                kind = allocation_type(total, total - sums.used, sums.guaranteed, sums.tasks == 0)
                kinds[kind] += 1
        counts = self.counts()
        for number, name in enumerate(NAMES):
            self.series[name].append(kinds[number])
        for name in COUNTED:
            self.series[name].append(counts.get(name, 0) - sum(self.series[name]))
        self.series["running"].append(len(self.hosts.runs))
        self.series["waiting"].append(len(self.memories[ENTRY].tasks))


class BrokerParty(Party):
    """A broker: it has no disk, and starts empty."""

    hears = ToBroker

    def __init__(self, name: str, cluster: NegotiatingCluster) -> None:
        super().__init__(name)
        self._cluster = cluster

    def start(self, memory: None, life: int) -> Broker:
        cluster = self._cluster
        rng = generator(cluster.seed, self.name, str(life))
        return Broker(
            self.name,
            cluster.brokers,
            cluster.resources,
            cluster.settings,
            rng,
            cluster.functions.rate,
            authorities=(MEMBERSHIP,),
        )

    def first_events(self) -> Sequence[Message]:
        return [NodeGone(MEMBERSHIP, node) for node in sorted(self._cluster.dead)]


class GiverParty(Party):
    """A node with its host, or the entry agent, with its disk."""

    def __init__(self, name: str, cluster: NegotiatingCluster, disk: Disk) -> None:
        super().__init__(name, disk)
        self._cluster = cluster
        self._agent: NegotiatingNode | EntryAgent | None = None
        self.hears = ToEntry if name == ENTRY else ToNode

    def start(self, memory: Any, life: int) -> NegotiatingNode | EntryAgent:
        cluster, name = self._cluster, self.name
        rng = generator(cluster.seed, name, str(life))
        home = sum(map(ord, name)) % len(cluster.brokers)
        brokers = cluster.brokers[home:] + cluster.brokers[:home]
        if name == ENTRY:
            self._agent = EntryAgent(
                name, brokers, cluster.resources, cluster.settings, rng, memory, (MEMBERSHIP,)
            )
        else:
            self._agent = NegotiatingNode(
                name,
                brokers,
                cluster.nodes[name],
                cluster.settings,
                rng,
                memory,
                authorities=(MEMBERSHIP,),
                attributes=cluster.attributes.get(name, {}),
                searches=cluster.functions.searches,
            )
        return self._agent

    def first_events(self) -> Sequence[Message]:
        return [NodeGone(MEMBERSHIP, node) for node in sorted(self._cluster.dead)]

    def do(self, act: Message) -> None:
        self._cluster.hosts.act(self.name, act)

    def stop(self) -> None:
        self._cluster.keep_counts(self._agent)
        if self._cluster.driver.is_gone(self.name):
            self._cluster.lose_node(self.name)
