"""Which nodes or tasks an option means: a name, or labels as `kubectl -l` has them.

`zone=a`, `pool!=spot`, `app in (web, api)`, `gpu`, `!gpu`; several with commas between must all
hold. A key may be the end of a longer one: `zone` finds `topology.kubernetes.io/zone`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from murmuration.assignment.details import SnapshotDetails
from murmuration.assignment.problem import Problem
from murmuration.base.arrays import Flags
from murmuration.base.errors import InputError, unknown
from murmuration.kubernetes.selectors import requirement

Labels = Mapping[str, str]
#: Commas that are not inside parentheses.
_BETWEEN = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"^(\S+)\s+(in|notin)\s*\(([^)]*)\)$")
LEFT_OUT = "--only and --exclude leave it where it is"


class Want(NamedTuple):
    """One condition on a label."""

    key: str
    operator: str
    values: tuple[str, ...]


def parse_selector(text: str, where: str) -> list[Want]:
    """The conditions of a selector."""
    return [_parse_one(part.strip(), text, where) for part in _BETWEEN.split(text)]


def _parse_one(part: str, text: str, where: str) -> Want:
    listed = _SET.match(part)
    if listed:
        values = tuple(value.strip() for value in listed[3].split(","))
        return Want(listed[1], "In" if listed[2] == "in" else "NotIn", values)
    for sign, operator in (("!=", "NotIn"), ("==", "In"), ("=", "In")):
        key, found, value = part.partition(sign)
        if found and key.strip():
            return Want(key.strip(), operator, (value.strip(),))
    if part.startswith("!") and part[1:].strip():
        return Want(part[1:].strip(), "DoesNotExist", ())
    if not part or re.search(r"[\s=!()]", part):
        raise InputError(f"{where}: expected a name or labels such as zone=a, got {text!r}")
    return Want(part, "Exists", ())


def _full_key(key: str, labels: Sequence[Labels]) -> str | None:
    """The label a key means: itself, or the most frequent one that ends in it; None if no label
    does."""
    if any(key in each and each[key] != "" for each in labels):
        return key
    ends = Counter(name for each in labels for name in each if name.endswith(f"/{key}"))
    return ends.most_common(1)[0][0] if ends else None


def _matching(wants: Sequence[Want], labels: Sequence[Labels], where: str) -> Flags | None:
    """Those whose labels meet all conditions; None if a key is not known here."""
    keys = [_full_key(want.key, labels) for want in wants]
    if None in keys:
        return None
    asked = [
        {"key": key, "operator": want.operator, "values": list(want.values)}
        for key, want in zip(keys, wants, strict=True)
    ]
    flags = [all(requirement(each, want, where) for want in asked) for each in labels]
    return np.array(flags, dtype=np.bool_)


def _label_sets(problem: Problem) -> tuple[Sequence[Labels], Sequence[Labels]]:
    """What selectors look at, of nodes and of tasks."""
    source = problem.source
    if source is None:
        return [{} for _ in problem.nodes], [{} for _ in problem.tasks]
    return source.node_labels or [{} for _ in problem.nodes], source.labels


def select_nodes(problem: Problem, text: str, where: str) -> list[str]:
    """The nodes that names with commas between, or a selector, mean; at least one."""
    names = [name.strip() for name in text.split(",")]
    if set(names) <= set(problem.nodes):
        return names
    if not re.search(r"[=!(,]", text):
        raise InputError(f"{where}: {unknown('node', text, problem.nodes)}")
    wants, labels = parse_selector(text, where), _label_sets(problem)[0]
    flags = _matching(wants, labels, where)
    if flags is None or not flags.any():
        raise InputError(f"{where}: no node has {text}{_known_values(wants, labels)}")
    return [problem.nodes[n] for n in np.flatnonzero(flags).tolist()]


def _known_values(wants: Sequence[Want], labels: Sequence[Labels]) -> str:
    """The values there are of the first label asked for, as the end of a sentence."""
    key = _full_key(wants[0].key, labels)
    values = sorted({each[key] for each in labels if key in each}) if key else []
    if not values:
        return f"; none has the label {wants[0].key}"
    return f"; {wants[0].key} is one of {', '.join(values[:10])}"


def narrow(problem: Problem, only: Sequence[str], exclude: Sequence[str]) -> Problem:
    """The same problem in which tasks that are not meant stay where they are, and nodes that are
    not meant take nobody."""
    if not only and not exclude:
        return problem
    nodes = np.ones(len(problem.nodes), dtype=np.bool_)
    tasks = np.ones(len(problem.tasks), dtype=np.bool_)
    for where, texts, wanted in (("--only", only, True), ("--exclude", exclude, False)):
        meant = [_meant_by(problem, text, where) for text in texts]
        for of_nodes, kept in ((True, nodes), (False, tasks)):
            flags = [each for kind, each in meant if kind == of_nodes]
            if flags:
                kept &= np.logical_or.reduce(flags) == wanted
    tasks &= (problem.node_of < 0) | nodes[problem.node_of]
    left_out = problem.movable & ~tasks
    return replace(
        problem,
        pinned=problem.pinned | left_out,
        allowed=problem.allowed & nodes,
        source=_with_reasons(problem.source, left_out),
    )


def _with_reasons(source: SnapshotDetails | None, left_out: Flags) -> SnapshotDetails | None:
    if source is None:
        return None
    reasons = tuple(
        LEFT_OUT if out and not reason else reason
        for out, reason in zip(left_out.tolist(), source.pin_reasons, strict=True)
    )
    return replace(source, pin_reasons=reasons)


def _meant_by(problem: Problem, text: str, where: str) -> tuple[bool, Flags]:
    """Whether a selector speaks of nodes, else of tasks, and those it means."""
    nodes, tasks = _label_sets(problem)
    if text in problem.nodes:
        return True, np.array([name == text for name in problem.nodes])
    if any(each.get("namespace") == text for each in tasks):
        return False, np.array([each.get("namespace") == text for each in tasks])
    wants = parse_selector(text, where)
    matches = [(k == 0, _matching(wants, each, where)) for k, each in enumerate((nodes, tasks))]
    known = [(of_nodes, flags) for of_nodes, flags in matches if flags is not None and flags.any()]
    if not known:
        raise InputError(f"{where}: neither a node nor a task has {text}")
    if len(known) > 1:
        raise InputError(f"{where}: both nodes and tasks have {text}; use a label of one of them")
    return known[0]
