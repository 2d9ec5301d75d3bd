"""Affinity, anti-affinity and topology spread of pods as rules between tasks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial

import msgspec
import numpy as np

from murmuration.assignment.preferences import WHOLE, Preferences, SoftRule
from murmuration.assignment.problem import APART, SPREAD, TOGETHER, Rule
from murmuration.assignment.snapshots.builder import TaskEntry
from murmuration.base.arrays import Flags, Indices
from murmuration.base.errors import InputError
from murmuration.kubernetes.labels import LabelIndex, Namespaces
from murmuration.kubernetes.nodes import CORDON, NodeMasks
from murmuration.kubernetes.objects import Object, namespace_of
from murmuration.kubernetes.selectors import requirements_of, tolerated

#: One affinity term or spread constraint, as Kubernetes writes it.
Term = Object
#: What two pods must share to share a rule; it becomes JSON.
Key = list[object]
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
#: The nodes each kind of task may use; rules may narrow them.
Masks = dict[Hashable, Flags]


def terms_of(task: TaskEntry, part: str) -> list[Term]:
    """The required terms of a pod's affinity or anti-affinity."""
    affinity = (task.source.get("spec") or {}).get("affinity") or {}
    terms = list((affinity.get(part) or {}).get(REQUIRED) or ())
    for term in terms:
        if not term.get("topologyKey"):
            raise InputError(f"pod {task.name}: {part}: expected a topologyKey")
    return terms


def spreads_of(task: TaskEntry) -> list[Term]:
    """The constraints of a pod that keep it from being scheduled."""
    given = (task.source.get("spec") or {}).get("topologySpreadConstraints") or ()
    hard = [c for c in given if c.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]
    for term in hard:
        skew = term.get("maxSkew", 1)
        wrong = isinstance(skew, bool) or not isinstance(skew, int) or skew < 1
        if not term.get("topologyKey") or wrong:
            raise InputError(
                f"pod {task.name}: topology spread: expected a topologyKey and a maxSkew of at "
                "least 1"
            )
    return hard


def wishes_of(task: TaskEntry, part: str) -> list[Term]:
    """The preferred terms of a pod's affinity or anti-affinity that say where."""
    affinity = (task.source.get("spec") or {}).get("affinity") or {}
    wishes = (affinity.get(part) or {}).get(PREFERRED) or ()
    return [wish for wish in wishes if (wish.get("podAffinityTerm") or {}).get("topologyKey")]


def split_wishes(task: TaskEntry, part: str) -> list[list[Term]]:
    """Each preferred term by itself."""
    return [[wish] for wish in wishes_of(task, part)]


def soft_spreads_of(task: TaskEntry) -> list[Term]:
    """The constraints of a pod that are only wishes."""
    given = (task.source.get("spec") or {}).get("topologySpreadConstraints") or ()
    soft = [c for c in given if c.get("whenUnsatisfiable") == "ScheduleAnyway"]
    return [c for c in soft if c.get("topologyKey")]


def _keys(term: Term, name: str) -> list[str]:
    return [str(value) for value in term.get(name) or ()]


def _own_labels(task: TaskEntry, term: Term) -> dict[str, str | None]:
    """The labels a term takes from the pod that has it."""
    keys = (*_keys(term, "matchLabelKeys"), *_keys(term, "mismatchLabelKeys"))
    return {key: task.labels.get(key) for key in keys}


def selector_of(task: TaskEntry, term: Term) -> Term | None:
    """The label selector of a term, with what it takes from the labels of the pod that has it."""
    selector = term.get("labelSelector")
    if selector is None:
        return None
    wants = requirements_of(selector)
    for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        keys = [key for key in _keys(term, name) if key in task.labels]
        wants += [{"key": key, "operator": operator, "values": [task.labels[key]]} for key in keys]
    return {"matchExpressions": wants}


@dataclass
class RuleMaker:
    """Makes the rules of pods: who they are, where they are, and what namespaces are called."""

    tasks: Sequence[TaskEntry]
    nodes: NodeMasks
    masks: Masks
    index: LabelIndex
    namespaces: Namespaces
    #: The domains of labels that were asked for before.
    domains: dict[tuple[str, bytes], Indices] = field(default_factory=dict)

    def rules(self) -> list[Rule]:
        """Every distinct rule. Pods that must lie where a label is are kept to the nodes that have
        it."""
        return [*self._apart(), *self._together(), *self._spread()]

    def _targets(self, task: TaskEntry, term: Term, where: str) -> Indices:
        """The pods an affinity term speaks of."""
        spaces = self.namespaces.of_term(term, namespace_of(task.source), where)
        return self.index.select(selector_of(task, term), spaces, where)

    def _apart(self) -> list[Rule]:
        rules = []
        for holders, terms in self._group(
            lambda task: [[term] for term in terms_of(task, "podAntiAffinity")], affinity_key
        ):
            first, key = self.tasks[holders[0]], str(terms[0]["topologyKey"])
            where = f"pod {first.name}: podAntiAffinity"
            targets = self._targets(first, terms[0], where)
            rules.append(
                Rule(APART, f"{where} by {key}", np.array(holders), targets, self._domains(key))
            )
        return rules

    def _together(self) -> list[Rule]:
        """One rule for each term, all of them about the pods that every term selects."""
        rules = []
        for holders, terms in self._group(
            lambda task: [terms_of(task, "podAffinity")], affinity_key
        ):
            first = self.tasks[holders[0]]
            where = f"pod {first.name}: podAffinity"
            targets = self._targets(first, terms[0], where)
            for term in terms[1:]:
                targets = np.intersect1d(targets, self._targets(first, term, where))
            for key in dict.fromkeys(str(term["topologyKey"]) for term in terms):
                self._keep_to(holders, key)
                rules.append(
                    Rule(
                        TOGETHER,
                        f"{where} by {key}",
                        np.array(holders),
                        targets,
                        self._domains(key),
                    )
                )
        return rules

    def _spread(self) -> list[Rule]:
        groups = self._group(lambda task: [[term] for term in spreads_of(task)], spread_key)
        return [self._one_spread(holders, terms[0]) for holders, terms in groups]

    def _one_spread(self, holders: list[int], term: Term) -> Rule:
        first, key = self.tasks[holders[0]], str(term["topologyKey"])
        where = f"pod {first.name}: topology spread"
        for each in {str(other["topologyKey"]) for other in spreads_of(first)}:
            self._keep_to(holders, each)
        counted = counted_nodes(self.nodes, first, term, where)
        domains = self._domains(key, counted)
        selected = self.index.select(selector_of(first, term), [namespace_of(first.source)], where)
        stay = [k for k in selected.tolist() if not _is_leaving(self.tasks[k])]
        targets = np.array(stay, dtype=np.int64)
        return Rule(
            SPREAD,
            f"{where} by {key}",
            np.array(holders),
            targets,
            domains,
            limit=int(term.get("maxSkew", 1)),
            domains_min=term.get("minDomains") or 0,
            only_open=leaves_out_closed(term, first),
        )

    def preferences(self) -> Preferences | None:
        """What the pods would rather have; None if nobody says."""
        rows: dict[bytes, int] = {}
        penalties, kind_of = [], []
        for task in self.tasks:
            spec = task.source.get("spec") or {}
            soft = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(PREFERRED)
            mark = msgspec.json.encode([soft, spec.get("tolerations")], order="deterministic")
            if mark not in rows:
                rows[mark] = len(rows)
                penalties.append(self.nodes.penalty(spec, f"pod {task.name}: node affinity"))
            kind_of.append(rows[mark])
        table = np.array(penalties).reshape(len(rows), len(self.nodes.nodes))
        soft_rules = (*self._soft_affinity(), *self._soft_spread())
        if not table.any() and not soft_rules:
            return None
        return Preferences(table, np.array(kind_of, dtype=np.int64), soft_rules)

    def _soft_affinity(self) -> list[SoftRule]:
        rules = []
        for part, kind in (("podAntiAffinity", APART), ("podAffinity", TOGETHER)):
            for holders, (wish,) in self._group(partial(split_wishes, part=part), wish_key):
                first, term = self.tasks[holders[0]], wish["podAffinityTerm"]
                where = f"pod {first.name}: preferred {part}"
                targets = self._targets(first, term, where)
                domains = self._domains(str(term["topologyKey"]))
                rule = Rule(kind, where, np.array(holders), targets, domains)
                rules.append(SoftRule(rule, float(wish.get("weight") or 0)))
        return rules

    def _soft_spread(self) -> list[SoftRule]:
        rules = []
        groups = self._group(lambda task: [[term] for term in soft_spreads_of(task)], affinity_key)
        for holders, (term,) in groups:
            first, key = self.tasks[holders[0]], str(term["topologyKey"])
            where = f"pod {first.name}: preferred topology spread"
            spaces = [namespace_of(first.source)]
            targets = self.index.select(selector_of(first, term), spaces, where)
            counted = self.nodes.affinity(first.source.get("spec") or {}, where)
            domains = self._domains(key, counted)
            limit = int(term.get("maxSkew") or 1)
            rule = Rule(SPREAD, where, np.array(holders), targets, domains, limit)
            rules.append(SoftRule(rule, WHOLE))
        return rules

    def _group(
        self,
        terms: Callable[[TaskEntry], Sequence[list[Term]]],
        key: Callable[[TaskEntry, list[Term]], Key],
    ) -> list[tuple[list[int], list[Term]]]:
        """Each distinct list of terms with the pods that have it: replicas of a service share their
        rules."""
        groups: dict[bytes, tuple[list[int], list[Term]]] = {}
        for k, task in enumerate(self.tasks):
            for listed in terms(task):
                if listed:
                    mark = msgspec.json.encode(key(task, listed), order="deterministic")
                    groups.setdefault(mark, ([], listed))[0].append(k)
        return list(groups.values())

    def _domains(self, key: str, counted: Flags | None = None) -> Indices:
        """Which part of the cluster each node is in by a label; −1 without it. Many rules part the
        nodes alike and share one array."""
        mark = (key, b"" if counted is None else counted.tobytes())
        if mark not in self.domains:
            self.domains[mark] = domains_by(self.nodes, key, counted)
        return self.domains[mark]

    def _keep_to(self, holders: list[int], key: str) -> None:
        """Take nodes without a label from pods whose rule needs it."""
        labelled = self.nodes.labelled(key)
        if labelled.all():
            return
        for k in holders:
            wants = self.tasks[k].wants
            if wants == "pinned" or (isinstance(wants, tuple) and key in wants[1:]):
                continue
            narrowed = (*(wants if isinstance(wants, tuple) else (wants,)), key)
            if narrowed not in self.masks:
                self.masks[narrowed] = self.masks[wants] & labelled
            self.tasks[k].wants = narrowed


def counted_nodes(nodes: NodeMasks, task: TaskEntry, term: Term, where: str) -> Flags:
    """The nodes whose pods a spread constraint counts: they have every label the pod spreads over,
    and are open to it as far as the constraint says."""
    spec = task.source.get("spec") or {}
    counted = nodes.everywhere.copy()
    for key in {str(other["topologyKey"]) for other in spreads_of(task)}:
        counted &= nodes.labelled(key)
    if (term.get("nodeAffinityPolicy") or "Honor") == "Honor":
        counted &= nodes.affinity(spec, where)
    if (term.get("nodeTaintsPolicy") or "Ignore") == "Honor":
        counted &= nodes.tolerated(spec.get("tolerations") or [])
    return counted


def leaves_out_closed(term: Term, task: TaskEntry) -> bool:
    """Whether a spread does not count closed nodes: a cordon is a taint that the pod must tolerate
    where taints are honoured."""
    tolerations = (task.source.get("spec") or {}).get("tolerations") or []
    return term.get("nodeTaintsPolicy") == "Honor" and not tolerated([CORDON], tolerations)


def domains_by(nodes: NodeMasks, key: str, counted: Flags | None = None) -> Indices:
    """Which part of the cluster each node is in by a label; −1 without it."""
    values: dict[str, int] = {}
    domains = np.full(len(nodes.nodes), -1, dtype=np.int64)
    for k, node in enumerate(nodes.nodes):
        if key in node.labels and (counted is None or counted[k]):
            domains[k] = values.setdefault(node.labels[key], len(values))
    return domains


def _is_leaving(task: TaskEntry) -> bool:
    return bool(task.source["metadata"].get("deletionTimestamp"))


def affinity_key(task: TaskEntry, terms: list[Term]) -> Key:
    """What makes two pods' terms the same rule: namespace, terms, and the labels they take from
    the pod itself."""
    return [namespace_of(task.source), terms, [_own_labels(task, term) for term in terms]]


def wish_key(task: TaskEntry, wishes: list[Term]) -> Key:
    """What makes two pods' preferred terms the same wish."""
    return [*affinity_key(task, [wish["podAffinityTerm"] for wish in wishes]), wishes]


def spread_key(task: TaskEntry, terms: list[Term]) -> Key:
    """The same, and whatever of the pod decides which nodes are counted."""
    spec = task.source.get("spec") or {}
    node_affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    keys = sorted({str(term["topologyKey"]) for term in spreads_of(task)})
    counted = [spec.get("nodeSelector") or {}, node_affinity, keys]
    if terms[0].get("nodeTaintsPolicy") == "Honor":
        counted.append(spec.get("tolerations") or [])
    return [*affinity_key(task, terms), counted]
