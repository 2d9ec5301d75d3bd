"""Where control groups are on nodes of every kind, from what their kernels say; version 2 on a
made-up tree too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from murmuration.runtime.node.isolation import cgroups

HYBRID_MOUNTS = """\
25 30 0:23 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
26 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
27 25 0:25 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
28 25 0:26 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
29 25 0:27 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
30 25 0:28 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
"""
HYBRID_OWN = (
    "5:pids:/\n4:memory:/service/agent:7\n3:cpu,cpuacct:/agent\n1:name=systemd:/agent\n0::/agent\n"
)


def test_each_hierarchy_has_its_own_idea_of_where_the_agent_is() -> None:
    found = cgroups.find(HYBRID_MOUNTS, HYBRID_OWN)
    assert isinstance(found, cgroups.Version1) and found.runc_path("t") == "t"
    assert found.folders("t") == {
        "cpu": "/sys/fs/cgroup/cpu,cpuacct/agent/t",
        "cpuacct": "/sys/fs/cgroup/cpu,cpuacct/agent/t",
        "memory": "/sys/fs/cgroup/memory/service/agent:7/t",
        "pids": "/sys/fs/cgroup/pids/t",
        "name=systemd": "/sys/fs/cgroup/systemd/agent/t",
        "": "/sys/fs/cgroup/unified/agent/t",
    }


def test_only_a_part_of_a_hierarchy_may_be_mounted() -> None:
    """In a container of version 1 the mount shows the container's own group as the root."""
    mounts = HYBRID_MOUNTS.replace("0:25 / ", "0:25 /docker/abc ")
    inside = cgroups.find(mounts, HYBRID_OWN.replace("/service/agent:7", "/docker/abc/agent"))
    assert (
        not isinstance(inside, str)
        and inside.folders("t")["memory"] == "/sys/fs/cgroup/memory/agent/t"
    )
    outside = cgroups.find(mounts, HYBRID_OWN)
    assert (
        not isinstance(outside, str) and outside.folders("t")["memory"] == "/sys/fs/cgroup/memory/t"
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A version 2 tree with this process in /agents/one."""
    own = tmp_path / "agents/one"
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (own / "cgroup.procs").write_text("17\n")
    return tmp_path


def version2(tree: Path, own: str = "/agents/one") -> cgroups.Cgroups | str:
    return cgroups.find(
        f"26 25 0:24 / {tree} rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", f"0::{own}\n"
    )


def test_version_2_hands_its_controllers_down_and_steps_aside(tree: Path) -> None:
    found = version2(tree)
    assert isinstance(found, cgroups.Version2)
    found.prepare()
    own = tree / "agents/one"
    assert (own / "murmur-agents/cgroup.procs").read_text() == "17"
    assert (own / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert found.folders("t") == {"": str(own / "t")} and found.runc_path("t") == "/agents/one/t"
    (own / "murmur-agents/cgroup.controllers").write_text("cpu memory pids\n")
    second = version2(tree, "/agents/one/murmur-agents")
    assert not isinstance(second, str) and second.folders("t") == {"": str(own / "t")}, (
        "the next agent finds them too"
    )


def test_the_root_of_version_2_need_not_step_aside(tree: Path) -> None:
    (tree / "cgroup.controllers").write_text("cpu memory pids\n")
    found = version2(tree, "/")
    assert isinstance(found, cgroups.Version2)
    found.prepare()
    assert not (tree / "murmur-agents").exists() and found.runc_path("t") == "/t"


def test_version_2_counts(tree: Path) -> None:
    found = version2(tree)
    assert not isinstance(found, str)
    group = tree / "t"
    group.mkdir()
    (group / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (group / "memory.current").write_text("5000\n")
    (group / "memory.stat").write_text("anon 4000\ninactive_file 900\n")
    (group / "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 2\n")
    folders = {"": str(group)}
    assert found.usage(folders) == (2.5, 4100) and found.oom_kills(folders) == 2
    assert (
        found.usage({"": str(tree / "gone")}) == (0.0, 0)
        and found.oom_kills({"": str(tree / "gone")}) == 0
    )


def test_what_is_missing_is_said(tree: Path) -> None:
    assert cgroups.find("", "0::/\n") == "no control groups are mounted"
    (tree / "agents/one/cgroup.controllers").write_text("hugetlb memory\n")
    assert version2(tree) == "control groups lack the controllers cpu, pids"


def test_this_node_is_understood() -> None:
    """Every place that is named for this process exists: in it lie the groups of its tasks."""
    found = cgroups.find()
    if isinstance(found, str):
        pytest.skip(found)
    for controller, folder in found.folders("t").items():
        own = Path(folder).parent
        assert (own / "cgroup.procs").exists(), controller
        if os.access(own / "cgroup.procs", os.R_OK):
            assert str(os.getpid()) in (own / "cgroup.procs").read_text().split(), controller
