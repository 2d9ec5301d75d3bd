"""The paper's swarm study and a million containers in CPU seconds, and the ratio to plain Python in
the same run.

    python benchmarks/swarm.py [--full] [--runs 100]

The study is 20 sizes × 3 fillings × 10,000 runs (N = 50 to 1,000, n0 = 50). Without `--full`,
`--runs` runs of each of the 60 clouds are timed and multiplied. The peer is section 5 written down
in pure Python, one container at a time, as the paper's own simulator was, timed on the same clouds
as the kernel in the same run. Kernels are compiled before.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import deque

import numpy as np

from murmuration.base.random import state
from murmuration.experiments.papers.swarm.study import CAPACITY, FILLINGS, SIZES, StudyPoint, study
from murmuration.experiments.result import ReproductionSettings
from murmuration.simulation.architectures.swarm.cloud import run_to_equilibrium

STUDY_RUNS = 10_000
PEER = ((49, 1000), (25, 1000), (1, 1000))


def plain(filling: int, nodes: int, n0: int, rng: random.Random) -> int:
    """One run in pure Python; returns its steps."""
    n, coming = [filling] * nodes, [0] * nodes
    queues: list[deque[int]] = [deque() for _ in range(nodes)]
    steps = 0
    while any(queues) or any(0 < count < n0 for count in n):
        level = [n[i] - len(queues[i]) + coming[i] for i in range(nodes)]
        for i in range(nodes):
            p = ((n0 - level[i]) / (n0 - 1)) ** 2
            for _ in range(n[i] - len(queues[i])):
                if rng.random() < p:
                    for away in range(1, nodes):
                        j = (i + away) % nodes
                        if level[i] <= level[j] < n0:
                            queues[i].append(j)
                            coming[j] += 1
                            level[i], level[j] = level[i] - 1, level[j] + 1
                            break
        for i in range(nodes):
            if queues[i]:
                j = queues[i].popleft()
                n[i], n[j], coming[j] = n[i] - 1, n[j] + 1, coming[j] - 1
        steps += 1
    return steps


def seconds(call: object, *arguments: object) -> float:
    started = time.process_time()
    call(*arguments)  # type: ignore[operator]
    return time.process_time() - started


def time_study(full: bool, runs: int) -> None:
    count = STUDY_RUNS if full else runs
    points = [StudyPoint(n, filling) for filling in FILLINGS for n in SIZES]
    wall = time.perf_counter()
    cpu_s = seconds(study, ReproductionSettings(seed=1, workers=2), points, count)
    wall = time.perf_counter() - wall
    whole = cpu_s * STUDY_RUNS / count
    what = "whole" if full else f"from {count} runs of each cloud"
    print(
        f"study, 600,000 runs ({what}): {whole:.0f} CPU s, {whole / 120:.1f} minutes on two "
        "cores (target: under 8)"
    )
    print(f"  timed: {cpu_s:.1f} CPU s, {wall:.1f} s on the clock with two threads")


def time_million() -> None:
    for filling, nodes, target in ((49, 20_000, 0.5), (25, 40_000, 5.0)):
        start = np.full(nodes, filling)
        taken = [
            seconds(run_to_equilibrium, start, CAPACITY, state(seed, "million"))
            for seed in range(3)
        ]
        what = f"{nodes * filling:,} containers from {filling} on each of {nodes:,} nodes"
        print(f"{what}: {min(taken):.3f} CPU s (target: under {target:g})")


def time_peer() -> None:
    for filling, nodes in PEER:
        slow = min(
            seconds(plain, filling, nodes, CAPACITY, random.Random(seed)) for seed in range(2)
        )
        fast = (
            seconds(run_to_equilibrium, np.full(nodes, filling), CAPACITY, state(1, "peer"), 200)
            / 200
        )
        what = f"one run, N = {nodes:,}, n(0) = {filling}"
        print(
            f"{what}: {slow:.3f} CPU s in pure Python, {fast * 1e3:.3f} ms here, ratio "
            f"{slow / fast:,.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--runs", type=int, default=100)
    options = parser.parse_args()
    run_to_equilibrium(np.array([1, 1]), CAPACITY, state(1, "warm-up"))
    time_million()
    time_peer()
    time_study(options.full, options.runs)


if __name__ == "__main__":
    main()
