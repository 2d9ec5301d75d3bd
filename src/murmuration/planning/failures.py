"""Does everything still fit if any one node, or any one zone, fails?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from murmuration.assignment.packed import pack
from murmuration.assignment.problem import Problem
from murmuration.assignment.search.fewest import fewest_moves
from murmuration.planning.changes import remove_nodes

NODE, ZONE = "node", "zone"
#: Nodes that the name of a zone lists.
NAMED_MAX = 3


class Failure(NamedTuple):
    """What happens when some nodes fail: how many tasks need a new node, how many others have to
    move for that, which find none, and which are bound to a failed node."""

    failed: str
    nodes: int
    displaced: int
    moves: int
    unplaced: list[str]
    bound: list[str]


def try_failures(problem: Problem, of: str, seed: int) -> list[Failure]:
    """Each node or each zone that has tasks fails by itself, the worst case first."""
    waiting = {problem.tasks[t] for t in np.flatnonzero(problem.node_of < 0)}
    failures = [_fail(problem, name, nodes, waiting, seed) for name, nodes in _domains(problem, of)]
    return sorted(failures, key=lambda f: (-len(f.unplaced), -len(f.bound), -f.moves))


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


def _fail(problem: Problem, name: str, nodes: list[str], waiting: set[str], seed: int) -> Failure:
    removed = remove_nodes(problem, nodes, failed=True)
    fewest = fewest_moves(pack(removed.problem), seed, exact_effort=0.0)
    left = [removed.problem.tasks[t] for t in np.flatnonzero(fewest.node_of < 0).tolist()]
    return Failure(
        failed=name,
        nodes=len(nodes),
        displaced=len(removed.displaced),
        moves=fewest.moves,
        unplaced=[task for task in left if task not in waiting],
        bound=list(removed.stranded),
    )


def describe_failures(failures: list[Failure], of: str) -> dict[str, object]:
    """The answer as JSON: whether every failure is survived, and each by itself."""
    return {
        "any_one": of,
        "everything_fits": all(not failure.unplaced for failure in failures),
        "failures": [failure._asdict() for failure in failures],
    }


def failure_sentences(failures: list[Failure], of: str, shown: int = 10) -> list[str]:
    """The answer for people: the verdict, then the worst failures."""
    bad = [failure for failure in failures if failure.unplaced]
    if not bad:
        room = max((failure.moves for failure in failures), default=0)
        after = f", with at most {room} moves of others" if room else ""
        return [f"any one {of} may fail: everything else still fits{after}"]
    sentences = [f"{len(bad)} of {len(failures)} {of}s may not fail: something finds no node"]
    for failure in bad[:shown]:
        tasks = ", ".join(failure.unplaced[:3]) + (", …" if len(failure.unplaced) > 3 else "")
        sentences.append(
            f"{failure.failed}: {len(failure.unplaced)} of {failure.displaced} tasks find no node "
            f"({tasks})"
        )
    return sentences
