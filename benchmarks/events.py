"""Events per CPU-second on cell A (10,000 nodes), and their ratio to SimPy's bare timeouts in the
same run.

    python benchmarks/events.py [--days 7] [--repeat 3]

Events are jobs submitted + attempts ended + tasks ended; metrics are on. The first run of each
kernel compiles and is not counted. Job lists and prefill are made before the clock starts. Every
figure is the median of the repeats.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from murmuration.simulation.engine import run as engine
from murmuration.simulation.scenarios import scenario as sc

TARGETS = {
    "monolithic-multi": 15.0,
    "monolithic-single": 15.0,
    "shared-state": 8.0,
    "offers": 3.0,
    "python policy": 0.3,
}
REFERENCE = {"monolithic-multi": 2.0, "monolithic-single": 2.0, "shared-state": 1.0, "offers": 0.03}


def tables_for(name: str, days: float) -> dict[str, object]:
    tables = sc.load("omega-a")
    changes = (
        {"scheduler.kind": "benchmarks_policy:FirstRoom"}
        if name == "python policy"
        else tables["variant"][name]
    )
    return sc.override(tables, {**changes, "days": days})


def measure(name: str, days: float, repeat: int) -> tuple[float, int]:
    """Median CPU seconds of a run, and its events."""
    cpu_s, events = [], 0
    engine.finish(engine.prepare(sc.check(tables_for(name, 0.01))))
    for _ in range(repeat):
        run = engine.prepare(sc.check(tables_for(name, days)))
        started = time.process_time()
        engine.finish(run)
        cpu_s.append(time.process_time() - started)
        events = int(run.world.state["events"][0])
    return statistics.median(cpu_s), events


def simpy_rate(pending: int = 10_000, events: int = 400_000) -> float:
    """SimPy's hold model: this many processes, each yielding one timeout after another."""
    import numpy as np
    import simpy

    gaps = np.random.default_rng(1).exponential(1.0, 4096).tolist()
    environment, done = simpy.Environment(), [0]

    def process(index: int):  # type: ignore[no-untyped-def]
        while True:
            yield environment.timeout(gaps[(index + done[0]) % 4096])
            done[0] += 1

    for index in range(pending):
        environment.process(process(index))
    environment.run(until=0.5)
    before, started = done[0], time.process_time()
    environment.run(until=0.5 + events / pending)
    return (done[0] - before) / (time.process_time() - started)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    simpy = statistics.median(simpy_rate() for _ in range(3))
    print(f"SimPy bare timeouts, 10,000 pending: {simpy / 1e6:.2f} M events per CPU-second")
    print(
        f"{'run':<20}{'events':>12}{'CPU s':>9}{'M ev/s':>9}"
        f"{'target':>8}{'× SimPy':>9}{'× JVM reference':>17}"
    )
    for name in (*[n for n in TARGETS if n != "python policy"], "partitioned", "python policy"):
        days = min(options.days, 1.0) if name == "python policy" else options.days
        seconds, events = measure(name, days, options.repeat)
        rate = events / seconds
        against = f"{rate / 1e6 / REFERENCE[name]:.1f}" if name in REFERENCE else "—"
        target = f"{TARGETS[name]:g}" if name in TARGETS else "—"
        print(
            f"{name:<20}{events:>12,}{seconds:>9.3f}{rate / 1e6:>9.2f}"
            f"{target:>8}{rate / simpy:>9.1f}{against:>17}"
        )
    one, week = (
        measure("monolithic-multi", days, options.repeat)[0]
        for days in (options.days / 7, options.days)
    )
    longer, _ = measure("monolithic-multi", options.days * 2, options.repeat)
    print(
        f"CPU s for {options.days / 7:g}, {options.days:g} and {options.days * 2:g} days: "
        f"{one:.3f}, {week:.3f}, {longer:.3f}"
    )
    print(
        f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB "
        "(target: under 500 MB)"
    )


if __name__ == "__main__":
    main()
