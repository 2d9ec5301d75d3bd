"""A control plane in virtual time: masters on one etcd, node agents and their hosts, frameworks by
offers and by transactions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from murmuration.experiments.control_plane.etcd import VirtualEtcd, VirtualEtcdClient
from murmuration.experiments.control_plane.masters import (
    EPOCH,
    LEADER_KEY,
    LOG,
    ProcessParty,
    SeatedMaster,
)
from murmuration.schedulers.agent import Message
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.offers.work import Piece, SubmitWork, WorkFramework, WorkMemory
from murmuration.simulation.messages.central import WRITE_S, CentralCluster
from murmuration.simulation.messages.drive import BrokenError, Disk, Party
from murmuration.simulation.messages.network import FaultSettings, OrderedNetwork

#: The name of etcd in partitions.
STORE = "etcd"


class FrameworkParty(Party):
    """A framework and its disk."""

    def __init__(self, name: str, by_offers: bool, disk: Disk) -> None:
        super().__init__(name, disk)
        self.by_offers = by_offers

    @property
    def written(self) -> WorkMemory:
        """What its disk knows."""
        assert self.disk is not None and isinstance(self.disk.memory, WorkMemory)
        return self.disk.memory

    def start(self, memory: WorkMemory, life: int) -> WorkFramework:
        return WorkFramework(self.name, memory, self.by_offers)


class ConnectionsOfAll(OrderedNetwork):
    """Node agents and frameworks keep connections to the master that listens.

    A framework's messages bear no number of a connection. They need none: a master reads nothing
    more of an old connection once another one of that name has said who it is. So nothing comes
    late from there.
    """

    def __init__(self, cluster: ControlPlane, faults: FaultSettings | None) -> None:
        super().__init__(cluster.rng, cluster.find_listener, faults)
        self._cluster = cluster
        self._of_frameworks: set[int] = set()

    def _connect(self, name: str, listener: str) -> None:
        if name in self._cluster.frameworks:
            self._of_frameworks.add(self._sessions + 1)
        super()._connect(name, listener)

    def late_s(self, line: int) -> float | None:
        return None if line in self._of_frameworks else super().late_s(line)


class ControlPlane(CentralCluster):
    """Several masters, one of which leads. `disk` has what was really written to the store."""

    def __init__(
        self,
        settings: CentralSettings,
        nodes: Mapping[str, dict[str, int]],
        masters: int,
        frameworks: Mapping[str, bool],
        seed: int,
        rng: np.random.Generator,
        faults: FaultSettings | None = None,
        clocks: Mapping[str, float] | None = None,
    ) -> None:
        self._names = [f"master-{k}" for k in range(masters)]
        self.etcd = VirtualEtcd(lambda: self.driver.now)
        self.etcd.witness = self._see
        #: Who has written the last epoch, and who has taken the key that stands for leading.
        self.writer = self.key_holder = ""
        #: The share of calls to etcd that fail, while there are faults.
        self.failing = 0.0
        self._written: set[str] = set()
        self.elections = self.facts = 0
        self.processes: dict[str, ProcessParty] = {}
        self.frameworks: dict[str, FrameworkParty] = {}
        self._wanted = frameworks
        super().__init__(settings, nodes, seed, rng, faults, clocks=clocks)

    def _make_network(self, faults: FaultSettings | None) -> OrderedNetwork:
        return ConnectionsOfAll(self, faults)

    def _add_masters(self, seed: int, clocks: Mapping[str, float]) -> None:
        for name in self._names:
            client = VirtualEtcdClient(self.etcd, name, partial(self._fate, name))
            self.processes[name] = ProcessParty(self, name, seed, client)
            self.driver.add(self.processes[name])
        for name, by_offers in self._wanted.items():
            disk = Disk(WorkMemory(), WRITE_S, self.rng)
            self.frameworks[name] = FrameworkParty(name, by_offers, disk)
            self.driver.add(self.frameworks[name])
            self.connections.dial(name)

    def _fate(self, name: str) -> str:
        """What becomes of a call to etcd."""
        if self.connections.cut(name, STORE, self.driver.now):
            return "lost"
        if self.driver.now >= self.connections.faults.end_s:
            return ""
        draw = float(self.rng.random())
        return "lost" if draw < self.failing else "unanswered" if draw < 2 * self.failing else ""

    # Who leads.

    @property
    def masters(self) -> list[str]:
        return self._names

    def master_at(self, name: str) -> CentralMaster | None:
        agent = self.driver.agent(name) if name in self._names else None
        return agent.master if isinstance(agent, SeatedMaster) else None

    @property
    def leader(self) -> str:
        return self.writer

    def find_listener(self, name: str) -> str | None:
        """A master that listens, whether it still leads or not."""
        listening = [each for each in self._names if self.master_at(each) is not None]
        return listening[int(self.rng.random() * len(listening))] if listening else None

    def tell_leader(self, event: Message) -> None:
        listener = self.find_listener("")
        if listener is not None:
            self.driver.tell(listener, event)

    def submit_work(self, framework: str, piece: Piece) -> None:
        """A client that asks again until its piece of work is on the framework's disk."""
        if piece.name not in self.frameworks[framework].written.pieces:
            self.driver.tell(framework, SubmitWork(piece))
            again = self.driver.now + 1.0
            self.driver.at(again, self.submit_work, framework, piece)

    # What really is in the store.

    def _see(self, client: str, key: str, value: bytes) -> None:
        if key == EPOCH:
            self.writer = client
            self.elections += 1
        elif key == LEADER_KEY:
            self.key_holder = client
        elif key.startswith(LOG):
            if client != self.writer:
                raise BrokenError(f"{client} wrote in the epoch of {self.writer}")
            # One whose answer was lost is written again.
            if key not in self._written:
                self._written.add(key)
                facts = self.processes[client].writes.facts
                self.facts += len(facts)
                self.disk.write(facts)

    def has_key(self, name: str) -> bool:
        """Whether a master, or nobody, has the key that stands for leading."""
        return self.etcd.read(LEADER_KEY) is None or self.key_holder == name
