"""What an assignment costs and which rules it breaks: the challenge's definitions written down in
NumPy.

This is the judge, not the search: every result is evaluated here in full before it is reported.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from murmuration.base.arrays import Amounts, Flags, Indices
from murmuration.planning.reassignment.model import Model


class Cost(NamedTuple):
    """The parts of the objective, each with its weight applied."""

    load: int
    balance: int
    task_moves: int
    service_moves: int
    node_moves: int

    @property
    def total(self) -> int:
        return sum(self)


def usage(model: Model, assignment: Indices) -> Amounts:
    """What the tasks of each node require, node × resource."""
    used = np.zeros_like(model.capacity)
    np.add.at(used, assignment, model.request)
    return used


def cost(model: Model, initial: Indices, assignment: Indices) -> Cost:
    """The objective of the challenge."""
    used = usage(model, assignment)
    over = np.maximum(used - model.safety, 0).sum(axis=0)
    free = model.capacity - used
    balance = sum(
        int(weight * np.maximum(target * free[:, one] - free[:, other], 0).sum())
        for one, other, target, weight in model.balance.tolist()
    )
    moved = assignment != initial
    per_service = np.bincount(model.service[moved], minlength=len(model.spread))
    return Cost(
        load=int(over @ model.load_weight),
        balance=balance,
        task_moves=int(model.weights[0] * model.task_move[moved].sum()),
        service_moves=int(model.weights[1] * per_service.max()),
        node_moves=int(model.weights[2] * model.node_move[initial, assignment].sum()),
    )


def lower_bound(model: Model) -> int:
    """What no assignment costs less than: load and balance if all nodes were one.

    A sum of what is above zero node by node is at least what is above zero in all.
    """
    used, safety, capacity = (x.sum(axis=0) for x in (model.request, model.safety, model.capacity))
    load = int(np.maximum(used - safety, 0) @ model.load_weight)
    free = (capacity - used).tolist()
    lacking = [
        weight * max(0, target * free[one] - free[other])
        for one, other, target, weight in model.balance.tolist()
    ]
    return load + int(sum(lacking))


def violations(model: Model, initial: Indices, assignment: Indices) -> list[str]:
    """One sentence for every hard rule that is broken."""
    return [
        *_capacity(model, initial, assignment),
        *_conflicts(model, assignment),
        *_spread(model, assignment),
        *_dependencies(model, assignment),
    ]


def _capacity(model: Model, initial: Indices, assignment: Indices) -> list[str]:
    """A moved task counts where it was as well, for the resources that are transient."""
    held = usage(model, assignment)
    moved = assignment != initial
    np.add.at(held, initial[moved], model.request[moved] * model.transient)
    return [
        f"node {m} holds {held[m, r]} of resource {r}, above its capacity {model.capacity[m, r]}"
        for m, r in np.argwhere(held > model.capacity).tolist()
    ]


def _conflicts(model: Model, assignment: Indices) -> list[str]:
    pairs, counts = np.unique(np.stack([model.service, assignment]), axis=1, return_counts=True)
    return [
        f"service {s} has {count} tasks on node {m}"
        for s, m, count in zip(*pairs.tolist(), counts.tolist(), strict=True)
        if count > 1
    ]


def _present(model: Model, places: Indices) -> Flags:
    """service × place: whether a task of the service is there."""
    present = np.zeros((len(model.spread), int(places.max()) + 1), dtype=bool)
    present[model.service, places] = True
    return present


def _spread(model: Model, assignment: Indices) -> list[str]:
    reached = _present(model, model.location[assignment]).sum(axis=1)
    return [
        f"service {s} is in {reached[s]} locations, fewer than {model.spread[s]}"
        for s in np.flatnonzero(reached < model.spread).tolist()
    ]


def _dependencies(model: Model, assignment: Indices) -> list[str]:
    present = _present(model, model.neighbourhood[assignment])
    missing = []
    for s in range(len(model.spread)):
        for needed in model.needs[model.need_from[s] : model.need_from[s + 1]].tolist():
            missing += [
                f"service {s} in neighbourhood {n} needs service {needed}, which is not there"
                for n in np.flatnonzero(present[s] & ~present[needed]).tolist()
            ]
    return missing
