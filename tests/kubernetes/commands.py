"""The scheduler's command in tests on a real control plane."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable
from pathlib import Path

from tests.kubernetes.checker import refusals
from tests.kubernetes.checker_cluster import Cluster, cluster_of
from tests.kubernetes.control_plane import ControlPlane, Object

WAIT_S = 120.0
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/murmuration"


class Command:
    """A scheduler in a process of its own."""

    def __init__(self, plane: ControlPlane, *options: str, config: Path | None = None) -> None:
        words = [sys.executable, "-c", "from murmuration.cli import main; main()"]
        words += ["kube", "schedule", "--kubeconfig", str(config or plane.kubeconfig), *options]
        self.log = plane.folder / f"schedule-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(words, stderr=log, cwd=plane.folder)

    def text(self) -> str:
        return self.log.read_text()

    def ready(self) -> Command:
        until(lambda: "ready" in self.text() or self.process.poll() is not None, "it is ready")
        assert self.process.poll() is None, self.text()
        return self

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            return self.process.wait()
        return self.process.wait(WAIT_S)


def until(condition: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
    ends = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < ends, f"waited {timeout_s:g} s until {what}"
        time.sleep(0.05)


def clean(plane: ControlPlane) -> None:
    for kind in ("pods", "persistentvolumeclaims"):
        for item in plane.call("GET", f"/api/v1/{kind}")["items"]:
            space, name = item["metadata"]["namespace"], item["metadata"]["name"]
            path = f"/api/v1/namespaces/{space}/{kind}/{name}?gracePeriodSeconds=0"
            plane.call("DELETE", path)
    plane.call("DELETE", "/api/v1/nodes")
    with contextlib.suppress(urllib.error.HTTPError):
        plane.call("DELETE", LEASE)
    # Those of schedulers that share the cluster.
    labelled = LEASE.rpartition("/")[0] + "?labelSelector=murmuration/scheduler"
    plane.call("DELETE", labelled)


def nodes_of(plane: ControlPlane) -> dict[str, str]:
    """Where each pod lies; empty for nowhere."""
    return {key: pod["spec"].get("nodeName", "") for key, pod in plane.pods().items()}


def bound(plane: ControlPlane, count: int) -> None:
    until(lambda: sum(map(bool, nodes_of(plane).values())) >= count, f"{count} pods are bound")


def cluster(plane: ControlPlane) -> Cluster:
    nodes = plane.call("GET", "/api/v1/nodes")["items"]
    things = [{"kind": "Node", **node} for node in nodes]
    return cluster_of([*things, *({"kind": "Pod", **pod} for pod in plane.pods().values())])


def illegal(plane: ControlPlane) -> list[str]:
    """What Kubernetes' filters say of the pods that lie somewhere."""
    seen = cluster(plane)
    return [
        f"{key}: {sentence}"
        for key, pod in seen.pods.items()
        if (node := seen.node_of(pod)) is not None
        for sentence in refusals(seen, pod, node)
    ]


def condition(plane: ControlPlane, name: str) -> Object:
    conditions = plane.get("pods", name).get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == "PodScheduled"), {})


def events(plane: ControlPlane, name: str) -> list[Object]:
    items = plane.call("GET", "/api/v1/namespaces/default/events")["items"]
    return [item for item in items if item["involvedObject"]["name"] == name]
