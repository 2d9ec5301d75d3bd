"""Machine reassignment: seeded instances of the shape of the challenge's own, as large as wanted.

    python benchmarks/roadef_instances.py FOLDER [--seed 1] [b1 b4 …]

writes `model_NAME.txt` and `assignment_NAME.txt`, which `benchmarks/roadef.py --data FOLDER NAME`
takes. The sizes are those published for the challenge's second set; everything else follows what
its first set looks like: requirements from hundreds to millions, evenly spread in their logarithm
and nearly proportional between resources, nodes that are 70 to 100 % full at first, safety between
65 and 95 % of capacity, most services with one to three tasks and a few with many.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.planning.reassignment.cost import usage, violations
from murmuration.planning.reassignment.model import Model, write_assignment

Array = NDArray[np.int64]


class Shape(NamedTuple):
    """How many there are of everything."""

    nodes: int
    tasks: int
    services: int
    resources: int
    transient: int
    neighbourhoods: int
    locations: int
    dependencies: int


SHAPES = {
    "b1": Shape(100, 5_000, 2_512, 12, 4, 5, 10, 4_412),
    "b3": Shape(100, 20_000, 15_025, 6, 2, 5, 10, 16_560),
    "b4": Shape(500, 20_000, 1_732, 6, 0, 5, 50, 40_485),
}


def make_instance(shape: Shape, seed: int) -> tuple[Model, Array]:
    """An instance whose initial assignment breaks no rule: limits are set so that it keeps them."""
    rng = np.random.Generator(np.random.PCG64(seed))
    neighbourhood = np.arange(shape.nodes) % shape.neighbourhoods
    location = np.arange(shape.nodes) % shape.locations
    service = _draw_services(shape, rng)
    initial = _place(shape, service, rng)
    request = _draw_requests(shape, rng)
    none = np.zeros(0, dtype=np.int64)
    model = Model(
        transient=(np.arange(shape.resources) >= shape.resources - shape.transient).astype(int),
        load_weight=np.full(shape.resources, 10),
        capacity=np.ones((shape.nodes, shape.resources), dtype=np.int64),
        safety=np.zeros((shape.nodes, shape.resources), dtype=np.int64),
        neighbourhood=neighbourhood,
        location=location,
        node_move=_draw_node_moves(neighbourhood, location),
        service=service,
        request=request,
        task_move=np.ones(shape.tasks, dtype=np.int64),
        spread=_draw_spread(service, location[initial], rng),
        need_from=np.zeros(shape.services + 1, dtype=np.int64),
        needs=none,
        balance=np.array([[0, 1, 2, 10]]),
        weights=np.array([1, 10, 100]),
    )
    used = usage(model, initial)
    capacity = (used / rng.uniform(0.7, 1.0, used.shape)).astype(np.int64) + 1
    safety = (capacity * rng.uniform(0.65, 0.95, used.shape)).astype(np.int64)
    need_from, needs = _draw_needs(shape, service, neighbourhood[initial], rng)
    model = model._replace(capacity=capacity, safety=safety, need_from=need_from, needs=needs)
    assert not violations(model, initial, initial)
    return model, initial


def _draw_services(shape: Shape, rng: np.random.Generator) -> Array:
    """Every service has a task; the others go to services by a steep law, at most a node each."""
    share = 1.0 / np.arange(1, shape.services + 1)
    count = np.ones(shape.services, dtype=np.int64)
    while (left := shape.tasks - int(count.sum())) > 0:
        share[count >= shape.nodes // 2] = 0.0
        count += rng.multinomial(left, share / share.sum())
        count = np.minimum(count, shape.nodes // 2)
    return rng.permutation(np.repeat(np.arange(shape.services), count))


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
    size = rng.uniform(0.0, 1.0, (shape.tasks, 1))
    low = rng.uniform(2.0, 7.0, shape.resources)
    high = low + rng.uniform(4.0, 8.0, shape.resources)
    noise = rng.normal(0.0, 0.5, (shape.tasks, shape.resources))
    return np.exp(low + (high - low) * size + noise).astype(np.int64) + 1


def _draw_node_moves(neighbourhood: Array, location: Array) -> Array:
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
    """Dependencies among services that keep them at first."""
    present = np.zeros((shape.services, shape.neighbourhoods), dtype=np.bool_)
    present[service, neighbourhood] = True
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < shape.dependencies:
        a, b = rng.integers(0, shape.services, (2, 10 * shape.dependencies))
        kept = (a != b) & ~(present[a] & ~present[b]).any(axis=1)
        pairs |= set(zip(a[kept].tolist(), b[kept].tolist(), strict=True))
    chosen = np.array(sorted(pairs))[rng.permutation(len(pairs))[: shape.dependencies]]
    chosen = chosen[np.lexsort((chosen[:, 1], chosen[:, 0]))]
    counts = np.bincount(chosen[:, 0], minlength=shape.services)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), chosen[:, 1]


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
