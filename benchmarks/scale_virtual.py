"""`scale.py --virtual`: many node agents on one master, whatever else this machine does.

The master is the one that ships: its state machine, its vetting, its frames, its store in SQLite.
Every message to and from it is encoded and decoded as on a connection. Node agents and frameworks
are emulated and cost it nothing, as if they ran on hosts of their own.

Time is virtual, and the master's CPU time is charged to it: while it works, messages wait; what it
answers leaves when that CPU time has passed. So the figures are those of a master with a core of
its own, whatever else this machine does. Tasks last N(30 s, 10 s), two per node. The probe is a
framework of its own with one task of ten seconds: from its first word to the news of the end.
"""

from __future__ import annotations

import heapq
import math
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from murmuration.base.resources import Resources
from murmuration.placement.registry import resolve
from murmuration.runtime.master.process import examine_rarely
from murmuration.runtime.master.vetting import find_fault, tidy
from murmuration.runtime.net.wire import decode, encode
from murmuration.runtime.store.interface import Entry
from murmuration.runtime.store.sqlite import SqliteStore
from murmuration.schedulers.agent import Message, Note, Send, Wake
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.central.messages import (
    AgentJoined,
    Ended,
    EndRecorded,
    FromAgent,
    Heartbeat,
    Launch,
    Order,
    RunEnded,
    RunStarted,
)
from murmuration.schedulers.offers.master import Rules
from murmuration.schedulers.offers.messages import (
    Register,
    ReplyToOffer,
    ResourceOffer,
    SetNeedsOffers,
    Status,
    StatusUpdate,
    Task,
)

CPU, GB = 1_000_000, 10**9
#: A message is under way for this long.
HOP_S = 0.0005
MEAN_S, DEVIATION_S, PROBE_S = 30.0, 10.0, 10.0
#: What a turn writes is on disk after this; what rests on it leaves then.
DISK_S = 0.002
#: A node agent's lease; it is heard twelve times in that.
LEASE_S = 600.0
REQUEST = (CPU, GB)
#: From the moment when all slots are taken to the first probe, and from one probe to the next.
SETTLE_S, APART_S = 5.0, 0.5
JOINS_PER_S = 2000


def clock_cost_s() -> float:
    """What asking for the CPU time costs itself."""
    times = [time.process_time() for _ in range(2001)]
    return statistics.median(b - a for a, b in pairwise(times))


class Paced:
    """A master whose CPU time is the time."""

    def __init__(
        self, folder: Path, nodes: int, frameworks: int, seed: int, interval_s: float
    ) -> None:
        self.now, self.cpu_s = 0.0, 0.0
        self.rng = np.random.default_rng(seed)
        settings = CentralSettings(
            Resources(),
            resolve("first-fit"),
            Rules(period_s=interval_s, timeout_s=5.0, revoke_after_s=10.0),
            agent_timeout_s=LEASE_S,
            margin_s=60.0,
        )
        self.master, self.store = CentralMaster(settings, seed), SqliteStore(folder / "store.db")
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._posted = self._lines = 0
        self._inbox: list[tuple[str, bytes]] = []
        self._turn_is_due = False
        self.names = [f"n{k}" for k in range(nodes)]
        self.frameworks = [f"f{k}" for k in range(frameworks)]
        self.launched = 0
        self.ended: dict[str, float] = {}
        self._serial, self._clock_s = 0, clock_cost_s()
        self._is_filling = True
        self._find = lambda framework, run: None
        # Waiting for the disk is charged as `DISK_S`, so that a busy disk changes nothing here.
        self.store._db.execute("PRAGMA synchronous = OFF")
        self.master.handle(self.store.recover(seed), 0.0)

    # Time.

    def at(self, when: float, call: Callable[..., None], *arguments: Any) -> None:
        self._posted += 1
        heapq.heappush(self._queue, (when, self._posted, call, arguments))

    def run(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            when, _, call, arguments = heapq.heappop(self._queue)
            self.now = max(self.now, when)
            call(*arguments)
        self.now = max(self.now, until)

    # The master.

    def send(self, message: Message, node: str = "", delay_s: float = 0.0) -> None:
        """Somebody says something to the master."""
        self.at(self.now + delay_s + HOP_S, self._arrive, node, encode(message, node)[4:])

    def _arrive(self, node: str, frame: bytes) -> None:
        self._inbox.append((node, frame))
        self._take_turn(self.now)

    def _take_turn(self, when: float) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            self.at(max(when, self.now), self._turn)

    def _turn(self) -> None:
        """All that has arrived, as the driver does; the CPU time it takes passes."""
        inbox, self._inbox = self._inbox, []
        began = time.process_time()
        effects, entries = [], []
        for _, frame in inbox:
            _, _, message = decode(frame)
            if isinstance(message, FromAgent):
                assert not find_fault(message, 2, self._find)
                message = tidy(message)
            effects += self._handle(message, entries)
        if self.master.due <= self.now:
            effects += self._handle(Wake(), entries)
        self.store.write(entries)
        frames = [(e.to, encode(e.message, e.to)) for e in effects if isinstance(e, Send)]
        took_s = max(0.0, time.process_time() - began - self._clock_s)
        self.cpu_s += took_s
        self.at(self.now + took_s, self._end_turn)
        self.at(self.now + took_s + DISK_S, self._send_all, frames)

    def _handle(self, message: Message, entries: list[Entry]) -> list[Any]:
        if not isinstance(message, Heartbeat):
            self._log(entries, "event", message)
        effects = self.master.handle(message, self.now)
        for effect in effects:
            if isinstance(effect, Note):
                self._log(entries, "fact", effect.fact)
        return effects

    def _log(self, entries: list[Entry], side: Any, value: Any) -> None:
        self._lines += 1
        entries.append(Entry(self._lines, self.now, side, value))

    def _send_all(self, frames: list[tuple[str, bytes]]) -> None:
        for to, frame in frames:
            self.at(self.now + HOP_S, self._deliver, to, decode(frame[4:])[2])

    def _end_turn(self) -> None:
        self._turn_is_due = False
        if self._inbox:
            self._take_turn(self.now)
        elif self.master.due < math.inf:
            self.at(max(self.master.due, self.now), self._wake)

    def _wake(self) -> None:
        if self.master.due <= self.now:
            self._take_turn(self.now)

    # Node agents and frameworks.

    def _deliver(self, to: str, message: Message) -> None:
        match message:
            case Launch(framework=framework, run=run, order=order):
                self.launched += 1
                self.send(RunStarted(to, framework, run, 1), to)
                ended = Ended(framework, run, Status.FINISHED, 0, None, "")
                assert order.duration_s is not None
                self.send(RunEnded(to, ended, 1), to, order.duration_s)
            case ResourceOffer():
                self._reply(message)
            case StatusUpdate(task=task, status=Status.FINISHED):
                self.ended[task] = self.now
            case EndRecorded() | _:
                pass

    def _reply(self, offer: ResourceOffer) -> None:
        name, tasks = offer.framework, []
        for part in offer.slices:
            for _ in range(min(a // r for a, r in zip(part.unlimited, REQUEST, strict=True))):
                self._serial += 1
                lasts_s = max(1.0, float(self.rng.normal(MEAN_S, DEVIATION_S)))
                if self._is_filling:
                    # What is left of a task that began some time ago.
                    lasts_s *= float(self.rng.random())
                is_probe = name.startswith("probe")
                if is_probe and tasks:
                    break
                task = name if is_probe else f"t{self._serial}"
                order = Order(("x",), duration_s=PROBE_S if is_probe else lasts_s)
                tasks.append(Task(task, part.node, REQUEST, payload=order))
        if name.startswith("probe"):
            self.send(SetNeedsOffers(name, False))
        self.send(ReplyToOffer(name, offer.offer, tuple(tasks)))

    # The study.

    def fill(self) -> None:
        """All agents join, and all slots are taken."""
        total = {"cpu": 2 * CPU, "memory": 2 * GB}
        for name in self.frameworks:
            self.send(Register(name))
            self.send(SetNeedsOffers(name, True))
        for k, name in enumerate(self.names):
            self.send(AgentJoined(name, name, 1, total), name, k / JOINS_PER_S)
            first_s = len(self.names) / JOINS_PER_S + LEASE_S / 12 * k / len(self.names)
            self.at(first_s, self._beat, name, 1)
        while self.launched < 2 * len(self.names):
            self.run(self.now + 0.1)
        self._is_filling = False
        self.run(self.now + SETTLE_S)

    def _beat(self, name: str, serial: int) -> None:
        self.send(Heartbeat(name, 1, serial), name)
        self.at(self.now + LEASE_S / 12, self._beat, name, serial + 1)

    def probe(self, count: int) -> list[float]:
        """The extra delays of so many tasks of ten seconds, one framework each."""
        began: dict[str, float] = {}
        for k in range(count):
            name = f"probe{k}"
            began[name] = self.now
            self.send(Register(name))
            self.send(SetNeedsOffers(name, True))
            self.run(self.now + APART_S)
        while not began.keys() <= self.ended.keys():
            self.run(self.now + 0.05)
            assert self.now < max(began.values()) + 300.0, "a probe never ended"
        return [self.ended[name] - at - PROBE_S for name, at in began.items()]


def measure(
    nodes: int, frameworks: int, probes: int, seed: int, interval_s: float
) -> dict[str, float]:
    examine_rarely()
    with tempfile.TemporaryDirectory() as folder:
        paced = Paced(Path(folder), nodes, frameworks, seed, interval_s)
        wall = time.monotonic()
        paced.fill()
        launched, began, cpu_s = paced.launched, paced.now, paced.cpu_s
        delays = paced.probe(probes)
        seconds = paced.now - began
        rate = (paced.launched - launched) / seconds
        used = (paced.cpu_s - cpu_s) / seconds
        memory_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        result = {
            "nodes": nodes,
            "interval_s": interval_s,
            "virtual": 1.0,
            "median_s": statistics.median(delays),
            "largest_s": max(delays),
            "tasks_per_s": rate,
            "core": used,
            "cpu_ms_per_task": 1000.0 * used / rate,
            "memory_gb": memory_gb,
            "wall_s": time.monotonic() - wall,
        }
        paced.store.close()
    return result
