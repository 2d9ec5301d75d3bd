"""Objects as newer clusters write them (1.26 to 1.36), from a file through the scheduler: gates,
label keys of the pod's own, resources of a whole pod, sidecars, references to workloads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.kubernetes.scripted import Call, scripted

from murmuration.kubernetes.api.snapshot import group_kinds_of
from murmuration.kubernetes.objects import read_objects
from murmuration.kubernetes.scheduling.asking import cluster_from
from murmuration.kubernetes.scheduling.cluster import LiveCluster
from murmuration.placement.registry import resolve
from murmuration.schedulers.agent import Do, Wake
from murmuration.schedulers.pods.agent import PodScheduler
from murmuration.schedulers.pods.leadership import AlwaysLeads
from murmuration.schedulers.pods.messages import BindPod, TellPending, ThingSeen, ThingsListed
from murmuration.workload.formats.source import SourceFile

NODES = "".join(
    f"---\n{{apiVersion: v1, kind: Node, metadata: {{name: n{k}, labels: {{zone: {zone}}}}}, "
    'status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}}\n'
    for k, zone in enumerate("ab")
)


def pod(name: str, spec: str, labels: str = "{}", cpu: str = "100m") -> str:
    requests = f"{{cpu: {cpu}, memory: 1Mi}}" if cpu else "{}"
    return (
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, uid: {name}, labels: {labels}}}, "
        f"spec: {{schedulerName: murmuration, containers: [{{name: c, resources: {{requests: "
        f"{requests}}}}}], {spec}}}}}\n---\n"
    )


class Told:
    """A scheduler that was told what a file holds."""

    def __init__(self, folder: Path, text: str) -> None:
        path = folder / "cluster.yaml"
        path.write_text(NODES + "---\n" + text)
        self.things = [dict(thing) for thing in read_objects(SourceFile(path, path.read_bytes()))]
        self.agent = PodScheduler(
            LiveCluster(), resolve("best-fit"), np.random.default_rng(1), AlwaysLeads()
        )
        for kind in ("Workload", "PodGroup", "Node", "Pod"):
            self.agent.handle(ThingsListed(kind, self.of(kind)), 0.0)
        self.pending: dict[str, str] = {}

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [thing for thing in self.things if thing["kind"] == kind]

    def wake(self, now: float = 0.0) -> dict[str, str]:
        acts = [e.act for e in self.agent.handle(Wake(), now) if isinstance(e, Do)]
        told = [act for act in acts if isinstance(act, TellPending)]
        self.pending |= {act.pod.split("/")[1]: act.sentence for act in told}
        return {a.pod.split("/")[1]: a.node for a in acts if isinstance(a, BindPod)}


def test_a_gated_pod_waits_until_its_gate_is_gone(tmp_path: Path) -> None:
    told = Told(tmp_path, pod("gated", "schedulingGates: [{name: quota}]"))
    assert told.wake() == {} and "gate" in told.pending["gated"]
    (thing,) = told.of("Pod")
    spec = {k: v for k, v in thing["spec"].items() if k != "schedulingGates"}
    told.agent.handle(ThingSeen("Pod", {**thing, "spec": spec}), 2.0)
    assert set(told.wake(2.0)) == {"gated"}


def test_a_spread_over_the_pods_of_one_revision(tmp_path: Path) -> None:
    """With matchLabelKeys the pods of the old revision in zone a do not count: the first of the new
    one may go to a, and the second must go to the other zone."""
    rule = (
        "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: "
        "DoNotSchedule, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [rev]}]"
    )
    old = "".join(pod(f"old-{k}", "nodeName: n0", "{app: web, rev: one}") for k in range(3))
    new = "".join(pod(f"new-{k}", rule, "{app: web, rev: two}") for k in range(2))
    assert sorted(Told(tmp_path, old + new).wake().values()) == ["n0", "n1"]


def test_resources_of_the_whole_pod_and_of_sidecars(tmp_path: Path) -> None:
    """A pod-level request of 1.5 CPUs in place of its container's 100m; a sidecar of 0.9 beside an
    init container of 0.8 needs 1.7. Two of a kind never share a node of 2 CPUs."""
    whole = "resources: {requests: {cpu: 1500m, memory: 1Mi}}"
    side = (
        "initContainers: [{name: side, restartPolicy: Always, resources: {requests: {cpu: 900m}}}, "
        "{name: init, resources: {requests: {cpu: 800m}}}]"
    )
    for spec in (whole, side):
        text = "".join(pod(f"p{k}", spec) for k in range(3))
        told = Told(tmp_path, text)
        assert sorted(told.wake().values()) == ["n0", "n1"]
        assert "have less than" in told.pending["p2"]


def workload(count: int) -> str:
    return (
        "{apiVersion: scheduling.k8s.io/v1alpha1, kind: Workload, metadata: {name: train}, spec: "
        f"{{podGroups: [{{name: workers, policy: {{gang: {{minCount: {count}}}}}}}]}}}}\n---\n"
    )


@pytest.mark.parametrize(("count", "bound"), [(3, 3), (4, 0)])
def test_pods_of_a_workload_are_placed_together(tmp_path: Path, count: int, bound: int) -> None:
    """Three of the three pods a group needs, or three of four."""
    reference = "workloadRef: {name: train, podGroup: workers}"
    text = workload(count) + "".join(pod(f"w{k}", reference) for k in range(3))
    told = Told(tmp_path, text)
    assert len(told.wake()) == bound
    if not bound:
        assert told.pending["w0"] == "3 of 4 pods of gang default/train.workers are here"


def pod_group(count: int) -> str:
    return (
        "{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: train}, spec: "
        f"{{schedulingPolicy: {{gang: {{minCount: {count}}}}}}}}}\n---\n"
    )


@pytest.mark.parametrize(("count", "bound"), [(3, 3), (4, 0)])
def test_pods_of_a_pod_group_are_placed_together(tmp_path: Path, count: int, bound: int) -> None:
    reference = "schedulingGroup: {podGroupName: train}"
    told = Told(tmp_path, pod_group(count) + "".join(pod(f"w{k}", reference) for k in range(3)))
    assert len(told.wake()) == bound


def test_a_pod_waits_for_the_object_that_describes_its_group(tmp_path: Path) -> None:
    """The group comes after its pods, and changes: what it says last counts."""
    reference = "schedulingGroup: {podGroupName: train}"
    told = Told(tmp_path, "".join(pod(f"w{k}", reference) for k in range(3)))
    assert told.wake() == {}
    assert told.pending["w0"] == "its PodGroup default/train is not known"
    for count, bound in ((4, 0), (3, 3)):
        (group,) = yaml.safe_load_all(pod_group(count).removesuffix("---\n"))
        now = 10.0 * (5 - count)
        told.agent.handle(ThingSeen("PodGroup", group), now)
        assert len(told.wake(now)) == bound


def test_the_kinds_of_groups_that_a_server_has_are_followed() -> None:
    """A server with both kinds in two versions, of which one may not be read."""

    async def answer(call: Call) -> None:
        if call.path == "/apis/scheduling.k8s.io":
            versions = [{"version": v} for v in ("v1", "v1alpha2", "v1alpha1")]
            await call.answer(200, {"versions": versions})
        elif call.path.endswith(("/v1alpha2", "/v1alpha1")):
            names = ("workloads", "workloads/status", "podgroups")
            await call.answer(200, {"resources": [{"name": name} for name in names]})
        elif call.path.endswith("/v1"):
            await call.answer(200, {"resources": [{"name": "priorityclasses"}]})
        elif call.path.endswith("/workloads"):
            await call.refuse(403)
        else:
            await call.answer(200, {"items": []})

    async def ask() -> list[str]:
        async with scripted(answer) as (_, client):
            return [kind.path() for kind in await group_kinds_of(client)]

    assert asyncio.run(ask()) == ["/apis/scheduling.k8s.io/v1alpha2/podgroups"]


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    told = Told(tmp_path, workload(2) + pod("p", "schedulingGates: [{name: x}]"))
    assert set(cluster_from(told.things).records) == {"default/p"}
