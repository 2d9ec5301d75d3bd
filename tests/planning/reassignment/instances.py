"""Small instances of the challenge for the tests: written by hand, or drawn with every rule in
play."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from murmuration.planning.reassignment.cost import violations
from murmuration.planning.reassignment.model import Model

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "roadef"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the challenge's instances are not here")
Array = NDArray[np.int64]


def integers(values: Any) -> Array:
    return np.array(values, dtype=np.int64)


def small(**changes: Any) -> Model:
    """Three nodes in two neighbourhoods, four tasks of three services; service 1 needs service
    0."""
    model = Model(
        transient=integers([0, 1]),
        load_weight=integers([10, 1]),
        capacity=integers([[10, 10], [10, 10], [10, 10]]),
        safety=integers([[6, 8], [6, 8], [6, 8]]),
        neighbourhood=integers([0, 0, 1]),
        location=integers([0, 1, 1]),
        node_move=integers([[0, 1, 2], [1, 0, 3], [2, 3, 0]]),
        service=integers([0, 0, 1, 2]),
        request=integers([[3, 4], [2, 4], [4, 1], [1, 2]]),
        task_move=integers([1, 2, 3, 4]),
        spread=integers([2, 0, 0]),
        need_from=integers([0, 0, 1, 1]),
        needs=integers([0]),
        balance=integers([[0, 1, 1, 5]]),
        weights=integers([1, 10, 100]),
    )
    return model._replace(**changes)


def drawn(seed: int, nodes: int, tasks: int, services: int, resources: int) -> tuple[Model, Array]:
    """A random instance whose initial assignment breaks no rule: the limits are set so that it just
    keeps them."""
    rng = np.random.Generator(np.random.PCG64(seed))
    neighbourhood, location = rng.integers(0, 2, nodes), rng.integers(0, 3, nodes)
    service = rng.integers(0, services, tasks)
    initial = np.zeros(tasks, dtype=np.int64)
    for s in range(services):
        # Conflicts are avoided from the start: a service has at most as many tasks as there are
        # nodes.
        members = np.flatnonzero(service == s)
        service[members[nodes:]] = tasks + services + members[nodes:]
        initial[members[:nodes]] = rng.permutation(nodes)[: len(members)]
    service = np.unique(service, return_inverse=True)[1]
    total = int(service.max()) + 1
    request = rng.integers(1, 50, (tasks, resources))
    used = np.zeros((nodes, resources), dtype=np.int64)
    np.add.at(used, initial, request)
    capacity = used + rng.integers(0, 60, (nodes, resources))
    present = np.zeros((total, 2), dtype=bool)
    present[service, neighbourhood[initial]] = True
    needs = [
        [
            b
            for b in range(total)
            if b != a and not (present[a] & ~present[b]).any() and rng.random() < 0.4
        ]
        for a in range(total)
    ]
    reached = [len(set(location[initial[service == s]].tolist())) for s in range(total)]
    model = Model(
        transient=rng.integers(0, 2, resources),
        load_weight=rng.integers(0, 10, resources),
        capacity=capacity,
        safety=(capacity * 0.7).astype(np.int64),
        neighbourhood=neighbourhood,
        location=location,
        node_move=rng.integers(0, 5, (nodes, nodes)) * (1 - np.eye(nodes, dtype=np.int64)),
        service=service,
        request=request,
        task_move=rng.integers(0, 5, tasks),
        spread=integers([rng.integers(0, count + 1) for count in reached]),
        need_from=np.cumsum([0, *map(len, needs)], dtype=np.int64),
        needs=integers([b for row in needs for b in row]),
        balance=integers([[0, resources - 1, rng.integers(0, 3), rng.integers(0, 10)]]),
        weights=integers([1, 10, 100]),
    )
    assert not violations(model, initial, initial)
    return model, initial


def written(model: Model) -> str:
    """The model in the challenge's format, one line for each thing."""
    rows = [
        [len(model.transient)],
        *np.stack([model.transient, model.load_weight], axis=1).tolist(),
    ]
    rows += [[len(model.capacity)]]
    places = np.stack([model.neighbourhood, model.location], axis=1)
    rows += np.hstack([places, model.capacity, model.safety, model.node_move]).tolist()
    rows += [[len(model.spread)]]
    for s, spread in enumerate(model.spread.tolist()):
        needs = model.needs[model.need_from[s] : model.need_from[s + 1]].tolist()
        rows += [[spread, len(needs), *needs]]
    rows += [[len(model.service)]]
    rows += np.hstack([model.service[:, None], model.request, model.task_move[:, None]]).tolist()
    rows += [[len(model.balance)], *model.balance.tolist(), model.weights.tolist()]
    return "\n".join(" ".join(map(str, row)) for row in rows) + "\n"
