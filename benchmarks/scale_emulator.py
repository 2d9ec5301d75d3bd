"""Node agents and frameworks that `scale.py` connects to a real master: real messages over real
sockets, tasks that only take their time.

    python benchmarks/scale_emulator.py HOST:PORT TOKEN SETTINGS

`SETTINGS` is the JSON of `Load`. The process is one loop over `epoll`: what is due by time and what
has arrived is answered, then every connection that has something to say is written to once. A line
of JSON on standard output says when all slots are taken, another one, `Outcome`, when all probes
have ended.
"""

from __future__ import annotations

import gc
import heapq
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from murmuration.runtime.net.wire import Hello, HelloAnswer, encode
from murmuration.schedulers.agent import Message
from murmuration.schedulers.central.messages import (
    AgentJoined,
    Ended,
    EndRecorded,
    Heartbeat,
    HeartbeatSeen,
    Launch,
    Order,
    RunEnded,
    RunStarted,
    Welcome,
)
from murmuration.schedulers.offers.messages import (
    OfferRescinded,
    Register,
    ReplyToOffer,
    ResourceOffer,
    SetNeedsOffers,
    Status,
    StatusUpdate,
    Task,
)

CPU, GB = 1_000_000, 10**9
REQUEST = (CPU, GB)
MEAN_S, DEVIATION_S, PROBE_S = 30.0, 10.0, 10.0
#: From the moment when all slots are taken to the first probe, and from one probe to the next.
SETTLE_S, APART_S = 10.0, 0.5
#: Nodes that join within this, and hellos that are under way at once.
JOINS_PER_S, HELLOS = 2000, 32
PROBE = "probe"
READ = 2**18


class Load(msgspec.Struct):
    nodes: int
    connections: int
    frameworks: int
    probes: int
    seed: int
    heartbeat_s: float


class Outcome(msgspec.Struct):
    """How much later than its ten seconds each probe ended; meanwhile: tasks launched, messages
    both ways, offers taken back and tasks lost (none should be), and the time it took."""

    delays_s: list[float]
    launched: int
    received: int
    sent: int
    rescinded: int
    lost: int
    seconds: float
    cpu_s: float


_outer = msgspec.msgpack.Decoder(tuple[int, str, str, msgspec.Raw])
_launch = msgspec.msgpack.Decoder(Launch)
_offer = msgspec.msgpack.Decoder(ResourceOffer)
_update = msgspec.msgpack.Decoder(StatusUpdate)


class Link:
    """One connection, and what waits to be written to it."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = bytearray()
        self.out: list[bytes] = []

    def frames(self) -> Iterator[tuple[str, str, msgspec.Raw]]:
        """What has arrived: whom it is for, its key, and the message."""
        data = self.socket.recv(READ)
        assert data, "the master has closed a connection"
        buffer = self._read
        buffer += data
        at, end = 0, len(buffer)
        while end - at >= 4:
            size = int.from_bytes(buffer[at : at + 4], "big")
            if end - at - 4 < size:
                break
            _, node, key, raw = _outer.decode(bytes(buffer[at + 4 : at + 4 + size]))
            at += 4 + size
            yield node, key, raw
        del buffer[:at]

    def flush(self) -> None:
        data = b"".join(self.out)
        self.out.clear()
        self.socket.sendall(data)


class Emulator:
    def __init__(self, host: str, port: int, token: str, load: Load) -> None:
        self._address, self._token, self._load = (host, port), token, load
        self._rng = np.random.default_rng(load.seed)
        self._epoll = select.epoll()
        self._by_file: dict[int, Link] = {}
        self._dirty: set[Link] = set()
        self._queue: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._posted = self._serial = 0
        self._is_filling = True
        self._welcomed = self._greeted = 0
        #: Frameworks that have launched something: a probe launches one task.
        self._placed: set[str] = set()
        self._began: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        self.launched = self.received = self.sent = self.rescinded = self.lost = 0
        self._frameworks: dict[str, Link] = {}
        self._on: dict[str, Callable[[str, msgspec.Raw], None]] = {
            Launch.key: self._on_launch,
            ResourceOffer.key: self._on_offer,
            StatusUpdate.key: self._on_update,
            Welcome.key: self._on_welcome,
            HelloAnswer.key: self._on_hello,
            HeartbeatSeen.key: lambda node, raw: None,
            EndRecorded.key: lambda node, raw: None,
            OfferRescinded.key: self._on_rescinded,
        }

    def counts(self) -> tuple[int, ...]:
        return self.launched, self.received, self.sent, self.rescinded, self.lost

    # The loop.

    def at(self, when: float, call: Callable[..., None], *arguments: object) -> None:
        self._posted += 1
        heapq.heappush(self._queue, (when, self._posted, call, arguments))

    def run(self, until: Callable[[], bool]) -> None:
        while not until():
            now, queue = time.monotonic(), self._queue
            while queue and queue[0][0] <= now:
                _, _, call, arguments = heapq.heappop(queue)
                call(*arguments)
            for link in self._dirty:
                link.flush()
            self._dirty.clear()
            wait_s = min(0.05, queue[0][0] - time.monotonic()) if queue else 0.05
            for file, _ in self._epoll.poll(max(0.0, wait_s)):
                for node, key, raw in self._by_file[file].frames():
                    self.received += 1
                    self._on[key](node, raw)

    def run_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        self.run(lambda: time.monotonic() >= end)

    def send(self, link: Link, message: Message, node: str = "") -> None:
        self.sent += 1
        link.out.append(encode(message, node))
        self._dirty.add(link)

    def connect(self, role: str, name: str) -> Link:
        link = Link(*self._address)
        self._by_file[link.socket.fileno()] = link
        self._epoll.register(link.socket, select.EPOLLIN)
        self.send(link, Hello(self._token, role, name))
        return link

    def connect_all(self) -> None:
        load = self._load
        self._agents: list[Link] = []
        for k in range(load.connections):
            self._agents.append(self.connect("agent", f"host{k}"))
            self.run(lambda k=k: self._greeted > k - HELLOS)
        for k in range(load.frameworks):
            self._frameworks[f"f{k}"] = self.connect("scheduler", f"f{k}")
            self.run(lambda k=k: self._greeted > load.connections + k - HELLOS)
        self.run(lambda: self._greeted == load.connections + load.frameworks)
        for name in self._frameworks:
            self._ask_for_offers(name)

    def _ask_for_offers(self, name: str) -> None:
        link = self._frameworks[name]
        self.send(link, Register(name))
        self.send(link, SetNeedsOffers(name, True))

    # Node agents.

    def link_of(self, node: str) -> Link:
        return self._agents[int(node[1:]) % len(self._agents)]

    def join_all(self) -> None:
        total, now = {"cpu": 2 * CPU, "memory": 2 * GB}, time.monotonic()
        for k in range(self._load.nodes):
            name = f"n{k}"
            joined = AgentJoined(name, name, 1, total)
            self.at(now + k / JOINS_PER_S, self.send, self.link_of(name), joined, name)

    def _on_hello(self, node: str, raw: msgspec.Raw) -> None:
        answer = msgspec.msgpack.decode(raw, type=HelloAnswer)
        assert not answer.error, answer.error
        self._greeted += 1

    def _on_welcome(self, node: str, raw: msgspec.Raw) -> None:
        self._welcomed += 1
        first_s = self._load.heartbeat_s * float(self._rng.random())
        self.at(time.monotonic() + first_s, self._beat, node, 1)

    def _beat(self, node: str, serial: int) -> None:
        self.send(self.link_of(node), Heartbeat(node, 1, serial), node)
        self.at(time.monotonic() + self._load.heartbeat_s, self._beat, node, serial + 1)

    def _on_launch(self, node: str, raw: msgspec.Raw) -> None:
        launch = _launch.decode(raw)
        self.launched += 1
        assert launch.order.duration_s is not None
        self.send(self.link_of(node), RunStarted(node, launch.framework, launch.run, 1), node)
        ended = Ended(launch.framework, launch.run, Status.FINISHED, 0, None, "")
        due = time.monotonic() + launch.order.duration_s
        self.at(due, self.send, self.link_of(node), RunEnded(node, ended, 1), node)

    # Frameworks.

    def _on_offer(self, node: str, raw: msgspec.Raw) -> None:
        offer = _offer.decode(raw)
        name, is_probe = offer.framework, offer.framework.startswith(PROBE)
        tasks: list[Task] = []
        for part in offer.slices:
            for _ in range(min(map(int.__floordiv__, part.unlimited, REQUEST))):
                if is_probe and name in self._placed:
                    break
                self._placed.add(name)
                self._serial += 1
                task = name if is_probe else f"t{self._serial}"
                order = Order(("x",), duration_s=PROBE_S if is_probe else self._draw_duration())
                tasks.append(Task(task, part.node, REQUEST, payload=order))
        link = self._frameworks[name]
        if is_probe:
            self.send(link, SetNeedsOffers(name, False))
        self.send(link, ReplyToOffer(name, offer.offer, tuple(tasks)))

    def _draw_duration(self) -> float:
        lasts_s = max(1.0, float(self._rng.normal(MEAN_S, DEVIATION_S)))
        # What is left of a task that began some time ago.
        return lasts_s * float(self._rng.random()) if self._is_filling else lasts_s

    def _on_update(self, node: str, raw: msgspec.Raw) -> None:
        update = _update.decode(raw)
        if update.task.startswith(PROBE) and update.status is Status.FINISHED:
            self._ended[update.task] = time.monotonic()
        self.lost += update.status is Status.LOST

    def _on_rescinded(self, node: str, raw: msgspec.Raw) -> None:
        self.rescinded += 1

    # The study.

    def fill(self) -> None:
        """All agents join, and all slots are taken."""
        self.connect_all()
        self.join_all()
        self.run(lambda: self._welcomed == self._load.nodes)
        self.run(lambda: self.launched >= 2 * self._load.nodes)
        self._is_filling = False
        self.run_for(SETTLE_S)

    def probe(self) -> list[float]:
        """The extra delays of tasks of ten seconds, one framework each."""
        for k in range(self._load.probes):
            name = f"{PROBE}{k}"
            self._began[name] = time.monotonic()
            greeted = self._greeted
            self._frameworks[name] = self.connect("scheduler", name)
            self.run(lambda greeted=greeted: self._greeted > greeted)
            self._ask_for_offers(name)
            self.run_for(APART_S)
        self.run(lambda: len(self._ended) == self._load.probes)
        return [self._ended[name] - at - PROBE_S for name, at in self._began.items()]


def main(address: str, token: str, load: Load) -> None:
    gc.disable()
    host, _, port = address.rpartition(":")
    emulator = Emulator(host, int(port), token, load)
    emulator.fill()
    print("full", flush=True)
    began, cpu_s, before = time.monotonic(), time.process_time(), emulator.counts()
    delays = emulator.probe()
    counts = [now - then for now, then in zip(emulator.counts(), before, strict=True)]
    seconds, used_s = time.monotonic() - began, time.process_time() - cpu_s
    outcome = Outcome(delays, *counts, seconds, used_s)
    print(msgspec.json.encode(outcome).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], msgspec.json.decode(sys.argv[3], type=Load))
