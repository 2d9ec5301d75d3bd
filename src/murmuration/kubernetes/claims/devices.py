"""Devices that pods claim: where an allocated claim holds its pods, and how many devices nodes
have.

Devices of one driver are counted as if they were alike. What a claim asks beyond its class, in
expressions, is not looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from murmuration.assignment.problem import TOGETHER, Rule
from murmuration.assignment.snapshots.builder import NodeEntry, TaskEntry
from murmuration.kubernetes.claims.volumes import Needs
from murmuration.kubernetes.nodes import NodeMasks
from murmuration.kubernetes.objects import Object, listed, name_of, namespace_of

#: The resource that counts devices of all drivers.
DEVICES = "claimed devices"
MISSING = "its resource claim is not in the snapshot"
#: What a class says of the driver of its devices.
DRIVER = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")


def devices_of(driver: str) -> str:
    """The name of the resource that counts the devices of a driver."""
    return f"devices of {driver}"


class Devices:
    """The resource claims, templates, classes and slices of a snapshot."""

    def __init__(self, kinds: Mapping[str, list[Object]]) -> None:
        self.claims = {name_of(c): c for c in kinds.get("ResourceClaim", ())}
        self.templates = {name_of(t): t for t in kinds.get("ResourceClaimTemplate", ())}
        self.slices = kinds.get("ResourceSlice", ())
        self.drivers = {
            str(c["metadata"].get("name")): _driver_of(c) for c in kinds.get("DeviceClass", ())
        }

    def give(self, nodes: Sequence[NodeEntry], masks: NodeMasks) -> None:
        """Give nodes the devices that slices list for them, but those that lasting claims have."""
        taken = self._count_taken()
        for thing in self.slices:
            spec = thing.get("spec") or {}
            driver = str(spec.get("driver"))
            pool = driver, str((spec.get("pool") or {}).get("name"))
            number = len(spec.get("devices") or ()) - taken.pop(pool, 0)
            selector = spec.get("nodeSelector")
            chosen = None if selector is None else masks.required(selector, "a ResourceSlice")
            for k, node in enumerate(nodes):
                here = spec.get("nodeName") == node.name or bool(spec.get("allNodes"))
                if node.amounts and (here or (chosen is not None and chosen[k])):
                    node.amounts = _add(node.amounts, (DEVICES, devices_of(driver)), number)

    def _count_taken(self) -> Counter[tuple[str, str]]:
        """Devices of claims that outlive their pods, by driver and pool. A claim that was made for
        one pod goes with it, and its pod counts for it."""
        taken: Counter[tuple[str, str]] = Counter()
        for claim in self.claims.values():
            owners = claim["metadata"].get("ownerReferences") or ()
            allocation = (claim.get("status") or {}).get("allocation") or {}
            if any(owner.get("kind") == "Pod" for owner in owners):
                continue
            for each in (allocation.get("devices") or {}).get("results") or ():
                if not each.get("adminAccess"):
                    taken[str(each.get("driver")), str(each.get("pool"))] += 1
        return taken

    def add_needs(self, pod: Object, needs: Needs) -> None:
        """What the claims of a pod ask of its node."""
        for entry in listed(pod.get("spec") or {}, "resourceClaims", f"pod {name_of(pod)}"):
            if name := entry.get("resourceClaimName"):
                claim = self.claims.get(f"{namespace_of(pod)}/{name}")
                allocation = ((claim or {}).get("status") or {}).get("allocation") or {}
                needs.refused = needs.refused or ("" if claim is not None else MISSING)
                if allocation.get("nodeSelector"):
                    needs.selectors.append(allocation["nodeSelector"])
                continue
            name = entry.get("resourceClaimTemplateName")
            template = self.templates.get(f"{namespace_of(pod)}/{name}")
            if template is None:
                needs.refused = needs.refused or MISSING
            else:
                self._ask(needs.attached, (template.get("spec") or {}).get("spec") or {})

    def sharing_rules(self, tasks: Sequence[TaskEntry], nodes: int) -> list[Rule]:
        """A claim that has no devices yet gets them where the first of its pods goes: that one asks
        for them, and the others lie beside it."""
        rules = []
        for name, users in self._find_users(tasks).items():
            first = tasks[users[0]]
            asked: dict[str, float] = {}
            self._ask(asked, self.claims[name].get("spec") or {})
            for key, number in asked.items():
                first.amounts = _add(first.amounts, (key,), number)
            if len(users) > 1:
                label, members = f"resource claim {name}", np.array(users, dtype=np.int64)
                rules.append(Rule(TOGETHER, label, members, members, np.arange(nodes)))
        return rules

    def _find_users(self, tasks: Sequence[TaskEntry]) -> dict[str, list[int]]:
        """The pods of each claim that nothing is allocated to."""
        users: dict[str, list[int]] = {}
        for k, task in enumerate(tasks):
            for entry in (task.source.get("spec") or {}).get("resourceClaims") or ():
                name = f"{namespace_of(task.source)}/{entry.get('resourceClaimName')}"
                claim = self.claims.get(name) if entry.get("resourceClaimName") else None
                if claim is not None and not (claim.get("status") or {}).get("allocation"):
                    users.setdefault(name, []).append(k)
        return users

    def _ask(self, amounts: dict[str, float], body: Object) -> None:
        """Add the devices that a claim with this body takes."""
        for request in (body.get("devices") or {}).get("requests") or ():
            asked = request.get("exactly") or (request.get("firstAvailable") or [request])[0]
            number = 0 if asked.get("adminAccess") else int(asked.get("count", 1))
            driver = self.drivers.get(str(asked.get("deviceClassName")), "")
            for key in (DEVICES, *([devices_of(driver)] if driver else ())):
                amounts[key] = amounts.get(key, 0.0) + number


def _add(
    amounts: Mapping[str, str | float], keys: Sequence[str], number: float
) -> dict[str, str | float]:
    return {**amounts, **{key: float(amounts.get(key, 0.0)) + number for key in keys}}


def _driver_of(kind: Object) -> str:
    """The driver a class of devices names; empty if it says it in another way."""
    for selector in (kind.get("spec") or {}).get("selectors") or ():
        expression = str((selector.get("cel") or {}).get("expression"))
        if named := DRIVER.search(expression):
            return named[1]
    return ""
