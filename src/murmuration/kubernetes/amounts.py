"""What pods ask for and nodes give, rounded as the scheduler rounds: CPU up to thousandths, all
else up to whole units."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from murmuration.base.errors import InputError
from murmuration.base.resources import parse_quantity
from murmuration.kubernetes.objects import Object, listed

#: A float that is this near to a whole number is that number: quantities are written in decimals.
NEAR = 1e-9


def quantity(value: str | float, where: str, key: str) -> float:
    """One amount as the scheduler counts it."""
    scale = 1000.0 if key == "cpu" else 1.0
    scaled = parse_quantity(value, f"{where}: {key}") * scale
    nearest = float(round(scaled))
    near = abs(scaled - nearest) <= NEAR * max(scaled, 1.0)
    return (nearest if near else float(math.ceil(scaled))) / scale


def amounts_of(named: object, where: str) -> dict[str, float]:
    """Amounts by name; nothing at all is none, and so is null."""
    if named is not None and not isinstance(named, Mapping):
        raise InputError(f"{where}: expected amounts by name, got {named!r}")
    told = {str(key): value for key, value in (named or {}).items() if value is not None}
    return {key: quantity(value, where, key) for key, value in told.items()}


def requests(spec: Object, name: str) -> dict[str, float]:
    """What a pod asks for: its containers and sidecars together, or what its start takes if that is
    more, and its overhead.

    An init container runs beside the sidecars that were started before it.
    """
    where = f"pod {name}"
    together: Counter[str] = Counter()
    for container in listed(spec, "containers", where):
        together.update(_container(container, where))
    sidecars: Counter[str] = Counter()
    starting: dict[str, float] = {}
    for container in listed(spec, "initContainers", where):
        amounts = Counter(_container(container, where))
        beside = sidecars.copy()
        beside.update(amounts)
        if container.get("restartPolicy") == "Always":
            sidecars = beside
        starting = {key: max(starting.get(key, 0.0), beside[key]) for key in {*starting, *beside}}
    together.update(sidecars)
    asked = {key: max(together[key], starting.get(key, 0.0)) for key in {*together, *starting}}
    asked = _as_a_whole(asked, spec.get("resources") or {}, where)
    for key, amount in amounts_of(spec.get("overhead"), where).items():
        asked[key] = asked.get(key, 0.0) + amount
    return {"cpu": 0.0, "memory": 0.0, **asked, "pods": 1.0}


def _as_a_whole(asked: dict[str, float], whole: Object, where: str) -> dict[str, float]:
    """What the pod as a whole asks for takes the place of its containers' requests; a limit does
    where no container asks for anything."""
    limits = amounts_of(whole.get("limits"), where)
    bare = {key: amount for key, amount in limits.items() if not asked.get(key)}
    return {**asked, **bare, **amounts_of(whole.get("requests"), where)}


def _container(container: Object, pod: str) -> dict[str, float]:
    """A container's requests; where it only limits itself, that is what it asks for."""
    where = f"{pod}, container {container.get('name', '?')}"
    resources = container.get("resources") or {}
    if not isinstance(resources, Mapping):
        raise InputError(f"{where}: expected resources by name, got {resources!r}")
    limits = amounts_of(resources.get("limits"), where)
    asked = amounts_of(resources.get("requests"), where)
    for key, amount in asked.items():
        if amount > limits.get(key, amount):
            raise InputError(f"{where}: it requests more {key} than its limit")
    return {**limits, **asked}
