"""Negotiating agents: CPU seconds and peak memory of a simulated day on the `masb` cells,
migrations beside them.

The peers are the paper's simulator (a simulated day took about a day on 40 hardware threads) and,
in the same run, our agents message by message on 200 nodes. Each cell runs in a process of its own,
with kernels compiled before.

    python benchmarks/negotiation.py                     # one day of masb-12k
    python benchmarks/negotiation.py --days 0.1 masb-12k masb-100k
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

PAPER_CPU_S_PER_DAY = 40 * 86_400.0
SMALL_NODES, SMALL_HOURS = 200, 1.0


def small(preset: str) -> dict[str, float]:
    """The message-level agents: CPU seconds for each node and simulated hour."""
    from murmuration.experiments.papers.masb.fidelities import small_scenario
    from murmuration.simulation.engine import run as engine
    from murmuration.simulation.messages.negotiation.from_scenario import small_cluster

    cell = small_cluster(engine.prepare(small_scenario(1, SMALL_HOURS)), 1)
    began = time.process_time()
    cell.run(SMALL_HOURS * 3600.0)
    return {"cpu_s": time.process_time() - began}


def whole(preset: str, days: float) -> dict[str, float]:
    """The bulk engine on a whole cell."""
    from murmuration.experiments.papers.masb.tables import scale_cell
    from murmuration.simulation.engine import run as engine
    from murmuration.simulation.results import summary as results
    from murmuration.simulation.scenarios import scenario as sc

    tables = sc.load(preset)
    engine.simulate(sc.override(scale_cell(tables, 0.01, 0.01), {"days": 0.002}))
    began = time.process_time()
    run = engine.simulate(sc.override(tables, {"days": days}))
    cpu_s = time.process_time() - began
    cluster = results.summary(run, preset)["cluster"]
    return {
        "cpu_s": cpu_s,
        "tasks": cluster["tasks_running_mean"],
        "migrations": cluster["migrations_per_min"],
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
    }


def apart(*arguments: str) -> dict[str, float]:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--one", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("presets", nargs="*", default=["masb-12k"])
    parser.add_argument("--days", type=float, default=1.0)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name = options.presets[0]
        print(json.dumps(small(name) if name == "small" else whole(name, options.days)))
        return
    messages = apart("small")["cpu_s"] / (SMALL_NODES * SMALL_HOURS)
    print(
        f"message by message, {SMALL_NODES} nodes: {messages * 1000:.2f} CPU ms per node and "
        "simulated hour"
    )
    for preset in options.presets:
        figures = apart(preset, "--days", str(options.days))
        nodes = {"masb-12k": 12_460, "masb-25k": 24_920, "masb-50k": 49_840, "masb-100k": 99_680}[
            preset
        ]
        bulk = figures["cpu_s"] / (nodes * options.days * 24.0)
        print(
            f"{preset}: {options.days:g} days, {figures['tasks']:,.0f} tasks: "
            f"{figures['cpu_s']:.1f} CPU s, "
            f"{figures['memory_mb']:,.0f} MB, {figures['migrations']:.1f} migrations per minute; "
            f"{messages / bulk:,.0f} × the agents one by one, "
            f"{PAPER_CPU_S_PER_DAY * options.days / figures['cpu_s']:,.0f} × the paper's simulator "
            "(12,500 nodes)"
        )


if __name__ == "__main__":
    main()
