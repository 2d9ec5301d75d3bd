"""Volumes and devices: the filters VolumeRestrictions, VolumeBinding, VolumeZone, NodeVolumeLimits
and DynamicResources, and what the attach controller refuses after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.kubernetes.checker_cluster import (
    Cluster,
    Object,
    Thing,
    annotations_of,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    selects,
    spec_of,
    status_of,
)
from tests.kubernetes.checker_nodes import selector_matches
from tests.kubernetes.checker_resources import quantity

ZONE_KEYS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
SELECTED = "volume.kubernetes.io/selected-node"
#: Disks of the clouds are given to their CSI drivers (migration, stable in 1.25).
MIGRATED = {
    "awsElasticBlockStore": ("ebs.csi.aws.com", "volumeID"),
    "gcePersistentDisk": ("pd.csi.storage.gke.io", "pdName"),
    "azureDisk": ("disk.csi.azure.com", "diskName"),
}


def claim_names(pod: Thing) -> list[str]:
    """Claims by name, and those made for the pod alone, named after pod and volume."""
    found = []
    for volume in spec_of(pod).get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            found.append(str(volume["persistentVolumeClaim"]["claimName"]))
        elif volume.get("ephemeral"):
            found.append(f"{name_of(pod)}-{volume['name']}")
    return found


def claims_of(cluster: Cluster, pod: Thing) -> Iterator[tuple[str, Object | None]]:
    """A pod that is new has new claims for its ephemeral volumes, made from their templates."""
    fresh = {
        f"{name_of(pod)}-{volume['name']}": volume["ephemeral"]["volumeClaimTemplate"]
        for volume in spec_of(pod).get("volumes") or ()
        if volume.get("ephemeral")
    }
    for name in claim_names(pod):
        found = cluster.named("PersistentVolumeClaim", name, namespace_of(pod))
        if found is None and name in fresh:
            found = {"metadata": {"name": name}, "spec": spec_of(fresh[name])}
        yield name, found


def volume_of(cluster: Cluster, claim: Thing) -> Object | None:
    return cluster.named("PersistentVolume", str(spec_of(claim).get("volumeName") or ""))


def users_of(cluster: Cluster, pod: Thing, claim: str) -> list[tuple[Object, Object]]:
    """Other pods with a node that use the same claim."""
    return [
        (other, node)
        for other, node in cluster.placed(pod)
        if namespace_of(other) == namespace_of(pod) and claim in claim_names(other)
    ]


def volume_refusals(cluster: Cluster, pod: Thing, node: Thing) -> list[str]:
    found = []
    for name, claim in claims_of(cluster, pod):
        if claim is None:
            found.append(f"claim {name} is not there")
        elif spec_of(claim).get("volumeName"):
            found += _bound_refusals(cluster, claim, node)
        else:
            found += _unbound_refusals(cluster, claim, node)
        if claim is not None:
            found += _sharing_refusals(cluster, pod, claim, node)
    return [*found, *disk_refusals(cluster, pod, node), *limit_refusals(cluster, pod, node)]


def _bound_refusals(cluster: Cluster, claim: Thing, node: Thing) -> list[str]:
    volume = volume_of(cluster, claim)
    if volume is None:
        return [f"the volume of claim {name_of(claim)} is not there"]
    required = (spec_of(volume).get("nodeAffinity") or {}).get("required")
    if required is not None and not selector_matches(required, node):
        return [f"volume {name_of(volume)} cannot be reached from {name_of(node)}"]
    return zone_refusals(volume, node)


def zone_refusals(volume: Thing, node: Thing) -> list[str]:
    """Zones and regions in the labels of a volume, several joined by two underscores.

    A node without any such label takes every volume; a beta label of the volume may be met by the
    stable label of the node.
    """
    have = labels_of(node)
    if not any(key in have for key in ZONE_KEYS):
        return []
    found = []
    for key in ZONE_KEYS:
        told = labels_of(volume).get(key)
        stable = key.replace("failure-domain.beta", "topology")
        if told is not None and have.get(key, have.get(stable)) not in told.split("__"):
            found.append(f"volume {name_of(volume)} lies in {told} by its label {key}")
    return found


def _unbound_refusals(cluster: Cluster, claim: Thing, node: Thing) -> list[str]:
    """Only claims of a class that waits for its first consumer can be bound by the scheduler."""
    kind = class_of(cluster, claim)
    if kind is None or kind.get("volumeBindingMode") != "WaitForFirstConsumer":
        return [f"claim {name_of(claim)} is not bound and waits for nobody"]
    chosen = annotations_of(claim).get(SELECTED)
    if chosen is not None and chosen != name_of(node):
        return [f"claim {name_of(claim)} is being made for {chosen}"]
    if any(_serves(volume, claim, node) for volume in cluster.of_kind("PersistentVolume")):
        return []
    if kind.get("provisioner") == "kubernetes.io/no-provisioner":
        return [f"no free volume for claim {name_of(claim)} on {name_of(node)}"]
    return [*_topology_refusals(kind, node), *_capacity_refusals(cluster, kind, claim, node)]


def class_of(cluster: Cluster, claim: Thing) -> Object | None:
    """The class a claim names; the default class where it names none (retroactive since 1.28)."""
    if (named := spec_of(claim).get("storageClassName")) is not None:
        return cluster.named("StorageClass", str(named))
    mark = "storageclass.kubernetes.io/is-default-class"
    return next(
        (k for k in cluster.of_kind("StorageClass") if annotations_of(k).get(mark) == "true"), None
    )


def _capacity_refusals(cluster: Cluster, kind: Thing, claim: Thing, node: Thing) -> list[str]:
    """A driver that publishes its capacity (stable in 1.24) must have enough of it in one piece."""
    driver = cluster.named("CSIDriver", str(kind.get("provisioner")))
    if driver is None or not spec_of(driver).get("storageCapacity"):
        return []
    size = ((spec_of(claim).get("resources") or {}).get("requests") or {}).get("storage", 0)
    for told in cluster.of_kind("CSIStorageCapacity"):
        here = selects(told.get("nodeTopology"), labels_of(node))
        room = told.get("maximumVolumeSize") or told.get("capacity") or 0
        mine = told.get("storageClassName") == name_of(kind)
        if here and mine and quantity(room) >= quantity(size):
            return []
    return [f"{kind.get('provisioner')} has no room for claim {name_of(claim)} at {name_of(node)}"]


def _topology_refusals(kind: Thing, node: Thing) -> list[str]:
    terms = kind.get("allowedTopologies") or ()
    met = any(
        all(
            labels_of(node).get(want["key"]) in want["values"]
            for want in term.get("matchLabelExpressions") or ()
        )
        for term in terms
    )
    return [] if met or not terms else [f"class {name_of(kind)} makes nothing at {name_of(node)}"]


def _serves(volume: Thing, claim: Thing, node: Thing) -> bool:
    """A free volume of the class, large enough, with the modes wanted, within reach."""
    spec, wanted = spec_of(volume), spec_of(claim)
    size = ((wanted.get("resources") or {}).get("requests") or {}).get("storage", 0)
    required = (spec.get("nodeAffinity") or {}).get("required")
    return (
        _free_for(spec.get("claimRef"), claim)
        and spec.get("volumeMode", "Filesystem") == wanted.get("volumeMode", "Filesystem")
        and selects(wanted.get("selector") or {}, labels_of(volume))
        and spec.get("storageClassName") == wanted.get("storageClassName")
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and quantity((spec.get("capacity") or {}).get("storage", 0)) >= quantity(size)
        and (required is None or selector_matches(required, node))
        and not zone_refusals(volume, node)
    )


def _free_for(promised: Thing | None, claim: Thing) -> bool:
    mine = name_of(claim), namespace_of(claim)
    return promised is None or (promised.get("name"), promised.get("namespace")) == mine


def bind(cluster: Cluster, pod: Thing, node: Thing) -> None:
    """What the scheduler does to claims that wait: the smallest free volume within reach is theirs,
    else one is being made for the node."""
    for _, claim in claims_of(cluster, pod):
        if claim is None or spec_of(claim).get("volumeName"):
            continue
        fitting = [v for v in cluster.of_kind("PersistentVolume") if _serves(v, claim, node)]
        if fitting:
            volume = min(fitting, key=lambda v: quantity(spec_of(v)["capacity"]["storage"]))
            volume["spec"]["claimRef"] = {"name": name_of(claim), "namespace": namespace_of(pod)}
            claim["spec"]["volumeName"] = name_of(volume)
        else:
            claim["metadata"].setdefault("annotations", {}).setdefault(SELECTED, name_of(node))


#: Disks that pods name themselves, and whether two readers may share a node.
INLINE = {
    "awsElasticBlockStore": ("volumeID", False),
    "gcePersistentDisk": ("pdName", True),
    "iscsi": ("iqn", True),
}


def disk_refusals(cluster: Cluster, pod: Thing, node: Thing) -> list[str]:
    """VolumeRestrictions: no disk twice on a node, unless both only read it."""
    mine, found = _inline_disks(pod), []
    for other in cluster.on(node, pod):
        for kind, disk in _inline_disks(other):
            key, shared = INLINE[kind]
            for own_kind, own in mine:
                reading = shared and own.get("readOnly") and disk.get("readOnly")
                if own_kind == kind and own[key] == disk[key] and not reading:
                    found.append(f"{key_of(other)} on {name_of(node)} has the disk {disk[key]}")
    return found


def _inline_disks(pod: Thing) -> list[tuple[str, Object]]:
    volumes = spec_of(pod).get("volumes") or ()
    return [(kind, volume[kind]) for volume in volumes for kind in INLINE if kind in volume]


def _sharing_refusals(cluster: Cluster, pod: Thing, claim: Thing, node: Thing) -> list[str]:
    """One pod in the whole cluster for ReadWriteOncePod (stable in 1.29), which the scheduler
    filters.

    ReadWriteOnce is one *node*: the scheduler does not ask, but the attach controller leaves the
    pod waiting with "Multi-Attach error" as long as another node has the volume.
    """
    modes = spec_of(claim).get("accessModes") or ()
    users = users_of(cluster, pod, name_of(claim))
    if "ReadWriteOncePod" in modes and users:
        return [f"claim {name_of(claim)} is for one pod, and {key_of(users[0][0])} has it"]
    away = [other for other, there in users if name_of(there) != name_of(node)]
    if set(modes) == {"ReadWriteOnce"} and away and _attached(cluster, claim):
        return [f"claim {name_of(claim)} is attached where {key_of(away[0])} is"]
    return []


def _attached(cluster: Cluster, claim: Thing) -> bool:
    """Volumes of a driver are attached; NFS, local folders and the like are not."""
    volume = volume_of(cluster, claim)
    return volume is None or "csi" in spec_of(volume) or bool(MIGRATED.keys() & spec_of(volume))


def attachments(cluster: Cluster, pod: Thing) -> set[tuple[str, str]]:
    """Driver and handle of each volume the node of a pod must attach; one claim counts once."""
    found = set()
    for name, claim in claims_of(cluster, pod):
        if claim is None:
            continue
        volume = volume_of(cluster, claim)
        if volume is not None:
            found |= _handle(spec_of(volume))
        elif kind := class_of(cluster, claim):
            found.add((str(kind.get("provisioner")), f"{namespace_of(pod)}/{name}"))
    for listed in spec_of(pod).get("volumes") or ():
        found |= {h for h in _handle(listed) if "csi" not in listed}
    return found


def _handle(source: Thing) -> set[tuple[str, str]]:
    if "csi" in source:
        return {(str(source["csi"]["driver"]), str(source["csi"].get("volumeHandle")))}
    return {
        (driver, str(source[kind][field]))
        for kind, (driver, field) in MIGRATED.items()
        if kind in source
    }


def limit_refusals(cluster: Cluster, pod: Thing, node: Thing) -> list[str]:
    """The count a driver allows in the node's CSINode; a driver that tells none has no limit."""
    kind = cluster.named("CSINode", name_of(node))
    found = []
    for driver in spec_of(kind).get("drivers") or () if kind else ():
        most = (driver.get("allocatable") or {}).get("count")
        mine = {h for h in attachments(cluster, pod) if h[0] == driver["name"]}
        pods = cluster.on(node, pod)
        there = {h for p in pods for h in attachments(cluster, p) if h[0] == driver["name"]}
        if most is not None and mine - there and len(mine | there) > most:
            found.append(f"{name_of(node)} attaches at most {most} volumes of {driver['name']}")
    return found


def device_refusals(cluster: Cluster, pod: Thing, node: Thing) -> list[str]:
    """Resource claims (stable in 1.34): an allocated one holds its pods where its devices are.

    A claim made from a template goes with its pod, so a new pod needs as many free devices of the
    same driver on its new node; a claim without devices gets them where its first pod goes.
    """
    found = []
    for entry in spec_of(pod).get("resourceClaims") or ():
        name = entry.get("resourceClaimName")
        claim = cluster.named("ResourceClaim", str(name), namespace_of(pod)) if name else None
        if name and claim is None:
            found.append(f"resource claim {name} is not there")
        elif claim is not None and status_of(claim).get("allocation"):
            found += _allocated_refusals(claim, node)
        elif claim is not None:
            found += _unallocated_refusals(cluster, pod, claim, node)
        else:
            found += _template_refusals(cluster, pod, entry, node)
    return found


def _allocated_refusals(claim: Thing, node: Thing) -> list[str]:
    allocation = status_of(claim).get("allocation") or {}
    selector = allocation.get("nodeSelector")
    if selector is not None and not selector_matches(selector, node):
        return [f"the devices of resource claim {name_of(claim)} are elsewhere"]
    return []


def _users_of_resource(cluster: Cluster, pod: Thing, name: str) -> list[Object]:
    return [
        node
        for other, node in cluster.placed(pod)
        if namespace_of(other) == namespace_of(pod)
        and any(
            e.get("resourceClaimName") == name for e in spec_of(other).get("resourceClaims") or ()
        )
    ]


def _unallocated_refusals(cluster: Cluster, pod: Thing, claim: Thing, node: Thing) -> list[str]:
    """Whoever comes after the first must come to the same node."""
    there = _users_of_resource(cluster, pod, name_of(claim))
    if there:
        same = all(name_of(other) == name_of(node) for other in there)
        return [] if same else [f"resource claim {name_of(claim)} has its devices elsewhere"]
    return _lacking(cluster, pod, wanted_devices(cluster, spec_of(claim)), node, name_of(claim))


def _template_refusals(cluster: Cluster, pod: Thing, entry: Thing, node: Thing) -> list[str]:
    name = str(entry.get("resourceClaimTemplateName"))
    template = cluster.named("ResourceClaimTemplate", name, namespace_of(pod))
    if template is None:
        return [f"resource claim template {name} is not there"]
    wanted = wanted_devices(cluster, spec_of(template).get("spec") or {})
    return _lacking(cluster, pod, wanted, node, name)


def _lacking(
    cluster: Cluster, pod: Thing, wanted: Counter[str], node: Thing, name: str
) -> list[str]:
    """Devices are told apart by node and driver alone."""
    there: Counter[str] = Counter()
    for each in cluster.of_kind("ResourceSlice"):
        if spec_of(each).get("nodeName") == name_of(node):
            there[str(spec_of(each).get("driver"))] += len(spec_of(each).get("devices") or ())
    for claim in cluster.of_kind("ResourceClaim"):
        devices = (status_of(claim).get("allocation") or {}).get("devices") or {}
        of_pod = any(o.get("kind") == "Pod" for o in claim["metadata"].get("ownerReferences") or ())
        for result in () if of_pod else devices.get("results") or ():
            if result.get("pool") == name_of(node):
                there[str(result.get("driver"))] -= 1
    taken: Counter[str] = Counter()
    shared: set[str] = set()
    for other in cluster.on(node, pod):
        for entry in spec_of(other).get("resourceClaims") or ():
            taken += _taken(cluster, other, entry, shared)
    return [
        f"{name_of(node)} has no free device of {driver or 'any driver'} for {name}"
        for driver, count in wanted.items()
        if count
        > (there[driver] - taken[driver] if driver else sum(there.values()) - taken.total())
    ]


def wanted_devices(cluster: Cluster, body: Thing) -> Counter[str]:
    """How many devices of each driver a claim asks for; the class says which driver."""
    found: Counter[str] = Counter()
    for request in (body.get("devices") or {}).get("requests") or ():
        exactly = request.get("exactly") or request
        kind = cluster.named("DeviceClass", str(exactly.get("deviceClassName")))
        words = str((spec_of(kind).get("selectors") if kind else None) or "")
        driver = words.partition("device.driver == ")[2].strip("'\"").partition('"')[0]
        found[driver] += int(exactly.get("count", 1))
    return found


def _taken(cluster: Cluster, pod: Thing, entry: Thing, shared: set[str]) -> Counter[str]:
    """What an entry of a pod has taken; a claim that several share is counted once."""
    space = namespace_of(pod)
    if name := entry.get("resourceClaimName"):
        claim = cluster.named("ResourceClaim", str(name), space)
        if claim is None or status_of(claim).get("allocation") or f"{space}/{name}" in shared:
            return Counter()
        shared.add(f"{space}/{name}")
        return wanted_devices(cluster, spec_of(claim))
    template = cluster.named(
        "ResourceClaimTemplate", str(entry.get("resourceClaimTemplateName")), space
    )
    return (
        Counter()
        if template is None
        else wanted_devices(cluster, spec_of(template).get("spec") or {})
    )
