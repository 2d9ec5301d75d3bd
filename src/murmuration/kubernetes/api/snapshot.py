"""The whole cluster in one consistent read.

The store of a cluster counts every write, whatever its kind, and a list may be asked for as it was
at such a count. So nodes are listed first, and everything else as it was at that moment: no pod is
missing or twice because something moved between two requests.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from murmuration.kubernetes.api.client import (
    BUDGETS,
    CLAIMS,
    CLASSES,
    CSI_NODES,
    NAMESPACES,
    NODES,
    OLD_BUDGETS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    VOLUMES,
    ApiError,
    Kind,
    KubeClient,
    Listed,
)
from murmuration.kubernetes.objects import Object

ALWAYS = (PODS, CLAIMS, VOLUMES, CLASSES, CSI_NODES, NAMESPACES, REPLICA_SETS, STATEFUL_SETS)
#: Kinds of devices that pods claim; served by newer clusters only.
DEVICES = "resource.k8s.io"
DEVICE_KINDS = (
    ("resourceclaims", "ResourceClaim", True),
    ("resourceclaimtemplates", "ResourceClaimTemplate", True),
    ("resourceslices", "ResourceSlice", False),
)
#: Objects that say which pods belong together; served by newer clusters only.
GROUPS = "scheduling.k8s.io"
GROUP_KINDS = {"workloads": "Workload", "podgroups": "PodGroup"}
TRIES = 3

log = logging.getLogger("murmuration.kubernetes")


@dataclass
class ClusterRead:
    """Everything there was at one moment, and what could not be read."""

    version: str
    items: list[Object]
    notes: list[str] = field(default_factory=list)

    def document(self) -> Object:
        """As `kubectl get -o json` would show it."""
        return {
            "apiVersion": "v1",
            "kind": "List",
            "metadata": {"resourceVersion": self.version},
            "items": [without_managers(item) for item in self.items],
        }


def without_managers(thing: Object) -> Object:
    """An object without the record of who wrote which field, half of its size."""
    metadata = {k: v for k, v in thing["metadata"].items() if k != "managedFields"}
    return {**thing, "metadata": metadata}


async def served_versions(client: KubeClient, group: str) -> list[str]:
    """The versions of a group that a server has; none if it has not the group."""
    try:
        answer = await client.get(f"/apis/{group}")
    except ApiError as error:
        if error.status == 404:
            return []
        raise
    return [str(each["version"]) for each in answer.get("versions") or ()]


async def group_kinds_of(client: KubeClient) -> list[Kind]:
    """The kinds that say which pods belong together, as far as this server has them and we may
    read them."""
    kinds: dict[str, Kind] = {}
    for version in await served_versions(client, GROUPS):
        served = await client.get(f"/apis/{GROUPS}/{version}")
        for resource in served.get("resources") or ():
            plural = str(resource.get("name"))
            if plural in GROUP_KINDS:
                kinds.setdefault(plural, Kind(GROUPS, version, plural, GROUP_KINDS[plural]))
    return [kind for kind in kinds.values() if await _may_list(client, kind)]


async def _may_list(client: KubeClient, kind: Kind) -> bool:
    try:
        await client.get(kind.path(), {"limit": "1"})
    except ApiError as error:
        if error.status != 403:
            raise
        log.warning("%s are not followed: %s", kind.plural, error.sentence)
        return False
    return True


async def budgets_of(client: KubeClient) -> Kind:
    """The disruption budgets in the version this server has."""
    return BUDGETS if "v1" in await served_versions(client, BUDGETS.group) else OLD_BUDGETS


async def read_cluster(client: KubeClient) -> ClusterRead:
    """Nodes, and everything else as it was when they were read."""
    kinds = [*ALWAYS, await budgets_of(client), *await group_kinds_of(client)]
    if versions := await served_versions(client, DEVICES):
        kinds += [Kind(DEVICES, versions[0], *names) for names in DEVICE_KINDS]
    for attempt in range(TRIES):
        try:
            return await _read_once(client, kinds)
        except ApiError as error:
            # The server has forgotten that moment already: begin with a newer one.
            if error.status != 410 or attempt == TRIES - 1:
                raise
    raise AssertionError("not reached")


async def _read_once(client: KubeClient, kinds: list[Kind]) -> ClusterRead:
    nodes = await client.list_all(NODES)
    read = ClusterRead(nodes.version, list(nodes.items))
    for part in await asyncio.gather(*(_part(client, k, nodes.version, read) for k in kinds)):
        read.items += part.items
    return read


async def _part(client: KubeClient, kind: Kind, version: str, read: ClusterRead) -> Listed:
    try:
        return await client.list_at(kind, version)
    except ApiError as error:
        if error.status in (403, 404) and kind is not PODS:
            read.notes.append(f"{kind.plural} are left out: {error.sentence}")
            return Listed(version, [])
        raise
