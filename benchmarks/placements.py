"""Scored placements on cell A (10,000 nodes): events per CPU-second, and their ratio to randomised
first fit and to the plain scan, which scores every node for every decision, in the same run.

    python benchmarks/placements.py [--days 7] [--scan-days 0.2] [--repeat 3]

The rankings that scan take long, so they run for fewer days; ratios are of events per CPU-second.
The score in plain Python is the one of the README. Every figure is the median of the repeats.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parent))

from murmuration.simulation.engine import run as engine
from murmuration.simulation.scenarios import scenario as sc

TARGET = 5.0
ARCHITECTURES = ("monolithic-multi", "shared-state")
PLACEMENTS = {
    "best-fit": "best-fit",
    "least-allocated": "least-allocated",
    "score with @kernel": "benchmarks_policy:tight",
    "score in Python": "benchmarks_policy:pack",
}


def measure(variant: str, placement: str, days: float, repeat: int) -> float:
    """Events per CPU-second."""
    tables = sc.load("omega-a")
    changes = {**tables["variant"][variant], "scheduler.placement": placement}
    rates = []
    engine.finish(engine.prepare(sc.check(sc.override(tables, {**changes, "days": 0.01}))))
    for _ in range(repeat):
        run = engine.prepare(sc.check(sc.override(tables, {**changes, "days": days})))
        started = time.process_time()
        engine.finish(run)
        rates.append(int(run.world.state["events"][0]) / (time.process_time() - started))
    return statistics.median(rates)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--scan-days", type=float, default=0.2)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{'architecture':<18}{'placement':<20}{'M ev/s':>8}{'target':>8}"
        f"{'÷ first fit':>13}{'scan M ev/s':>13}{'× scan':>8}"
    )
    for variant in ARCHITECTURES:
        first = measure(variant, "first-fit", options.days, options.repeat)
        print(f"{variant:<18}{'first-fit':<20}{first / 1e6:>8.2f}")
        for name, placement in PLACEMENTS.items():
            rate = measure(variant, placement, options.days, options.repeat)
            with patch.object(engine, "is_row_wise", lambda *_: False):
                scan = measure(variant, placement, options.scan_days, options.repeat)
            print(
                f"{variant:<18}{name:<20}{rate / 1e6:>8.2f}{TARGET:>8g}"
                f"{first / rate:>13.1f}{scan / 1e6:>13.3f}{rate / scan:>8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
