"""Clusters with what is seldom met: rules of the scheduler that most clusters never touch, and what
the API server does to pods before the scheduler sees them."""

from __future__ import annotations

from tests.kubernetes.cases import BUILDERS, theme
from tests.kubernetes.checker_cluster import Cluster, Object, spec_of
from tests.kubernetes.made import (
    HOST,
    NODES,
    PLAIN,
    ZONE,
    Case,
    Expect,
    Made,
    apart,
    app_is,
    on_nodes,
    removing,
    spread,
    term,
    together,
    using,
    where,
)

OTHERS = set(BUILDERS)
STORAGE, CSI = "storage.k8s.io/v1", "disk.example.com"
EVERYTHING = [{"operator": "Exists"}]


def deployed(name: str, replicas: int, spec: Object, kind: str = "Deployment") -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": replicas, "template": template},
    }


def boxes(*requests: Object) -> list[Object]:
    """Containers that ask for these amounts."""
    return [
        {"name": f"c{k}", "image": "x", "resources": {"requests": asked} if asked else {}}
        for k, asked in enumerate(requests)
    ]


def nobody_waits(cluster: Cluster, plan: Object) -> list[str]:
    return [f"{entry['task']} waits: {entry['reason']}" for entry in plan["unplaced"]]


def placed_on(count: int, *nodes: str) -> Expect:
    """So many pods are placed, on these nodes alone."""

    def expect(cluster: Cluster, plan: Object) -> list[str]:
        wrong = [m for m in plan["moves"] if m["kind"] == "place" and m["to"] not in nodes]
        placed = sum(move["kind"] == "place" for move in plan["moves"])
        found = [f"{move['task']} is sent to {move['to']}" for move in wrong]
        return found + ([] if placed == count else [f"{placed} are placed, not {count}"])

    return expect


@theme
def spreads_that_closed_nodes_leave(seed: int) -> Case:
    """With taints honoured a node that is drained is no domain any more, nor are the pods on it."""
    m = Made(seed)
    names = m.nodes(6, "aabbcc")
    honest: Object = {"nodeTaintsPolicy": "Honor"}
    for k in range(6):
        rules = spread(app_is("even"), **honest)
        m.pod("even", names[k], topologySpreadConstraints=rules)
    wide = spread(app_is("wide"), skew=1, minDomains=3, **honest)
    for k in range(3):
        m.pod("wide", names[2 * k], topologySpreadConstraints=wide)
    m.pod(
        "even",
        "n5",
        tolerations=EVERYTHING,
        topologySpreadConstraints=spread(app_is("even"), **honest),
    )
    m.fill(names, 1)
    questions = (PLAIN, NODES, removing("n0"), removing("n0", "n1"), removing("n2", "n3", "n4"))
    return Case(m.items, questions, steps=3)


@theme
def pods_that_cordons_do_not_keep_out(seed: int) -> Case:
    """A pod that waits and tolerates everything is put on a closed node; nobody who runs is."""
    m = Made(seed)
    m.node("full", cpu="1")
    m.node("shut", unschedulable=True)
    m.node("also", cpu="1")
    m.pod("web", "full", "900m", tolerations=EVERYTHING)
    m.pod("web", "also", "900m")
    m.pod("agent", cpu="800m", tolerations=EVERYTHING)
    m.pod("plain", cpu="800m")
    return Case(m.items, (PLAIN, NODES), expect=placed_on(1, "shut"), steps=2)


@theme
def neighbours_of_other_namespaces(seed: int) -> Case:
    """Anti-affinity holds both ways and across namespaces, whoever has the term."""
    m = Made(seed)
    for name, tier in (("bank", "secret"), ("shop", "open"), ("labs", "open")):
        m.add("Namespace", name, metadata={"labels": {"tier": tier}})
    names = m.nodes(5)
    shy = apart(term({}, HOST, namespaceSelector={"matchLabels": {"tier": "open"}}))
    m.pod("vault", "n0", space="bank", affinity=shy)
    m.pod("vault", space="bank", affinity=shy)
    rival = apart(term(app_is("web"), ZONE, namespaces=["labs"], namespaceSelector=None))
    for k in range(1, 4):
        m.pod("web", names[k], space="shop" if k % 2 else "labs")
        m.pod("rival", names[k], affinity=rival if k == 1 else {})
    m.pod("web", space="labs")
    m.pod("web", space="shop")
    return Case(m.items, (PLAIN, NODES, removing("n1"), removing("n3")), steps=2)


@theme
def tenants_with_zones_of_their_own(seed: int) -> Case:
    """`mismatchLabelKeys`: beside nobody of another tenant, and company only of one's own."""
    m = Made(seed)
    names = m.nodes(6)
    anybody = {"matchExpressions": [{"key": "tenant", "operator": "Exists"}]}
    rules = {
        **apart(term(anybody, ZONE, mismatchLabelKeys=["tenant"], namespaceSelector={})),
        **together(term(anybody, ZONE, matchLabelKeys=["tenant"], namespaceSelector={})),
    }
    for k, tenant in enumerate("rgb"):
        for home in (names[k], names[k + 3]):
            m.pod(f"of-{tenant}", home, labels={"tenant": tenant}, affinity=rules)
        m.pod(f"of-{tenant}", labels={"tenant": tenant}, affinity=rules)
    m.pod("guest", "n0")
    m.pod("none", affinity=rules)
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n1", "n5")), steps=3)


@theme
def sidecars_in_sandboxes_as_a_whole(seed: int) -> Case:
    """Sidecars, pod-level amounts and overhead at once: the largest of the start, replaced by what
    the pod as a whole asks for, and the overhead on top."""
    m = Made(seed)
    names = m.nodes(5, cpu="2", memory="4Gi")
    side = {"name": "side", "image": "x", "restartPolicy": "Always"}
    ask = {"resources": {"requests": {"cpu": "400m", "memory": "1Gi"}}}
    init = {"name": "init", "image": "x", "resources": {"requests": {"cpu": "1200m"}}}
    whole: tuple[Object, ...] = (
        {"requests": {"cpu": "500m"}},
        {"limits": {"cpu": "1900m", "memory": "2Gi"}},
        {},
    )
    for k in range(9):
        m.pod(
            f"kind{k % 3}",
            names[k % 4] if k < 6 else "",
            "300m",
            "256Mi",
            initContainers=[{**side, **ask}, init] if k % 2 else [init, {**side, **ask}],
            resources=whole[k % 3],
            overhead={"cpu": "120m", "memory": "200Mi"},
        )
    return Case(m.items, (PLAIN, NODES, removing("n0")), steps=1)


@theme
def budgets_of_pods_that_never_ran(seed: int) -> Case:
    """No budget is asked about a pod that has not begun, nor about a sick one while the others are
    enough."""
    m = Made(seed)
    names = m.nodes(5)
    for k in range(3):
        m.pod("begun", names[k])
    starting = m.pod("begun", "n0")
    starting["status"] = {"phase": "Pending"}
    for k in range(3):
        m.pod("sick", names[k], is_ready=k != 0)
    m.budget("begun", app_is("begun"), minAvailable=3)
    m.budget("sick", app_is("sick"), minAvailable=2)
    m.pod("tidy", "n0")
    m.counted()

    def expect(cluster: Cluster, plan: Object) -> list[str]:
        stranded = {entry["task"] for entry in plan.get("stranded") or ()}
        return [f"{t} may go" for t in sorted(stranded & {"shop/begun-3", "shop/sick-0"})]

    return Case(m.items, (removing("n0"),), expect=expect, steps=3)


@theme
def classes_that_reach_few_zones(seed: int) -> Case:
    """Volumes made where the first pod goes: in allowed zones, and where the driver has room."""
    m = Made(seed)
    m.nodes(6)
    waits: Object = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": CSI}
    zones = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b", "c"]}]}]
    m.add("StorageClass", "zonal", version=STORAGE, allowedTopologies=zones, **waits)
    roomy = {**waits, "provisioner": "room.example.com"}
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    m.add("StorageClass", "roomy", version=STORAGE, metadata=default, **roomy)
    m.add("CSIDriver", "room.example.com", version=STORAGE, spec={"storageCapacity": True})
    for zone, room in (("a", "5Gi"), ("b", "50Gi"), ("c", "0")):
        m.add(
            "CSIStorageCapacity",
            f"in-{zone}",
            "kube-system",
            version=STORAGE,
            nodeTopology={"matchLabels": {ZONE: zone}},
            storageClassName="roomy",
            capacity=room,
        )
    for k in range(4):
        m.claim(f"z{k}", kind="zonal")
        m.pod("zoned", cpu="1", volumes=[using(f"z{k}")])
    for k in range(2):
        m.claim(f"r{k}", kind="roomy")
        m.items[-1]["spec"].pop("storageClassName")
        m.pod("roomy", cpu="1", volumes=[using(f"r{k}")])
    m.pod(
        "loose",
        "n0",
        volumes=[
            {
                "name": "t",
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {"storageClassName": "zonal", "accessModes": ["ReadWriteOnce"]}
                    }
                },
            }
        ],
    )
    return Case(
        m.items, (PLAIN, NODES, removing("n0"), removing("n1")), expect=nobody_waits, steps=18
    )


@theme
def disks_that_wait_for_their_first_pod(seed: int) -> Case:
    """Three local disks and five pods that want one each; one of them wants a large one."""
    m = Made(seed)
    names = m.nodes(4)
    local = {"volumeBindingMode": "WaitForFirstConsumer"}
    none = "kubernetes.io/no-provisioner"
    m.add("StorageClass", "local", version=STORAGE, provisioner=none, **local)
    for k, size in ((0, "10Gi"), (0, "100Gi"), (1, "10Gi")):
        here = {"required": {"nodeSelectorTerms": [where(HOST, "In", names[k])]}}
        m.volume(
            f"disk-{k}-{size.lower()}",
            "",
            capacity={"storage": size},
            storageClassName="local",
            nodeAffinity=here,
            local={"path": "/disk"},
            csi=None,
            claimRef=None,
        )
    for k in range(5):
        ask: Object = {"resources": {"requests": {"storage": "50Gi" if k == 4 else "10Gi"}}}
        m.claim(f"c{k}", kind="local", **ask)
        m.pod("store", volumes=[using(f"c{k}")])
    return Case(m.items, (PLAIN,), expect=placed_on(3, "n0", "n1"), steps=3)


@theme
def disks_by_two_names(seed: int) -> Case:
    """A limit of the driver counts disks of both kinds, one that two pods share once; a disk that
    pods name themselves is on no node twice."""
    m = Made(seed)
    names = m.nodes(4, "a")
    for name in names:
        driver = {"name": "ebs.csi.aws.com", "nodeID": name, "allocatable": {"count": 2}}
        m.add("CSINode", name, version=STORAGE, spec={"drivers": [driver]})
    for k in range(4):
        old = k % 2 == 0
        csi = None if old else {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-{k}"}
        more: Object = {"awsElasticBlockStore": {"volumeID": f"vol-{k}"}} if old else {}
        m.volume(f"pv-{k}", f"c{k}", csi=csi, accessModes=["ReadWriteMany"], **more)
        m.claim(f"c{k}", f"pv-{k}", accessModes=["ReadWriteMany"])
        m.pod("store", names[k], volumes=[using(f"c{k}")])
    m.pod("twin", "n0", volumes=[using("c0")])
    m.pod("twin", "n1", volumes=[using("c0")])
    for k in range(3):
        disk = {"pdName": "maps", "readOnly": k > 0}
        m.pod("maps", names[k], volumes=[{"name": "d", "gcePersistentDisk": disk}])
    m.pod("maps", volumes=[{"name": "d", "gcePersistentDisk": {"pdName": "maps"}}])
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n3")), steps=1)


@theme
def daemon_sets_and_closed_nodes(seed: int) -> Case:
    """A new daemon set comes to closed nodes too, and not where a taint of its own kind is."""
    m = Made(seed)
    m.node("open")
    m.node("shut", unschedulable=True)
    m.node("own", taints=[{"key": "team", "value": "x", "effect": "NoExecute"}])
    m.node("gpu", labels={"gpu": "yes"})
    m.fill(["open", "gpu"], 1)
    every = deployed("agent", 0, {"containers": boxes({"cpu": "100m"})}, "DaemonSet")
    return Case(
        m.items, (PLAIN,), place=[every], expect=placed_on(3, "open", "shut", "gpu"), steps=3
    )


@theme
def ports_on_addresses(seed: int) -> Case:
    """One port on two addresses is two ports, on every address it is both; so for each protocol."""
    m = Made(seed)
    names = m.nodes(4)

    def port(address: str, protocol: str = "TCP") -> Object:
        bound = {"containerPort": 53, "hostPort": 53, "protocol": protocol}
        return {"ports": [{**bound, **({"hostIP": address} if address else {})}]}

    m.pod("one", "n0", container=port("10.0.0.1"))
    m.pod("two", "n0", container=port("10.0.0.2"))
    m.pod("udp", "n0", container=port("", "UDP"))
    m.pod("sctp", "n1", container=port("0.0.0.0", "SCTP"))
    for address in ("", "0.0.0.0", "10.0.0.1", "127.0.0.1", "::"):
        m.pod("more", container=port(address))
    m.pod("more", container=port("10.0.0.9", "UDP"))
    side = {"name": "side", "image": "x", "restartPolicy": "Always", **port("10.0.0.2")}
    m.pod("aside", "n2", initContainers=[side])
    m.pod("once", "n2", initContainers=[{"name": "i", "image": "x", **port("10.0.0.2")}])
    m.fill(names, 1)
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n2")), steps=8)


@theme
def gates_that_open_one_by_one(seed: int) -> Case:
    """A gated pod has no place, keeps nobody away, and is nobody's company."""
    m = Made(seed)
    m.nodes(3)
    gate = [{"name": "example.com/a"}, {"name": "example.com/b"}]
    m.pod("held", schedulingGates=gate, affinity=apart(term({})))
    m.pod("held", schedulingGates=[], affinity={})
    m.pod("near", affinity=together(term(app_is("ghost"))))
    m.pod("ghost", schedulingGates=gate[:1])
    m.pod("even", schedulingGates=gate, topologySpreadConstraints=spread(app_is("even")))
    m.pod("even", "n0", topologySpreadConstraints=spread(app_is("even")))
    m.pod("even", topologySpreadConstraints=spread(app_is("even")))
    return Case(m.items, (PLAIN, NODES), expect=placed_on(2, "n0", "n1", "n2"), steps=4)


@theme
def manifests_that_say_little(seed: int) -> Case:
    """What the API server adds: a sandbox's overhead and nodes, requests by default, a claim's
    class."""
    m = Made(seed)
    for k in range(4):
        taint = [{"key": "sandbox", "effect": "NoSchedule"}] if k < 2 else []
        m.node(f"n{k}", cpu="2", labels={"sandbox": "yes"} if k < 2 else {}, taints=taint)
    m.add(
        "RuntimeClass",
        "kata",
        version="node.k8s.io/v1",
        overhead={"podFixed": {"cpu": "500m", "memory": "160Mi"}},
        scheduling={
            "nodeSelector": {"sandbox": "yes"},
            "tolerations": [{"key": "sandbox", "operator": "Exists"}],
        },
    )
    bounds = {"type": "Container", "defaultRequest": {"cpu": "700m"}, "default": {"cpu": "2"}}
    m.add("LimitRange", "usual", "shop", spec={"limits": [bounds]})
    waits: Object = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": CSI}
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    m.add("StorageClass", "usual", version=STORAGE, metadata=default, **waits)
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "files", "namespace": "shop"},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }
    boxed = {"runtimeClassName": "kata", "containers": boxes({"cpu": "500m"})}
    stored = {"containers": boxes({}), "volumes": [using("files")]}
    place = [claim, deployed("boxed", 4, boxed), deployed("bare", 3, {"containers": boxes({})})]
    place += [deployed("stored", 1, stored)]

    def expect(cluster: Cluster, plan: Object) -> list[str]:
        return nobody_waits(cluster, plan) + placed_on(8, "n0", "n1", "n2", "n3")(cluster, plan)

    return Case(m.items, (PLAIN,), place=place, expect=expect, steps=8)


@theme
def devices_of_two_drivers(seed: int) -> Case:
    """Cards and adapters on the same nodes, one claim that three pods share, one that has its
    devices for good."""
    m = Made(seed)
    names, version = m.nodes(4), "resource.k8s.io/v1"
    for driver in ("gpu.example.com", "nic.example.com"):
        chosen = {"cel": {"expression": f'device.driver == "{driver}"'}}
        m.add("DeviceClass", driver[:3], version=version, spec={"selectors": [chosen]})
        for k, name in enumerate(names):
            count = (2, 1, 0, 1)[k] if driver[0] == "g" else 4
            devices = [{"name": f"d{j}"} for j in range(count)]
            body = {"driver": driver, "nodeName": name, "devices": devices, "pool": {"name": name}}
            m.add("ResourceSlice", f"{name}-{driver[:3]}", version=version, spec=body)
    wants = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    m.add("ResourceClaimTemplate", "card", "shop", version=version, spec={"spec": wants})
    m.add("ResourceClaim", "team", "shop", version=version, spec=wants)
    result = {"driver": "gpu.example.com", "pool": "n0", "device": "d0", "request": "r"}
    held = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [where(HOST, "In", "n0")]},
    }
    m.add("ResourceClaim", "kept", "shop", version=version, spec=wants, status={"allocation": held})
    m.pod("keeper", "n0", resourceClaims=[{"name": "g", "resourceClaimName": "kept"}])
    for _ in range(3):
        m.pod("team", resourceClaims=[{"name": "g", "resourceClaimName": "team"}])
    for _ in range(3):
        m.pod("solo", resourceClaims=[{"name": "g", "resourceClaimTemplateName": "card"}])
    return Case(m.items, (PLAIN, NODES), expect=placed_on(5, "n0", "n1", "n3"), steps=10)


@theme
def nodes_that_count_no_pods(seed: int) -> Case:
    """A node that does not say how many pods it takes, takes none."""
    m = Made(seed)
    names = m.nodes(4)
    m.items[3]["status"]["allocatable"].pop("pods")
    m.fill(names[:3], 2)
    m.pod("wants", affinity=on_nodes(where(HOST, "In", "n3")))
    return Case(m.items, (PLAIN, NODES, removing("n0")), expect=placed_on(0), steps=1)


@theme
def guests_of_a_spread(seed: int) -> Case:
    """Whom a spread counts and who does not have it may come where it makes it uneven: the
    scheduler asks only the pod that comes."""
    m = Made(seed)
    m.nodes(4, "abcd", cpu="1")
    m.node("large", "a", "8")
    rules = spread({"matchLabels": {"part-of": "shop"}})
    for k in range(4):
        own = {"part-of": "shop"}
        m.pod("stable", f"n{k}", "800m", labels=own, topologySpreadConstraints=rules)
    for _ in range(3):
        m.pod("canary", cpu="800m", labels={"part-of": "shop"})
    m.pod("friend", affinity=together(term(app_is("stable"), HOST)), cpu="100m")
    return Case(m.items, (PLAIN, NODES), expect=nobody_waits, steps=8)


def answers(*names: str) -> Expect:
    """The pods that wait are these and no others."""

    def expect(cluster: Cluster, plan: Object) -> list[str]:
        waiting = {entry["task"] for entry in plan["unplaced"]}
        return [] if waiting == set(names) else [f"waiting: {sorted(waiting)}, not {names}"]

    return expect


@theme
def terms_of_both_kinds_and_own_labels(seed: int) -> Case:
    """The first pod of a group that wants its own kind goes anywhere; one that wants others of its
    revision does not if it is none itself."""
    m = Made(seed)
    m.nodes(4)
    own = together(term(app_is("first"), ZONE, matchLabelKeys=["rev"]))
    m.pod("first", labels={"rev": "2"}, affinity=own)
    m.pod("first", labels={"rev": "2"}, affinity=own)
    m.pod("first", "n0", labels={"rev": "1"}, affinity=own)
    m.pod("second", affinity=together(term(app_is("nobody"), ZONE)))
    both = together(term(app_is("first"), ZONE), term({}, HOST))
    m.pod("third", affinity=both)
    going = m.pod("fourth", "n3")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    m.pod("fifth", affinity=together(term(app_is("fourth"))))
    assert spec_of(going)["nodeName"] == "n3"
    return Case(m.items, (PLAIN, NODES), expect=answers("shop/second-0"), steps=6)


#: The themes of this module; they leave nothing to chance but sizes, so one seed will do.
STRANGERS = [name for name in BUILDERS if name not in OTHERS]
