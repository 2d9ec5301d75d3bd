"""Made clusters around budgets, pods to be left alone, nodes that come and go, and odd objects."""

from __future__ import annotations

from tests.kubernetes.cases import theme
from tests.kubernetes.cases_rooms import asks, deployment, port
from tests.kubernetes.checker_cluster import Cluster, Object
from tests.kubernetes.made import (
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


@theme
def budgets(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(8)
    for k, name in enumerate(names):
        for app in ("least", "most", "never") if k < 2 else ("least", "most"):
            m.pod(app, name, "300m")
    m.budget("least", app_is("least"), minAvailable=7)
    m.budget("most", app_is("most"), maxUnavailable=2)
    m.budget("never", app_is("never"), maxUnavailable=0)
    m.counted()
    return Case(m.items, (PLAIN, NODES), steps=4)


@theme
def budgets_in_percent(seed: int) -> Case:
    """Both kinds round up: half of seven must be four, a third of seven may be three."""
    m = Made(seed)
    names = m.nodes(7)
    for name in names:
        m.pod("half", name, "300m")
        m.pod("third", name, "300m")
        m.pod("one", name, "300m")
    m.budget("half", app_is("half"), minAvailable="50%")
    m.budget("third", app_is("third"), maxUnavailable="33%")
    m.budget("one", app_is("one"), maxUnavailable="1%")
    return Case(m.items, (PLAIN, NODES), steps=4)


@theme
def budgets_and_removal(seed: int) -> Case:
    """Both pods of a budget of one lie on nodes that go: not in one wave."""
    m = Made(seed)
    names = m.nodes(6)
    for k in range(4):
        m.pod("coredns", names[k // 2], "100m")
    m.budget("coredns", app_is("coredns"), maxUnavailable=1)
    m.counted()
    m.fill(names[2:], 2)
    return Case(m.items, (removing("n0", "n1"),), steps=4)


@theme
def budgets_over_everything(seed: int) -> Case:
    """An empty selector is the whole namespace; beside another budget nobody may be evicted."""
    m = Made(seed)
    names = m.nodes(5)
    for name in names:
        m.pod("api", name, "300m", space="one")
        m.pod("job", name, "300m", space="three")
    for name in names[:2]:
        m.pod("web", name, "300m", space="two")
    m.budget("all", {}, "one", maxUnavailable=1)
    m.budget("all", {}, "two", maxUnavailable=1)
    m.budget("web", app_is("web"), "two", maxUnavailable=1)
    m.counted()
    return Case(m.items, (NODES,), steps=4)


@theme
def two_budgets_one_of_them_lenient(seed: int) -> Case:
    """Pods that are not ready may go by one budget; under a second the API refuses them, too."""
    m = Made(seed)
    names = m.nodes(5)
    for name in names:
        m.pod("stuck", name, "300m", is_ready=False)
        m.pod("fresh", name, "300m")["status"]["phase"] = "Pending"
    always = {"unhealthyPodEvictionPolicy": "AlwaysAllow"}
    for app in ("stuck", "fresh"):
        m.budget(f"{app}-1", app_is(app), maxUnavailable=1, **always)
        m.budget(f"{app}-2", app_is(app), maxUnavailable=1, **always)
    m.counted()
    return Case(m.items, (NODES, removing("n0")), steps=1)


@theme
def unready_pods(seed: int) -> Case:
    """What may go when some pods are not ready depends on the policy."""
    m = Made(seed)
    names = m.nodes(5)
    for k, name in enumerate(names):
        for app in ("held", "free"):
            m.pod(app, name, "300m", is_ready=k > 1)
    m.budget("held", app_is("held"), minAvailable=3)
    m.budget("free", app_is("free"), minAvailable=4, unhealthyPodEvictionPolicy="AlwaysAllow")
    m.counted()
    m.fill(names, 1)
    return Case(m.items, (NODES, removing("n4")))


@theme
def unready_pods_of_new_budgets(seed: int) -> Case:
    """A budget without a status yet: pods that are not ready do not count as healthy."""
    m = Made(seed)
    names = m.nodes(5)
    for k, name in enumerate(names):
        m.pod("held", name, "300m", is_ready=k > 1)
    m.budget("held", app_is("held"), minAvailable=3)
    m.fill(names, 1)
    return Case(m.items, (NODES, removing("n0")))


@theme
def not_to_be_moved(seed: int) -> Case:
    m = Made(seed)
    names = m.nodes(6)
    marks = (
        {"karpenter.sh/do-not-disrupt": "true"},
        {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
        {"karpenter.sh/do-not-evict": "true"},
    )
    for name, mark in zip(names, marks, strict=False):
        m.pod("marked", name, annotations=mark)
    m.pod("bare", "n3", owner="")
    m.pod("static", "n3", owner="Node", annotations={"kubernetes.io/config.mirror": "x"})
    m.daemons(names)
    m.fill(names, 2)
    questions = (NODES, removing("n0"), removing("n1"), removing("n2"), removing("n3"))
    return Case(m.items, questions, steps=4)


@theme
def pods_on_their_way_out(seed: int) -> Case:
    """They take room until they are gone, and are not evicted again."""
    m = Made(seed)
    names = m.nodes(5)
    for name in names[:3]:
        m.pod("leaving", name, "1")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    m.fill(names, 2)
    return Case(m.items, (NODES, removing("n0")), steps=2)


@theme
def pods_that_ended(seed: int) -> Case:
    """They are listed with their node and hold nothing of it."""
    m = Made(seed)
    names = m.nodes(3)
    for name in names:
        for phase in ("Succeeded", "Failed"):
            done = m.pod("done", name, "3", owner="Job", container=port(80))
            done["status"] = {"phase": phase}
        m.pod("edge", name, "1", container=port(81))
    for _ in range(3):
        m.pod("edge", cpu="2500m", container=port(80))
    return Case(m.items, (PLAIN, removing("n0")), steps=3)


@theme
def gated(seed: int) -> Case:
    m = Made(seed)
    m.fill(m.nodes(3), 1)
    m.pod("held", schedulingGates=[{"name": "example.com/quota"}])
    m.pod("free")
    return Case(m.items, (PLAIN,), steps=1)


@theme
def added_nodes_have_daemon_sets(seed: int) -> Case:
    """A node like n0 has three CPUs to give, the fourth goes to its daemon set."""
    m = Made(seed)
    names = m.nodes(2)
    m.daemons(names, cpu="1")
    for name in names:
        m.pod("full", name, "3")
    for _ in range(4):
        m.pod("new", cpu="1")
    like = next(thing for thing in m.items if thing["metadata"]["name"] == "n0")
    return Case(m.items, (("--add", "n0=1"),), added={"n0": like}, steps=3)


def rented(kind: str, cpu: str, memory: str, pods: str) -> Object:
    """A node of a type as it joins: less than its size, and with the labels every kubelet sets."""
    m = Made()
    labels = {"kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": kind}
    return m.node(kind, cpu=cpu, memory=memory, pods=pods, labels=labels)


@theme
def added_types(seed: int) -> Case:
    """An m5.large gives 1930 thousandths of a CPU, some 6.9 GiB and 29 pods, and runs Linux."""
    m = Made(seed)
    for name in m.nodes(2):
        m.pod("full", name, "3900m")
    for _ in range(2):
        m.pod("whole", cpu="1")
    added = {"m5.large": rented("m5.large", "1930m", "7220184Ki", "29")}
    return Case(m.items, (("--add", "m5.large=1"),), added=added)


@theme
def labels_of_added_types(seed: int) -> Case:
    """Every kubelet says what system its node runs."""
    m = Made(seed)
    for name in m.nodes(2):
        m.pod("full", name, "3900m")
    m.pod("linux", cpu="800m", nodeSelector={"kubernetes.io/os": "linux"})
    m.pod("arch", cpu="800m", affinity=on_nodes(where("kubernetes.io/arch", "In", "amd64")))
    added = {"m5.large": rented("m5.large", "1930m", "7220184Ki", "29")}
    return Case(m.items, (("--add", "m5.large=1"),), added=added, steps=2)


def within(most: int) -> Expect:
    """Not more pods moved than the limit says."""

    def judge(cluster: Cluster, plan: Object) -> list[str]:
        moves = {step["task"] for step in plan["moves"] if step.get("from")}
        return [f"{len(moves)} moves, at most {most} asked for"] if len(moves) > most else []

    return judge


@theme
def limits_with_pending_pods(seed: int) -> Case:
    """Placing what waits may not cost more moves than allowed."""
    m = Made(seed)
    names = m.nodes(6)
    for name in names:
        m.pod("a", name, "1500m")
        m.pod("b", name, "1")
    for _ in range(3):
        m.pod("large", cpu="2500m")
    return Case(m.items, (("--limit", "moves=0"),), expect=within(0), steps=0)


@theme
def a_drained_node_is_counted(seed: int) -> Case:
    """Pods of a node that goes are moved, and the plan counts them as moved."""

    def judge(cluster: Cluster, plan: Object) -> list[str]:
        moves = len({step["task"] for step in plan["moves"] if step.get("from")})
        told = plan["moved"]
        return [f"{moves} pods move, the plan says {told}"] if moves != told else []

    m = Made(seed)
    m.fill(m.nodes(5), 2)
    return Case(m.items, (removing("n0"),), expect=judge, steps=2)


@theme
def mixed(seed: int) -> Case:
    """A little of everything, and more that waits than there is room for."""
    m = Made(seed)
    names = m.nodes(9)
    m.daemons(names)
    m.fill(names, 4)
    for k in range(6):
        m.pod("ring", names[k], affinity=apart(term(app_is("ring"))))
        m.pod("even", names[k], topologySpreadConstraints=spread(app_is("even")))
    for _ in range(4):
        m.pod("ring", affinity=apart(term(app_is("ring"))))
        m.pod("even", topologySpreadConstraints=spread(app_is("even")))
        m.pod("large", cpu="2200m")
    m.pod("zonal", cpu="1500m", affinity=on_nodes(where(ZONE, "In", "b")))
    m.budget("ring", app_is("ring"), maxUnavailable=1)
    m.counted()
    return Case(m.items, (PLAIN, NODES, removing("n0", "n4")), steps=10)


@theme
def a_node_without_allocatable(seed: int) -> Case:
    """A node that has just joined takes nothing yet; the rest of the cluster is as it was."""
    m = Made(seed)
    m.fill(m.nodes(4), 2)
    m.node("young")["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    return Case(m.items, (NODES,), steps=2)


@theme
def a_pod_on_an_unknown_node(seed: int) -> Case:
    """Between two requests a node may come that the list does not have."""
    m = Made(seed)
    m.fill(m.nodes(4), 2)
    m.pod("ahead", "n99")
    return Case(m.items, (NODES,), steps=2)


@theme
def contradicting_affinity(seed: int) -> Case:
    m = Made(seed)
    m.fill(m.nodes(4), 2)
    both = term(app_is("web0"))
    m.pod("torn", affinity=together(both) | apart(both))
    return Case(m.items, (NODES,), steps=2)


@theme
def cyclic_affinity(seed: int) -> Case:
    """Two pods that wait for each other stay pending, and nobody else does."""
    m = Made(seed)
    m.fill(m.nodes(4), 2)
    m.pod("hen", affinity=together(term(app_is("egg"))))
    m.pod("egg", affinity=together(term(app_is("hen"))))
    return Case(m.items, (NODES,), steps=2)


@theme
def published_manifests(seed: int) -> Case:
    """Manifests hold much that makes no pods."""
    m = Made(seed)
    m.fill(m.nodes(4), 1)
    spec = {"containers": [{"name": "main", "image": "x", **asks(cpu="300m")}]}
    more = Made(seed)
    for kind in ("Namespace", "ServiceAccount", "Service", "ConfigMap", "ClusterRole"):
        more.add(kind, "boutique", "shop")
    more.budget("cart", app_is("cart"), minAvailable=1)
    more.add("Prometheus", "k8s", "shop", version="monitoring.coreos.com/v1")
    made = [deployment("cart", 2, spec), deployment("db", 1, spec, "StatefulSet")]
    return Case(m.items, (PLAIN,), [*more.items, *made], steps=3)


@theme
def daemon_sets_to_place(seed: int) -> Case:
    """A new daemon set comes to every node that it tolerates."""
    m = Made(seed)
    m.fill(m.nodes(3), 1)
    spec = {"containers": [{"name": "main", "image": "x", **asks(cpu="100m")}]}
    made = deployment("agent", 0, spec, "DaemonSet")
    del made["spec"]["replicas"]
    return Case(m.items, (PLAIN,), [made], steps=0)
