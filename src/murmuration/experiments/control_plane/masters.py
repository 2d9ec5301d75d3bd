"""One of several masters in virtual time: the process around a master, as in
`runtime/master/process.py`, with the store, the election and the state machine that ship.

```
 stands by ── the key is free ──▶ leads: recovers, listens ── lease over, or store taken ──▶ ends
     ▲                                                                                       │
     └──────────────────────────── started again a moment later ─────────────────────────────┘
```

As in the real one, what a master says is carried out only while its lease lasts by its own clock,
and a master that has lost it learns of that late: until then it listens, decides and answers into
the void. A request to etcd is under way for a moment, and so is its answer.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from murmuration.experiments.control_plane.etcd import VirtualEtcdClient
from murmuration.runtime.net.etcd_client import EtcdError
from murmuration.runtime.net.etcd_directory import LOOK_S, campaign
from murmuration.runtime.store.etcd import EtcdStore
from murmuration.runtime.store.interface import Deposed, Entry, StoreError
from murmuration.schedulers.agent import Disconnected, Do, Effect, Message, Send
from murmuration.schedulers.central.leader_lease import RENEWALS, LeaderLease
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.memory import MasterMemory
from murmuration.schedulers.central.messages import HangUp, Recover
from murmuration.schedulers.offers.messages import FrameworkGone
from murmuration.simulation.messages.central import WRITE_S
from murmuration.simulation.messages.drive import BrokenError, Disk, Party, Unwritten

if TYPE_CHECKING:
    from murmuration.experiments.control_plane.cluster import ControlPlane

Answer = TypeVar("Answer")
CLUSTER = "main"
LEADER_KEY = f"/murmuration/{CLUSTER}/leader"
LOG, EPOCH = f"/murmuration/{CLUSTER}/log/", f"/murmuration/{CLUSTER}/epoch"
LEASE_S = 4
#: A request to etcd and its answer take up to this, each; reading the whole store up to the second.
CALL_S, READ_S = 0.2, 1.0
#: A write that failed is tried again after this.
RETRY_S = 0.5
#: A process that has ended is started again within this.
RESTART_S = 2.0
#: Small, so that every schedule takes snapshots and has batches in parts.
SNAPSHOT_BYTES, PART_BYTES = 1000, 300


class SeatedMaster:
    """The agent of a master's party: nothing while it stands by, a master when it leads."""

    def __init__(self, party: ProcessParty) -> None:
        self._party = party
        self.master: CentralMaster | None = None

    @property
    def due(self) -> float:
        return math.inf if self.master is None else self.master.due

    def handle(self, event: Message, now: float) -> list[Effect]:
        if isinstance(event, Recover):
            self.master = CentralMaster(self._party.settings, self._party.seed)
        if self.master is None:
            return []
        if isinstance(event, Disconnected) and self._party.is_framework(event.peer):
            # A notice may come after the framework is back, and has voided its offers itself.
            if self._party.hears_from(event.peer):
                return []
            event = FrameworkGone(event.peer)
        return self.master.handle(event, now)


class StoreDisk(Disk):
    """The store that ships, as a party's disk."""

    def __init__(self, party: ProcessParty, rng: np.random.Generator) -> None:
        super().__init__(MasterMemory(), WRITE_S, rng)
        self._party = party
        self.store: EtcdStore | None = None
        self._last = 0
        #: What is being written, for the witness of the store.
        self.facts: Sequence[tuple[Message, float]] = ()

    def open(self, store: EtcdStore, seed: int) -> Recover:
        self.store = store
        event = store.recover(seed)
        self._last = store.last_number()
        return event

    def write(self, facts: Sequence[tuple[Message, float]]) -> None:
        assert self.store is not None
        entries = [
            Entry(self._last + k, noted_s, "fact", fact)
            for k, (fact, noted_s) in enumerate(facts, start=1)
        ]
        self.facts = facts
        try:
            self.store.write(entries)
        except StoreError:
            raise Unwritten(RETRY_S) from None
        except Deposed:
            self._party.end()
            raise Unwritten(math.inf) from None
        self._last += len(entries)

    def load(self) -> MasterMemory:
        """What a process starts with: nothing. It reads the store when it leads."""
        return MasterMemory()


class ProcessParty(Party):
    """The process of one master."""

    def __init__(
        self, cluster: ControlPlane, name: str, seed: int, client: VirtualEtcdClient
    ) -> None:
        self.writes = StoreDisk(self, cluster.rng)
        super().__init__(name, self.writes)
        self._cluster, self._driver, self._rng = cluster, cluster.driver, cluster.rng
        self.settings, self.seed = cluster.settings, seed
        self._client = client
        self.leadership = LeaderLease()
        self._lease = 0

    def start(self, memory: MasterMemory, life: int) -> SeatedMaster:
        self.leadership = LeaderLease()
        # A process has a clock of its own, and hosts differ by hours.
        ahead_s = self._driver.now + float(self._rng.uniform(1e5, 2e5))
        self._driver.jump(self.name, ahead_s - self._driver.clock(self.name))
        self._later(LOOK_S, self._look)
        return SeatedMaster(self)

    def do(self, act: Message) -> None:
        assert isinstance(act, HangUp)
        self._cluster.connections.hang_up(act.node, act.session)

    def may_leave(self, effect: Send | Do) -> bool:
        """As `MasterProcess` guards what rests on no fact."""
        return self.leadership.is_leading(self._driver.clock(self.name))

    def end(self) -> None:
        """The process ends by itself, and somebody starts it again."""
        self._later(0.0, self._driver.crash, self.name, RESTART_S * float(self._rng.random()))

    def is_framework(self, name: str) -> bool:
        return name in self._cluster.frameworks

    def hears_from(self, name: str) -> bool:
        return self._cluster.connections.is_open(name, self.name)

    # Time.

    def _later(self, seconds: float, call: Callable[..., None], *arguments: object) -> None:
        """Call in this life, and not while the process is suspended."""
        at = self._driver.now + seconds
        self._driver.at(at, self._in_life, self._driver.life(self.name), call, arguments)

    def _in_life(self, life: int, call: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if self._driver.life(self.name) != life:
            return
        if self._driver.is_paused(self.name):
            self._driver.at(self._driver.now + LOOK_S, self._in_life, life, call, arguments)
        else:
            call(*arguments)

    def _ask(
        self, call: Callable[[], Answer], answer: Callable[[float, Answer | None], None]
    ) -> None:
        """Make a call to etcd: it is carried out a moment later, whatever becomes of this process,
        and answered a moment after that. `answer` is told when it was asked, and None if it
        failed."""
        life, asked_s = self._driver.life(self.name), self._driver.clock(self.name)

        def carry_out() -> None:
            result: Answer | None = None
            with contextlib.suppress(EtcdError):
                result = call()
            if self._driver.life(self.name) == life:
                self._later(CALL_S * float(self._rng.random()), answer, asked_s, result)

        self._driver.at(self._driver.now + CALL_S * float(self._rng.random()), carry_out)

    # Leading.

    def _look(self) -> None:
        self._ask(lambda: campaign(self._client, LEADER_KEY, LEASE_S), self._on_campaign)

    def _on_campaign(self, asked_s: float, taken: tuple[int, float] | None) -> None:
        if taken is None:
            self._later(LOOK_S, self._look)
            return
        self._lease, lasts_s = taken
        self.leadership.renew(asked_s, lasts_s)
        self._later(LEASE_S / RENEWALS, self._renew)
        self._later(READ_S * float(self._rng.random()), self._lead)

    def _renew(self) -> None:
        if self.leadership.is_leading(self._driver.clock(self.name)):
            self._ask(lambda: self._client.renew(self._lease), self._on_renewed)
            self._later(LEASE_S / RENEWALS, self._renew)
        else:
            self.end()

    def _on_renewed(self, asked_s: float, lasts_s: float | None) -> None:
        if lasts_s is not None:
            self.leadership.renew(asked_s, lasts_s)

    def _lead(self) -> None:
        store = EtcdStore(self._client, CLUSTER, SNAPSHOT_BYTES, PART_BYTES)
        try:
            event = self.writes.open(store, self.seed)
        except StoreError:
            self.end()
            return
        if event != self._cluster.disk.memory.recover(event.epoch, event.seed):
            raise BrokenError(f"{self.name} starts from something else than what was written")
        self._driver.tell(self.name, event)
