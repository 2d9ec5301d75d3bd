"""A second simulator of requests on a changing number of nodes, in plain Python, for scenarios
without neighbours.

It draws from the same streams as the kernel. With no hops allowed nobody needs the overlay, so what
is left is all here: arrivals, the entry point, queues, loads over the window, central scalers,
start-up, leaving, the crash and the cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from murmuration.autoscaling import baselines
from murmuration.base.random import generator
from murmuration.simulation.autoscale.scenario import AutoscaleScenario, type_schedule, workload


@dataclass(eq=False)
class Node:
    kind: int
    capacity: int
    up_at: float = 0.0
    up: bool = False
    crashed: bool = False
    counted: int = 0
    work: float = 0.0
    queue: list[Request] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)
    past: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False)
class Request:
    issued: float
    takes: float
    ends: float = math.inf


class Reference:
    """Run a scenario with `hops_max = 0` under the threshold scaler or the oracle."""

    def __init__(self, scenario: AutoscaleScenario) -> None:
        self.scenario, self.scaler, self.requests = scenario, scenario.autoscaler, scenario.requests
        self.rates = workload(scenario)
        self.schedule = type_schedule(self.scaler)
        self.rng = {
            name: generator(scenario.seed, name) for name in ("requests", "balancer", "decisions")
        }
        self.horizon = scenario.seconds or self.rates.end_s
        self.now = 0.0
        self.arrived = self.done = self.rejected = self.lost = self.added = self.removed = 0
        self.response_s = self.cost = 0.0
        self.live: list[Node] = []
        self.known: list[Node] = []
        self.starting: list[tuple[float, Node]] = []
        self.leaving: list[Node] = []
        self.recent: list[float] = []
        self.capacity_by_second: list[int] = []
        for kind, table in enumerate(self.scaler.type):
            self.live += [Node(kind, table.capacity, up=True) for _ in range(table.initial)]
        oracle = self.scaler.kind == "oracle"
        self.cycle_s = 1.0 if oracle else self.scaler.cycle_s
        crash_s = scenario.faults.crash_s
        # In this order at one time.
        self.timers = {
            "crash": math.inf if crash_s is None else crash_s,
            "second": 0.0,
            "renew": 0.0,
            "central": 0.0 if oracle else self.cycle_s,
        }
        self.arrival = self.next_arrival(0.0)

    def rate_at(self, time: float) -> float:
        return float(self.rates.rate[max(k for k, t in enumerate(self.rates.time_s) if t <= time)])

    def next_arrival(self, at: float) -> float:
        left = -math.log1p(-self.rng["requests"].random())
        while True:
            later = [float(t) for t in self.rates.time_s if t > at]
            ends, rate = (later[0] if later else math.inf), self.rate_at(at)
            if rate > 0 and at + left / rate < ends:
                return at + left / rate
            if ends == math.inf:
                return math.inf
            left, at = left - rate * (ends - at), ends

    def run(self) -> Reference:
        while True:
            busy = [(r.ends, node, r) for node in (*self.live, *self.leaving) for r in node.running]
            ends = min((end for end, _, _ in busy), default=math.inf)
            ready = min((time for time, _ in self.starting), default=math.inf)
            time = min(ends, min(self.timers.values()), ready, self.arrival)
            if time > self.horizon:
                self.pay(self.horizon)
                return self
            self.pay(time)
            if time == ends:
                self.end(*next((node, r) for end, node, r in busy if end == ends))
            elif time == min(self.timers.values()):
                self.tick(next(name for name, at in self.timers.items() if at == time))
            elif time == ready:
                self.ready()
            else:
                self.arrive()

    def pay(self, time: float) -> None:
        nodes = [*self.live, *self.leaving, *(node for _, node in self.starting)]
        self.cost += (
            sum(self.scaler.type[node.kind].price for node in nodes) * (time - self.now) / 3600
        )
        self.now = time

    def tick(self, name: str) -> None:
        if name == "crash":
            self.crash()
            self.timers["crash"] = math.inf
        elif name == "second":
            self.second()
            self.timers["second"] += 1.0
        elif name == "renew":
            self.renew()
            self.timers["renew"] += self.requests.entry_s
        else:
            self.scale()
            self.timers["central"] += self.cycle_s

    def draw_weighted(self, nodes: list[Node]) -> int:
        most = max(table.capacity for table in self.scaler.type)
        while True:
            draw = self.rng["balancer"].random() * len(nodes)
            if (draw - int(draw)) * most < nodes[int(draw)].capacity:
                return int(draw)

    def arrive(self) -> None:
        self.arrived += 1
        takes = self.requests.execution_s
        if self.requests.execution == "exponential":
            takes *= -math.log1p(-self.rng["requests"].random())
        request, node = Request(self.now, takes), None
        while self.known and node is None:
            at = self.draw_weighted(self.known)
            if self.known[at].up:
                node = self.known[at]
            else:
                self.known[at] = self.known[-1]
                self.known.pop()
        if node is not None and len(node.running) < node.capacity:
            self.begin(node, request)
        elif node is not None and len(node.queue) < self.requests.queue_max * node.capacity:
            node.queue.append(request)
        else:
            self.rejected += 1
            if node is not None:
                node.counted += 1
        self.arrival = self.next_arrival(self.now)

    def begin(self, node: Node, request: Request) -> None:
        request.ends = self.now + request.takes
        node.running.append(request)

    def end(self, node: Node, request: Request) -> None:
        self.done += 1
        node.counted += 1
        self.response_s += self.now - request.issued
        node.running.remove(request)
        if node.queue:
            self.begin(node, node.queue.pop(0))
        elif not node.running and node in self.leaving:
            self.leaving.remove(node)

    def second(self) -> None:
        number, window = round(self.now), self.scaler.window_s
        for node in self.live:
            seconds = min(float(window), self.now - node.up_at)
            if seconds > 0:
                work = (
                    (node.counted - node.past.get(number % window, 0))
                    / seconds
                    * self.requests.execution_s
                )
                node.work = float(
                    np.float32(work)
                )  # what nodes tell each other has single precision
            node.past[number % window] = node.counted
        self.capacity_by_second.append(sum(node.capacity for node in self.live))

    def renew(self) -> None:
        share = math.ceil(self.requests.entry_share * len(self.live))
        wanted = min(max(self.requests.entry_min, share), len(self.live))
        self.known = []
        for k, node in enumerate(self.live):
            if self.rng["balancer"].random() * (len(self.live) - k) < wanted - len(self.known):
                self.known.append(node)

    def take_out(self, node: Node) -> None:
        at = self.live.index(node)
        self.live[at] = self.live[-1]
        self.live.pop()
        node.up = False

    def drawn(self) -> Node:
        return self.live[int(self.rng["decisions"].random() * len(self.live))]

    def crash(self) -> None:
        for _ in range(round(self.scenario.faults.crash_share * len(self.live))):
            node = self.drawn()
            self.take_out(node)
            self.lost += len(node.running) + len(node.queue)

    def ready(self) -> None:
        first = min(range(len(self.starting)), key=lambda k: self.starting[k][0])
        _, node = self.starting.pop(first)
        node.up, node.up_at = True, self.now
        self.live.append(node)
        if not self.known:
            self.renew()

    def scale(self) -> None:
        kind = max((time, kind) for time, kind in self.schedule if time <= self.now)[1]
        size = self.scaler.type[kind].capacity
        up = float(sum(node.capacity for node in self.live))
        present = up + sum(node.capacity for _, node in self.starting)
        wanted = self.wanted(up, present)
        while present < wanted and len(self.live) + len(self.starting) < self.scaler.nodes_max:
            self.starting.append((self.now + self.scaler.start_s, Node(kind, size)))
            self.added += 1
            present += size
        while len(self.live) > self.scaler.nodes_min:
            node = self.drawn()
            present -= node.capacity
            if present < wanted:
                break
            self.take_out(node)
            self.removed += 1
            if node.running:
                self.leaving.append(node)

    def wanted(self, up: float, present: float) -> float:
        if self.scaler.kind == "oracle":
            rate = self.rate_at(self.now + self.scaler.start_s)
            return baselines.perfect(rate * self.requests.execution_s, self.scaler.target_load)
        load = sum(node.work for node in self.live) / up if up else 0.0
        latest = (
            baselines.proportional(present, up, load, self.scaler.target_load, self.scaler.band)
            if up
            else present
        )
        keep = max(1, math.ceil(self.scaler.stabilise_s / self.cycle_s))
        self.recent = [*self.recent, latest][-keep:]
        return baselines.stabilise(present, latest, self.recent)
