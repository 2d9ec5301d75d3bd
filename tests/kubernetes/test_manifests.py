"""The manifests of `deploy/`: the API takes them, and the rights they give are enough."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import yaml
from tests.kubernetes.commands import Command, bound, condition, events, until
from tests.kubernetes.control_plane import ControlPlane, Object, real_node, real_pod

ROOT = Path(__file__).resolve().parent.parent.parent
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Role": f"{RBAC}/namespaces/{{}}/roles",
    "RoleBinding": f"{RBAC}/namespaces/{{}}/rolebindings",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
}


def manifests(name: str = "kubernetes.yaml") -> list[Object]:
    return list(yaml.safe_load_all((ROOT / "deploy" / name).read_text()))


def create_as_they_are(plane: ControlPlane, things: list[Object]) -> None:
    """Create manifests, with their rights given to a user in place of the account."""
    for thing in things:
        for subject in thing.get("subjects", ()):
            subject.pop("namespace")
            subject |= {"kind": "User", "name": "murmur", "apiGroup": "rbac.authorization.k8s.io"}
        space = thing["metadata"].get("namespace", "")
        plane.call("POST", PATHS[thing["kind"]].format(space), thing)


def test_the_rights_it_asks_for_are_enough(
    plane: ControlPlane, start: Callable[..., Command], tmp_path: Path
) -> None:
    """Every manifest is created as it is; a user with the account's rights, and no others, then
    leads, binds, and says why a pod waits."""
    create_as_they_are(plane, manifests())
    plane.create(real_node("n0"))
    config = plane.write_kubeconfig({"token": "scheduler-token"}, "murmur-config")
    command = start("-v", config=config).ready()
    plane.create(real_pod("fits"))
    plane.create(real_pod("does-not", cpu="64"))
    bound(plane, 1)
    until(lambda: "message" in condition(plane, "does-not"), "it is told why")
    until(lambda: bool(events(plane, "fits")), "the event is written")
    assert "could not be written" not in command.text()
    # A plan is carried out with the same rights: the scheduler that leads is asked for the lease.
    (tmp_path / "plan.json").write_text(json.dumps({"snapshot": "none", "moves": []}))
    words = [sys.executable, "-c", "from murmuration.cli import main; main()", "kube", "apply"]
    words += [str(tmp_path / "plan.json"), "--kubeconfig", str(config)]
    applied = subprocess.run(words, capture_output=True, text=True, check=False)
    assert applied.returncode == 0, applied.stderr
    assert command.end() == 0
    assert "could not be given back" not in command.text()


def test_so_are_those_of_schedulers_that_share_the_work(
    plane: ControlPlane, start: Callable[..., Command], tmp_path: Path
) -> None:
    """With the rights of both manifests, as the deployment starts them. A plan is not carried out
    beside them."""
    shared = manifests("kubernetes-shared-state.yaml")
    create_as_they_are(plane, shared)
    (container,) = shared[-1]["spec"]["template"]["spec"]["containers"]
    config = plane.write_kubeconfig({"token": "scheduler-token"}, "murmur-config")
    plane.create(real_node("n0"))
    commands = []
    for name in ("a", "b"):
        words = [word.replace("$(POD_NAME)", name) for word in container["args"][2:]]
        commands.append(start("-v", *words, config=config).ready())
    for k in range(10):
        plane.create(real_pod(f"p{k}"))
    bound(plane, 10)
    (tmp_path / "plan.json").write_text(json.dumps({"snapshot": "none", "moves": []}))
    words = [sys.executable, "-c", "from murmuration.cli import main; main()", "kube", "apply"]
    words += [str(tmp_path / "plan.json"), "--kubeconfig", str(plane.kubeconfig)]
    applied = subprocess.run(words, capture_output=True, text=True, check=False)
    assert applied.returncode == 2
    assert "a, b: 'murmuration' is the name of schedulers that share the cluster" in applied.stderr
    for command in commands:
        assert command.end() == 0
        assert "could not" not in command.text()


def test_the_deployment_runs_without_rights_on_its_host() -> None:
    (deployment,) = (thing for thing in manifests() if thing["kind"] == "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert deployment["spec"]["replicas"] == 2
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
