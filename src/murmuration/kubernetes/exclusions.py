"""Why a node is closed to a pod: which taint, which label, a cordon, or its volume."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import msgspec

from murmuration.assignment.snapshots.builder import NodeEntry
from murmuration.kubernetes.nodes import CORDON, is_open, is_ready, taints_of
from murmuration.kubernetes.objects import Object
from murmuration.kubernetes.selectors import requirement, tolerated

#: The least that makes a node selector readable: no more of its terms than this are written out.
TERMS_SHOWN = 3
CLOSED = "closed by a cordon"


class Exclusions:
    """Answers for each node, in the order in which the scheduler's filters would object."""

    def __init__(self, things: Sequence[Object], nodes: Sequence[NodeEntry]) -> None:
        self._things, self._nodes = things, nodes

    def __call__(self, wants: Hashable, node: int) -> str:
        """The first objection of a node to pods that want this; empty if it has none."""
        thing, entry = self._things[node], self._nodes[node]
        if not is_ready(thing):
            return "not ready"
        if not entry.amounts:
            return "not saying yet what it has"
        # A rule that needs labels adds them to what a pod wants.
        asked, *labels = wants if isinstance(wants, tuple) else (wants,)
        try:
            selector, affinity, tolerations, volumes, closed = msgspec.json.decode(str(asked))
        except (msgspec.DecodeError, ValueError):
            return "" if is_open(thing) else CLOSED
        if not closed and not is_open(thing):
            return CLOSED
        missing = [key for key in labels if key not in entry.labels]
        if missing:
            return f"without the label {missing[0]}"
        return (
            _of_taints(taints_of(thing), tolerations)
            or _of_labels(selector, entry.labels)
            or _of_affinity(affinity, entry)
            or _of_volumes(volumes, entry)
        )


def _of_taints(taints: Sequence[Object], tolerations: Sequence[Object]) -> str:
    """The first taint that is not tolerated."""
    for taint in taints:
        if taint != CORDON and not tolerated([taint], tolerations):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"with the taint {taint.get('key')}{value}:{taint.get('effect')}"
    return ""


def _of_labels(selector: Mapping[str, str], labels: Mapping[str, str]) -> str:
    for key, value in selector.items():
        if labels.get(key) != value:
            return f"without the label {key}={value}"
    return ""


def _of_affinity(affinity: Object | None, entry: NodeEntry) -> str:
    terms = [] if affinity is None else list(affinity.get("nodeSelectorTerms") or ())
    if affinity is None or any(_meets(term, entry) for term in terms):
        return ""
    shown = " or ".join(_format_term(term) for term in terms[:TERMS_SHOWN])
    return f"outside its node affinity ({shown}{' …' if len(terms) > TERMS_SHOWN else ''})"


def _of_volumes(volumes: Sequence[Object], entry: NodeEntry) -> str:
    for volume in volumes:
        terms = list(volume.get("nodeSelectorTerms") or ())
        if not any(_meets(term, entry) for term in terms):
            shown = " or ".join(_format_term(term) for term in terms[:TERMS_SHOWN])
            return f"that cannot reach its volume ({shown})"
    return ""


def _wants_of(term: Object) -> list[tuple[Object, bool]]:
    wants = [(want, False) for want in term.get("matchExpressions") or ()]
    return wants + [(want, True) for want in term.get("matchFields") or ()]


def _meets(term: Object, entry: NodeEntry) -> bool:
    wants = _wants_of(term)
    fields = {"metadata.name": entry.name}
    return bool(wants) and all(
        requirement(fields if of_field else entry.labels, want, "node affinity")
        for want, of_field in wants
    )


def _format_term(term: Object) -> str:
    """A term as a person would write it: all of its wants."""
    parts = []
    for want, _ in _wants_of(term):
        values = ", ".join(str(value) for value in want.get("values") or ())
        parts.append(f"{want.get('key')} {want.get('operator')} {values}".strip())
    return " and ".join(parts) or "nothing"
