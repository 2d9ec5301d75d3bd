"""The cluster a scheduler keeps, held against the independent judge: after whatever came and went,
a pod may go to exactly the nodes Kubernetes would let it go to."""

from __future__ import annotations

import copy
import random

import pytest
from tests.kubernetes import cases_changes, cases_random, cases_rooms, cases_volumes
from tests.kubernetes.cases import BUILDERS
from tests.kubernetes.checker import takers
from tests.kubernetes.checker_cluster import Cluster, Object, cluster_of

from murmuration.kubernetes.scheduling.cluster import LiveCluster

MODULES = (cases_changes, cases_random, cases_rooms, cases_volumes)
#: Pods asked for in each cluster.
ASKED = 10


def live_takers(live: LiveCluster, key: str) -> list[str]:
    """The nodes the live cluster would let a pod go to now."""
    if live.blocked(key):
        return []
    view = live.view(key, 0.0)
    return [view.names[row] for row in view.feasible(live.request(key)).nonzero()[0].tolist()]


def told_in_any_order(things: list[Object], rng: random.Random) -> LiveCluster:
    """Every object is told, some before others they belong to; some go and come back, some are
    told twice."""
    live = LiveCluster()
    shuffled = [copy.deepcopy(thing) for thing in things]
    rng.shuffle(shuffled)
    for thing in shuffled:
        live.see(thing["kind"], thing)
        if rng.random() < 0.2:
            _ = live.table
        if rng.random() < 0.1:
            again = copy.deepcopy(thing)
            live.lose(thing["kind"], again)
            live.see(thing["kind"], again)
    for thing in shuffled:
        if thing["kind"] != "Pod" and rng.random() < 0.3:
            _ = live.table
            change_and_back(live, thing, rng)
    return live


def change_and_back(live: LiveCluster, thing: Object, rng: random.Random) -> None:
    """An object is another one for a while, or away, with pods that are read meanwhile."""
    if thing["kind"] == "Node" and rng.random() < 0.5:
        other = copy.deepcopy(thing)
        other["metadata"]["labels"] = {"only": "this"}
        other.setdefault("spec", {})["taints"] = [{"key": "t", "effect": "NoSchedule"}]
        other.setdefault("status", {})["allocatable"] = {"cpu": "1", "memory": "1Gi", "pods": "3"}
        live.see("Node", other)
    else:
        live.lose(thing["kind"], thing)
    for key in rng.sample(sorted(live.records), min(3, len(live.records))):
        live_takers(live, key)
    live.see(thing["kind"], copy.deepcopy(thing))


def as_pending(pod: Object) -> Object:
    pending = copy.deepcopy(pod)
    pending["spec"].pop("nodeName", None)
    pending["metadata"].pop("deletionTimestamp", None)
    pending["status"] = {"phase": "Pending"}
    return pending


def differences(live: LiveCluster, cluster: Cluster, rng: random.Random) -> list[str]:
    """Ask for pods one after the other as if they had no node yet, and put them back."""
    wrong = []
    for key in rng.sample(sorted(cluster.pods), min(ASKED, len(cluster.pods))):
        pod = cluster.pods[key]
        pending = as_pending(pod)
        cluster.pods[key] = pending
        live.lose("Pod", pod)
        live.see("Pod", copy.deepcopy(pending))
        want, have = sorted(takers(cluster, pending)), sorted(live_takers(live, key))
        if want != have:
            wrong.append(f"{key}: expected {want}, got {have}")
        cluster.pods[key] = pod
        live.see("Pod", copy.deepcopy(pod))
    return wrong


@pytest.mark.parametrize("name", BUILDERS)
def test_a_pod_may_go_where_kubernetes_would_let_it(name: str) -> None:
    wrong = []
    for seed in (1, 2):
        case = BUILDERS[name](seed)
        rng = random.Random(seed)
        live = told_in_any_order(case.items, rng)
        wrong += [f"seed {seed}: {each}" for each in differences(live, cluster_of(case.items), rng)]
    assert not wrong, "\n".join(wrong)


def test_there_are_many_themes() -> None:
    assert all(module.__doc__ for module in MODULES) and len(BUILDERS) >= 60


def test_what_is_counted_is_what_lies_there() -> None:
    """Counting as pods come and go leaves the table that counting them all at once makes."""
    for seed in range(6):
        case = BUILDERS["anything"](seed)
        rng = random.Random(seed)
        live = told_in_any_order(case.items, rng)
        counted = live.table.free.copy()
        rules = {
            mark: [r.targets.copy() for r in rs] for mark, rs in live.table.between.rules.items()
        }
        names = live.table.names
        live._table = None
        # A node that went and came back is the last now, whichever way the table was made.
        assert live.table.names == names
        assert (live.table.free == counted).all()
        for mark, made in live.table.between.rules.items():
            for rule, before in zip(made, rules.get(mark, ()), strict=False):
                assert (rule.targets == before).all()
