"""Kubernetes' selectors: labels, node affinity, taints and tolerations, as the scheduler's filters
read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from murmuration.base.errors import InputError, unknown

Labels = Mapping[str, str]
Thing = Mapping[str, Any]

OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def requirement(labels: Labels, want: Thing, where: str) -> bool:
    """One `{key, operator, values}`; an absent label meets NotIn and DoesNotExist, as in
    Kubernetes."""
    operator, key = want.get("operator"), str(want.get("key", ""))
    values = [str(value) for value in want.get("values") or ()]
    if operator not in OPERATORS:
        raise InputError(f"{where}: {unknown('operator', str(operator), OPERATORS)}")
    have = labels.get(key)
    if operator == "In":
        return have in values
    if operator == "NotIn":
        return have not in values
    if operator == "Exists":
        return have is not None
    if operator == "DoesNotExist":
        return have is None
    try:
        return have is not None and (
            int(have) > int(values[0]) if operator == "Gt" else int(have) < int(values[0])
        )
    except (ValueError, IndexError):
        return False


def requirements_of(selector: Thing) -> list[Thing]:
    """`matchLabels` and `matchExpressions` as one list."""
    listed = [
        {"key": k, "operator": "In", "values": [v]}
        for k, v in (selector.get("matchLabels") or {}).items()
    ]
    return [*listed, *(selector.get("matchExpressions") or ())]


def selects(selector: Thing | None, labels: Labels, where: str) -> bool:
    """A label selector; none at all selects nothing, an empty one everything."""
    return selector is not None and all(
        requirement(labels, want, where) for want in requirements_of(selector)
    )


def node_matches(spec: Thing, labels: Labels, name: str, where: str) -> bool:
    """`nodeSelector` and the required part of node affinity: one of its terms must hold whole."""
    if any(
        labels.get(key) != str(value) for key, value in (spec.get("nodeSelector") or {}).items()
    ):
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity")) or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or node_term_matches(required, labels, name, where)


def node_term_matches(required: Thing, labels: Labels, name: str, where: str) -> bool:
    """The terms of a node selector; a term that asks for nothing matches nothing."""
    for term in required.get("nodeSelectorTerms") or ():
        wants = [*(term.get("matchExpressions") or ())]
        fields = [*(term.get("matchFields") or ())]
        if not wants and not fields:
            continue
        if all(requirement(labels, want, where) for want in wants) and all(
            requirement({"metadata.name": name}, want, where) for want in fields
        ):
            return True
    return False


def tolerated(taints: Sequence[Thing], tolerations: Sequence[Thing]) -> bool:
    """Whether no taint keeps a pod off; a preference does not."""
    hard = [taint for taint in taints if taint.get("effect") in ("NoSchedule", "NoExecute")]
    return all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in hard)


def _tolerates(toleration: Thing, taint: Thing) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    key = toleration.get("key") or ""
    if toleration.get("operator", "Equal") == "Exists":
        return key in ("", taint.get("key"))
    return key == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


def contradiction(wants: Sequence[Thing]) -> str | None:
    """A label that requirements ask two things of which cannot both hold, if there is one."""
    for key in dict.fromkeys(str(want.get("key")) for want in wants):
        mine = [want for want in wants if str(want.get("key")) == key]
        if _impossible(mine):
            return key
    return None


def _impossible(wants: Sequence[Thing]) -> bool:
    """Requirements on one label that no value, nor its absence, can meet."""
    kinds = {want.get("operator") for want in wants}
    needed = kinds & {"In", "Exists", "Gt", "Lt"}
    if "DoesNotExist" in kinds and needed:
        return True
    sets = [
        set(map(str, want.get("values") or ())) for want in wants if want.get("operator") == "In"
    ]
    if not sets:
        return False
    left = set.intersection(*sets)
    for want in wants:
        if want.get("operator") == "NotIn":
            left -= set(map(str, want.get("values") or ()))
    return not left


def pod_wants(spec: Thing) -> list[list[Thing]]:
    """For each term of a pod's required node affinity all that it asks, its node selector
    included."""
    selector = [
        {"key": k, "operator": "In", "values": [v]}
        for k, v in (spec.get("nodeSelector") or {}).items()
    ]
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity")) or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [
        [*selector, *(term.get("matchExpressions") or ())]
        for term in required.get("nodeSelectorTerms") or ()
    ]
    return terms or [selector]
