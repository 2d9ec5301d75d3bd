"""Does everything still fit if any one node, or any one zone, fails?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from murmuration.assignment.packed import pack
from murmuration.assignment.problem import Problem
from murmuration.assignment.search.consolidate import can_drain
from murmuration.assignment.search.fewest import fewest_moves
from murmuration.base.words import count_of
from murmuration.planning.changes import remove_nodes, why_lost
from murmuration.planning.drains import in_doubtful_rules, list_tasks_of

NODE, ZONE = "node", "zone"
#: Nodes that the name of a zone lists.
NAMED_MAX = 3


class Failure(NamedTuple):
    """What happens when some nodes fail: how many tasks need a new node, how many others have to
    move for that, which find none, and which are bound to a failed node. What there was no time for
    is not `tried`."""

    failed: str
    nodes: int
    displaced: int
    moves: int
    unplaced: list[str]
    bound: list[str]
    tried: bool = True


def try_failures(
    problem: Problem, of: str, seed: int, left: Callable[[], float] = lambda: np.inf
) -> list[Failure]:
    """Each node or each zone that has tasks fails by itself, the worst case first; `left` says how
    many seconds there are yet. What waits for a node goes on waiting."""
    problem = problem.subset(problem.node_of >= 0)
    easy = _survived_at_once(problem) if of == NODE else {}
    failures = []
    for name, nodes in _domains(problem, of):
        if name in easy:
            failures.append(Failure(name, 1, easy[name], 0, [], []))
        elif left() > 0:
            failures.append(_fail(problem, name, nodes, seed, left))
        else:
            failures.append(Failure(name, len(nodes), 0, 0, [], [], tried=False))
    return sorted(failures, key=lambda f: (-len(f.unplaced), f.tried, -len(f.bound), -f.moves))


def _survived_at_once(problem: Problem) -> dict[str, int]:
    """The nodes whose tasks are all made again and find room on others as things are, and how many
    those are. A node that fails asks neither marks nor budgets."""
    lost = np.array([bool(reason) for reason in why_lost(problem)], dtype=np.bool_)
    asked = replace(problem, pinned=lost, budget_of=np.full(len(problem.tasks), -1))
    tasks_of, doubtful = list_tasks_of(problem), in_doubtful_rules(problem)
    nodes = [
        n
        for n, tasks in enumerate(tasks_of)
        if len(tasks) and not lost[tasks].any() and not doubtful[tasks].any()
    ]
    drained = can_drain(pack(asked).packed, nodes)
    return {problem.nodes[n]: len(tasks_of[n]) for n in nodes if n in drained}


def _domains(problem: Problem, of: str) -> Iterator[tuple[str, list[str]]]:
    """The nodes that fail together and a name for them; never all nodes there are."""
    in_use = set(problem.node_of[problem.node_of >= 0].tolist())
    if of == NODE:
        yield from ((problem.nodes[n], [problem.nodes[n]]) for n in sorted(in_use))
        return
    for zone in np.unique(problem.zone_of).tolist():
        members = np.flatnonzero(problem.zone_of == zone).tolist()
        if in_use & set(members) and len(members) < len(problem.nodes):
            names = [problem.nodes[n] for n in members]
            yield _name_of_zone(problem, members[0], names), names


def _name_of_zone(problem: Problem, node: int, names: list[str]) -> str:
    """What its nodes call it, else some of its nodes."""
    labels = problem.source.node_labels if problem.source is not None else ()
    if labels and labels[node].get("zone"):
        return f"zone {labels[node]['zone']}"
    more = ", …" if len(names) > NAMED_MAX else ""
    return f"the zone of {', '.join(names[:NAMED_MAX])}{more}"


def _fail(
    problem: Problem, name: str, nodes: list[str], seed: int, left: Callable[[], float]
) -> Failure:
    removed = remove_nodes(problem, nodes, failed=True)
    fewest = fewest_moves(pack(removed.problem), seed, exact_effort=0.0, left=left)
    homeless = np.flatnonzero(fewest.node_of < 0).tolist()
    return Failure(
        failed=name,
        nodes=len(nodes),
        displaced=len(removed.displaced),
        moves=fewest.moves,
        unplaced=[removed.problem.tasks[t] for t in homeless],
        bound=list(removed.stranded),
    )


def describe_failures(failures: list[Failure], of: str) -> dict[str, object]:
    """The answer as JSON: whether every failure is survived, and each by itself."""
    return {
        "any_one": of,
        "everything_fits": all(failure.tried and not failure.unplaced for failure in failures),
        "failures": [failure._asdict() for failure in failures],
    }


def failure_sentences(failures: list[Failure], of: str, shown: int = 10) -> list[str]:
    """The answer for people: the verdict, then the worst failures."""
    bad = [failure for failure in failures if failure.unplaced]
    untried = sum(not failure.tried for failure in failures)
    if not bad and untried:
        rest = f"{untried} of {len(failures)} were not tried, for lack of time"
        return [f"any one {of} that was tried may fail; {rest}"]
    if not bad:
        room = max((failure.moves for failure in failures), default=0)
        after = f", with at most {count_of(room, 'move')} of others" if room else ""
        return [f"any one {of} may fail: everything else still fits{after}"]
    missing = f" ({untried} were not tried, for lack of time)" if untried else ""
    sentences = [
        f"{len(bad)} of {len(failures)} {of}s may not fail: something finds no node{missing}"
    ]
    for failure in bad[:shown]:
        tasks = ", ".join(failure.unplaced[:3]) + (", …" if len(failure.unplaced) > 3 else "")
        sentences.append(
            f"{failure.failed}: {len(failure.unplaced):,} of "
            f"{count_of(failure.displaced, 'task')} find no node ({tasks})"
        )
    return sentences
