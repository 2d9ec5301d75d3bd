"""Clusters made around one rule of Kubernetes each: nodes, pods and what rules over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.kubernetes.checker_cluster import Cluster, Object
from tests.kubernetes.checker_replay import in_use
from tests.kubernetes.made import (
    FEW,
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
    where,
)

Builder = Callable[[int], Case]
BUILDERS: dict[str, Builder] = {}


def theme(builder: Builder) -> Builder:
    """The function's name is the theme's."""
    BUILDERS[builder.__name__.replace("_", "-")] = builder
    return builder


def at_most(nodes: int) -> Expect:
    """Not more nodes in use than this when the nodes are what was asked about."""

    def judge(cluster: Cluster, plan: Object) -> list[str]:
        asked = any(o["name"] == "nodes" for o in plan["optimised"])
        used = len(in_use(cluster))
        return [f"{used} nodes in use, {nodes} are enough"] if asked and used > nodes else []

    return judge


@theme
def plain(seed: int) -> Case:
    m = Made(seed)
    m.fill(m.nodes(8), 3)
    return Case(m.items, (PLAIN, NODES, FEW, removing("n0", "n3")), steps=10)


@theme
def many_nodes(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(40)
    m.daemons(names)
    m.fill(names, 3, apps=12)
    for k in range(12):
        m.pod("ring", names[k], affinity=apart(term(app_is("ring"))))
    return Case(m.items, (NODES,), steps=10)


@theme
def taints(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(4)
    effects = ("NoSchedule", "NoExecute", "PreferNoSchedule", "NoSchedule")
    for k, effect in enumerate(effects):
        m.node(f"t{k}", taints=[{"key": "team", "value": "ab"[k % 2], "effect": effect}])
    tolerations: list[list[Object]] = [
        [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}],
        [{"key": "team", "value": "b"}],
        [{"key": "team", "operator": "Exists", "effect": "NoExecute"}],
        [{"operator": "Exists"}],
    ]
    m.fill(names, 2)
    for k, listed in enumerate(tolerations * 2):
        m.pod(f"own{k % 4}", (["t0", "t3", "t1", "t2"] * 2)[k], tolerations=listed)
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("t0")))


@theme
def cordons_and_lost_nodes(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(5)
    m.node("closed", unschedulable=True)
    gone = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    m.node("lost", state="Unknown", taints=[gone, {**gone, "effect": "NoExecute"}])
    m.fill([*names, "closed"], 2)
    m.pod("stays", "closed", tolerations=[{"operator": "Exists"}])
    m.pod("waiting")
    return Case(m.items, (PLAIN, NODES, removing("n1")))


@theme
def node_affinity(seed: int) -> Case:
    m = Made(seed)
    for k in range(8):
        disk = {"disk": "ssd" if k % 2 else "hdd"} if k < 6 else {}
        m.node(f"n{k}", "abc"[k % 3], labels={"size": str(k), **disk})
    named = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n7"]}]}
    wants = (
        on_nodes(where("disk", "In", "ssd")),
        on_nodes(where("disk", "NotIn", "ssd")),
        on_nodes(where("disk", "Exists"), where("size", "Gt", "6")),
        on_nodes(where("disk", "DoesNotExist"), where("size", "Lt", "2")),
        on_nodes({**named, **where("size", "Gt", "3")}),
    )
    homes = ("n1", "n4", "n2", "n6", "n5")
    for k in range(15):
        m.pod(f"want{k % 5}", homes[k % 5], affinity=wants[k % 5])
    m.pod("picky", "n3", nodeSelector={"disk": "ssd"}, affinity=on_nodes(where(ZONE, "In", "a")))
    return Case(m.items, (PLAIN, NODES, removing("n1"), removing("n4")))


@theme
def selector_beside_one_of_two_terms(seed: int) -> Case:
    """One of two terms contradicts the selector; the other is met: a healthy pod."""
    m = Made(seed)
    for k in range(4):
        m.node(f"n{k}", "ab"[k % 2], labels={"disk": "ssd"})
    m.fill(["n0", "n1", "n2", "n3"], 2)
    either = on_nodes(where("disk", "In", "hdd"), where(ZONE, "In", "a"))
    m.pod("both", "n0", nodeSelector={"disk": "ssd"}, affinity=either)
    return Case(m.items, (NODES, removing("n0")), steps=2)


@theme
def pending_for_ever(seed: int) -> Case:
    """One pod that can never be placed holds up nothing else."""
    m = Made(seed)
    m.fill(m.nodes(4), 2)
    never = on_nodes(where("disk", "In", "hdd"))
    m.pod("never", nodeSelector={"disk": "ssd"}, affinity=never)
    return Case(m.items, (NODES, removing("n0")), steps=2)


@theme
def anti_affinity(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(9)
    m.fill(names, 1)
    for k in range(4):
        m.pod("alone", names[k], affinity=apart(term(app_is("alone"))))
    for k in range(3):
        m.pod("zonal", names[k], affinity=apart(term(app_is("zonal"), ZONE)))
    for k in range(3):
        m.pod("loud", names[k], affinity=apart(term(app_is("quiet"))))
        m.pod("quiet", names[k + 4])
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n4", "n5")), steps=5)


@theme
def anti_affinity_of_namespaces(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(6)
    there = term(app_is("db"), namespaces=["data"])
    for k in range(3):
        m.pod("db", names[k], space="data")
        m.pod("db", names[k + 3], space="test")
        m.pod("shy", names[k + 3], affinity=apart(there))
    return Case(m.items, (PLAIN, NODES, removing("n5")), steps=2)


@theme
def affinity(seed: int) -> Case:
    """Company wanted, and groups whose first pod may go anywhere."""
    m = Made(seed)
    names = m.nodes(6)
    m.fill(names, 1)
    for k in range(3):
        m.pod("cache", names[k])
        m.pod("client", names[k], affinity=together(term(app_is("cache"))))
    for _ in range(3):
        m.pod("flock", affinity=together(term(app_is("flock"), ZONE)))
    return Case(m.items, (PLAIN, NODES, removing("n0")), steps=3)


@theme
def affinity_of_all_terms(seed: int) -> Case:
    """One pod must meet both terms; two that meet one each are no company."""
    m = Made(seed)
    names = m.nodes(4, "ab")
    m.fill(names, 1)
    m.pod("db", "n0")
    m.pod("gold", "n2", labels={"tier": "gold"})
    gold = {"matchLabels": {"tier": "gold"}}
    m.pod("client", affinity=together(term(app_is("db")), term(gold, ZONE)))
    return Case(m.items, (PLAIN, ("--limit", "moves=0")), steps=0)


@theme
def namespaces_by_their_label(seed: int) -> Case:
    """The name of a namespace is its label, so a selector of it is known without more."""
    m = Made(seed)
    names = m.nodes(4, "ab")
    named = {"matchLabels": {"kubernetes.io/metadata.name": "data"}}
    m.pod("db", "n0", space="data")
    m.pod("db", "n1", space="test")
    m.pod("full", "n0", cpu="3")
    m.pod("near", affinity=together(term(app_is("db"), namespaceSelector=named)))
    for name in names:
        m.pod("db", name, space="test", cpu="100m")
    m.pod("shy", affinity=apart(term(app_is("db"), namespaceSelector=named)), cpu="1")
    return Case(m.items, (PLAIN, removing("n3")))


@theme
def namespaces_by_other_labels(seed: int) -> Case:
    """With the Namespace objects beside it the labels of namespaces are known."""
    m = Made(seed)
    m.nodes(4, "ab")
    for name, team in (("data", "core"), ("test", "none"), ("shop", "none")):
        m.add("Namespace", name, metadata={"labels": {"team": team}})
    core = {"matchLabels": {"team": "core"}}
    m.pod("db", "n0", space="data", owner="")
    for name in ("n1", "n2", "n3"):
        m.pod("db", name, space="test", owner="")
    m.pod("shy", affinity=apart(term(app_is("db"), namespaceSelector=core)))
    m.pod("open", affinity=apart(term(app_is("db"), namespaceSelector={}, namespaces=["x"])))
    return Case(m.items, (PLAIN,))


@theme
def label_keys_of_affinity(seed: int) -> Case:
    """Two revisions of one application: only pods of the same one keep apart."""
    m = Made(seed)
    names = m.nodes(6)
    own = apart(term(app_is("api"), matchLabelKeys=["pod-template-hash"]))
    for k in range(3):
        for revision in ("old", "new"):
            m.pod("api", names[k * 2], labels={"pod-template-hash": revision}, affinity=own)
    m.fill(names, 1)
    return Case(m.items, (PLAIN, NODES, removing("n0")), steps=2)


@theme
def topology_spread(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(9)
    m.fill(names, 1)
    for k in range(9):
        m.pod("even", names[k], topologySpreadConstraints=spread(app_is("even")))
    for k in range(4):
        rules = spread(app_is("host"), HOST, 2)
        m.pod("host", names[k], topologySpreadConstraints=rules)
        m.pod("even", names[k], space="other")
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n1", "n2")), steps=5)


@theme
def spread_over_least_domains(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(6, "ab")
    rules = spread(app_is("wide"), minDomains=3)
    for k in range(2):
        m.pod("wide", names[k], topologySpreadConstraints=rules)
    m.pod("wide", topologySpreadConstraints=rules)
    m.fill(names, 1)
    return Case(m.items, (PLAIN, NODES))


@theme
def spread_of_revisions(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(6)
    rules = spread(app_is("api"), matchLabelKeys=["pod-template-hash"])
    for k in range(6):
        own = {"pod-template-hash": "old" if k < 3 else "new"}
        m.pod("api", names[k], labels=own, topologySpreadConstraints=rules)
    m.pod("api", labels={"pod-template-hash": "new"}, topologySpreadConstraints=rules)
    m.fill(names, 1)
    return Case(m.items, (PLAIN, NODES, removing("n0")))


@theme
def spread_and_node_affinity(seed: int) -> Case:
    """Zones the pod may not use count only if the policy says Ignore."""
    m = Made(seed)
    names = m.nodes(6)
    inside: Any = {"affinity": on_nodes(where(ZONE, "In", "a", "b"))}
    for k in range(4):
        home = names[(0, 1, 3, 4)[k]]
        m.pod("held", home, topologySpreadConstraints=spread(app_is("held")), **inside)
    for _ in range(2):
        m.pod("held", topologySpreadConstraints=spread(app_is("held")), **inside)
    ignoring = spread(app_is("blind"), nodeAffinityPolicy="Ignore")
    m.pod("blind", "n0", topologySpreadConstraints=ignoring, **inside)
    m.pod("blind", "n1", topologySpreadConstraints=ignoring, **inside)
    m.pod("blind", topologySpreadConstraints=ignoring, **inside)
    return Case(m.items, (PLAIN, NODES))


@theme
def spread_and_tainted_nodes(seed: int) -> Case:
    """An empty zone of tainted nodes holds all others at the skew."""
    m = Made(seed)
    names = m.nodes(4, "ab")
    for k in range(2):
        m.node(f"t{k}", "c", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    rules = spread(app_is("even"))
    for k in range(2):
        m.pod("even", names[k], topologySpreadConstraints=rules)
    for _ in range(2):
        m.pod("even", topologySpreadConstraints=rules)
    return Case(m.items, (PLAIN, removing("n0")), steps=0)


@theme
def spread_that_honours_taints(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(4, "ab")
    m.node("t0", "c", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    rules = spread(app_is("even"), nodeTaintsPolicy="Honor")
    for k in range(2):
        m.pod("even", names[k], topologySpreadConstraints=rules)
    for _ in range(2):
        m.pod("even", topologySpreadConstraints=rules)
    return Case(m.items, (PLAIN, removing("n0")), steps=2)


@theme
def spread_broken_already(seed: int) -> Case:
    """Zone c is empty of the application and full of others: neither a nor b may take one more."""
    m = Made(seed)
    names = m.nodes(6)
    rules = spread(app_is("even"))
    for home in ("n0", "n3", "n3", "n0", "n1", "n4"):
        m.pod("even", home, "200m", topologySpreadConstraints=rules)
    for home in ("n2", "n5"):
        m.pod("bare", home, "3900m", owner="")
    m.fill(names[:2], 1)
    return Case(m.items, (removing("n0"), NODES), steps=0)


@theme
def spread_by_two_keys(seed: int) -> Case:
    """A node without one of the keys counts for none of the constraints."""
    m = Made(seed)
    for k in range(6):
        rack = {"rack": f"r{k % 2}"} if k < 4 else {}
        m.node(f"n{k}", "ab"[k // 2 % 2] if k < 4 else "c", labels=rack)
    rules = [*spread(app_is("even")), *spread(app_is("even"), "rack")]
    for k in range(4):
        m.pod("even", f"n{k}", topologySpreadConstraints=rules)
    for _ in range(2):
        m.pod("even", topologySpreadConstraints=rules)
    return Case(m.items, (PLAIN,))


@theme
def spread_that_skips_itself(seed: int) -> Case:
    """The selector finds others only, so the pod does not count itself."""
    m = Made(seed)
    names = m.nodes(4, "ab")
    m.pod("other", "n0")
    for k in range(2):
        m.pod("guest", names[k], topologySpreadConstraints=spread(app_is("other")))
    m.pod("full", "n1", "3200m")
    m.pod("full", "n3", "3900m")
    m.pod("guest", cpu="1", topologySpreadConstraints=spread(app_is("other")))
    return Case(m.items, (PLAIN, removing("n1")))


@theme
def spread_and_pods_on_their_way_out(seed: int) -> Case:
    """Pods that are being deleted do not count for a spread."""
    m = Made(seed)
    m.nodes(4, "ab")
    rules = spread(app_is("even"))
    for home in ("n0", "n1", "n2"):
        made = m.pod("even", home, topologySpreadConstraints=rules)
        if home == "n2":
            made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for home in ("n1", "n3"):
        m.pod("bare", home, "3400m", owner="")
    m.pod("even", cpu="1", topologySpreadConstraints=rules)
    return Case(m.items, (PLAIN,))


@theme
def spread_while_nodes_go(seed: int) -> Case:
    """What still lies on a closed node counts for its zone until it has left."""
    m = Made(seed)
    names = m.nodes(9)
    rules = spread(app_is("even"))
    for name in names:
        m.pod("even", name, "1", topologySpreadConstraints=rules)
    m.pod("bare", "n3", "2900m", owner="")
    m.pod("bare", "n6", "2900m", owner="")
    return Case(m.items, (removing("n0", "n1"), removing("n4", "n7")), steps=0)
