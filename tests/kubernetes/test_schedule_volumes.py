"""Volumes that are there before their pods: local disks, on a real control plane with its own
controller of volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.kubernetes.commands import Command, bound, condition, nodes_of, until
from tests.kubernetes.control_plane import ControlPlane, Object, real_node, real_pod

CLASS = {
    "kind": "StorageClass",
    "metadata": {"name": "local"},
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}


@pytest.fixture(scope="module")
def binder(plane: ControlPlane) -> Iterator[None]:
    plane.start(
        "kube-controller-manager",
        "--leader-elect=false",
        "--controllers=persistentvolume-binder",
        "--pvclaimbinder-sync-period=1s",
    )
    plane.create(CLASS)
    yield
    plane.stop("kube-controller-manager")


def local_volume(name: str, node: str, size: str) -> Object:
    want = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": f"/mnt/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [want]}]}},
        },
    }


def claim(name: str, size: str) -> Object:
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": size}},
        },
    }


def with_claims(name: str, *claims: str) -> Object:
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return real_pod(name, volumes=volumes)


def volume_of(plane: ControlPlane, claim: str) -> str:
    thing = plane.get("persistentvolumeclaims", claim)
    return str(thing["spec"].get("volumeName", "")) if thing["status"]["phase"] == "Bound" else ""


def test_each_pod_goes_where_a_free_local_disk_is(
    plane: ControlPlane, binder: None, start: Callable[..., Command]
) -> None:
    """Three nodes: a small and a large disk, a large one, none. One pod wants two disks at once,
    one wants a large one, and one finds none left."""
    for k in range(3):
        plane.create(real_node(f"n{k}"))
    disks = (("small", "n0", "1Gi"), ("large", "n0", "5Gi"), ("other", "n1", "5Gi"))
    for name, node, size in disks:
        plane.create(local_volume(name, node, size))
    for name, size in (("a", "1Gi"), ("b", "1Gi"), ("c", "2Gi"), ("d", "1Gi")):
        plane.create(claim(name, size))
    start("-v").ready()
    plane.create(with_claims("two", "a", "b"))
    bound(plane, 1)
    assert nodes_of(plane)["default/two"] == "n0"
    assert {volume_of(plane, "a"), volume_of(plane, "b")} == {"small", "large"}
    plane.create(with_claims("one", "c"))
    bound(plane, 2)
    assert nodes_of(plane)["default/one"] == "n1" and volume_of(plane, "c") == "other"
    plane.create(with_claims("none", "d"))
    until(lambda: condition(plane, "none").get("status") == "False", "it is told")
    assert "its volume cannot be reached" in condition(plane, "none")["message"]
    # A disk for it comes, on the node that had none.
    plane.create(local_volume("late", "n2", "1Gi"))
    bound(plane, 3)
    assert nodes_of(plane)["default/none"] == "n2" and volume_of(plane, "d") == "late"


def test_two_pods_do_not_get_one_disk(
    plane: ControlPlane, binder: None, start: Callable[..., Command]
) -> None:
    """Four pods at once for four disks on two nodes, each just as large as asked for."""
    for k in range(2):
        plane.create(real_node(f"m{k}"))
    for k in range(4):
        plane.create(local_volume(f"disk-{k}", f"m{k % 2}", "3Gi"))
        plane.create(claim(f"q{k}", "3Gi"))
        plane.create(with_claims(f"q{k}", f"q{k}"))
    start("-v").ready()
    bound(plane, 4)
    where = nodes_of(plane)
    got = {f"q{k}": volume_of(plane, f"q{k}") for k in range(4)}
    assert sorted(got.values()) == [f"disk-{k}" for k in range(4)]
    for name, disk in got.items():
        assert where[f"default/{name}"] == f"m{int(disk[-1]) % 2}"
