"""Made clusters around room: resources of all kinds, and ports."""

from __future__ import annotations

from typing import Any

from tests.kubernetes.cases import at_most, theme
from tests.kubernetes.checker_cluster import Object
from tests.kubernetes.made import (
    NODES,
    PLAIN,
    Case,
    Made,
    removing,
)


def port(number: int, **more: Any) -> Object:
    return {"ports": [{"containerPort": number, "hostPort": number, "protocol": "TCP", **more}]}


def asks(**requests: str) -> Object:
    return {"resources": {"requests": dict(requests)}}


@theme
def host_ports(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(6)
    m.fill(names, 1)
    for k in range(2):
        m.pod("edge", names[k], container=port(8080))
        m.pod("dns", names[k + 1], container=port(8080, protocol="UDP"))
        m.pod("other", names[k + 3], container=port(8080))
    return Case(m.items, (PLAIN, NODES, removing("n0")), steps=3)


@theme
def host_addresses(seed: int) -> Case:
    """One port at two addresses is no conflict; at 0.0.0.0 it meets both."""
    m = Made(seed)
    names = m.nodes(3)
    for name in names:
        m.pod("inner", name, container=port(53, hostIP="10.0.0.1"), owner="DaemonSet")
    m.pod("outer", container=port(53, hostIP="10.0.0.2"))
    m.pod("every", container=port(53, hostIP="0.0.0.0"))
    return Case(m.items, (PLAIN,))


@theme
def ports_of_sidecars(seed: int) -> Case:
    """A sidecar keeps its port as long as the pod runs."""
    m = Made(seed)
    names = m.nodes(4)
    side = {"name": "side", "restartPolicy": "Always", **port(9000)}
    for name in names:
        m.pod("mesh", name, initContainers=[side])
    m.fill(names, 1)
    return Case(m.items, (NODES, removing("n0")), steps=1)


@theme
def host_network_manifests(seed: int) -> Case:
    """Of a `hostNetwork` pod every declared port becomes a host port."""
    m = Made(seed)
    m.node("n0", cpu="8")
    m.node("n1", cpu="1")
    open_port = {"name": "main", "image": "x", "ports": [{"containerPort": 8443}]} | asks(
        cpu="100m"
    )
    spec = {"hostNetwork": True, "containers": [open_port]}
    return Case(m.items, (PLAIN,), [deployment("proxy", 2, spec)], steps=2)


def deployment(name: str, replicas: int, spec: Object, kind: str = "Deployment") -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": name, "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": body}


@theme
def daemon_set_with_host_port(seed: int) -> Case:
    """Nodes with nothing but daemon sets on them are empty, host ports or not."""
    m = Made(seed)
    names = m.nodes(6)
    m.daemons(names, container=port(9100))
    for name in names:
        m.pod("web", name, "400m")
        m.pod("api", name, "400m")
    return Case(m.items, (NODES, removing("n0")), expect=at_most(2), steps=8)


@theme
def pod_level_resources(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(6)
    for name in names:
        m.pod("whole", name, resources={"requests": {"cpu": "1500m", "memory": "2Gi"}})
        m.pod("limits", name, "700m", resources={"limits": {"cpu": "3", "memory": "3Gi"}})
    return Case(m.items, (NODES, removing("n0")))


@theme
def init_and_sidecars(seed: int) -> Case:
    """An init container runs beside the sidecars started before it: 0.9 and 1.5 are 2.4."""
    m = Made(seed)
    names = m.nodes(8)
    side = {"name": "side", "restartPolicy": "Always", **asks(cpu="900m", memory="100Mi")}
    load = {"name": "load", **asks(cpu="1500m", memory="100Mi")}
    for name in names:
        m.pod("mesh", name, "100m", initContainers=[side, load])
    for name in names[:4]:
        m.pod("late", name, "100m", initContainers=[load, side])
    return Case(m.items, (NODES, removing("n0")), steps=0)


@theme
def overhead(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(6)
    for name in names:
        m.pod("sandbox", name, "600m", overhead={"cpu": "500m", "memory": "160Mi"})
    return Case(m.items, (NODES, removing("n0")), steps=2)


@theme
def extended_resources(seed: int) -> Case:
    m = Made(seed)
    for k in range(4):
        m.node(f"g{k}", "ab"[k % 2], more={"nvidia.com/gpu": "4", "example.com/fpga": "1"})
        m.pod("train", f"g{k}", requests={"nvidia.com/gpu": str(1 + k % 2)})
    m.pod("fpga", "g0", requests={"example.com/fpga": "1"})
    m.pod("fpga", "g1", requests={"example.com/fpga": "1"})
    names = m.nodes(4)
    m.fill(names, 2)
    return Case(m.items, (PLAIN, NODES, removing("g0"), removing("n0")), steps=3)


@theme
def ephemeral_storage(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(5, more={"ephemeral-storage": "18242267924"})
    for name in names:
        m.pod("log", name, requests={"ephemeral-storage": "6Gi"})
        m.pod("web", name)
    return Case(m.items, (NODES, removing("n0")), steps=2)


@theme
def huge_pages(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(5, more={"hugepages-2Mi": "8Gi", "hugepages-1Gi": "4Gi"})
    for name in names:
        m.pod("table", name, requests={"hugepages-2Mi": "3Gi"})
    m.pod("large", "n0", requests={"hugepages-1Gi": "2Gi"})
    return Case(m.items, (NODES, removing("n0")), steps=2)


@theme
def odd_quantities(seed: int) -> Case:
    """Everything Kubernetes writes: exponents, thousandths of a byte, the largest suffixes."""
    m = Made(seed)
    names = m.nodes(4, more={"example.com/token": "1E"}, memory="17179869184000m")
    for name in names:
        m.pod("exa", name, "1e-1", "1.5e8", requests={"example.com/token": "100P"})
        m.pod("nano", name, "100000000n", "0.25Gi")
    return Case(m.items, (NODES,), steps=2)


@theme
def pods_per_node(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(6, pods="7")
    m.daemons(names)
    for name in names:
        for _ in range(3):
            m.pod("tiny", name, "10m", "16Mi")
    return Case(m.items, (NODES, removing("n0")), steps=3)
