"""Several schedulers over one cluster on a real control plane: no node is overbooked, conflicts are
counted and tried again, and whoever is left takes over."""

from __future__ import annotations

import signal
from collections.abc import Callable

from tests.kubernetes.commands import Command, bound, illegal, until
from tests.kubernetes.control_plane import ControlPlane, real_node, real_pod
from tests.kubernetes.test_schedule_faults import binders

SHARED = ("--architecture", "shared-state", "--lease", "6")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def members(plane: ControlPlane) -> set[str]:
    items = plane.call("GET", LEASES)["items"]
    return {
        str(item["spec"].get("holderIdentity"))
        for item in items
        if item["metadata"].get("labels", {}).get("murmuration/role") == "member"
    }


def test_two_schedulers_share_the_pods_and_overbook_no_node(
    plane: ControlPlane, start: Callable[..., Command]
) -> None:
    """120 pods fill four nodes to the last: every node is wanted by both all the time. Whether two
    writes meet depends on the machine; that conflicts are found is shown in virtual time
    (`test_shared_state.py`)."""
    for k in range(4):
        plane.create(real_node(f"n{k}", cpu="3"))
    commands = [start(*SHARED, "--identity", name).ready() for name in ("a", "b")]
    until(lambda: members(plane) == {"a", "b"}, "both are known")
    for k in range(120):
        plane.create(real_pod(f"p{k}", cpu="100m", memory="1Mi"))
    bound(plane, 120)
    assert illegal(plane) == []
    by = [mark.partition("/")[0] for mark in binders(plane).values()]
    assert min(by.count("a"), by.count("b")) > 20, by
    for command in commands:
        assert command.end() == 0
        last = command.text().splitlines()[-1]
        parts = [part.split(" ", 1) for part in last.split("; ")[1].split(", ")]
        counts = {what: int(count) for count, what in parts}
        assert counts["bound"] > 20, last
    assert members(plane) == set()


def test_whoever_is_left_takes_the_pods_of_one_that_is_killed(
    plane: ControlPlane, start: Callable[..., Command]
) -> None:
    for k in range(3):
        plane.create(real_node(f"n{k}", cpu="4"))
    first = start(*SHARED, "--identity", "first").ready()
    start(*SHARED, "--identity", "second").ready()
    until(lambda: members(plane) == {"first", "second"}, "both are known")
    for k in range(20):
        plane.create(real_pod(f"a{k}"))
    first.end(signal.SIGKILL)
    for k in range(20):
        plane.create(real_pod(f"b{k}"))
    bound(plane, 40)
    assert illegal(plane) == []
