"""Which pods a label selector finds, without looking at every pod for every selector.

Pods of one controller have the same labels, so a selector is asked once for each distinct set of
labels, and only for those sets that have one of the values it asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from murmuration.assignment.snapshots.builder import TaskEntry
from murmuration.base.arrays import Indices
from murmuration.kubernetes.objects import Object, namespace_of
from murmuration.kubernetes.selectors import Labels, requirement, requirements_of, selects

#: The label every namespace has, whether it is in the snapshot or not: its name.
NAME_LABEL = "kubernetes.io/metadata.name"


class LabelIndex:
    """Pods by namespace and labels."""

    def __init__(self, tasks: Sequence[TaskEntry]) -> None:
        groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[int]] = {}
        for k, task in enumerate(tasks):
            labels = tuple(sorted(task.labels.items()))
            groups.setdefault((namespace_of(task.source), labels), []).append(k)
        self._sets = [
            (space, dict(labels), np.array(members, dtype=np.int64))
            for (space, labels), members in groups.items()
        ]
        self.spaces = {space for space, _, _ in self._sets}
        self._having: dict[tuple[str, str], list[int]] = {}
        self._in_space: dict[str, list[int]] = {}
        for k, (space, labels_of_set, _) in enumerate(self._sets):
            self._in_space.setdefault(space, []).append(k)
            for pair in labels_of_set.items():
                self._having.setdefault(pair, []).append(k)

    def select(self, selector: Object | None, spaces: Iterable[str], where: str) -> Indices:
        """The pods of some namespaces that a selector finds, in order; none at all finds none."""
        if selector is None:
            return np.zeros(0, dtype=np.int64)
        wants, inside = requirements_of(selector), set(spaces)
        members = [
            self._sets[k][2]
            for k in self._candidates(wants, inside)
            if self._sets[k][0] in inside
            and all(requirement(self._sets[k][1], want, where) for want in wants)
        ]
        return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *members]))

    def _candidates(self, wants: Sequence[Object], spaces: set[str]) -> list[int]:
        """The smallest list of sets in which all that match must be."""
        lists = [[k for space in spaces for k in self._in_space.get(space, ())]]
        for want in wants:
            if want.get("operator") == "In":
                key = str(want.get("key", ""))
                values = dict.fromkeys(str(value) for value in want.get("values") or ())
                lists.append([k for v in values for k in self._having.get((key, v), ())])
        return min(lists, key=len)


class Namespaces:
    """The labels of namespaces: those of the snapshot, and the name of every one."""

    def __init__(self, things: Sequence[Object], spaces: Iterable[str]) -> None:
        known: Mapping[str, Object] = {str(t["metadata"].get("name")): t for t in things}
        self.labels: dict[str, Labels] = {}
        for space in {*spaces, *known}:
            told = known[space]["metadata"].get("labels") if space in known else None
            self.labels[space] = {**(told or {}), NAME_LABEL: space}

    def of_term(self, term: Object, own: str, where: str) -> set[str]:
        """The namespaces an affinity term speaks of: those it lists and those it selects; the
        pod's own where it does neither."""
        listed = {str(space) for space in term.get("namespaces") or ()}
        selector = term.get("namespaceSelector")
        if selector is None:
            return listed or {own}
        return listed | {s for s, labels in self.labels.items() if selects(selector, labels, where)}
