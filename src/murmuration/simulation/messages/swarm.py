"""A small cluster of swarm agents in virtual time, message by message, and what must hold of it.

The set-up decides nothing. Its hosts run, stop and copy containers as their agents say, and it
keeps a list of its own of what really runs where, so that it can say when an agent's act would make
a container run twice.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from murmuration.base.random import generator
from murmuration.schedulers.agent import Agent, Effect, Message, Note, Send
from murmuration.schedulers.swarm.container_agent import LEAVING
from murmuration.schedulers.swarm.host import Host
from murmuration.schedulers.swarm.memory import Ownership, SwarmMemory
from murmuration.schedulers.swarm.messages import (
    Amounts,
    ContainerEnded,
    ContainerHosted,
    ContainerPlaced,
    ContainerSent,
    Move,
    PeerGone,
    RoomGranted,
    RunContainer,
    SendContainer,
    StopContainer,
    SwarmContainer,
)
from murmuration.schedulers.swarm.node_agent import SwarmNode
from murmuration.schedulers.swarm.settings import SwarmSettings
from murmuration.simulation.messages.drive import BrokenError, Checker, Disk, Party, VirtualDriver
from murmuration.simulation.messages.network import FaultSettings, Network

#: Who tells the others that a node is down for good.
OPERATOR = "operator"


@dataclass(frozen=True)
class SwarmCluster:
    """What a cluster is made of: nodes with their capacity in ring order, and what runs on which
    at the start."""

    nodes: Mapping[str, Amounts]
    start: Mapping[str, Sequence[SwarmContainer]]
    settings: SwarmSettings = field(default_factory=SwarmSettings)
    migration_s: float = 5.0
    seed: int = 1

    @property
    def counted(self) -> tuple[bool, ...]:
        """A resource that some container does not ask for cannot say how full a node is."""
        requests = np.array([c.request for row in self.start.values() for c in row])
        return tuple(bool((requests[:, r] > 0).all()) for r in range(requests.shape[1]))


class SwarmHost(Party):
    """A node's host: it runs what its agent says, whether the agent is up or not."""

    def __init__(self, name: str, world: SwarmSimulation, disk: Disk) -> None:
        super().__init__(name, disk)
        self._world = world

    def start(self, memory: Any, life: int) -> Agent:
        cluster = self._world.cluster
        return SwarmNode(
            self.name,
            list(cluster.nodes),
            cluster.nodes[self.name],
            self._world.counted,
            cluster.settings,
            generator(cluster.seed, self.name, str(life)),
            memory,
        )

    def first_events(self) -> Sequence[Message]:
        return [PeerGone(name, OPERATOR) for name in sorted(self._world.dead)]

    def do(self, act: Message) -> None:
        if isinstance(act, RunContainer):
            self._world.run_container(self.name, act.container.name)
        elif isinstance(act, StopContainer):
            self._world.stop_container(self.name, act.container)
        elif isinstance(act, SendContainer):
            driver, seconds = self._world.driver, self._world.cluster.migration_s
            driver.at(driver.now + seconds, driver.tell, self.name, ContainerSent(act.move))
        else:
            super().do(act)

    def stop(self) -> None:
        self._world.keep_counts(self.name)
        if self._world.driver.is_gone(self.name):
            self._world.bury(self.name)


class SwarmSimulation:
    """Nodes, the network between them, and what really runs where."""

    def __init__(
        self, cluster: SwarmCluster, faults: FaultSettings | None = None, write_s: float = 0.0
    ) -> None:
        self.cluster, self.counted = cluster, cluster.counted
        self.runs: dict[str, str] = {}
        self.containers: dict[str, SwarmContainer] = {}
        #: Where a container ended.
        self.ended: dict[str, str] = {}
        self.lost: set[str] = set()
        self.dead: set[str] = set()
        #: When a container last changed nodes.
        self.moved_s = 0.0
        self._counts: Counter[str] = Counter()
        self.network = Network(faults or FaultSettings(), generator(cluster.seed, "network"))
        self.driver = VirtualDriver(self.network)
        rng = generator(cluster.seed, "disks") if write_s > 0.0 else None
        self.disks = {name: Disk(self._first(name), write_s, rng) for name in cluster.nodes}
        for name in cluster.nodes:
            self.driver.add(SwarmHost(name, self, self.disks[name]))
        self.driver.inflict(self.network.faults)

    def _first(self, name: str) -> SwarmMemory:
        """The memory a node starts with: what runs there."""
        memory = SwarmMemory()
        for container in self.cluster.start.get(name, ()):
            self.containers[container.name] = container
            memory.apply(ContainerHosted(container), 0.0)
        return memory

    def memory(self, name: str) -> SwarmMemory:
        """What is on a node's disk."""
        memory = self.disks[name].memory
        assert isinstance(memory, SwarmMemory)
        return memory

    def agents(self) -> Iterator[SwarmNode]:
        """The agents that are up."""
        for name in self.cluster.nodes:
            if self.driver.is_up(name):
                yield self.driver.agent(name)

    # What hosts do.

    def run_container(self, node: str, name: str) -> None:
        other = self.runs.get(name, node)
        if other != node:
            raise BrokenError(f"{name} would run on {other} and on {node}")
        if name in self.ended:
            if self.ended[name] != node:
                raise BrokenError(f"{name} ended on {self.ended[name]} and would run on {node}")
            # The agent crashed before it noted the end: the host says so again.
            self.driver.at(self.driver.now, self.driver.tell, node, ContainerEnded(name))
            return
        if name not in self.runs:
            self.moved_s = self.driver.now
        self.runs[name] = node
        self.lost.discard(name)

    def stop_container(self, node: str, name: str) -> None:
        if self.runs.get(name) == node:
            del self.runs[name]

    def bury(self, node: str) -> None:
        """A node is down for good, with what it ran; the others hear of it in their own time."""
        self.dead.add(node)
        for name in [name for name, where in self.runs.items() if where == node]:
            del self.runs[name]
        # What had ended there may run and end again at its source, which never heard that the
        # target took it.
        waiting = {name for n in self.living for name in self.memory(n).containers}
        for name in set(self.memory(node).taken.values()) & waiting:
            self.ended.pop(name, None)
        self.lost |= {
            name
            for name in self.containers
            if name not in self.ended and not self.owners(name) and name not in self.runs
        }
        rng = generator(self.cluster.seed, "gone", node)
        for other in self.living:
            later = self.driver.now + float(rng.uniform(10.0, 120.0))
            self.driver.at(later, self.driver.tell, other, PeerGone(node, OPERATOR))

    @property
    def living(self) -> list[str]:
        """The nodes that are not down for good."""
        return [name for name in self.cluster.nodes if name not in self.dead]

    # Containers that come and end.

    def place(self, node: str, container: SwarmContainer) -> None:
        """A new container comes to a node with room; it is repeated until the node has noted
        it."""
        driver, name = self.driver, container.name
        if self.owners(name) or name in self.ended or name in self.lost:
            return
        if node in self.dead:
            node = self.living[sum(map(ord, name)) % len(self.living)]
        agent = driver.agent(node)
        if agent is not None:
            full = agent.host.here + agent.host.coming + container.request > agent.host.total
            if not full.any():
                self.containers[container.name] = container
                driver.tell(node, ContainerPlaced(container))
        driver.at(driver.now + 5.0, self.place, node, container)

    def end(self, name: str) -> None:
        """A container ends where it runs; while it is stopped, or its agent cannot hear of it, a
        little later."""
        node = self.runs.get(name)
        if name in self.ended or name in self.lost:
            return
        if node is None or not self.driver.is_up(node) or not self.driver.has_sent_all(node):
            self.driver.at(self.driver.now + 1.0, self.end, name)
            return
        del self.runs[name]
        self.ended[name] = node
        self.driver.tell(node, ContainerEnded(name))

    # Who owns what.

    def owns(self, owned: Ownership) -> bool:
        """Whether the container is this node's: not if its target has taken it over."""
        if owned.move is None:
            return True
        return owned.target in self.dead or owned.move not in self.memory(owned.target).taken

    def owners(self, name: str) -> list[str]:
        """The living nodes that own a container."""
        owned = {node: self.memory(node).containers.get(name) for node in self.living}
        return [node for node, entry in owned.items() if entry is not None and self.owns(entry)]

    # Figures.

    def keep_counts(self, name: str) -> None:
        """What an agent counted outlives it here."""
        agent = self.driver.agent(name)
        if agent is not None:
            self._counts.update(agent.counts)

    def counts(self) -> Counter[str]:
        total = Counter(self._counts)
        for agent in self.agents():
            total.update(agent.counts)
        return total

    def fullness(self) -> list[float]:
        """How full each node is that is up, from the fullest down."""
        return sorted((agent.host.fullness() for agent in self.agents()), reverse=True)

    def is_at_rest(self) -> bool:
        """Whether nothing is under way and no container has a destination."""
        agents = list(self.agents())
        if any(agent.departures or agent.reserved or agent.searches for agent in agents):
            return False
        return not any(True for _ in destinations(agents))


def destinations(agents: Sequence[SwarmNode]) -> Iterator[tuple[SwarmContainer, float, str]]:
    """The containers that may still leave, how probably in one step, and a node that takes them."""
    for agent in agents:
        scent = agent.scent()
        for inside in agent.containers.values() if scent.pheromone > 0.0 else ():
            if inside.stage in LEAVING:
                continue
            request = inside.container.request
            for other in agents:
                if other is not agent and other.host.takes(request, scent.fuller_than):
                    yield inside.container, scent.pheromone, other.name
                    break


class SwarmChecker(Checker):
    """No container runs twice (the world itself says so), none is without an owner, and no node
    grants room that it does not have."""

    def __init__(self, world: SwarmSimulation) -> None:
        self._world = world
        self._granted: set[tuple[str, Move]] = set()

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        if not effects:
            return
        agent = driver.agent(name)
        agent.check()
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, RoomGranted):
                grant = (name, effect.message.move)
                # Whoever places new containers may overload a node later.
                if grant not in self._granted:
                    self._granted.add(grant)
                    self._check_room(agent)
        if any(isinstance(effect, Note) for effect in effects):
            self.check_owners()

    def _check_room(self, agent: SwarmNode) -> None:
        """Counted again, container by container: what is here and comes fits, and with all queues
        empty the node is not overloaded."""
        host: Host = agent.host
        here = sum((np.array(o.container.request) for o in agent.memory.containers.values()), 0)
        coming = sum((np.array(c.request) for c in agent.reserved.values()), 0)
        leaving = sum((np.array(d.agent.container.request) for d in agent.departures.values()), 0)
        if np.any(np.asarray(here + coming) > host.total):
            raise BrokenError(f"{agent.name} granted room that it does not have")
        if np.any(np.asarray(here + coming - leaving) > host.settings.overload * host.total):
            raise BrokenError(f"{agent.name} is overloaded by what it granted")

    def check_owners(self) -> None:
        """Every container that was started, and has neither ended nor gone down with its node, has
        exactly one owner."""
        world = self._world
        for name in world.containers:
            owners = world.owners(name)
            if len(owners) > 1:
                raise BrokenError(f"{name} has {len(owners)} owners: {', '.join(owners)}")
            if not owners and name in world.runs:
                raise BrokenError(f"{name} runs on {world.runs[name]} and is owned by nobody")

    def end(self, driver: VirtualDriver) -> None:
        """After the calm every container runs on the one node that owns it, nothing is under way,
        and the cluster is at rest."""
        world = self._world
        self.check_owners()
        for name in world.containers:
            if name in world.ended or name in world.lost:
                continue
            owners = world.owners(name)
            if not owners or [world.runs.get(name)] != owners:
                raise BrokenError(
                    f"{name} runs on {world.runs.get(name)} and is owned by {owners or 'nobody'}"
                )
        for agent in world.agents():
            left = (agent.reserved, agent.departures, agent.memory.taken)
            if any(left):
                raise BrokenError(f"{agent.name} still waits for {left}")
        self._check_rest()

    def _check_rest(self) -> None:
        """Nobody would still leave. A container that leaves with a small probability may not have
        done so yet, so the odds of that are counted."""
        world, steps = self._world, self._world.cluster.settings.step_s
        quiet = (world.driver.now - world.moved_s) / steps
        for container, p, node in destinations(list(world.agents())):
            if quiet * math.log1p(-min(p, 0.999)) < math.log(1e-9):
                raise BrokenError(
                    f"{container.name} could go to {node} and has not for {quiet:.0f} steps"
                )
