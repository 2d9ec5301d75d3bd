"""The cheapest mix of node types for what runs: as if the cluster were bought from scratch.

Every task that does not belong to a node is placed on nodes of the catalogue alone, with the daemon
sets each of them would carry and under all rules. A packing on one type at a time is where the
search starts; ruin and recreate (`assignment.search.consolidate`) then closes nodes and opens
cheaper ones in exchange until nothing is gained; and where the problem is small the exact solver
improves that or proves it. Without it the bound says what no mix can cost less than: all
that is asked for of one resource, at the price of the type that sells it cheapest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from murmuration.assignment.objectives import built_in
from murmuration.assignment.packed import Work, pack
from murmuration.assignment.problem import APART, Problem
from murmuration.assignment.reasons import why_unplaced
from murmuration.assignment.search.consolidate import NODE_WORTH, consolidate, worth_of
from murmuration.assignment.search.construct import construct
from murmuration.assignment.search.exact import is_available, solve_cheapest
from murmuration.assignment.search.search import Search, Settings
from murmuration.assignment.snapshots.additions import Addition, TypeEntry
from murmuration.base.arrays import Flags, Floats, Indices, Placement
from murmuration.base.errors import InputError
from murmuration.base.random import state as random_state
from murmuration.base.resources import parse_quantity
from murmuration.reports.formats import format_change

#: The name of each node's type.
Labels = NDArray[np.str_]
#: Nodes of one type that may be bought, beyond those that hold everything if nothing is wasted.
SPARE = 1.5
#: Starts that ruin and recreate goes out from.
STARTS = 3
#: How much dearer a mix may be on the way, in prices of the cheapest node: types are exchanged over
#: mixes that cost a little more.
TOLERANCE = 0.5
#: The solver improves or proves a mix of so many variables, tasks × nodes, with this effort.
EXACT_MAX, EXACT_EFFORT = 20_000, 10.0
#: Tasks without a node that are explained.
EXPLAINED_MAX = 20


class Bought(NamedTuple):
    """So many nodes of a type in a zone, at a price an hour each."""

    type: str
    zone: str
    nodes: int
    price: float


class Mix(NamedTuple):
    """What to buy, what that costs an hour and at least must, what the cluster costs now, and
    whoever fits on none of the types."""

    bought: list[Bought]
    price: float
    bound: float
    price_now: float
    unplaced: dict[str, str]


def candidates(problem: Problem, types: Sequence[TypeEntry]) -> list[Addition]:
    """How many nodes of each type could be of use, at most."""
    asked = problem.request[~_belongs(problem)].sum(axis=0)
    rules = [rule for rule in problem.rules if rule.kind == APART]
    apart = max((len(rule.members) for rule in rules), default=0)
    zones = len(set(problem.zone_of.tolist()))
    return [Addition(kind, _count_max(kind, problem, asked, apart) * zones) for kind in types]


def _count_max(kind: TypeEntry, problem: Problem, asked: Indices, apart: int) -> int:
    """As many in each zone as would hold everything, and as rules keep tasks apart."""
    needed = 1
    for r, name in enumerate(problem.resources):
        told = kind.amounts.get(name)
        unit = problem.units[r] if problem.units else (1e6 if name != "memory" else 1.0)
        amount = _amount(told, kind, name) * unit
        if amount > 0:
            needed = max(needed, int(np.ceil(SPARE * asked[r] / amount)))
    count_max = max(needed, apart) + 1
    return min(count_max, len(problem.tasks), kind.most or count_max)


def _amount(told: str | float | None, kind: TypeEntry, name: str) -> float:
    return 0.0 if told is None else parse_quantity(told, f"type {kind.name}: {name}")


def _belongs(problem: Problem) -> Flags:
    """Tasks that belong to a node, and are not bought room for."""
    if problem.source is None:
        return np.zeros(len(problem.tasks), dtype=np.bool_)
    return np.array(problem.source.bound_to_node, dtype=np.bool_)


def cheapest_mix(
    present: Problem,
    extended: Problem,
    additions: Sequence[Addition],
    seed: int,
    stopped: Callable[[], bool] = lambda: False,
) -> Mix:
    """The cheapest nodes for all tasks of `extended`, which is `present` with the additions."""
    first = len(present.nodes)
    kinds = [kind for addition in additions for kind in [addition.type] * addition.nodes]
    if len(extended.nodes) != first + len(kinds):
        raise InputError("--types: expected the same cluster with the nodes added")
    problem = _on_new_nodes(extended, first, kinds)
    work = pack(problem)
    names = np.array([""] * first + [kind.name for kind in kinds])
    search = Search(work, (built_in("cost"),), Settings(seed=seed, stopped=stopped))
    starts = sorted(_starts(search, names), key=lambda x: _merit(work, x))
    tried = [_improve(search, x, seed + k) for k, x in enumerate(starts[:STARTS])]
    best = work.restore(min([*starts, *tried], key=lambda x: _merit(work, x)))
    best, bound = _prove(problem, best, names, stopped)
    return _describe(present, problem, best, kinds, bound)


def _prove(
    problem: Problem, best: Indices, names: Labels, stopped: Callable[[], bool]
) -> tuple[Indices, float]:
    """Let the exact solver improve the mix where it is small; a bound where it has one, else 0."""
    opened = problem.allowed.any(axis=0)
    small = len(problem.tasks) * int(opened.sum()) <= EXACT_MAX
    if not small or stopped() or not is_available() or not (best >= 0).any():
        return best, 0.0
    marks = [(name, int(zone)) for name, zone in zip(names.tolist(), problem.zone_of, strict=True)]
    numbers = {mark: k for k, mark in enumerate(dict.fromkeys(marks))}
    alike = np.array([numbers[mark] for mark in marks])
    return solve_cheapest(problem, EXACT_EFFORT, best, alike)


def _on_new_nodes(extended: Problem, first: int, kinds: Sequence[TypeEntry]) -> Problem:
    """Every task free and without a node, and the old nodes closed."""
    free = extended.subset(~_belongs(extended))
    new = np.arange(len(free.nodes)) >= first
    nothing = np.full(len(free.tasks), -1)
    return replace(
        free,
        node_of=nothing,
        leaves=None,
        pinned=np.zeros(len(free.tasks), dtype=np.bool_),
        allowed=free.allowed & new,
        price=np.concatenate([free.price[:first], [kind.price for kind in kinds]]),
        budget_of=nothing,
    )


def _starts(search: Search, names: Labels) -> list[Placement]:
    """Packings on nodes of one type each, whoever they do not suit on others."""
    work = search.work
    starts: list[Placement] = []
    for name in [*dict.fromkeys(names[names != ""].tolist()), ""]:
        if starts and search.settings.stopped():
            break
        mask = names == name if name else names != ""
        one = pack(replace(work.problem, allowed=work.problem.allowed & mask))
        starts.append(search.repair(construct(one, "best-fit-decreasing")))
    return starts


def _improve(search: Search, start: Placement, seed: int) -> Placement:
    packed = search.work.packed
    stages = consolidate(
        packed,
        start,
        worth_of(packed, 0.0, 1.0, 0.0),
        np.inf,
        random_state(seed, "plan", "mix"),
        search.is_allowed,
        search.settings.stopped,
        tolerance=TOLERANCE * NODE_WORTH,
    )
    return stages[-1] if stages else start


def _merit(work: Work, placement: Placement) -> tuple[int, float]:
    """Whoever has no node first, then what the nodes in use cost."""
    in_use = np.unique(placement[placement >= 0])
    return int((placement < 0).sum()), float(work.problem.price[in_use].sum())


def _describe(
    present: Problem, problem: Problem, node_of: Indices, kinds: Sequence[TypeEntry], bound: float
) -> Mix:
    first = len(present.nodes)
    in_use = np.unique(node_of[node_of >= 0]).tolist()
    counts: Counter[tuple[str, str, float]] = Counter()
    for n in in_use:
        kind = kinds[n - first]
        counts[kind.name, _zone_of(problem, n), kind.price] += 1
    bought = [Bought(name, zone, c, price) for (name, zone, price), c in sorted(counts.items())]
    unplaced = np.flatnonzero(node_of < 0).tolist()
    used_now = np.unique(present.node_of[present.node_of >= 0])
    price = float(problem.price[in_use].sum())
    return Mix(
        bought,
        price,
        # The solver reckons in whole steps of a price.
        min(max(bound, _bound(problem, node_of, first)), price),
        float(present.price[used_now].sum()),
        {problem.tasks[t]: why_unplaced(problem, node_of, t) for t in unplaced[:EXPLAINED_MAX]},
    )


def _zone_of(problem: Problem, node: int) -> str:
    labels = problem.source.node_labels if problem.source is not None else ()
    return labels[node].get("zone", "") if labels else ""


def _bound(problem: Problem, node_of: Indices, first: int) -> float:
    """What the tasks that have a node cost at least, resource by resource."""
    asked: Floats = problem.request[node_of >= 0].sum(axis=0).astype(np.float64)
    total, price = problem.total[first:], problem.price[first:]
    bounds = [0.0]
    for r in range(len(problem.resources)):
        sells = total[:, r] > 0
        if asked[r] > 0 and sells.any():
            bounds.append(float(asked[r] * (price[sells] / total[sells, r]).min()))
    return max(bounds)


def describe_mix(mix: Mix) -> dict[str, object]:
    """The mix as JSON."""
    return {
        "types": [bought._asdict() for bought in mix.bought],
        "price": mix.price,
        "price_bound": mix.bound,
        "price_now": mix.price_now,
        "unplaced": [{"task": task, "reason": reason} for task, reason in mix.unplaced.items()],
    }


def mix_sentences(mix: Mix) -> list[str]:
    """The mix for people."""
    sentences = [
        f"{b.nodes} × {b.type}{f' in {b.zone}' if b.zone else ''} at {b.price:g}"
        for b in mix.bought
    ]
    share = f", {format_change(mix.price / mix.price_now - 1)}" if mix.price_now else ""
    sentences.append(
        f"{mix.price:.3f} an hour; now {mix.price_now:.3f}{share}; no mix costs less than "
        f"{mix.bound:.3f}"
    )
    return sentences + [f"no type for {task}: {why}" for task, why in mix.unplaced.items()]
