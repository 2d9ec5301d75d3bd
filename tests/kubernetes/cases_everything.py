"""Made clusters in which every application draws several rules at once, of all kinds there are.

`cases_random` draws one rule for each application; here they meet: a spread beside an anti-affinity
by another key on pods with volumes, budgets and sidecars, in several namespaces, on nodes that are
tainted, closed, lost, small or without labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.kubernetes.cases import theme
from tests.kubernetes.checker import takers
from tests.kubernetes.checker_cluster import Object, cluster_of
from tests.kubernetes.made import (
    FEW,
    HOST,
    NODES,
    PLAIN,
    ZONE,
    Case,
    Made,
    Question,
    apart,
    app_is,
    on_nodes,
    pod_status,
    removing,
    spread,
    term,
    together,
    using,
    where,
)

RACK, CARD, DISK = "example.com/rack", "example.com/card", "disk.example.com"
SPACES = ("shop", "data", "test")
TAINTS = (
    {"key": "team", "value": "a", "effect": "NoSchedule"},
    {"key": "team", "value": "b", "effect": "NoExecute"},
    {"key": "spare", "effect": "PreferNoSchedule"},
)
APPS = [f"app{k}" for k in range(14)]
Draw = Callable[[Made, str], Object]


def draw_nodes(m: Made, count: int) -> None:
    rng = m.rng
    for k in range(count):
        spec: Object = {"taints": [rng.choice(TAINTS)]} if rng.random() < 0.25 else {}
        spec |= {"unschedulable": True} if rng.random() < 0.06 else {}
        more = {CARD: "2"} if rng.random() < 0.4 else {}
        more |= {"hugepages-2Mi": "1Gi"} if rng.random() < 0.3 else {}
        more |= {"ephemeral-storage": "20Gi"} if rng.random() < 0.9 else {}
        labels = {"disk": rng.choice(("ssd", "hdd")), "size": str(k % 4)}
        labels |= {RACK: f"r{k % 4}"} if rng.random() < 0.8 else {}
        made = m.node(
            f"n{k}",
            "abc"[k % 3],
            rng.choice(("2", "4", "7910m")),
            pods=rng.choice(("5", "20", "110")),
            state="Unknown" if rng.random() < 0.04 else "True",
            labels=labels,
            more=more,
            **spec,
        )
        if rng.random() < 0.08:
            made["metadata"]["labels"].pop(ZONE)
        driver = {"name": DISK, "nodeID": f"n{k}", "allocatable": {"count": rng.choice((2, 3))}}
        if rng.random() < 0.7:
            m.add("CSINode", f"n{k}", version="storage.k8s.io/v1", spec={"drivers": [driver]})


def draw_term(m: Made, app: str) -> Object:
    """Whom a rule between pods speaks of, by which key, in which namespaces."""
    rng = m.rng
    whom = app_is(app) if rng.random() < 0.5 else app_is(*rng.sample(APPS, 2))
    spaces: Object = rng.choice(
        (
            {},
            {},
            {"namespaces": rng.sample(SPACES, 2)},
            {"namespaceSelector": {}},
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "data"}}},
            {"namespaceSelector": {"matchLabels": {"team": "core"}}},
        )
    )
    keys: Object = rng.choice(
        ({}, {}, {"matchLabelKeys": ["revision"]}, {"mismatchLabelKeys": ["revision"]})
    )
    return term(whom, rng.choice((HOST, HOST, ZONE, RACK)), **spaces, **keys)


def draw_spreads(m: Made, app: str) -> list[Object]:
    rng, found = m.rng, []
    for key in rng.sample((ZONE, HOST, RACK), rng.choice((1, 1, 2))):
        more: Object = {}
        if rng.random() < 0.2:
            more["minDomains"] = rng.choice((2, 3, 4))
        if rng.random() < 0.3:
            more["nodeTaintsPolicy"] = rng.choice(("Honor", "Ignore"))
        if rng.random() < 0.3:
            more["nodeAffinityPolicy"] = rng.choice(("Honor", "Ignore"))
        if rng.random() < 0.2:
            more["matchLabelKeys"] = ["revision"]
        whom = app_is(app) if rng.random() < 0.8 else app_is(app, rng.choice(APPS))
        found += spread(whom, key, rng.choice((1, 1, 2, 3)), **more)
    return found


def draw_affinity(m: Made, app: str) -> Object:
    """Rules about nodes and about other pods, some of each."""
    rng, found = m.rng, dict[str, Any]()
    if rng.random() < 0.3:
        wants = (
            where("disk", "In", "ssd"),
            where("size", "Gt", "0"),
            where("size", "Lt", "3"),
            where(RACK, "Exists"),
            where(ZONE, "NotIn", "c"),
            where(RACK, "DoesNotExist"),
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]},
        )
        found |= on_nodes(*rng.sample(wants, rng.choice((1, 2))))
    if rng.random() < 0.35:
        found |= apart(*(draw_term(m, app) for _ in range(rng.choice((1, 1, 2)))))
    if rng.random() < 0.15:
        found |= together(*(draw_term(m, app) for _ in range(rng.choice((1, 1, 2)))))
    return found


def draw_containers(m: Made) -> Object:
    """Sidecars, limits in place of requests, ports, sandboxes."""
    rng, found = m.rng, dict[str, Any]()
    side = {"name": "side", "image": "x", "restartPolicy": "Always"}
    asks = {"requests": {"cpu": "300m", "memory": "64Mi"}}
    first = {"name": "first", "image": "x", "resources": {"limits": {"cpu": "900m"}}}
    inits = [{**side, "resources": asks}, first]
    if rng.random() < 0.25:
        found["initContainers"] = rng.sample(inits, rng.choice((1, 2)))
    if rng.random() < 0.1:
        found["overhead"] = {"cpu": "250m", "memory": "120Mi"}
    if rng.random() < 0.1:
        found["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    if rng.random() < 0.2:
        port: Object = {"containerPort": 80, "hostPort": rng.choice((80, 81))}
        port |= rng.choice(
            ({}, {"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}, {"protocol": "UDP"})
        )
        found["container"] = {"ports": [port]}
    if rng.random() < 0.3:
        some = ({CARD: "1"}, {"hugepages-2Mi": "256Mi"}, {"ephemeral-storage": "6Gi"})
        found["requests"] = rng.choice(some)
    return found


def draw_app(m: Made, app: str) -> Object:
    rng, found = m.rng, draw_containers(m)
    if affinity := draw_affinity(m, app):
        found["affinity"] = affinity
    if rng.random() < 0.3:
        found["topologySpreadConstraints"] = draw_spreads(m, app)
    if rng.random() < 0.3:
        tolerated = ({"key": "team", "operator": "Exists"}, {"key": "team", "value": "a"})
        found["tolerations"] = [rng.choice(tolerated)]
    if rng.random() < 0.1:
        found["nodeSelector"] = {"disk": rng.choice(("ssd", "hdd"))}
    if rng.random() < 0.3:
        found["priority"] = rng.choice((-1, 10, 1000))
    found["owner"] = rng.choice(("ReplicaSet",) * 5 + ("StatefulSet", "Job", ""))
    return found


def claimed(m: Made, app: str, number: int) -> list[Object]:
    """A volume of a pod's own: zonal, local, for one pod only, or not made yet."""
    rng, name = m.rng, f"data-{app}-{number}"
    kind = rng.choice(("zonal", "zonal", "local", "lone", "late"))
    if kind == "late":
        m.claim(name, kind="late")
        return [using(name)]
    modes = ["ReadWriteOncePod" if kind == "lone" else "ReadWriteOnce"]
    more: Object = {"accessModes": modes}
    if kind == "zonal":
        zones = rng.choice((("a",), ("b",), ("a", "c")))
        more["nodeAffinity"] = {"required": {"nodeSelectorTerms": [where(ZONE, "In", *zones)]}}
    if kind == "local":
        here = where(HOST, "In", f"n{rng.randrange(8)}")
        more |= {"nodeAffinity": {"required": {"nodeSelectorTerms": [here]}}}
        more |= {"csi": None, "local": {"path": "/disk"}}
    m.volume(f"pv-{name}", name, **more)
    m.claim(name, f"pv-{name}", accessModes=modes)
    return [using(name)]


def scatter(m: Made, app: str, rules: Object) -> None:
    """Replicas where the checker lets them lie, some anywhere; what no node takes waits."""
    rng, space = m.rng, m.rng.choice(("shop", "shop", "shop", "data", "test"))
    stored = space == "shop" and rng.random() < 0.25
    cpu = rng.choice(("100m", "200m", "400m", "700m", "1"))
    for number in range(rng.randint(1, 5)):
        labels = {"revision": rng.choice(("old", "new"))}
        own: Object = {"volumes": claimed(m, app, number)} if stored else {}
        made = m.pod(app, "", cpu, "256Mi", space, labels=labels, **{**rules, **own})
        open_nodes = takers(cluster_of(m.items), made)
        if rng.random() < 0.03:
            open_nodes = [thing["metadata"]["name"] for thing in m.items if thing["kind"] == "Node"]
        if open_nodes and rng.random() < 0.95:
            made["spec"]["nodeName"] = rng.choice(open_nodes)
            made["status"] = pod_status(True, rng.random() < 0.93)
        disturb(m, made)


def disturb(m: Made, made: Object) -> None:
    """What happens to single pods: marks, ends, deletions, gates."""
    kind = m.rng.random()
    if kind < 0.03:
        made["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    elif kind < 0.06:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    elif kind < 0.08 and made["spec"].get("nodeName"):
        made["status"] = {"phase": m.rng.choice(("Succeeded", "Failed"))}
    elif kind < 0.10 and not made["spec"].get("nodeName"):
        made["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]


def draw_budget(m: Made, app: str) -> None:
    space = next(t["metadata"]["namespace"] for t in m.items if t["metadata"]["name"] == f"{app}-0")
    bounds: tuple[Object, ...] = (
        {"maxUnavailable": 1},
        {"maxUnavailable": "30%"},
        {"minAvailable": 1},
        {"minAvailable": "60%"},
    )
    policy = {"unhealthyPodEvictionPolicy": m.rng.choice(("AlwaysAllow", "IfHealthyBudget"))}
    more = policy if m.rng.random() < 0.4 else {}
    m.budget(app, app_is(app), space, **m.rng.choice(bounds), **more)


def draw_questions(m: Made, count: int) -> tuple[Question, ...]:
    first, second = m.rng.sample(range(count), 2)
    some: tuple[Question, ...] = (
        FEW,
        ("--limit", "moves=3"),
        ("--objective", "cost"),
        ("--exclude", "data", *NODES),
        ("--only", "shop"),
        removing(f"n{first}", f"n{second}"),
    )
    return PLAIN, NODES, removing(f"n{first}"), m.rng.choice(some)


def draw_world(m: Made, count: int) -> None:
    """Namespaces, a class of volumes, nodes, and a daemon set on each."""
    for name, team in (("data", "core"), ("test", "none"), ("shop", "core")):
        m.add("Namespace", name, metadata={"labels": {"team": team}})
    waits = {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": DISK}
    m.add("StorageClass", "late", version="storage.k8s.io/v1", **waits)
    draw_nodes(m, count)
    m.daemons([f"n{k}" for k in range(count)], container={"ports": [{"hostPort": 9100}]})


@theme
def everything(seed: int) -> Case:
    m, count = Made(seed), 10
    draw_world(m, count)
    for app in APPS:
        scatter(m, app, draw_app(m, app))
        if m.rng.random() < 0.4:
            draw_budget(m, app)
    m.counted()
    return Case(m.items, draw_questions(m, count), steps=0)
