"""`murmur kube schedule` when things go wrong on a real control plane: leaders that stop and come
back, servers that go away, rights that are missing."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from tests.kubernetes.commands import LEASE, Command, bound, illegal, nodes_of, until
from tests.kubernetes.control_plane import ControlPlane, real_node, real_pod

BOUND_BY = "murmuration/bound-by"


def holder(plane: ControlPlane) -> str:
    try:
        return str(plane.call("GET", LEASE)["spec"]["holderIdentity"])
    except OSError:
        return ""


def binders(plane: ControlPlane) -> dict[str, str]:
    """Who bound each pod: an identity, and how many leaders there had been."""
    marks = {key: pod["metadata"].get("annotations", {}) for key, pod in plane.pods().items()}
    return {key: mark[BOUND_BY] for key, mark in marks.items() if BOUND_BY in mark}


def add_nodes(plane: ControlPlane, count: int) -> None:
    for k in range(count):
        plane.create(real_node(f"n{k}"))


def add_pods(plane: ControlPlane, prefix: str, count: int) -> None:
    for k in range(count):
        plane.create(real_pod(f"{prefix}-{k}"))


def test_a_leader_that_was_stopped_binds_nothing_when_it_goes_on(
    plane: ControlPlane, start: Callable[..., Command]
) -> None:
    """The first is suspended, the second takes over; the first goes on, thinks no time has passed,
    and must not bind what it had decided on."""
    add_nodes(plane, 4)
    first = start("--identity", "first").ready()
    until(lambda: holder(plane) == "first", "the first leads")
    second = start("--identity", "second").ready()
    add_pods(plane, "a", 5)
    bound(plane, 5)
    first.process.send_signal(signal.SIGSTOP)
    add_pods(plane, "b", 20)
    until(lambda: holder(plane) == "second", "the second leads")
    first.process.send_signal(signal.SIGCONT)
    bound(plane, 25)
    add_pods(plane, "c", 20)
    bound(plane, 45)
    by = binders(plane)
    assert {by[f"default/a-{k}"] for k in range(5)} == {"first/1"}
    assert {by[f"default/{p}-{k}"] for p in "bc" for k in range(20)} == {"second/2"}
    assert illegal(plane) == []
    assert first.process.poll() is None, first.text()
    # The second gives the lease back: the first need not wait until it runs out.
    assert second.end() == 0
    until(lambda: holder(plane) == "first", "the first leads again")
    add_pods(plane, "d", 3)
    bound(plane, 48)
    assert binders(plane)["default/d-0"] == "first/3"


def test_a_scheduler_that_is_killed_and_started_again_goes_on(
    plane: ControlPlane, start: Callable[..., Command]
) -> None:
    add_nodes(plane, 4)
    add_pods(plane, "p", 60)
    first = start("--alone").ready()
    until(lambda: any(nodes_of(plane).values()), "some are bound")
    first.end(signal.SIGKILL)
    start("--alone").ready()
    bound(plane, 60)
    assert illegal(plane) == []


def test_a_server_that_goes_away_and_comes_back(
    plane: ControlPlane, start: Callable[..., Command]
) -> None:
    """It is away for longer than a lease lasts, so nobody leads any more when it comes back."""
    add_nodes(plane, 6)
    command = start("--lease", "3").ready()
    add_pods(plane, "before", 40)
    plane.stop("server")
    time.sleep(6.0)
    assert command.process.poll() is None, command.text()
    plane.start_server()
    add_pods(plane, "after", 20)
    bound(plane, 60)
    assert illegal(plane) == []
    assert command.process.poll() is None, command.text()


def test_no_right_to_bind_is_one_sentence(
    plane: ControlPlane, start: Callable[..., Command]
) -> None:
    """It may read everything, but not bind: it says which role is missing, and ends with 2."""
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
    plane.create({"kind": "ClusterRole", "metadata": {"name": "reader"}, "rules": rules})
    subject = {"kind": "User", "name": "murmur", "apiGroup": "rbac.authorization.k8s.io"}
    plane.create(
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "reader"},
            "roleRef": role,
            "subjects": [subject],
        }
    )
    add_nodes(plane, 1)
    config = plane.write_kubeconfig({"token": "scheduler-token"}, "murmur-config")
    command = start(config=config).ready()
    add_pods(plane, "p", 1)
    assert command.process.wait(60) == 2
    last = command.text().splitlines()[-1]
    assert last.startswith("murmur: test: murmur may not create pods/binding in namespace default")
    assert 'it needs a Role with apiGroups [""], resources ["pods/binding"]' in last


def test_two_schedulers_of_one_name_bind_every_pod_once(
    plane: ControlPlane, start: Callable[..., Command]
) -> None:
    """Neither knows of the other: whoever binds a pod second is refused, and goes on."""
    add_nodes(plane, 20)
    commands = [
        start("--alone", "--identity", name, "--seed", seed).ready()
        for name, seed in (("a", "1"), ("b", "2"))
    ]
    add_pods(plane, "p", 100)
    bound(plane, 100)
    assert all(command.process.poll() is None for command in commands)
    texts = []
    for command in commands:
        assert command.end() == 0
        texts.append(command.text())
    assert "Traceback" not in "".join(texts)
