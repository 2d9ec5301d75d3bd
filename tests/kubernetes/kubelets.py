"""A stand-in for kubelets: pods that have a node run and are ready after a while, pods that are
being deleted are gone after a while. It watches nothing of what is tested."""

from __future__ import annotations

import threading
import urllib.error
from collections import Counter

from tests.kubernetes.control_plane import ControlPlane, Object

STEP_S = 0.2


class Kubelets(threading.Thread):
    """All kubelets of a control plane; also counts how many pods of each app are ready."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(daemon=True)
        self.plane = plane
        self.over = threading.Event()
        #: The fewest ready pods of each app since it was last complete.
        self.fewest: dict[str, int] = {}

    def run(self) -> None:
        while not self.over.wait(STEP_S):
            try:
                self._step()
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                continue

    def stop(self) -> None:
        self.over.set()
        self.join()

    def _step(self) -> None:
        pods = self.plane.pods().values()
        for pod in pods:
            if pod["spec"].get("nodeName"):
                self._tend(pod)
        labels = [p["metadata"].get("labels", {}) for p in pods if self.is_ready(p)]
        ready = Counter(each.get("app") for each in labels)
        for app, fewest in self.fewest.items():
            self.fewest[app] = min(fewest, ready[app])

    def _tend(self, pod: Object) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        try:
            if meta.get("deletionTimestamp"):
                options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
                self.plane.call("DELETE", path, options)
            elif not self.is_ready(pod):
                conditions = [
                    {"type": kind, "status": "True"} for kind in ("Ready", "PodScheduled")
                ]
                status = {"phase": "Running", "conditions": conditions}
                patch = {"content-type": "application/merge-patch+json"}
                self.plane.call("PATCH", f"{path}/status", {"status": status}, **patch)
        except urllib.error.HTTPError:
            pass  # It has gone meanwhile.

    @staticmethod
    def is_ready(pod: Object) -> bool:
        conditions = pod.get("status", {}).get("conditions", ())
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        return ready and not pod["metadata"].get("deletionTimestamp")
