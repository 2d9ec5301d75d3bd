"""Made clusters in which every pod draws its rules: what no theme thought of meets here."""

from __future__ import annotations

from typing import Any

from tests.kubernetes.cases import theme
from tests.kubernetes.checker import takers
from tests.kubernetes.checker_cluster import Object, cluster_of
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

TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


def drawn_nodes(m: Made, count: int) -> None:
    """Three zones, two disks, some taints, some devices, a few closed."""
    for k in range(count):
        more: Any = {"taints": [TAINT]} if m.rng.random() < 0.2 else {}
        more |= {"unschedulable": True} if m.rng.random() < 0.05 else {}
        devices = {"example.com/card": "2"} if m.rng.random() < 0.3 else {}
        labels = {"disk": m.rng.choice(("ssd", "hdd")), "size": str(k % 4)}
        m.node(f"n{k}", "abc"[k % 3], m.rng.choice("48"), labels=labels, more=devices, **more)


def drawn_rules(m: Made, app: str, others: list[str]) -> Object:
    """What one application asks for; most ask for little."""
    rng, own = m.rng, app_is(app)
    choices: list[Object] = [
        {"nodeSelector": {"disk": "ssd"}},
        {"affinity": on_nodes(where("size", "Gt", "1"), where(ZONE, "In", "a"))},
        {"affinity": apart(term(own))},
        {"affinity": apart(term(app_is(rng.choice(others)), rng.choice((HOST, ZONE))))},
        {"affinity": together(term(app_is(rng.choice(others)), ZONE))},
        {"topologySpreadConstraints": spread(own, rng.choice((ZONE, HOST)), rng.choice((1, 2)))},
        {"tolerations": [{"key": "team", "operator": "Exists"}]},
        {"container": {"ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]}},
        {"requests": {"example.com/card": "1"}},
    ]
    return {} if rng.random() < 0.4 else rng.choice(choices)


def scattered(m: Made, app: str, replicas: int, rules: Object) -> None:
    """Replicas where the checker lets them lie; what no node takes waits."""
    cpu = m.rng.choice(("200m", "400m", "700m", "1", "1500m"))
    for _ in range(replicas):
        made = m.pod(app, "", cpu, m.rng.choice(("256Mi", "1Gi")), **rules)
        open_nodes = takers(cluster_of(m.items), made)
        if open_nodes and m.rng.random() < 0.95:
            made["spec"]["nodeName"] = m.rng.choice(open_nodes)
            made["status"] = {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
            }


@theme
def anything(seed: int) -> Case:
    m = Made(seed)
    drawn_nodes(m, 10)
    apps = [f"app{k}" for k in range(12)]
    for app in apps:
        scattered(m, app, m.rng.randint(1, 5), drawn_rules(m, app, apps))
        if m.rng.random() < 0.4:
            m.budget(app, app_is(app), maxUnavailable=m.rng.choice((1, "30%")))
    m.counted()
    gone = m.rng.randrange(10)
    return Case(m.items, (PLAIN, NODES, removing(f"n{gone}")), steps=1)
