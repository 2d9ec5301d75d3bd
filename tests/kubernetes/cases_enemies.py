"""Clusters as an enemy would make them: legal to the API server, and each odd in its own way."""

from __future__ import annotations

from tests.kubernetes.cases import BUILDERS, theme
from tests.kubernetes.checker_cluster import Object
from tests.kubernetes.made import (
    HOST,
    NODES,
    PLAIN,
    ZONE,
    Case,
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

OTHERS = set(BUILDERS)
RACK = "example.com/rack"


@theme
def two_nodes_of_one_hostname(seed: int) -> Case:
    """Cloned machines: for rules by host name both nodes are one domain."""
    m = Made(seed)
    names = m.nodes(5)
    m.items[1]["metadata"]["labels"][HOST] = "n0"
    m.fill(names, 1)
    for home in ("n0", "n2", "n3"):
        m.pod("alone", home, affinity=apart(term(app_is("alone"))))
    for home in ("n1", "n2"):
        m.pod("even", home, topologySpreadConstraints=spread(app_is("even"), HOST))
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n2")), steps=3)


@theme
def nodes_without_labels(seed: int) -> Case:
    """A node without labels is in no domain: spread and affinity refuse it, anti-affinity does
    not."""
    m = Made(seed)
    names = m.nodes(6)
    for node in m.items[3:5]:
        node["metadata"].pop("labels")
    m.items[5]["metadata"]["labels"] = None
    m.fill(names, 1)
    for home in ("n0", "n1"):
        m.pod("even", home, topologySpreadConstraints=spread(app_is("even")))
        m.pod("near", home, affinity=together(term(app_is("even"), ZONE)))
        m.pod("far", home, affinity=apart(term(app_is("far"))))
    return Case(m.items, (PLAIN, NODES, removing("n0", "n1")), steps=3)


@theme
def keys_that_some_nodes_lack(seed: int) -> Case:
    m = Made(seed)
    for k in range(6):
        m.node(f"n{k}", labels={RACK: f"r{k % 2}"} if k < 4 else {})
    m.fill([f"n{k}" for k in range(6)], 1)
    m.pod("lone", "n0", affinity=apart(term(app_is("lone"), RACK)))
    m.pod("lone", "n4", affinity=apart(term(app_is("lone"), RACK)))
    m.pod("lone", affinity=apart(term(app_is("lone"), RACK)))
    m.pod("near", "n1", affinity=together(term(app_is("lone", "near"), RACK)))
    m.pod("even", "n2", topologySpreadConstraints=spread(app_is("even"), RACK))
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n4")), steps=3)


@theme
def least_domains_of_revisions(seed: int) -> Case:
    """Fewer domains than asked for, counted for each revision by itself."""
    m = Made(seed)
    names = m.nodes(6, "ab")
    rules = spread(app_is("api"), minDomains=3, matchLabelKeys=["pod-template-hash"])
    for k in range(4):
        own = {"pod-template-hash": "old" if k < 2 else "new"}
        m.pod("api", names[k], labels=own, topologySpreadConstraints=rules)
    m.pod("api", labels={"pod-template-hash": "newest"}, topologySpreadConstraints=rules)
    m.pod("api", labels={"pod-template-hash": "new"}, topologySpreadConstraints=rules)
    m.fill(names, 1)
    return Case(m.items, (PLAIN, NODES, removing("n0")), steps=1)


@theme
def percent_budgets_of_unhealthy_pods(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(6)
    for k in range(6):
        m.pod("half", names[k], is_ready=k != 2)
        m.pod("most", names[k], is_ready=k not in (0, 1))
        m.pod("sick", names[k], is_ready=k > 3)
    m.budget("half", app_is("half"), minAvailable="50%")
    m.budget("most", app_is("most"), maxUnavailable="34%", unhealthyPodEvictionPolicy="AlwaysAllow")
    m.budget(
        "sick", app_is("sick"), minAvailable="70%", unhealthyPodEvictionPolicy="IfHealthyBudget"
    )
    m.counted()
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n2", "n3")), steps=3)


@theme
def budgets_that_say_odd_things(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(5)
    for k in range(5):
        m.pod("all", names[k])
        m.pod("none", names[k])
        m.pod("twice", names[k])
        m.pod("free", names[k])
    m.budget("all", app_is("all"), minAvailable="100%")
    m.budget("none", app_is("none"), maxUnavailable=0)
    m.budget("nobody", app_is("nobody"), maxUnavailable="0%")
    m.budget("first", app_is("twice"), maxUnavailable=1)
    m.budget("second", app_is("twice", "thrice"), minAvailable=1)
    m.budget("elsewhere", {}, space="other", maxUnavailable=0)
    m.counted()
    return Case(m.items, (PLAIN, NODES, removing("n0")), steps=1)


@theme
def static_pods(seed: int) -> Case:
    """Mirrors of static pods, with and without their owner, go with their node."""
    m = Made(seed)
    names = m.nodes(4)
    for k, name in enumerate(names):
        mark = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}
        m.pod("proxy", name, space="kube-system", owner="Node" if k % 2 else "", annotations=mark)
    m.fill(names, 2)
    return Case(m.items, (PLAIN, NODES, removing("n1")), steps=2)


@theme
def overhead_and_runtime_class(seed: int) -> Case:
    """What a sandbox takes counts for the pod; the class also says where its pods may run."""
    m = Made(seed)
    for k in range(5):
        m.node(f"n{k}", labels={"sandbox": "yes"} if k < 3 else {})
    handler = {"handler": "kata", "overhead": {"podFixed": {"cpu": "250m", "memory": "160Mi"}}}
    scheduling = {"nodeSelector": {"sandbox": "yes"}}
    m.items.append(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "kata"},
            **handler,
            "scheduling": scheduling,
        }
    )
    boxed: Object = {
        "runtimeClassName": "kata",
        "overhead": {"cpu": "250m", "memory": "160Mi"},
        "nodeSelector": {"sandbox": "yes"},
    }
    for k in range(6):
        m.pod("boxed", f"n{k % 3}", "1100m", **boxed)
    m.fill(["n3", "n4"], 2)
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n3")), steps=2)


@theme
def nodes_on_their_way_out(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(5)
    m.items[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    m.items[0]["spec"]["taints"] = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    m.items[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    m.fill(names, 2)
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n2")), steps=2)


@theme
def names_in_many_namespaces(seed: int) -> Case:
    """The same pods, owners, budgets and claims by name, one set in each namespace."""
    m = Made(seed)
    names = m.nodes(4)
    for space in ("red", "green", "blue"):
        m.counts.clear()
        for k in range(4):
            alone = apart(term(app_is("web"))) if space == "red" else {}
            m.pod("web", names[k], space=space, affinity=alone)
        m.budget("web", app_is("web"), space=space, maxUnavailable=0 if space == "blue" else 1)
    m.counted()
    return Case(m.items, (PLAIN, NODES, removing("n0")), steps=1)


@theme
def ended_pods_of_the_same_owner(seed: int) -> Case:
    """Pods that ended hold no room, port, spread or budget; evicted ones still name their node."""
    m = Made(seed)
    names = m.nodes(4, "ab")
    port = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    for k in range(4):
        rules = spread(app_is("even"))
        live = m.pod("even", names[k % 2], "1", topologySpreadConstraints=rules)
        live["spec"]["containers"][0] |= port if k == 0 else {}
        dead = m.pod("even", names[2], "3", topologySpreadConstraints=rules, container=port)
        dead["status"] = {"phase": "Failed" if k % 2 else "Succeeded", "reason": "Evicted"}
    m.budget("even", app_is("even"), maxUnavailable=1)
    m.fill(names, 1)
    return Case(m.items, (PLAIN, NODES, removing("n0")), steps=1)


@theme
def negative_priorities(seed: int) -> Case:
    """Priorities order who preempts; where pods fit they forbid nothing."""
    m = Made(seed)
    names = m.nodes(4)
    for k in range(12):
        more: Object = {"priority": (-10, -2147483648, 0, 2000001000)[k % 4]}
        m.pod(f"rank{k % 4}", names[k % 4], "700m", preemptionPolicy="Never", **more)
    m.pod("waits", cpu="900m", priority=-5)
    m.pod("urges", cpu="900m", priority=1000)
    return Case(m.items, (PLAIN, NODES, removing("n0")), steps=2)


@theme
def very_long_lists(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(6)
    for k in range(40):
        m.items[5]["spec"].setdefault("taints", []).append(
            {"key": f"team{k}", "value": str(k), "effect": "NoSchedule"}
        )
    every = [{"key": f"team{k}", "operator": "Exists"} for k in range(40)]
    hosts = [where(HOST, "In", *(f"other{k}" for k in range(200))) for _ in range(40)]
    wide = on_nodes(*hosts, where(HOST, "In", "n0", "n5", *(f"x{k}" for k in range(300))))
    far = apart(*(term(app_is(f"app{k}", *(f"y{j}" for j in range(50)))) for k in range(30)))
    for k in range(3):
        m.pod("wide", "n0", tolerations=every, affinity=wide)
        m.pod(f"app{k}", names[k], affinity=far)
        m.pod("most", names[k], tolerations=every[:-1], affinity=wide if k == 0 else {})
    m.fill(names[:5], 1)
    return Case(m.items, (PLAIN, NODES, removing("n0")), steps=2)


@theme
def nodes_of_no_capacity(seed: int) -> Case:
    """Nodes with nothing, with room for no pod, and with less than lies on them."""
    m = Made(seed)
    names = m.nodes(4)
    m.node("zero", cpu="0", memory="0", pods="0")
    m.node("shut", pods="0")
    m.node("small", cpu="200m", memory="64Mi")
    m.fill(names, 2)
    m.pod("light", "zero", requests={"cpu": "0", "memory": "0"})
    m.pod("crowd", "shut")
    m.pod("heavy", "small", "900m")
    m.pod("heavy", "small", "900m")
    return Case(m.items, (PLAIN, NODES, removing("zero"), removing("shut")), steps=2)


@theme
def nominated_nodes(seed: int) -> Case:
    """The scheduler keeps the room of a node for the pod that made it by preemption."""
    m = Made(seed)
    names = m.nodes(4)
    for name in names:
        m.pod("web", name, "2500m")
    m.pod("low", "n0", "900m", priority=1)
    coming = m.pod("high", cpu="1400m", priority=100)
    coming["status"]["nominatedNodeName"] = "n1"
    lower = m.pod("mid", cpu="1200m", priority=50)
    lower["status"]["nominatedNodeName"] = "gone"
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n3")), steps=1)


@theme
def sidecars_in_every_order(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(5, cpu="3")

    def init(name: str, cpu: str, sidecar: bool = False, kind: str = "requests") -> Object:
        always = {"restartPolicy": "Always"} if sidecar else {}
        return {"name": name, "image": "x", "resources": {kind: {"cpu": cpu}}, **always}

    orders = (
        [init("a", "1500m"), init("s", "600m", True)],
        [init("s", "600m", True), init("a", "1500m")],
        [init("s", "300m", True, "limits"), init("a", "900m"), init("t", "300m", True)],
        [init("a", "100m"), init("b", "2", kind="limits")],
    )
    for k in range(8):
        m.pod(f"order{k % 4}", names[k % 4], "500m", initContainers=orders[k % 4])
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n1")), steps=2)


@theme
def limits_without_requests(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(4, cpu="2")
    for k in range(8):
        bound = {"resources": {"limits": {"cpu": "700m", "memory": "1Gi"}}}
        both = {"resources": {"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}}}
        m.pod("bound", names[k % 4], container=bound)
        if k < 2:
            m.pod("whole", names[3 - k], container=both)
    return Case(m.items, (PLAIN, NODES, removing("n0")), steps=0)


@theme
def taints_that_look_alike(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(3)
    m.node("t0", taints=[{"key": "x", "effect": "NoSchedule"}])
    m.node("t1", taints=[{"key": "x", "value": "", "effect": "NoExecute"}])
    m.node("t2", taints=[{"key": "x", "value": "1", "effect": "PreferNoSchedule"}])
    both = [{"key": "x", "value": v, "effect": "NoSchedule"} for v in ("1", "2")]
    m.node("t3", taints=both)
    tolerations: tuple[list[Object], ...] = (
        [{"key": "x", "effect": "NoSchedule"}],
        [{"key": "x", "operator": "Exists", "tolerationSeconds": 10, "effect": "NoExecute"}],
        [{"key": "x", "value": "1"}],
        [{"operator": "Exists", "effect": "NoSchedule"}],
        [{"key": "x", "operator": "Equal", "value": "1"}, {"key": "x", "value": "2"}],
        [],
    )
    for k, listed in enumerate(tolerations):
        m.pod(f"own{k}", names[k % 3], tolerations=listed)
        m.pod(f"own{k}", tolerations=listed)
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n1", "n2")), steps=3)


@theme
def selectors_of_everything_and_nothing(seed: int) -> Case:
    """An empty selector is everybody, none at all is nobody."""
    m = Made(seed)
    names = m.nodes(6)
    m.pod("hermit", "n0", affinity=apart(term({})))
    m.pod("calm", "n1", affinity=apart({"topologyKey": HOST}))
    m.pod("calm", "n2", affinity=apart({"topologyKey": HOST, "labelSelector": None}))
    m.pod("even", "n3", topologySpreadConstraints=spread({}))
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    m.pod("odd", "n4", topologySpreadConstraints=[rule])
    m.pod("hermit", space="desert", affinity=apart(term({})))
    m.fill(names[1:4], 1)
    return Case(m.items, (PLAIN, NODES, removing("n1"), removing("n4")), steps=2)


@theme
def labels_of_empty_value(seed: int) -> Case:
    m = Made(seed)
    for k in range(6):
        labels = ({"role": ""}, {}, {"role": "db"})[k % 3]
        m.node(f"n{k}", labels=labels)
    wants: tuple[Object, ...] = (
        {"nodeSelector": {"role": ""}},
        {"affinity": on_nodes(where("role", "In", ""))},
        {"affinity": on_nodes(where("role", "Exists"))},
        {"affinity": on_nodes(where("role", "NotIn", "", "db"))},
        {"affinity": on_nodes(where("role", "DoesNotExist"))},
    )
    for k, want in enumerate(wants):
        m.pod(f"want{k}", ("n0", "n0", "n2", "n1", "n1")[k], **want)
        m.pod(f"want{k}", **want)
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n1")), steps=4)


@theme
def comparisons_with_what_is_no_number(seed: int) -> Case:
    m = Made(seed)
    for k, size in enumerate(("10", "9", "0x10", "", "-3", "2147483648")):
        m.node(f"n{k}", labels={"size": size})
    m.node("n6")
    for k, (operator, value) in enumerate((("Gt", "9"), ("Lt", "9"), ("Gt", "-4"))):
        m.pod(f"sized{k}", ("n0", "n4", "n1")[k], affinity=on_nodes(where("size", operator, value)))
        m.pod(f"sized{k}", affinity=on_nodes(where("size", operator, value)))
    return Case(m.items, (PLAIN, NODES, removing("n0")), steps=2)


@theme
def terms_that_ask_for_nothing(seed: int) -> Case:
    """A term without expressions matches no node; of several terms one is enough."""
    m = Made(seed)
    names = m.nodes(4)
    m.fill(names, 1)
    m.pod("never", affinity=on_nodes({}))
    m.pod("either", "n0", affinity=on_nodes({}, where(ZONE, "In", "a", "b")))
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    m.pod("there", "n2", affinity=on_nodes(named))
    m.pod("there", affinity=on_nodes(named))
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n2")), steps=2)


@theme
def owners_that_make_nobody_again(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(4)
    m.fill(names, 1)
    for k, kind in enumerate(("Job", "Workflow", "ReplicationController", "StatefulSet")):
        m.pod(f"kind{k}", names[k], owner=kind)
    loose = m.pod("loose", "n0")
    loose["metadata"]["ownerReferences"][0]["controller"] = False
    m.pod("bare", "n1", owner="", volumes=[{"name": "tmp", "emptyDir": {}}])
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n2")), steps=2)


@theme
def longest_names(seed: int) -> Case:
    m = Made(seed)
    longest = ["n" + "a" * 251 + str(k) for k in range(4)]
    for name in longest:
        m.node(name)
        m.items[-1]["metadata"]["labels"][HOST] = name[:62] + name[-1]
    for k in range(4):
        m.pod("p" * 240, longest[k], affinity=apart(term(app_is("p" * 240))))
        m.pod("q" * 240, longest[k], space="s" * 63, annotations={"note": "ü 'x' \"y\"\n$(z)"})
    return Case(m.items, (PLAIN, NODES, removing(longest[0])), steps=1)


@theme
def amounts_at_the_edges(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(4, cpu="3999999999n", memory="1e10")
    sizes = (("1333333333n", "3333333333"), ("1333u", "1"), ("0.5", "2.5e9"), ("1", "0"))
    for k in range(8):
        cpu, memory = sizes[k % 4]
        m.pod(f"edge{k % 4}", names[k % 4], cpu, memory)
    m.pod("exact", cpu="3999999999n", memory="1e10")
    return Case(m.items, (PLAIN, NODES, removing("n0")), steps=1)


@theme
def extended_resources_nobody_has(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(4)
    m.node("gpu", more={"nvidia.com/gpu": "2", "hugepages-2Mi": "64Mi"})
    m.fill(names, 1)
    m.pod("none", "n0", requests={"nvidia.com/gpu": "0"})
    m.pod("one", "gpu", requests={"nvidia.com/gpu": "1"})
    m.pod("one", requests={"nvidia.com/gpu": "2"})
    m.pod("odd", requests={"example.com/dongle": "1"})
    m.pod("gone", "n1", requests={"example.com/dongle": "1"})
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("gpu")), steps=1)


@theme
def several_spreads_over_one_key(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(6)
    rules = [*spread(app_is("a", "b"), skew=2), *spread(app_is("a"), skew=1)]
    soft = {**spread(app_is("a"), HOST)[0], "whenUnsatisfiable": "ScheduleAnyway"}
    for k in range(6):
        m.pod("a", names[k], topologySpreadConstraints=[*rules, soft])
        m.pod("b", names[k], topologySpreadConstraints=rules[:1])
    m.pod("a", topologySpreadConstraints=rules)
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n1", "n4")), steps=3)


@theme
def host_networks_without_ports(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(4)
    port = {"ports": [{"containerPort": 9100, "protocol": "UDP"}]}
    for k in range(4):
        m.pod("quiet", names[k], hostNetwork=True)
        if k < 2:
            m.pod("loud", names[k], hostNetwork=True, container=port)
    tcp = {"ports": [{"containerPort": 9100, "hostPort": 9100}]}
    m.pod("other", "n0", container=tcp)
    m.pod("other", container=tcp)
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n3")), steps=2)


@theme
def a_zone_for_each_node(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(8, "abcdefgh")
    for k in range(8):
        m.pod("even", names[k], topologySpreadConstraints=spread(app_is("even")))
        m.pod("zonal", names[k], affinity=apart(term(app_is("zonal"), ZONE)))
    m.fill(names, 1)
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n1", "n2")), steps=1)


@theme
def broken_before_anybody_moved(seed: int) -> Case:
    """Overbooked, on the wrong node, beside whom they avoid: what is broken may stay or mend."""
    m = Made(seed)
    names = m.nodes(5)
    for _ in range(3):
        m.pod("fat", "n0", "1900m")
    for _ in range(2):
        m.pod("alone", "n1", affinity=apart(term(app_is("alone"))))
    m.pod("strange", "n2", nodeSelector={"disk": "ssd"})
    m.pod("strange", "n3", tolerations=[], nodeSelector={ZONE: "b"})
    m.items[4]["spec"]["taints"] = [{"key": "new", "effect": "NoSchedule"}]
    m.pod("stale", "n4")
    m.fill(names[:4], 1)
    return Case(m.items, (PLAIN, NODES, removing("n0"), removing("n4")), steps=2)


#: The themes of this module; they leave nothing to chance but sizes, so one seed will do.
ENEMIES = [name for name in BUILDERS if name not in OTHERS]
