"""Service selection: how often the optimum is found, how far from it, and CPU time, beside the
paper's tabu search.

    python benchmarks/selection.py [--nodes N]

Synthetic overloaded nodes (tasks of log-normal sizes, 2–20 % too much in use or up to 15 % too much
guaranteed). The reference is the best of all sets. The last column compares CPU time with the tabu
search that stops after six steps.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from murmuration.base.random import state
from murmuration.schedulers.negotiation import selection
from murmuration.simulation.architectures.negotiation.kernels import run_select, run_tabu

COUNTS = (12, 16, 18, 20, 22)
VISITED = np.zeros(selection.TABU_RESTARTS * (selection.TABU_STEPS + 1), np.int64)
LIMITS = (selection.TABU_RESTARTS, selection.TABU_STEPS, selection.TABU_PATIENCE)


def overloaded_node(rng: np.random.Generator, count: int) -> tuple[Any, ...]:
    total = rng.integers(500_000, 1_000_000, 2)
    production = rng.random(count) < 0.5
    production[0] = True
    request = rng.lognormal(0, 1, (count, 2))
    use = request * rng.uniform(0.1, 1.1, (count, 2))
    use = (use * rng.uniform(1.02, 1.2) / (use.sum(axis=0) / total).max()).astype(np.int64)
    share = (request[production].sum(axis=0) / total).max()
    request = (request / share * rng.uniform(0.7, 1.15)).astype(np.int64)
    tasks = selection.Tasks(
        use, request, production, 100 + use[:, 1] / 61, np.ones(count, np.bool_)
    )
    return total, use.sum(axis=0), request[production].sum(axis=0), tasks


def searches() -> dict[str, Callable[..., float]]:
    """The ways to select, by name; each takes a node, room to write in, and a generator's state."""
    return {
        "all sets": lambda node, chosen, room, rng: run_select(*node, chosen, room, 62),
        "local search": lambda node, chosen, room, rng: run_select(*node, chosen, room, 0),
        "tabu, six steps": lambda node, chosen, room, rng: run_tabu(
            *node, chosen, room, rng, *LIMITS, False, VISITED
        ),
        "tabu, six restarts": lambda node, chosen, room, rng: run_tabu(
            *node, chosen, room, rng, *LIMITS, True, VISITED
        ),
    }


def measure(count: int, nodes: int) -> dict[str, tuple[float, float, float]]:
    """Share of optima, mean gap and CPU milliseconds of each search over the same nodes."""
    rng = np.random.default_rng(count)
    made = [overloaded_node(rng, count) for _ in range(nodes)]
    room, chosen, draws = selection.work(count, 2), np.zeros(count, np.bool_), state(1, "selection")
    results, cpu_ms = {}, {}
    for name, search in searches().items():
        search(made[0], chosen, room, draws)
        begun = time.process_time()
        results[name] = np.array([search(node, chosen, room, draws) for node in made])
        cpu_ms[name] = (time.process_time() - begun) / nodes * 1e3
    best = results["all sets"]
    return {
        name: (
            float(np.mean(values >= best * (1 - 1e-9))),
            float(np.mean(1 - values / best)),
            cpu_ms[name],
        )
        for name, values in results.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--nodes", type=int, default=100, help="overloaded nodes per number of services"
    )
    nodes = parser.parse_args().nodes
    print(
        f"{'services':>8}  {'search':<20} {'optimal':>8} {'mean gap':>9} {'CPU ms':>9} "
        f"{'to tabu':>8}"
    )
    for count in COUNTS:
        rows = measure(count, nodes)
        peer = rows["tabu, six steps"][2]
        for name, (optimal, gap, cpu_ms) in rows.items():
            print(
                f"{count:>8}  {name:<20} {optimal:>8.0%} {gap:>9.1%} {cpu_ms:>9.4f} "
                f"{cpu_ms / peer:>8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
