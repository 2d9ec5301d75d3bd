"""Which node is the best to drain? Every node by itself, and what it would take.

A node whose tasks all find room elsewhere as things are is tried by the same steps as a greedy
drain, in one compiled state. Only where that fails are others asked to move, which takes longer: of
those nodes the ones with the fewest tasks are tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from murmuration.assignment.moves import order_moves
from murmuration.assignment.packed import pack
from murmuration.assignment.problem import Problem, describe, find_broken
from murmuration.assignment.reasons import why_unplaced
from murmuration.assignment.search.choice import new_breaks
from murmuration.assignment.search.consolidate import can_drain
from murmuration.assignment.search.fewest import fewest_moves
from murmuration.base.arrays import Flags, Indices
from murmuration.base.words import count_of
from murmuration.planning.changes import remove_nodes, why_fixed

#: Nodes for which moves of others are looked for.
WITH_MOVES_MAX = 50
#: Nodes that a terminal shows.
SHOWN = 15


class NodeDrain(NamedTuple):
    """A node, and what draining it would take.

    `moves` counts the tasks that leave and the others that make room; None if it cannot be done,
    and `blocked` says why. `rounds` is how often tasks of one disruption budget have to wait for
    each other.
    """

    node: str
    tasks: int
    moves: int | None
    rounds: int
    megabytes: float
    price: float
    blocked: str


def rank_drains(
    problem: Problem, seed: int, left: Callable[[], float] = lambda: np.inf
) -> list[NodeDrain]:
    """Every node that has tasks, the easiest to drain first; `left` says how many seconds there
    are yet."""
    work = pack(problem)
    counts = np.bincount(problem.node_of[problem.node_of >= 0], minlength=len(problem.nodes))
    order = [n for n in np.argsort(counts, kind="stable").tolist() if counts[n]]
    at_once = can_drain(work.packed, order)
    reasons, doubtful = why_fixed(problem), in_doubtful_rules(problem)
    drains, tried, tasks_of = [], 0, list_tasks_of(problem)
    for n in order:
        tasks = tasks_of[n]
        fixed = [t for t in tasks.tolist() if reasons[t] and not _goes_with(problem, t)]
        if fixed:
            blocked = f"{problem.tasks[fixed[0]]} may not be moved: {reasons[fixed[0]]}"
            drains.append(_drain(problem, n, None, blocked))
        elif n in at_once and not doubtful[tasks].any():
            drains.append(_drain(problem, n, int(counts[n]), ""))
        elif tried < WITH_MOVES_MAX and left() > 0:
            tried += 1
            drains.append(_with_moves(problem, n, seed, left))
        else:
            drains.append(_drain(problem, n, None, "its tasks do not fit as things are"))
    return sorted(drains, key=_ease)


def list_tasks_of(problem: Problem) -> list[Indices]:
    """The tasks on each node."""
    by_node = np.argsort(problem.node_of, kind="stable")
    first = np.searchsorted(problem.node_of[by_node], np.arange(len(problem.nodes) + 1))
    return [by_node[a:b] for a, b in pairwise(first.tolist())]


def in_doubtful_rules(problem: Problem) -> Flags:
    """Tasks of rules that are broken already, or that a closed node changes: what a drain may do to
    them depends on who else is there, so it is tried as `--remove` does it."""
    doubtful = np.zeros(len(problem.tasks), dtype=np.bool_)
    for rule in problem.rules:
        if rule.only_open or find_broken(rule, problem.node_of):
            doubtful[rule.members] = True
    return doubtful


def _ease(drain: NodeDrain) -> tuple[bool, int, int, float]:
    return drain.moves is None, drain.moves or drain.tasks, drain.rounds, drain.megabytes


def _goes_with(problem: Problem, task: int) -> bool:
    return problem.source is not None and problem.source.bound_to_node[task]


def _with_moves(problem: Problem, n: int, seed: int, left: Callable[[], float]) -> NodeDrain:
    """Drain a node whose tasks have no room, with moves of others."""
    removed = remove_nodes(problem, [problem.nodes[n]])
    rest = removed.problem
    work = pack(rest)
    fewest = fewest_moves(work, seed, exact_effort=0.0, left=left)
    order = order_moves(work, fewest.node_of)
    homeless = [t for t in removed.displaced if order.node_of[t] < 0]
    if broken := new_breaks(rest, order):
        return _drain(problem, n, None, f"it would break something: {describe(rest, broken)}")
    if homeless:
        why = why_unplaced(rest, fewest.node_of, homeless[0])
        return _drain(problem, n, None, f"no node for {rest.tasks[homeless[0]]}: {why}")
    return _drain(problem, n, len(removed.displaced) + fewest.moves, "")


def _drain(problem: Problem, n: int, moves: int | None, blocked: str) -> NodeDrain:
    tasks = np.flatnonzero(problem.node_of == n)
    return NodeDrain(
        node=problem.nodes[n],
        tasks=len(tasks),
        moves=moves,
        rounds=_rounds(problem, tasks.tolist()),
        megabytes=float(problem.megabytes[tasks].sum()),
        price=float(problem.price[n]),
        blocked=blocked,
    )


def _rounds(problem: Problem, tasks: list[int]) -> int:
    """How many times at most tasks of one budget can leave one after the other."""
    counts = Counter(int(problem.budget_of[t]) for t in tasks if problem.budget_of[t] >= 0)
    waits = [-(-count // max(int(problem.budget[b]), 1)) for b, count in counts.items()]
    return max(waits, default=1)


def describe_drains(drains: list[NodeDrain]) -> dict[str, object]:
    """The ranking as JSON."""
    return {"drains": [drain._asdict() for drain in drains]}


def drain_sentences(drains: list[NodeDrain]) -> list[str]:
    """The ranking for people: the easiest nodes, and why others cannot be drained."""
    can = [drain for drain in drains if drain.moves is not None]
    sentences = [f"{len(can)} of {len(drains)} nodes in use can be drained by themselves"]
    for drain in can[:SHOWN]:
        others = (drain.moves or 0) - drain.tasks
        more = f" and {others} others move" if others > 1 else " and 1 other moves" * others
        waits = f", {drain.rounds} after each other for a budget" if drain.rounds > 1 else ""
        sentences.append(
            f"{drain.node}: {count_of(drain.tasks, 'task', 'leave')}{more}{waits}; "
            f"{drain.price:.3f} an hour"
        )
    blocked = [drain for drain in drains if drain.moves is None]
    return sentences + [f"{drain.node}: not: {drain.blocked}" for drain in blocked[:SHOWN]]
