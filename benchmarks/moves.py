"""Fewest moves to place one new container on a crowded cluster: how often the optimum, and how
fast.

    python benchmarks/moves.py [--instances 100] [--effort 30] [--large 3]

The peer is OR-Tools' CP-SAT on one thread, given our plan as a hint, on the same instances in the
same run: 200 containers on 40 nodes, filled to 75–85 % by putting each where most room is left, and
a new one of a quarter to six tenths of a node that fits nowhere. Instances that CP-SAT proves
impossible are drawn again. Large ones have 20,000 containers on 2,000 nodes, beyond what CP-SAT
solves. All times are CPU seconds.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from murmuration.assignment.packed import pack
from murmuration.assignment.problem import Problem, new_violations, problem_of
from murmuration.assignment.search.ejection import Room, make_room
from murmuration.assignment.search.exact import Exact, solve_fewest_moves

TYPES = np.array([[1000, 1750], [2000, 3500], [4000, 7000], [8000, 14000]])


def instance(seed: int, tasks: int, nodes: int) -> Problem | None:
    """A crowded cluster and a container that fits nowhere; None if the draw gives none."""
    rng = np.random.default_rng(seed)
    total = TYPES[rng.integers(0, len(TYPES), nodes)]
    request = rng.lognormal(0.0, 0.6, (tasks, 2))
    request = np.maximum(
        1, request / request.sum(axis=0) * total.sum(axis=0) * rng.uniform(0.75, 0.85)
    ).astype(int)
    free, node_of = total.copy(), np.full(tasks, -1)
    for t in np.argsort(-(request / total.mean(axis=0)).max(axis=1)):
        left = np.where(
            (free >= request[t]).all(axis=1), ((free - request[t]) / total).mean(axis=1), -1.0
        )
        node_of[t] = left.argmax()
        free[node_of[t]] -= request[t]
        if left.max() < 0:
            return None
    for _ in range(1000):
        new = (total[rng.integers(nodes)] * rng.uniform(0.25, 0.6, 2)).astype(int)
        if not (free >= new).all(axis=1).any():
            return problem_of(total, np.vstack([request, new]), np.append(node_of, -1))
    return None


def timed(problem: Problem) -> tuple[Room, float]:
    work = pack(problem)
    start = time.process_time()
    room = make_room(work)
    cpu_s = time.process_time() - start
    assert not new_violations(problem, room.node_of)
    return room, cpu_s


def judged(problem: Problem, room: Room, effort: float) -> tuple[Exact, float]:
    start = time.process_time()
    placed = room.node_of[-1] >= 0
    exact = solve_fewest_moves(problem, effort, room.node_of if placed else None)
    return exact, time.process_time() - start


def small(count: int, effort: float) -> None:
    ours, theirs, moves = [], [], []
    optimal = proved = missed = 0
    seed = 0
    while len(ours) < count:
        seed += 1
        problem = instance(seed, 200, 40)
        if problem is None:
            continue
        room, cpu_s = timed(problem)
        exact, exact_cpu_s = judged(problem, room, effort)
        if exact.infeasible:
            continue
        ours.append(cpu_s)
        theirs.append(exact_cpu_s)
        moves.append(room.moves)
        placed = room.node_of[-1] >= 0
        missed += not placed
        proved += exact.proved
        optimal += placed and exact.proved and room.moves == exact.moves
    counts = dict(zip(*(x.tolist() for x in np.unique(moves, return_counts=True)), strict=True))
    here, peer = 1e3 * np.mean(ours), 1e3 * np.mean(theirs)
    print(
        f"{count} × 200 containers on 40 nodes: the optimum in {optimal} of {proved} proved, "
        f"{missed} not placed"
    )
    print(f"  instances by moves: {counts}")
    print(
        f"  here {here:.1f} ms, at most {1e3 * max(ours):.1f} ms; CP-SAT {peer:.0f} ms; ratio "
        f"{peer / here:.0f}"
    )


def large(count: int) -> None:
    for seed in range(1, count + 1):
        problem = instance(seed, 20_000, 2_000)
        if problem is not None:
            room, cpu_s = timed(problem)
            placed = "placed" if room.node_of[-1] >= 0 else "not placed"
            print(
                f"20,000 containers on 2,000 nodes: {placed}, {room.moves} moves in {cpu_s:.3f} s"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--effort", type=float, default=30.0)
    parser.add_argument("--large", type=int, default=3)
    given = parser.parse_args()
    make_room(pack(problem_of([[9], [7]], [[7], [9]], [0, -1])))
    large(given.large)
    small(given.instances, given.effort)


if __name__ == "__main__":
    main()
