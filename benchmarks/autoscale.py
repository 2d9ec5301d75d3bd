"""CPU seconds of auto-scaling runs against their targets, and requests per CPU-second against a
SimPy model of a farm.

    python benchmarks/autoscale.py [--repeat 3] [--skip-large]

The paper's scenario is 2,600 s with about 2.75 million requests, gossip included; the large one
10,000 nodes and 7,000 requests/s for an hour. The peer is the simplest farm SimPy can do: one M/M/c
queue, no gossip, no balancer, no scaling. The first run compiles and is not counted. Figures are
medians of the repeats.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from murmuration.simulation.autoscale import build, scenario
from murmuration.simulation.scenarios import scenario as sc

LARGE: dict[str, Any] = {
    "name": "large",
    "seconds": 3600,
    "autoscaler": {"type": [{"name": "node", "capacity": 1, "initial": 10_000}]},
    "requests": {"rate": 7000.0},
}
TARGETS = {"paper": 4.0, "large": 60.0}


def measure(tables: dict[str, Any], repeat: int) -> tuple[float, int]:
    """CPU seconds of a whole run, from scenario to end, and its requests."""
    cpu_s, arrived = [], 0
    for _ in range(repeat):
        started = time.process_time()
        run = build.finish(build.prepare(scenario.check(tables)))
        cpu_s.append(time.process_time() - started)
        arrived = int(run.world.state["arrived"][0])
    return statistics.median(cpu_s), arrived


def simpy_rate(requests: int = 100_000, servers: int = 1000, load: float = 0.7) -> float:
    """Requests per CPU-second of SimPy's M/M/c queue."""
    import numpy as np
    import simpy

    rng = np.random.default_rng(1)
    gaps, takes = (
        rng.exponential(1 / (servers * load), requests).tolist(),
        rng.exponential(1.0, requests).tolist(),
    )
    environment = simpy.Environment()
    farm = simpy.Resource(environment, servers)

    def request(seconds: float) -> Any:
        with farm.request() as turn:
            yield turn
            yield environment.timeout(seconds)

    def arrivals() -> Any:
        for gap, seconds in zip(gaps, takes, strict=True):
            yield environment.timeout(gap)
            environment.process(request(seconds))

    environment.process(arrivals())
    started = time.process_time()
    environment.run()
    return requests / (time.process_time() - started)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--skip-large", action="store_true")
    options = parser.parse_args()
    paper = sc.load("depas")
    measure(sc.override(paper, {"seconds": 5}), 1)
    simpy = statistics.median(simpy_rate() for _ in range(3))
    print(f"SimPy, one M/M/1000 queue: {simpy:,.0f} requests per CPU-second")
    print(
        f"{'scenario':<10}{'requests':>12}{'CPU s':>9}{'target':>9}{'requests/s':>14}{'× SimPy':>9}"
    )
    for name, tables in {"paper": paper, "large": LARGE}.items():
        if name == "large" and options.skip_large:
            continue
        seconds, requests = measure(tables, options.repeat if name == "paper" else 1)
        rate = requests / seconds
        print(
            f"{name:<10}{requests:>12,}{seconds:>9.2f}{f'< {TARGETS[name]:g}':>9}"
            f"{rate:>14,.0f}{rate / simpy:>9.1f}"
        )


if __name__ == "__main__":
    main()
