"""Machine reassignment: seeded instances of the shape of the challenge's own, as large as wanted.

    python benchmarks/roadef_instances.py FOLDER [--seed 1] [b1 b4 …]

writes `model_NAME.txt` and `assignment_NAME.txt`, which `benchmarks/roadef.py --data FOLDER NAME`
takes. Sizes, services with several tasks, dependencies (all on a few services), balance costs and
the share of the first load cost that no assignment can save are those published for the challenge's
second set; so is the first load cost itself, for tasks of the mean size that they have in its first
set. Everything else follows what that looks like: requirements from hundreds to millions, evenly
spread in their logarithm and nearly proportional within groups of resources, safety from 70 to 95 %
of capacity.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.planning.reassignment.cost import usage, violations
from murmuration.planning.reassignment.model import Model, write_assignment

Array = NDArray[np.int64]


class Shape(NamedTuple):
    """How many there are of everything, the share of all use that is above safety at first, and how
    much of that nobody can save."""

    nodes: int
    tasks: int
    services: int
    several: int  # services with more than one task: those that need others
    largest: int  # tasks of a service at most
    resources: int
    transient: int
    locations: int
    dependencies: int
    balances: int
    above: float
    inevitable: float


NEIGHBOURHOODS = 5
SHAPES = {
    "b1": Shape(100, 5_000, 2_512, 500, 10, 12, 4, 10, 4_412, 0, 0.08, 0.43),
    "b2": Shape(100, 5_000, 2_462, 500, 10, 12, 0, 10, 3_617, 1, 0.044, 0.0075),
    "b3": Shape(100, 20_000, 15_025, 1_000, 10, 6, 2, 10, 16_560, 0, 0.033, 0.025),
    "b4": Shape(500, 20_000, 1_732, 1_000, 50, 6, 0, 50, 40_485, 1, 0.024, 0.0),
    "b5": Shape(100, 40_000, 35_082, 1_000, 10, 6, 2, 10, 14_515, 0, 0.033, 0.074),
    "b6": Shape(200, 40_000, 14_680, 1_000, 50, 6, 0, 50, 42_081, 1, 0.0083, 0.0),
    "b8": Shape(100, 50_000, 45_030, 1_000, 10, 3, 1, 10, 15_145, 0, 0.059, 0.086),
    "b9": Shape(1_000, 50_000, 4_609, 1_000, 100, 3, 0, 100, 43_437, 1, 0.073, 0.58),
}


def make_instance(shape: Shape, seed: int) -> tuple[Model, Array]:
    """An instance whose initial assignment breaks no rule: limits are set so that it keeps them."""
    rng = np.random.Generator(np.random.PCG64(seed))
    neighbourhood = np.arange(shape.nodes) % NEIGHBOURHOODS
    location = np.arange(shape.nodes) % shape.locations
    service = _draw_services(shape, rng)
    initial = _place(shape, service, rng)
    request = _draw_requests(shape, rng)
    model = Model(
        transient=(np.arange(shape.resources) >= shape.resources - shape.transient).astype(int),
        load_weight=np.full(shape.resources, 10),
        capacity=np.ones((shape.nodes, shape.resources), dtype=np.int64),
        safety=np.zeros((shape.nodes, shape.resources), dtype=np.int64),
        neighbourhood=neighbourhood,
        location=location,
        node_move=_draw_node_moves(location),
        service=service,
        request=request,
        task_move=np.ones(shape.tasks, dtype=np.int64),
        spread=_draw_spread(service, location[initial], rng),
        need_from=np.zeros(shape.services + 1, dtype=np.int64),
        needs=np.zeros(0, dtype=np.int64),
        balance=np.array([[0, 1, 2, 10]] * shape.balances, dtype=np.int64).reshape(-1, 4),
        weights=np.array([1, 10, 100]),
    )
    used = usage(model, initial)
    capacity, safety = _draw_limits(used, shape, rng)
    need_from, needs = _draw_needs(shape, service, neighbourhood[initial], rng)
    model = model._replace(capacity=capacity, safety=safety, need_from=need_from, needs=needs)
    assert not violations(model, initial, initial)
    return model, initial


def _draw_services(shape: Shape, rng: np.random.Generator) -> Array:
    """Every service has a task; the first few share the others evenly, at most the largest."""
    count = np.ones(shape.services, dtype=np.int64)
    count[: shape.several] = rng.integers(2, shape.largest + 1, shape.several)
    while (left := shape.tasks - int(count.sum())) != 0:
        some = rng.permutation(shape.several)[: abs(left)]
        count[some] = np.clip(count[some] + np.sign(left), 2, shape.largest)
    return rng.permutation(np.repeat(np.arange(shape.services), count))


def _draw_limits(used: Array, shape: Shape, rng: np.random.Generator) -> tuple[Array, Array]:
    """Safety is 70 to 95 % of capacity. How full nodes are on average decides how much of what is
    above it nobody can save, how much they differ decides how much is above it at first."""
    drawn = np.minimum(rng.exponential(0.18, (len(used), 1)), 0.6)
    drawn = drawn * np.exp(rng.normal(0.0, 0.3, used.shape))
    share = rng.uniform(0.7, 0.95, used.shape)

    def limits(free: float, width: float) -> tuple[Array, Array]:
        room = np.clip(free + width * (drawn - drawn.mean()), 0.0, 0.6)
        capacity = (used / (1.0 - room)).astype(np.int64) + 1
        return capacity, (share * capacity).astype(np.int64)

    def least(free: float, width: float) -> float:
        over = used - limits(free, width)[1]
        return float(np.maximum(over.sum(axis=0), 0).sum() / np.maximum(over, 0).sum())

    def settle(width: float) -> tuple[float, float]:
        return _bisect(lambda free: least(free, width) - shape.inevitable, 0.0, 0.5), width

    def above(width: float) -> float:
        over = used - limits(*settle(width))[1]
        return float(np.maximum(over, 0).sum() / used.sum())

    return limits(*settle(_bisect(lambda width: shape.above - above(width), 0.0, 1.5)))


def _bisect(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function is zero."""
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return high


def _place(shape: Shape, service: Array, rng: np.random.Generator) -> Array:
    """Each service's tasks on nodes of their own, some nodes drawn far more often than others."""
    weight = rng.lognormal(0.0, 0.4, shape.nodes)
    initial = np.zeros(shape.tasks, dtype=np.int64)
    for s in range(shape.services):
        members = np.flatnonzero(service == s)
        share = weight / weight.sum()
        initial[members] = rng.choice(shape.nodes, len(members), replace=False, p=share)
    return initial


def _draw_requests(shape: Shape, rng: np.random.Generator) -> Array:
    """Resources in groups of six; within one, large tasks are large in all."""
    group = np.arange(shape.resources) // 6
    size = rng.uniform(0.0, 1.0, (shape.tasks, int(group[-1]) + 1))[:, group]
    low = rng.uniform(5.0, 7.0, shape.resources)
    high = low + rng.uniform(5.0, 8.0, shape.resources)
    noise = rng.normal(0.0, 0.5, (shape.tasks, shape.resources))
    return np.exp(low + (high - low) * size + noise).astype(np.int64) + 1


def _draw_node_moves(location: Array) -> Array:
    """Nothing to itself, 1 within a location, 2 elsewhere."""
    moves = 2 - (location[:, None] == location[None, :]).astype(np.int64)
    np.fill_diagonal(moves, 0)
    return moves


def _draw_spread(service: Array, location: Array, rng: np.random.Generator) -> Array:
    count = int(service.max()) + 1
    reached = np.zeros(count, dtype=np.int64)
    np.add.at(reached, np.unique(np.stack([service, location]), axis=1)[0], 1)
    return rng.integers(0, reached + 1)


def _draw_needs(
    shape: Shape, service: Array, neighbourhood: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Dependencies of the services with several tasks on a tenth of them, as they hold at first."""
    present = np.zeros((shape.services, NEIGHBOURHOODS), dtype=np.bool_)
    present[service, neighbourhood] = True
    a, b = np.divmod(np.arange(shape.several * (shape.several // 10)), shape.several // 10)
    kept = np.flatnonzero((a != b) & ~(present[a] & ~present[b]).any(axis=1))
    chosen = np.sort(rng.permutation(kept)[: shape.dependencies])
    counts = np.bincount(a[chosen], minlength=shape.services)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), b[chosen]


def format_model(model: Model) -> str:
    """The model in the challenge's format, one line for each thing."""
    kinds = np.stack([model.transient, model.load_weight], axis=1).tolist()
    places = np.stack([model.neighbourhood, model.location], axis=1)
    nodes = np.hstack([places, model.capacity, model.safety, model.node_move]).tolist()
    tasks = np.hstack([model.service[:, None], model.request, model.task_move[:, None]]).tolist()
    rows = [[len(kinds)], *kinds, [len(nodes)], *nodes, [len(model.spread)]]
    for s, spread in enumerate(model.spread.tolist()):
        needs = model.needs[model.need_from[s] : model.need_from[s + 1]].tolist()
        rows.append([spread, len(needs), *needs])
    rows += [[len(tasks)], *tasks, [len(model.balance)], *model.balance.tolist()]
    rows.append(model.weights.tolist())
    return "\n".join(" ".join(map(str, row)) for row in rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(SHAPES))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.names:
        model, initial = make_instance(SHAPES[name], given.seed)
        (given.folder / f"model_{name}.txt").write_text(format_model(model), encoding="ascii")
        write_assignment(given.folder / f"assignment_{name}.txt", initial)


if __name__ == "__main__":
    main()
