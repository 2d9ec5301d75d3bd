"""Machine reassignment: a bound that knows of transient resources, beside the published one.

    python benchmarks/roadef_bound.py --data FOLDER [b3 …]

The published bound takes all nodes for one. But a task that moves still holds its transient
resources where it was, so a node takes no more of them than it had free at first. This is a linear
program: which share of each task leaves its node, and how much of each resource comes to each node,
as if what comes could be cut at will. What is left of a gap above it is the search's, or that of
rules and whole tasks, which it does not know.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, hstack, identity, vstack

from murmuration.planning.reassignment.cost import lower_bound, usage
from murmuration.planning.reassignment.model import Model, read_assignment, read_model

#: Costs are divided by this, so that the solver sees numbers near one.
SCALE = 1e6


def transient_bound(model: Model, initial: NDArray[np.int64]) -> float:
    """What no assignment costs less than, its load and moves counted.

    Variables: the share of each task that leaves, what comes to each node of each resource, and
    what each node is above its safety capacity.
    """
    nodes, resources = model.capacity.shape
    unit = np.maximum(model.request.max(axis=0), 1).astype(float)
    request, used = model.request / unit, usage(model, initial)
    place = initial[:, None] * resources + np.arange(resources)
    task = np.repeat(np.arange(len(initial)), resources)
    leaves = csr_matrix(
        (request.ravel(), (place.ravel(), task)), shape=(nodes * resources, len(initial))
    )
    each = identity(nodes * resources, format="csr")
    none = csr_matrix(each.shape)
    # Above safety is at least: used − what leaves + what comes − safety. No node is above capacity.
    rows = [hstack([-leaves, each, -each]), hstack([-leaves, each, none])]
    sides = [((limit - used) / unit).ravel() for limit in (model.safety, model.capacity)]
    # What comes to all nodes is what leaves them.
    arrives = csr_matrix(np.tile(np.eye(resources), (1, nodes)))
    balance = hstack([-csr_matrix(request.T), arrives, csr_matrix(arrives.shape)])
    free = np.where(model.transient == 1, (model.capacity - used) / unit, np.inf).ravel()
    upper = np.concatenate([np.ones(len(initial)), free, np.full(nodes * resources, np.inf)])
    loads = np.tile(model.load_weight * unit, nodes)
    cost = np.concatenate([_cheapest_moves(model, initial), np.zeros(len(free)), loads])
    solution = linprog(
        cost / SCALE,
        A_ub=vstack(rows),
        b_ub=np.concatenate(sides),
        A_eq=balance,
        b_eq=np.zeros(resources),
        bounds=np.stack([np.zeros(len(upper)), upper], axis=1),
        method="highs-ipm",
    )
    assert solution.status == 0, solution.message
    return float(solution.fun * SCALE)


def _cheapest_moves(model: Model, initial: NDArray[np.int64]) -> NDArray[np.float64]:
    """What each task costs at least if it leaves its node."""
    away = model.node_move + np.diag(np.full(len(model.node_move), model.node_move.max() + 1))
    cheapest = model.task_move * model.weights[0] + away.min(axis=1)[initial] * model.weights[2]
    return cheapest.astype(float)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", default=["b1", "b3"])
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    print(f"{'':6}{'published':>16}{'transient':>16}{'more':>9}{'CPU s':>8}")
    for name in given.names:
        model = read_model(given.data / f"model_{name}.txt")
        initial = read_assignment(given.data / f"assignment_{name}.txt", model)
        began, plain = time.process_time(), lower_bound(model)
        better = transient_bound(model, initial)
        spent = time.process_time() - began
        print(f"{name:6}{plain:16,}{better:16,.0f}{better / max(plain, 1) - 1:9.3%}{spent:8.1f}")


if __name__ == "__main__":
    main()
