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


def tolerated(taints: Sequence[Thing], tolerations: Sequence[Thing]) -> bool:
    """Whether no taint keeps a pod off; a preference does not."""
    hard = [taint for taint in taints if taint.get("effect") in ("NoSchedule", "NoExecute")]
    return all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in hard)


def count_disliked(taints: Sequence[Thing], tolerations: Sequence[Thing]) -> int:
    """How many taints ask a pod to stay away, without keeping it off."""
    soft = [taint for taint in taints if taint.get("effect") == "PreferNoSchedule"]
    return sum(not any(_tolerates(each, taint) for each in tolerations) for taint in soft)


def _tolerates(toleration: Thing, taint: Thing) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    key = toleration.get("key") or ""
    if (toleration.get("operator") or "Equal") == "Exists":
        return key in ("", taint.get("key"))
    return key == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")
