"""Made clusters around volumes and devices."""

from __future__ import annotations

from typing import Any

from tests.kubernetes.cases import theme
from tests.kubernetes.checker_cluster import Object
from tests.kubernetes.made import (
    HOST,
    NODES,
    PLAIN,
    ZONE,
    Case,
    Made,
    removing,
    using,
    where,
)


def in_zone(zone: str) -> Object:
    return {"required": {"nodeSelectorTerms": [where(ZONE, "In", zone)]}}


@theme
def volumes_by_affinity(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(6)
    for k, name in enumerate(names):
        m.stored("db", name, nodeAffinity=in_zone("abc"[k % 3]))
    here = {"required": {"nodeSelectorTerms": [where(HOST, "In", "n0")]}}
    m.stored("disk", "n0", nodeAffinity=here, local={"path": "/disk"}, csi=None)
    m.fill(names, 1)
    return Case(m.items, (PLAIN, NODES, removing("n1")), steps=2)


@theme
def volumes_with_zone_labels(seed: int) -> Case:
    """The zone of an older volume is a label; its own zone has no room."""
    m = Made(seed)
    names = m.nodes(4, "ab")
    m.stored("db", "n0", labels={ZONE: "a"})
    m.stored("db", "n2", labels={"failure-domain.beta.kubernetes.io/zone": "a__c"})
    m.pod("bare", "n2", "3", owner="")
    m.fill(names[1:2], 1)
    return Case(m.items, (removing("n0"), NODES), steps=0)


@theme
def volume_limits(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(6, "a")
    for name in names:
        driver = {"name": "disk.example.com", "nodeID": name, "allocatable": {"count": 2}}
        m.add("CSINode", name, version="storage.k8s.io/v1", spec={"drivers": [driver]})
        m.stored("db", name)
    return Case(m.items, (NODES, removing("n0")), steps=1)


@theme
def read_write_once_pod(seed: int) -> Case:
    """While one pod has the claim, no other gets a node."""
    m = Made(seed)
    names = m.nodes(3, "a")
    m.volume("pv", "one", accessModes=["ReadWriteOncePod"])
    m.claim("one", "pv", accessModes=["ReadWriteOncePod"])
    m.pod("solo", "n0", volumes=[using("one")])
    m.pod("solo", volumes=[using("one")])
    m.fill(names, 1)
    return Case(m.items, (PLAIN, removing("n0")))


@theme
def shared_volume(seed: int) -> Case:
    """Two pods on one ReadWriteOnce volume: neither can leave the other's node alone."""
    m = Made(seed)
    names = m.nodes(4, "a")
    m.volume("pv", "both")
    m.claim("both", "pv")
    m.pod("pair", "n0", volumes=[using("both")])
    m.pod("pair", "n0", volumes=[using("both")])
    m.fill(names[1:], 3)
    return Case(m.items, (removing("n0"), NODES), steps=0)


@theme
def claims_that_wait(seed: int) -> Case:
    """The first pod that uses a claim decides where its volume is made."""
    m = Made(seed)
    names = m.nodes(4, "ab")
    m.fill(names, 1)
    only = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
    kinds: list[tuple[str, Any]] = [("late", {}), ("late-b", {"allowedTopologies": only})]
    for name, more in kinds:
        waits = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "disk.example.com"}
        m.add("StorageClass", name, version="storage.k8s.io/v1", **waits, **more)
        m.claim(f"for-{name}", kind=name)
        m.pod(f"first-{name}", owner="StatefulSet", volumes=[using(f"for-{name}")])
    return Case(m.items, (PLAIN,), steps=2)


@theme
def ephemeral_volumes(seed: int) -> Case:
    """A volume that lives with its pod is made again, where its class allows it."""
    m = Made(seed)
    names = m.nodes(4, "ab")
    only = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]
    kind: Any = {"volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": only}
    kind |= {"provisioner": "disk.example.com", "version": "storage.k8s.io/v1"}
    m.add("StorageClass", "scratch", **kind)
    body = {"accessModes": ["ReadWriteOnce"], "storageClassName": "scratch"}
    volume = {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": body}}}
    m.volume("pv", "build-0-tmp", nodeAffinity=in_zone("a"), storageClassName="scratch")
    m.claim("build-0-tmp", "pv", "scratch")
    m.pod("build", "n0", "1500m", volumes=[volume])
    m.pod("bare", "n2", "3", owner="")
    m.fill(names[1:2], 1)
    return Case(m.items, (removing("n0"),), steps=0)


@theme
def dynamic_resources(seed: int) -> Case:
    """Pods whose devices come from claims go only where such devices are free."""
    m = Made(seed)
    names = m.nodes(6)
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 1}}
    body = {"spec": {"devices": {"requests": [request]}}}
    m.add("ResourceClaimTemplate", "gpu", "shop", version="resource.k8s.io/v1", spec=body)
    for name in names[:3]:
        devices = {"nodeName": name, "driver": "gpu.example.com", "devices": [{"name": "gpu-0"}]}
        m.add("ResourceSlice", name, version="resource.k8s.io/v1", spec=devices)
        claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
        m.pod("train", name, resourceClaims=claims)
    m.fill(names[3:], 3)
    return Case(m.items, (NODES, removing("n0")))


@theme
def allocated_claims(seed: int) -> Case:
    """A claim by name stays allocated on its node while pods use it."""
    m = Made(seed)
    names = m.nodes(4)
    here = {"nodeSelectorTerms": [where(HOST, "In", "n0")]}
    status = {"allocation": {"nodeSelector": here}, "reservedFor": [{"name": "user-0"}]}
    m.add("ResourceClaim", "card", "shop", version="resource.k8s.io/v1", spec={}, status=status)
    for _ in range(2):
        m.pod("user", "n0", resourceClaims=[{"name": "card", "resourceClaimName": "card"}])
    m.fill(names[1:], 3)
    return Case(m.items, (NODES, removing("n0")))
