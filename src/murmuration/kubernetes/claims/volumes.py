"""Volumes: from which nodes they can be reached, how many a node attaches, and who shares them.

Whatever a volume asks of a node is written as a node selector, so that it is read like the pod's
own: its node affinity, the zones in its labels, the topologies of a class that makes volumes where
their first pod goes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from murmuration.assignment.problem import APART, TOGETHER, Rule
from murmuration.assignment.snapshots.builder import NodeEntry, TaskEntry
from murmuration.base.resources import parse_quantity
from murmuration.kubernetes.objects import Object, controller_of, listed, name_of, namespace_of
from murmuration.kubernetes.selectors import requirements_of, selects

ZONE_KEYS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
SELECTED = "volume.kubernetes.io/selected-node"
WAITS, NO_PROVISIONER = "WaitForFirstConsumer", "kubernetes.io/no-provisioner"
UNKNOWN = "its volume is not in the snapshot"
UNBOUND = "its claim has no volume and waits for none"
BEING_MADE = "its volume is being made for its node"
SHARED = "it shares a volume that only one node may have"
#: Disks of the clouds that their drivers attach: where a volume names the disk.
DISKS = {
    "awsElasticBlockStore": ("ebs.csi.aws.com", "volumeID"),
    "gcePersistentDisk": ("pd.csi.storage.gke.io", "pdName"),
    "azureDisk": ("disk.csi.azure.com", "diskName"),
}
#: Disks a pod may name itself: what tells two of them apart.
INLINE = {
    "awsElasticBlockStore": ("volumeID",),
    "gcePersistentDisk": ("pdName",),
    "iscsi": ("iqn",),
    "rbd": ("pool", "image"),
}
DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
FILES = "Filesystem"
EXPRESSIONS = "matchExpressions"
#: Volumes a node attaches whose driver tells no limit.
NO_LIMIT = 100_000.0


@dataclass
class Needs:
    """What the volumes of a pod ask: selectors that its node must all meet, how many volumes of
    each driver it attaches, or why they keep it where it is."""

    selectors: list[Object] = field(default_factory=list)
    attached: dict[str, float] = field(default_factory=dict)
    refused: str = ""


def attachment(driver: str) -> str:
    """The name of the resource that counts the volumes a node attaches for a driver."""
    return f"volumes of {driver}"


def limits_of(csi_node: Object) -> dict[str, float]:
    """How many volumes each driver attaches to a node, where it says so."""
    limits = {}
    for driver in (csi_node.get("spec") or {}).get("drivers") or ():
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None:
            limits[str(driver.get("name"))] = float(count)
    return limits


def limit_attached(node: NodeEntry, limits: Mapping[str, float], drivers: Iterable[str]) -> None:
    """Give a node the number of volumes that each driver with limits attaches to it."""
    if node.amounts:
        more = {attachment(driver): limits.get(driver, NO_LIMIT) for driver in drivers}
        node.amounts = {**node.amounts, **more}


def attach_limits(csi_nodes: Sequence[Object], nodes: Sequence[NodeEntry]) -> list[str]:
    """Give nodes the number of volumes their drivers say they attach; the drivers with limits."""
    limits = {str(thing["metadata"].get("name")): limits_of(thing) for thing in csi_nodes}
    drivers = list(dict.fromkeys(driver for each in limits.values() for driver in each))
    for node in nodes:
        limit_attached(node, limits.get(node.name, {}), drivers)
    return drivers


class Volumes:
    """The claims, volumes and classes of a snapshot."""

    def __init__(
        self,
        kinds: Mapping[str, list[Object]],
        limited: Sequence[str] = (),
        reserved: Collection[str] = (),
    ) -> None:
        self.claims = {name_of(c): c for c in kinds.get("PersistentVolumeClaim", ())}
        self.volumes = {
            str(v["metadata"].get("name")): v for v in kinds.get("PersistentVolume", ())
        }
        self.classes = {str(c["metadata"].get("name")): c for c in kinds.get("StorageClass", ())}
        #: Drivers that say where they have how much room, and what they say.
        self.measured = {
            str(d["metadata"].get("name"))
            for d in kinds.get("CSIDriver", ())
            if (d.get("spec") or {}).get("storageCapacity")
        }
        self.capacities = kinds.get("CSIStorageCapacity", ())
        self.limited = set(limited)
        #: Volumes that are promised to claims, though nothing shows it yet.
        self.reserved = set(reserved)

    def needs(self, pod: Object) -> Needs:
        """What all volumes of a pod ask together."""
        needs, handles = Needs(), set[tuple[str, str]]()
        for name, claim in self.claims_of(pod):
            if claim is None:
                needs.refused = needs.refused or UNKNOWN
                continue
            volume = self.volumes.get(str((claim.get("spec") or {}).get("volumeName") or ""))
            if (claim.get("spec") or {}).get("volumeName"):
                needs.refused = needs.refused or ("" if volume is not None else UNKNOWN)
                needs.selectors += [] if volume is None else reach_of(volume)
            elif (pod.get("spec") or {}).get("nodeName") and self._is_listed(pod, name, claim):
                needs.refused = needs.refused or BEING_MADE
            else:
                self._add_unbound(needs, claim)
            handles |= self._handles(claim, volume, f"{namespace_of(pod)}/{name}")
        for volume in listed(pod.get("spec") or {}, "volumes", "a pod"):
            handles |= _disks(volume)
        for driver, _ in handles:
            if driver in self.limited:
                key = attachment(driver)
                needs.attached[key] = needs.attached.get(key, 0.0) + 1.0
        return needs

    def _is_listed(self, pod: Object, name: str, claim: Object) -> bool:
        """Whether a claim is in the snapshot, and not one that is made with the next pod."""
        return self.claims.get(f"{namespace_of(pod)}/{name}") is claim

    def claims_of(self, pod: Object) -> Iterator[tuple[str, Object | None]]:
        """The claims a pod uses; None for one that is not in the snapshot.

        A volume that lives with its pod has a claim named after both. A pod that is made again gets
        a new one from the template, unless it keeps its name.
        """
        spec = pod.get("spec") or {}
        owner = controller_of(pod)
        renamed = bool(spec.get("nodeName")) and (owner or {}).get("kind") != "StatefulSet"
        for volume in listed(spec, "volumes", f"pod {name_of(pod)}"):
            if volume.get("persistentVolumeClaim"):
                name = str(volume["persistentVolumeClaim"].get("claimName"))
                yield name, self.claims.get(f"{namespace_of(pod)}/{name}")
            elif volume.get("ephemeral"):
                name = f"{pod['metadata'].get('name')}-{volume.get('name')}"
                template = volume["ephemeral"].get("volumeClaimTemplate") or {}
                made = {"metadata": {"name": name}, "spec": template.get("spec") or {}}
                there = None if renamed else self.claims.get(f"{namespace_of(pod)}/{name}")
                yield name, made if there is None else there

    def _add_unbound(self, needs: Needs, claim: Object) -> None:
        """A claim without a volume: where its class would make one, or one is free."""
        chosen = (claim["metadata"].get("annotations") or {}).get(SELECTED)
        kind = self.class_of(claim)
        if kind is None and not self.classes:
            return  # The snapshot has no classes at all: nothing is known against it.
        if kind is None or kind.get("volumeBindingMode") != WAITS:
            needs.refused = needs.refused or UNBOUND
            return
        if chosen is not None:
            needs.selectors.append(_terms(_named(str(chosen))))
        free = [_all_of(reach_of(volume)) for _, volume in self.free_for(claim)]
        if [] in free:
            return
        terms = [term for reach in free for term in reach]
        if kind.get("provisioner") != NO_PROVISIONER:
            provided = _all_of(self._where_made(kind, claim))
            if not provided:
                return
            terms += provided
        needs.selectors.append(_terms(*terms))

    def class_of(self, claim: Object) -> Object | None:
        """The class of a claim: the one it names, or the default one if it says nothing."""
        wanted = (claim.get("spec") or {}).get("storageClassName")
        if wanted is not None:
            return self.classes.get(str(wanted))
        return next((kind for kind in self.classes.values() if _is_default(kind)), None)

    def _where_made(self, kind: Object, claim: Object) -> list[Object]:
        """The selectors of nodes for which a class makes a volume: its topologies, and where its
        driver has room if it says so."""
        topologies = kind.get("allowedTopologies") or ()
        selectors = [_terms(*map(_topology, topologies))] if topologies else []
        if str(kind.get("provisioner")) in self.measured:
            name = kind["metadata"].get("name")
            roomy = [
                requirements_of(capacity["nodeTopology"])
                for capacity in self.capacities
                if capacity.get("storageClassName") == name
                and capacity.get("nodeTopology") is not None
                and _has_room(capacity, claim)
            ]
            # An empty topology is every node.
            selectors += [] if [] in roomy else [_terms(*({EXPRESSIONS: w} for w in roomy))]
        return selectors

    def free_for(self, claim: Object) -> list[tuple[str, Object]]:
        """The free volumes that would serve a claim, the smallest first."""
        free = [
            (_size(volume), name, volume)
            for name, volume in self.volumes.items()
            if name not in self.reserved and serves(volume, claim)
        ]
        return [(name, volume) for _, name, volume in sorted(free, key=lambda each: each[:2])]

    def is_made(self, claim: Object) -> bool:
        """Whether the class of a claim makes volumes where there are none."""
        kind = self.class_of(claim)
        return kind is not None and kind.get("provisioner") != NO_PROVISIONER

    def _handles(self, claim: Object, volume: Object | None, name: str) -> set[tuple[str, str]]:
        if volume is not None:
            return _disks(volume.get("spec") or {}) | _csi(volume.get("spec") or {})
        kind = self.class_of(claim)
        return set() if kind is None else {(str(kind.get("provisioner")), name)}

    def sharing_rules(self, tasks: Sequence[TaskEntry], nodes: int) -> list[Rule]:
        """A claim for one pod keeps its users apart, one for one node keeps them together, and
        those who share it stay where they are: none can follow the other."""
        rules: list[Rule] = []
        for name, users in self._users(tasks).items():
            claim = self.claims.get(name)
            modes = set(((claim or {}).get("spec") or {}).get("accessModes") or ())
            if claim is None or len(users) < 2:
                continue
            members = np.array(users, dtype=np.int64)
            if "ReadWriteOncePod" in modes:
                whole = np.zeros(nodes, dtype=np.int64)
                rules.append(Rule(APART, f"claim {name} is for one pod", members, members, whole))
            elif modes == {"ReadWriteOnce"} and self.is_attached(claim):
                for k in users:
                    if tasks[k].node and not tasks[k].pinned:
                        tasks[k].pinned, tasks[k].wants = SHARED, "pinned"
                label = f"claim {name} is for one node"
                rules.append(Rule(TOGETHER, label, members, members, np.arange(nodes)))
        return rules + _rules_of_disks(tasks, nodes)

    def _users(self, tasks: Sequence[TaskEntry]) -> dict[str, list[int]]:
        users: dict[str, list[int]] = {}
        for k, task in enumerate(tasks):
            for volume in (task.source.get("spec") or {}).get("volumes") or ():
                if name := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
                    users.setdefault(f"{namespace_of(task.source)}/{name}", []).append(k)
        return {name: sorted(set(of_claim)) for name, of_claim in users.items()}

    def is_attached(self, claim: Object) -> bool:
        """Volumes of a driver are attached to a node; network folders and the like are not."""
        volume = self.volumes.get(str((claim.get("spec") or {}).get("volumeName") or ""))
        spec = (volume or {}).get("spec") or {}
        return volume is None or "csi" in spec or any(disk in spec for disk in DISKS)


def _rules_of_disks(tasks: Sequence[TaskEntry], nodes: int) -> list[Rule]:
    """Pods that name the same disk themselves may not lie on one node, unless both only read it
    (and never if it is Amazon's)."""
    users: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
    for k, task in enumerate(tasks):
        for volume in (task.source.get("spec") or {}).get("volumes") or ():
            for kind in INLINE.keys() & volume.keys():
                disk = volume[kind] or {}
                name = ":".join(str(disk.get(key)) for key in INLINE[kind])
                writers, everybody = users.setdefault((kind, name), ([], []))
                everybody.append(k)
                if kind == "awsElasticBlockStore" or not disk.get("readOnly"):
                    writers.append(k)
    return [
        Rule(APART, f"the disk {name}", np.array(writers), np.array(everybody), np.arange(nodes))
        for (_, name), (writers, everybody) in users.items()
        if writers and len(everybody) > 1
    ]


def _is_default(kind: Object) -> bool:
    annotations = kind["metadata"].get("annotations") or {}
    return any(str(annotations.get(mark)).lower() == "true" for mark in DEFAULT_CLASS)


def _has_room(capacity: Object, claim: Object) -> bool:
    """Whether a driver has room for a claim where this says so."""
    size = (((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}).get("storage")
    room = capacity.get("maximumVolumeSize", capacity.get("capacity"))
    if room is None:
        return False
    return parse_quantity(size or 0, "storage") <= parse_quantity(room, "storage")


def _terms(*terms: Object) -> Object:
    return {"nodeSelectorTerms": list(terms)}


def _named(node: str) -> Object:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def _topology(topology: Object) -> Object:
    wants = topology.get("matchLabelExpressions") or ()
    return {"matchExpressions": [{**want, "operator": "In"} for want in wants]}


def reach_of(volume: Object) -> list[Object]:
    """The selectors a node must meet to reach a volume: its node affinity, and its zone labels."""
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    selectors = [required] if required else []
    labels = volume["metadata"].get("labels") or {}
    return selectors + [_zone(k, str(labels[k]).split("__")) for k in ZONE_KEYS if k in labels]


def _zone(key: str, values: list[str]) -> Object:
    """A label of a volume: the node has one of its values, under the stable name if it lacks the
    older one. A node without any such label takes every volume."""
    stable = key.replace("failure-domain.beta", "topology")
    inside: Object = {"operator": "In", "values": values}
    absent = [{"key": each, "operator": "DoesNotExist"} for each in ZONE_KEYS]
    terms = [{"matchExpressions": absent}, {"matchExpressions": [{"key": key, **inside}]}]
    if stable != key:
        older = {"key": key, "operator": "DoesNotExist"}
        terms.append({"matchExpressions": [older, {"key": stable, **inside}]})
    return _terms(*terms)


def _all_of(selectors: Sequence[Object]) -> list[Object]:
    """Several selectors as the terms of one; empty if there are none to meet."""
    if not selectors:
        return []
    terms: list[Object] = []
    for parts in product(*(selector.get("nodeSelectorTerms") or () for selector in selectors)):
        terms.append(
            {
                key: [want for part in parts for want in part.get(key) or ()]
                for key in ("matchExpressions", "matchFields")
            }
        )
    # A selector that nothing meets: none of its terms asks for anything.
    return terms or [{}]


def serves(volume: Object, claim: Object) -> bool:
    """A free volume of the class, large enough and with the modes and labels wanted; one that was
    promised to the claim is free for it."""
    spec, wanted = volume.get("spec") or {}, claim.get("spec") or {}
    labels = volume["metadata"].get("labels") or {}
    selector = wanted.get("selector") or {}
    size = ((wanted.get("resources") or {}).get("requests") or {}).get("storage", 0)
    has = (spec.get("capacity") or {}).get("storage", 0)
    return (
        _is_free_for(claim, spec.get("claimRef"))
        and (spec.get("volumeMode") or FILES) == (wanted.get("volumeMode") or FILES)
        and selects(selector, labels, "a claim's selector")
        and spec.get("storageClassName") == wanted.get("storageClassName")
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and parse_quantity(has, "storage") >= parse_quantity(size, "storage")
    )


def _is_free_for(claim: Object, promised: Object | None) -> bool:
    named = claim["metadata"].get("name"), namespace_of(claim)
    return not promised or (promised.get("name"), promised.get("namespace")) == named


def _size(volume: Object) -> float:
    return parse_quantity(
        ((volume.get("spec") or {}).get("capacity") or {}).get("storage", 0), "storage"
    )


def _disks(source: Object) -> set[tuple[str, str]]:
    return {
        (driver, str((source[kind] or {}).get(key)))
        for kind, (driver, key) in DISKS.items()
        if kind in source
    }


def _csi(source: Object) -> set[tuple[str, str]]:
    csi = source.get("csi")
    return {(str(csi.get("driver")), str(csi.get("volumeHandle")))} if csi else set()
