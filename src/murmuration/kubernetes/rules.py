"""Affinity, anti-affinity, topology spread and host ports of pods as rules between tasks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

import msgspec
import numpy as np

from murmuration.assignment.problem import APART, SPREAD, TOGETHER, Rule
from murmuration.assignment.snapshots.builder import NodeEntry, TaskEntry
from murmuration.base.arrays import Flags, Indices
from murmuration.base.errors import InputError
from murmuration.kubernetes.objects import Object, namespace_of
from murmuration.kubernetes.selectors import requirements_of, selects

#: One affinity term or spread constraint, as Kubernetes writes it.
Term = Object
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"


def _terms(task: TaskEntry, part: str) -> list[Term]:
    affinity = (task.source.get("spec") or {}).get("affinity") or {}
    return list((affinity.get(part) or {}).get(REQUIRED) or ())


def _spreads(task: TaskEntry) -> list[Term]:
    listed = (task.source.get("spec") or {}).get("topologySpreadConstraints") or ()
    return [c for c in listed if c.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]


def _key(task: TaskEntry, term: Term) -> str:
    """What makes two pods' terms the same rule: namespace, term, and the labels it takes from the
    pod itself."""
    labels = {
        key: task.labels.get(key)
        for key in (*_listed(term, "matchLabelKeys"), *_listed(term, "mismatchLabelKeys"))
    }
    return msgspec.json.encode(
        [namespace_of(task.source), term, labels], order="deterministic"
    ).decode()


def _listed(term: Term, key: str) -> list[str]:
    return [str(value) for value in term.get(key) or ()]


def _selector(task: TaskEntry, term: Term) -> Term | None:
    """The label selector of a term, with what it takes from the labels of the pod that has it."""
    selector = term.get("labelSelector")
    if selector is None:
        return None
    wants = requirements_of(selector)
    for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        keys = [key for key in _listed(term, name) if key in task.labels]
        wants += [{"key": key, "operator": operator, "values": [task.labels[key]]} for key in keys]
    return {"matchExpressions": wants}


def _targets(task: TaskEntry, term: Term, tasks: Sequence[TaskEntry], where: str) -> Indices:
    selector = _selector(task, term)
    spaces = {str(space) for space in term.get("namespaces") or ()}
    # The labels of namespaces are not in a snapshot: a selector of namespaces is taken to mean all
    # of them.
    everywhere = term.get("namespaceSelector") is not None
    if not spaces and not everywhere:
        spaces = {namespace_of(task.source)}
    targets = [
        k
        for k, other in enumerate(tasks)
        if (everywhere or namespace_of(other.source) in spaces)
        and selects(selector, other.labels, where)
    ]
    return np.array(targets, dtype=np.int64)


def _domains(nodes: Sequence[NodeEntry], key: str, usable: Flags | None = None) -> Indices:
    """Which part of the cluster each node is in by a label; −1 without it."""
    values: dict[str, int] = {}
    domains = np.full(len(nodes), -1, dtype=np.int64)
    for k, node in enumerate(nodes):
        if key in node.labels and (usable is None or usable[k]):
            domains[k] = values.setdefault(node.labels[key], len(values))
    return domains


def rules_of(
    tasks: Sequence[TaskEntry], nodes: Sequence[NodeEntry], masks: dict[Hashable, Flags]
) -> list[Rule]:
    """Every distinct rule. Pods that must lie where a label is are kept to the nodes that have
    it."""
    rules: list[Rule] = []
    for kind, part in ((APART, "podAntiAffinity"), (TOGETHER, "podAffinity")):
        for holders, term in _group_terms(tasks, partial(_terms, part=part)):
            first = tasks[holders[0]]
            where = f"pod {first.name}: {part}"
            key = str(term.get("topologyKey") or "")
            if not key:
                raise InputError(f"{where}: expected a topologyKey")
            domains = _domains(nodes, key)
            if kind == TOGETHER:
                _keep_to(tasks, holders, domains >= 0, masks, key)
            targets = _targets(first, term, tasks, where)
            rules.append(Rule(kind, f"{where} by {key}", np.array(holders), targets, domains))
    for holders, term in _group_terms(tasks, _spreads):
        rules.append(_spread(tasks, holders, term, nodes, masks))
    return [*rules, *_ports(tasks, nodes)]


def _group_terms(
    tasks: Sequence[TaskEntry], terms: Callable[[TaskEntry], Sequence[Term]]
) -> list[tuple[list[int], Term]]:
    """Each distinct term with the tasks that have it: replicas of a service share their rules."""
    groups: dict[str, tuple[list[int], Term]] = {}
    for k, task in enumerate(tasks):
        for term in terms(task):
            groups.setdefault(_key(task, term), ([], term))[0].append(k)
    return list(groups.values())


def _spread(
    tasks: Sequence[TaskEntry],
    holders: list[int],
    term: Term,
    nodes: Sequence[NodeEntry],
    masks: dict[Hashable, Flags],
) -> Rule:
    first = tasks[holders[0]]
    where, key, skew = (
        f"pod {first.name}: topology spread",
        str(term.get("topologyKey") or ""),
        term.get("maxSkew", 1),
    )
    if not key or isinstance(skew, bool) or not isinstance(skew, int) or skew < 1:
        raise InputError(f"{where}: expected a topologyKey and a maxSkew of at least 1")
    usable = masks[first.wants] if term.get("nodeAffinityPolicy", "Honor") == "Honor" else None
    domains = _domains(nodes, key, usable)
    _keep_to(tasks, holders, _domains(nodes, key) >= 0, masks, key)
    # With fewer domains than it wants, the emptiest counts as empty: as if there were one more.
    wanted = term.get("minDomains") or 0
    extra = 1 if int(domains.max(initial=-1)) + 1 < wanted else 0
    targets = _targets(first, {**term, "namespaces": None, "namespaceSelector": None}, tasks, where)
    return Rule(SPREAD, f"{where} by {key}", np.array(holders), targets, domains, skew, extra)


def _keep_to(
    tasks: Sequence[TaskEntry],
    holders: list[int],
    labelled: Flags,
    masks: dict[Hashable, Flags],
    key: str,
) -> None:
    """Take nodes without a label from pods whose rule needs it."""
    if labelled.all():
        return
    for k in holders:
        wants = tasks[k].wants
        if wants == "pinned" or (isinstance(wants, tuple) and key in wants[1:]):
            continue
        narrowed = (*(wants if isinstance(wants, tuple) else (wants,)), key)
        masks.setdefault(narrowed, masks[wants] & labelled)
        tasks[k].wants = narrowed


def _ports(tasks: Sequence[TaskEntry], nodes: Sequence[NodeEntry]) -> list[Rule]:
    """Two pods that want the same port of their node lie apart."""
    users: dict[tuple[int, str], list[int]] = {}
    for k, task in enumerate(tasks):
        wanted = {
            (int(port["hostPort"]), str(port.get("protocol") or "TCP"))
            for container in (task.source.get("spec") or {}).get("containers") or ()
            for port in container.get("ports") or ()
            if port.get("hostPort")
        }
        for port in wanted:
            users.setdefault(port, []).append(k)
    by_node = np.arange(len(nodes))
    return [
        Rule(APART, f"host port {port} ({protocol})", np.array(holders), np.array(holders), by_node)
        for (port, protocol), holders in users.items()
        if len(holders) > 1
    ]


def check_affinity(tasks: Sequence[TaskEntry]) -> None:
    """Refuse rules nothing can meet: a pod that must and must not lie with the same pods, and pods
    that wait for each other in a ring."""
    for task in tasks:
        apart = {_same(term) for term in _terms(task, "podAntiAffinity")}
        if any(_same(term) in apart for term in _terms(task, "podAffinity")):
            raise InputError(
                f"pod {task.name}: its affinity and anti-affinity contradict each other"
            )
    _check_ring(tasks)


def _same(term: Term) -> str:
    parts = [
        term.get("labelSelector"),
        term.get("topologyKey"),
        term.get("namespaces"),
        term.get("namespaceSelector"),
    ]
    return msgspec.json.encode(parts, order="deterministic").decode()


def _check_ring(tasks: Sequence[TaskEntry]) -> None:
    """Pods without a node, each of which waits for another of them to be placed first."""
    waits: dict[int, list[set[int]]] = {}
    for k, task in enumerate(tasks):
        terms = [] if task.node else _terms(task, "podAffinity")
        needs = [
            set(_targets(task, term, tasks, f"pod {task.name}: podAffinity").tolist())
            for term in terms
        ]
        if needs := [need for need in needs if need and k not in need]:
            waits[k] = needs
    placed = {k for k in range(len(tasks)) if k not in waits}
    while ready := [
        k for k in waits if k not in placed and all(need & placed for need in waits[k])
    ]:
        placed.update(ready)
    if stuck := [k for k in waits if k not in placed]:
        others = ", ".join(tasks[k].name for k in stuck[1:4])
        raise InputError(
            f"pod {tasks[stuck[0]].name}: its affinity is cyclic: it waits for "
            f"{others or 'itself'}, which waits for it"
        )
