"""Kubernetes snapshots: what the scheduler's filters would say, and nothing a plan must not touch
is movable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kubernetes.objects import apart, budget, node, pod, together, write

from murmuration.assignment.problem import Problem, feasible, new_violations
from murmuration.planning.snapshots.opening import open_snapshot

GIB = 2**30
ZONE = "topology.kubernetes.io/zone"


def problem(
    folder: Path, *things: Any, place: Path | None = None, add: tuple[str, ...] = ()
) -> Problem:
    return open_snapshot(write(folder / "cluster.json", *things), place, add)


def usable(found: Problem, name: str) -> set[str]:
    """The nodes a pod may go to."""
    mask = found.allowed[found.class_of[found.tasks.index(f"shop/{name}")]]
    return {node for node, allowed in zip(found.nodes, mask, strict=True) if allowed}


def test_requests_and_allocatable_become_exact_amounts(tmp_path: Path) -> None:
    found = problem(
        tmp_path, node("a", cpu="3920m", memory="15Gi"), pod("p", "a", cpu="250m", memory="128Mi")
    )
    columns = {name: k for k, name in enumerate(found.resources)}
    assert (
        found.total[0, columns["cpu"]] == 3_920_000
        and found.total[0, columns["memory"]] == 15 * GIB
    )
    assert (
        found.request[0, columns["cpu"]] == 250_000
        and found.request[0, columns["memory"]] == 128 * 2**20
    )
    assert (
        found.request[0, columns["pods"]] == 1_000_000
        and found.total[0, columns["pods"]] == 110_000_000
    )


def test_init_containers_sidecars_overhead_and_limits_count_as_in_kubernetes(
    tmp_path: Path,
) -> None:
    thing = pod("p", "a", cpu="1", memory="1Gi")
    thing["spec"]["containers"].append(
        {"name": "only-limits", "resources": {"limits": {"cpu": "500m"}}}
    )
    thing["spec"]["initContainers"] = [
        {"name": "big", "resources": {"requests": {"cpu": "3", "memory": "100Mi"}}},
        {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}},
    ]
    thing["spec"]["overhead"] = {"cpu": "100m"}
    found = problem(tmp_path, node("a"), thing)
    assert found.request[0, 0] == 3_100_000
    assert found.request[0, 1] == 2 * GIB


def test_selectors_affinity_and_taints_decide_where_a_pod_may_go(tmp_path: Path) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    terms = [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
        {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["3"]}]},
    ]
    wanted = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    }
    found = problem(
        tmp_path,
        node("a", labels={"disk": "ssd"}),
        node("b", labels={"disk": "hdd", "size": "2"}),
        node("c", labels={"size": "4"}, taints=[taint]),
        node("d", labels={"size": "5"}, unschedulable=True),
        pod("plain", "a"),
        pod("selects", "b", nodeSelector={"disk": "hdd"}),
        pod("wants", "a", affinity=wanted),
        pod("tolerates", "c", tolerations=[{"key": "gpu", "operator": "Exists"}], affinity=wanted),
    )
    assert usable(found, "plain") == {"a", "b"}
    assert usable(found, "selects") == {"b"}
    assert usable(found, "wants") == {"a"}
    assert usable(found, "tolerates") == {"a", "c"}


def test_what_must_not_move_is_pinned(tmp_path: Path) -> None:
    found = problem(
        tmp_path,
        node("a"),
        pod("bare", "a", owner=""),
        pod("batch", "a", owner="Job/import"),
        pod("free", "a", labels={"app": "web"}),
        pod("held", "a", labels={"app": "db"}),
        pod("volume", "a", volumes=[{"persistentVolumeClaim": {"claimName": "data"}}]),
        budget("none", {"app": "db"}, maxUnavailable=0),
        budget("one", {"app": "web"}, minAvailable="0%"),
    )
    movable = {
        name.removeprefix("shop/")
        for name, free in zip(found.tasks, found.movable, strict=True)
        if free
    }
    assert movable == {"free"}
    assert any("neither CPU" in note for note in found.notes) is False
    assert any("its job would begin again" in note for note in found.notes)


@pytest.mark.parametrize("lenient", [(True, False), (False, True), (True, True), (False, False)])
def test_a_pod_of_two_budgets_is_pinned_however_lenient_they_are(
    tmp_path: Path, lenient: tuple[bool, bool]
) -> None:
    """The eviction API refuses it before it asks either budget."""
    unready = pod("stuck", "a", labels={"app": "web"})
    unready["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    policies = [{"unhealthyPodEvictionPolicy": "AlwaysAllow"} if yes else {} for yes in lenient]
    both = [
        budget(f"b{k}", {"app": "web"}, minAvailable=0, **more) for k, more in enumerate(policies)
    ]
    found = problem(tmp_path, node("a"), unready, *both)
    assert not found.movable.any()
    assert any("two disruption budgets select it" in note for note in found.notes)


def test_daemon_sets_take_from_their_node_and_leave_it_empty(tmp_path: Path) -> None:
    found = problem(
        tmp_path,
        node("a"),
        node("b"),
        pod("proxy-a", "a", cpu="1", owner="DaemonSet/proxy"),
        pod("p", "b"),
    )
    assert found.tasks == ("shop/p",)
    assert found.total[:, 0].tolist() == [3_000_000, 4_000_000]


def test_anti_affinity_affinity_and_spread_are_rules(tmp_path: Path) -> None:
    web, db = {"app": "web"}, {"app": "db"}
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": db},
        }
    ]
    found = problem(
        tmp_path,
        *(node(name, labels={ZONE: zone}) for name, zone in (("a", "x"), ("b", "y"), ("c", "y"))),
        pod("w1", "a", labels=web, affinity=apart(web)),
        pod("w2", "b", labels=web, affinity=apart(web)),
        pod("d1", "a", labels=db, topologySpreadConstraints=spread),
        pod("d2", "b", labels=db, topologySpreadConstraints=spread),
        pod("near", "a", affinity=together(db)),
    )
    assert feasible(found, found.node_of)
    place = {name: k for k, name in enumerate(found.tasks)}

    def broken(name: str, on: int) -> set[str]:
        node_of = found.node_of.copy()
        node_of[place[f"shop/{name}"]] = on
        return {violation.kind for violation in new_violations(found, node_of)}

    assert broken("w1", 1) == {"apart"} and broken("w1", 2) == set()
    assert broken("d1", 2) == {"spread", "together"}
    assert broken("near", 1) == set() and broken("near", 2) == {"together"}


def test_host_ports_keep_pods_apart(tmp_path: Path) -> None:
    first, second = pod("p", "a"), pod("q", "b")
    for thing in (first, second):
        thing["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    found = problem(tmp_path, node("a"), node("b"), first, second)
    assert [v.kind for v in new_violations(found, np.array([1, 1]))] == ["apart"]


def test_a_volume_in_the_snapshot_keeps_its_pod_in_its_zone(tmp_path: Path) -> None:
    required = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["x"]}]}
        ]
    }
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": "v"},
        "spec": {"nodeAffinity": {"required": required}},
    }
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "shop", "name": "data"},
        "spec": {"volumeName": "v"},
    }
    user = pod("p", "a", volumes=[{"persistentVolumeClaim": {"claimName": "data"}}])
    found = problem(
        tmp_path, node("a", labels={ZONE: "x"}), node("b", labels={ZONE: "y"}), user, volume, claim
    )
    assert found.movable.all() and usable(found, "p") == {"a"}


def test_services_are_what_one_controller_made(tmp_path: Path) -> None:
    found = problem(
        tmp_path,
        node("a"),
        pod("p", "a"),
        pod("q", "a"),
        pod("r", "a", owner="ReplicaSet/other"),
        pod("done", "a"),
        pod("bare", "a", owner=""),
    )
    assert len(set(found.group.tolist())) == 3
    ended = pod("done", "a")
    ended["status"]["phase"] = "Succeeded"
    assert problem(tmp_path, node("a"), ended, pod("p", "a")).tasks == ("shop/p",)


def test_json_yaml_and_typed_lists_load_alike_and_unknown_fields_are_left_alone(
    tmp_path: Path,
) -> None:
    yaml = pytest.importorskip("yaml")
    things = [node("a", futureField={"x": [1]}), pod("p", "a", newThing=3)]
    things[0]["status"]["later"] = {"deep": True}
    plain = problem(tmp_path, *things)
    documents = tmp_path / "cluster.yaml"
    documents.write_text(yaml.safe_dump_all(things))
    typed = tmp_path / "typed.json"
    lists = [
        {"kind": f"{t['kind']}List", "items": [{k: v for k, v in t.items() if k != "kind"}]}
        for t in things
    ]
    typed.write_text(json.dumps(lists))
    for path in (documents, typed):
        other = open_snapshot(path)
        assert (other.total == plain.total).all() and (other.request == plain.request).all()
        assert other.tasks == plain.tasks and (other.node_of == plain.node_of).all()


def test_new_pods_and_new_nodes_join_the_snapshot(tmp_path: Path) -> None:
    template = {"metadata": {"labels": {"app": "new"}}, "spec": pod("x")["spec"]}
    maker = {
        "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": "new"},
        "spec": {"replicas": 3, "template": template},
    }
    place = write(tmp_path / "new.json", pod("one", "somewhere"), maker)
    taint = {"key": "t", "effect": "NoSchedule"}
    found = problem(tmp_path, node("a", taints=[taint]), place=place, add=("m5.large=2", "a=1"))
    assert found.nodes == ("a", "new-m5.large-1", "new-m5.large-2", "new-a-1")
    assert (found.node_of < 0).all() and len(found.tasks) == 4
    assert usable(found, "one") == {"new-m5.large-1", "new-m5.large-2"}
    assert found.total[1, 0] == 1_930_000 and found.price[1] == pytest.approx(0.096)
