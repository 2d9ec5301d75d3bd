"""Rules between pods, kept up as pods come and go: what the snapshot's rules say, counted by node.

`rules.py` reads terms and says what makes two of them the same rule; a plan looks at all pods of a
snapshot at once, a scheduler at one pod after the other. So each rule keeps how many pods it speaks
of lie on each node, and answers with the nodes it leaves open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import msgspec
import numpy as np

from murmuration.assignment.preferences import WHOLE
from murmuration.assignment.problem import APART, SPREAD, TOGETHER
from murmuration.assignment.snapshots.builder import TaskEntry
from murmuration.base.arrays import Counts, Flags, Floats, Indices, resize
from murmuration.kubernetes.labels import Namespaces
from murmuration.kubernetes.nodes import NodeMasks
from murmuration.kubernetes.objects import Object, namespace_of
from murmuration.kubernetes.rules import (
    Term,
    affinity_key,
    counted_nodes,
    domains_by,
    selector_of,
    soft_spreads_of,
    spread_key,
    spreads_of,
    terms_of,
    wishes_of,
)
from murmuration.kubernetes.selectors import selects

Reason = tuple[str, Flags]
#: A namespace and the labels of pods in it.
LabelSet = tuple[str, tuple[tuple[str, str], ...]]


#: How rules find the domain of each row, and how many domains have no node.
Locate = Callable[[], tuple[Indices, int]]


class Domains:
    """The parts of the cluster that labels make of it. Many rules part the nodes alike and share
    one array; a node that comes, goes or changes makes all of them out of date."""

    def __init__(self, nodes: NodeMasks) -> None:
        self.nodes = nodes
        self.version = 0
        self._known: dict[tuple[str, bytes], Indices] = {}

    def on_nodes(self) -> None:
        self.version += 1
        self._known.clear()

    def by(self, key: str, counted: Flags | None = None) -> Indices:
        """Which part of the cluster each node is in by a label; −1 without it."""
        mark = (key, b"" if counted is None else counted.tobytes())
        if mark not in self._known:
            self._known[mark] = domains_by(self.nodes, key, counted)
        return self._known[mark]


@dataclass
class LiveRule:
    """One rule: the pods it is about (*targets*), those that have it (*holders*), by node."""

    kind: str
    name: str
    #: Selectors, each with the namespaces it looks into; a target meets all of them.
    selectors: list[tuple[Object | None, frozenset[str]]]
    domains: Domains
    locate: Locate
    limit: int = 0
    #: What it weighs if it is only a wish; 0 for a rule that must be kept.
    weight: float = 0.0
    targets: Counts = field(init=False)
    holders: Counts = field(init=False)
    _located: tuple[Indices, int] = field(init=False)
    _version: int = field(init=False)

    def __post_init__(self) -> None:
        self._located, self._version = self.locate(), self.domains.version
        self.targets = np.zeros(len(self.domain_of), dtype=np.int64)
        self.holders = np.zeros(len(self.domain_of), dtype=np.int64)

    def resize(self, gone: int | None) -> None:
        self.targets, self.holders = resize(self.targets, gone), resize(self.holders, gone)

    @property
    def domain_of(self) -> Indices:
        return self._locate()[0]

    @property
    def extra(self) -> int:
        """How many domains have no node, and so hold nothing."""
        return self._locate()[1]

    def _locate(self) -> tuple[Indices, int]:
        if self._version != self.domains.version:
            self._located, self._version = self.locate(), self.domains.version
        return self._located

    def is_about(self, label_set: LabelSet) -> bool:
        space, labels = label_set
        return all(
            space in spaces and selects(selector, dict(labels), self.name)
            for selector, spaces in self.selectors
        )

    def by_domain(self, counts: Counts) -> Counts:
        inside = self.domain_of >= 0
        domains = int(self.domain_of.max(initial=-1)) + 1
        weights = counts[inside].astype(np.float64)
        return np.bincount(self.domain_of[inside], weights, domains).astype(np.int64)

    def nodes_with(self, counts: Counts) -> Flags:
        """The nodes in whose domain any of these lies."""
        return self._spread_out(self.by_domain(counts) > 0)

    def nodes_even(self, own: int) -> Flags:
        """The nodes that one more pod may go to without making its domain too full."""
        counts = self.by_domain(self.targets)
        fewest = 0 if self.extra else int(counts.min(initial=np.iinfo(np.int64).max))
        return self._spread_out(counts + own - fewest <= self.limit)

    def count_on_nodes(self, counts: Counts) -> Floats:
        """For each node how many of these lie in its domain; none outside of all domains."""
        on_nodes: Floats = np.append(self.by_domain(counts), 0).astype(np.float64)[self.domain_of]
        return on_nodes

    def penalty(self, own: int) -> Floats:
        """What a pod that has this wish pays on each node."""
        if self.kind == APART:
            return self.weight * self.count_on_nodes(self.targets)
        if self.kind == TOGETHER:
            return np.where(self.count_on_nodes(self.targets) == 0, self.weight, 0.0)
        counts = self.by_domain(self.targets)
        excess = counts + own - int(counts.min(initial=np.iinfo(np.int64).max)) - self.limit
        # A node that is in no domain of the spread is as bad as one too many.
        paid: Floats = np.append(np.maximum(excess, 0), 1).astype(np.float64)[self.domain_of]
        return self.weight * paid

    def _spread_out(self, domains: Flags) -> Flags:
        mask = np.zeros(len(self.domain_of), dtype=np.bool_)
        inside = self.domain_of >= 0
        mask[inside] = domains[self.domain_of[inside]]
        return mask


class Between:
    """All rules between the pods of a cluster."""

    def __init__(self, nodes: NodeMasks, namespaces: Namespaces) -> None:
        self.nodes, self.namespaces = nodes, namespaces
        self.domains = Domains(nodes)
        self.rules: dict[bytes, list[LiveRule]] = {}
        #: Pods that lie somewhere, by labels and node; and how many of them are being deleted.
        self._placed: dict[LabelSet, Counter[str]] = {}
        self._leaving: dict[LabelSet, Counter[str]] = {}
        self._about: dict[LabelSet, list[LiveRule]] = {}

    def place(self, task: TaskEntry, row: int, sign: int, leaving: bool) -> None:
        """A pod lies on a row now (+1), or does no more (−1)."""
        labels = label_set(task)
        own = [*self.own(task), *self.wishes(task)]
        _add(self._placed, labels, self.nodes.nodes[row].name, sign)
        for rule in self.about(labels):
            if not (leaving and rule.kind == SPREAD):
                rule.targets[row] += sign
        for rule in own:
            rule.holders[row] += sign
        if leaving:
            _add(self._leaving, labels, self.nodes.nodes[row].name, sign)

    def on_node(self, resized: bool, gone: int | None = None) -> None:
        """A node has changed; or, if the rows are resized, has come, or is gone from a row where
        nothing lies any more."""
        self.domains.on_nodes()
        for rule in self._every() if resized else ():
            rule.resize(gone)

    def _every(self) -> Iterator[LiveRule]:
        return (rule for rules in self.rules.values() for rule in rules)

    def reasons(self, task: TaskEntry) -> Iterator[Reason]:
        """Each rule that concerns a pod, and the nodes it leaves open."""
        own, labels = self.own(task), label_set(task)
        about = [rule for rule in self.about(labels) if not rule.weight]
        for rule in own:
            if rule.kind == APART and rule.targets.any():
                yield "a pod it must be apart from is there", ~rule.nodes_with(rule.targets)
            elif rule.kind == SPREAD:
                itself = int(any(rule is other for other in about))
                yield "its topology spread would be uneven", rule.nodes_even(itself)
        yield from self._together([rule for rule in own if rule.kind == TOGETHER], about)
        for rule in about:
            if rule.kind == APART and rule.holders.any():
                yield "a pod there must be apart from it", ~rule.nodes_with(rule.holders)

    def concerns(self, task: TaskEntry) -> bool:
        """Whether any rule speaks of a pod."""
        return (
            bool(self.own(task))
            or bool(self.wishes(task))
            or any(rule.kind == APART for rule in self.about(label_set(task)))
        )

    def penalty(self, task: TaskEntry) -> Floats | None:
        """What a pod pays on each node for wishes between pods that are not met there, its own and
        those of others to be apart from it; None if nobody has any."""
        about = self.about(label_set(task))
        total: Floats | None = None
        for rule in self.wishes(task):
            paid = rule.penalty(int(any(rule is other for other in about)))
            total = paid if total is None else total + paid
        for rule in about:
            if rule.weight and rule.kind == APART and rule.holders.any():
                paid = rule.weight * rule.count_on_nodes(rule.holders)
                total = paid if total is None else total + paid
        return total

    def _together(self, rules: list[LiveRule], about: list[LiveRule]) -> Iterator[Reason]:
        nobody = not any(rule.by_domain(rule.targets).any() for rule in rules)
        for rule in rules:
            # The first of those that want to be beside each other has nobody to be beside.
            if nobody and any(rule is other for other in about):
                yield "it lacks a label its pod affinity asks for", rule.domain_of >= 0
            else:
                yield "no pod it must be beside is there", rule.nodes_with(rule.targets)

    def about(self, labels: LabelSet) -> list[LiveRule]:
        """The rules that are about pods with these labels."""
        if labels not in self._about:
            self._about[labels] = [rule for rule in self._every() if rule.is_about(labels)]
        return self._about[labels]

    def own(self, task: TaskEntry) -> list[LiveRule]:
        """The rules a pod itself has."""
        spec = task.source.get("spec") or {}
        if not spec.get("affinity") and not spec.get("topologySpreadConstraints"):
            return []
        rules: list[LiveRule] = []
        for term in terms_of(task, "podAntiAffinity"):
            rules += self._rules(APART, task, [term])
        if terms := terms_of(task, "podAffinity"):
            rules += self._rules(TOGETHER, task, terms)
        for term in spreads_of(task):
            rules += self._rules(SPREAD, task, [term])
        return rules

    def wishes(self, task: TaskEntry) -> list[LiveRule]:
        """The rules a pod itself would like to be kept."""
        spec = task.source.get("spec") or {}
        if not spec.get("affinity") and not spec.get("topologySpreadConstraints"):
            return []
        rules: list[LiveRule] = []
        for part, kind in (("podAntiAffinity", APART), ("podAffinity", TOGETHER)):
            for wish in wishes_of(task, part):
                weight = float(wish.get("weight") or 0)
                rules += self._rules(kind, task, [wish["podAffinityTerm"]], weight)
        for term in soft_spreads_of(task):
            rules += self._rules(SPREAD, task, [term], WHOLE)
        return [rule for rule in rules if rule.weight]

    def _rules(
        self, kind: str, task: TaskEntry, terms: list[Term], weight: float = 0.0
    ) -> list[LiveRule]:
        key = spread_key(task, terms) if kind == SPREAD else affinity_key(task, terms)
        mark = msgspec.json.encode([kind, key, weight], order="deterministic")
        if mark not in self.rules:
            self.rules[mark] = self._make(kind, task, terms)
            for rule in self.rules[mark]:
                rule.weight = weight
            for rule in self.rules[mark]:
                self._count(rule)
        return self.rules[mark]

    def _make(self, kind: str, task: TaskEntry, terms: list[Term]) -> list[LiveRule]:
        where, own = f"pod {task.name}", namespace_of(task.source)
        if kind == SPREAD:
            return [self._make_spread(task, terms[0], where, own)]
        selectors = [
            (selector_of(task, term), frozenset(self.namespaces.of_term(term, own, where)))
            for term in terms
        ]
        keys = dict.fromkeys(str(term["topologyKey"]) for term in terms)
        return [
            LiveRule(kind, where, selectors, self.domains, partial(self._by_label, key))
            for key in keys
        ]

    def _by_label(self, key: str) -> tuple[Indices, int]:
        return self.domains.by(key), 0

    def _make_spread(self, task: TaskEntry, term: Term, where: str, own: str) -> LiveRule:
        def locate() -> tuple[Indices, int]:
            counted = counted_nodes(self.nodes, task, term, where)
            domain_of = self.domains.by(str(term["topologyKey"]), counted)
            # With fewer domains than it wants, the emptiest counts as empty.
            few = int(domain_of.max(initial=-1)) + 1 < (term.get("minDomains") or 0)
            return domain_of, int(few)

        selectors: list[tuple[Object | None, frozenset[str]]] = [
            (selector_of(task, term), frozenset([own]))
        ]
        limit = int(term.get("maxSkew", 1))
        return LiveRule(SPREAD, where, selectors, self.domains, locate, limit)

    def _count(self, rule: LiveRule) -> None:
        """A rule that nobody had before: count whom it is about."""
        row_of = self.nodes.row_of
        for labels, nodes in self._placed.items():
            if rule.is_about(labels):
                for node, count in nodes.items():
                    rule.targets[row_of[node]] += count
                for node, count in self._leaving.get(labels, {}).items():
                    rule.targets[row_of[node]] -= count if rule.kind == SPREAD else 0
        for labels, about in self._about.items():
            if rule.is_about(labels):
                about.append(rule)


def _add(counts: dict[LabelSet, Counter[str]], labels: LabelSet, node: str, sign: int) -> None:
    nodes = counts.setdefault(labels, Counter())
    nodes[node] += sign
    if not nodes[node]:
        del nodes[node]


def label_set(task: TaskEntry) -> LabelSet:
    return namespace_of(task.source), tuple(sorted(task.labels.items()))
