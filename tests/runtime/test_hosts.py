"""Masters and node agents on hosts of their own (namespaces on a bridge), with certificates; links
are cut and healed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.clusters import until
from tests.runtime.masters import ManyMasters, many_masters
from tests.runtime.networks import Host, joined_hosts
from tests.runtime.test_failover import submit
from tests.runtime.test_many import WITNESS

LEASE_S = 10.0


@pytest.fixture
def hosts() -> Iterator[dict[str, Host]]:
    if os.geteuid() != 0 or shutil.which("nsenter") is None or shutil.which("ip") is None:
        pytest.skip("network namespaces need root, nsenter and ip")
    with joined_hosts(("m0", "m1", "n0", "n1")) as hosts:
        yield hosts


def start_services(cluster: ManyMasters, seen: Path) -> None:
    seen.mkdir()
    submit(cluster, "web", "sh", "-c", WITNESS, "sh", str(seen), kind="service", count=4)
    cluster.running("web", 4)


def test_the_host_of_the_leader_is_cut_off(tmp_path: Path, hosts: dict[str, Host]) -> None:
    """From etcd and all nodes: another master leads, nothing is moved, and the old one ends."""
    with many_masters(tmp_path, secure=True, hosts=hosts, agent_timeout_s=60.0) as cluster:
        start_services(cluster, tmp_path / "seen")
        before = {(row["task"], row["run"], row["node"]) for row in cluster.running("web", 4)}
        leader = cluster.leader
        hosts[leader].cut()
        until(lambda: cluster.parts[leader].poll() is not None)
        assert cluster.leader != leader
        until(lambda: {n["state"] for n in cluster.client.get("nodes")["nodes"]} == {"up"})
        after = {(row["task"], row["run"], row["node"]) for row in cluster.running("web", 4)}
        assert after == before
        hosts[leader].heal()
        cluster.start(leader)
        assert cluster.leader != leader
        assert not (tmp_path / "seen" / "twice").exists()


def test_the_host_of_a_node_is_cut_off(tmp_path: Path, hosts: dict[str, Host]) -> None:
    """Its tasks end with its lease and run elsewhere; when it is back it takes new ones."""
    with many_masters(tmp_path, secure=True, hosts=hosts, agent_timeout_s=LEASE_S) as cluster:
        start_services(cluster, tmp_path / "seen")
        hosts["n0"].cut()
        until(lambda: {row["node"] for row in cluster.running("web", 4)} == {"n1"})
        hosts["n0"].heal()
        until(lambda: [n["state"] for n in cluster.client.get("nodes")["nodes"]] == ["up"] * 2)
        assert not (tmp_path / "seen" / "twice").exists()


def test_the_link_of_a_node_is_slow(tmp_path: Path, hosts: dict[str, Host]) -> None:
    """A few kilobytes a second, all of them taken by an output that somebody reads: heartbeats come
    through, nothing is moved, and the output is whole."""
    if shutil.which("tc") is None:
        pytest.skip("slow links need tc")
    with many_masters(tmp_path, secure=True, hosts=hosts, agent_timeout_s=60.0) as cluster:
        start_services(cluster, tmp_path / "seen")
        submit(cluster, "loud", "sh", "-c", "seq 100000", constraints=["host = h0"])
        cluster.wait("loud")
        before = {(row["task"], row["run"], row["node"]) for row in cluster.running("web", 4)}
        hosts["n0"].slow(256)
        text, at = "", 0
        while not text.endswith("100000\n"):
            part = cluster.client.get("tasks", "loud.0", "output", offset=at)
            text, at = text + part["text"], part["next"]
        assert text == "".join(f"{k}\n" for k in range(1, 100_001))
        submit(cluster, "there", "true", constraints=["host = h0"])
        cluster.wait("there")
        hosts["n0"].heal()
        after = {(row["task"], row["run"], row["node"]) for row in cluster.running("web", 4)}
        assert after == before and not (tmp_path / "seen" / "twice").exists()


def test_half_of_the_nodes_are_cut_off(tmp_path: Path) -> None:
    """Both at once, from the master and from each other: the other half takes their tasks over when
    their leases have ended, and not before; healed, all four serve again."""
    if os.geteuid() != 0 or shutil.which("nsenter") is None or shutil.which("ip") is None:
        pytest.skip("network namespaces need root, nsenter and ip")
    nodes = [f"n{k}" for k in range(4)]
    with (
        joined_hosts(("m0", *nodes)) as hosts,
        many_masters(
            tmp_path, masters=1, agents=4, secure=True, hosts=hosts, agent_timeout_s=LEASE_S
        ) as cluster,
    ):
        until(lambda: len(cluster.client.get("nodes")["nodes"]) == 4)
        (tmp_path / "seen").mkdir()
        words = ("sh", "-c", WITNESS, "sh", str(tmp_path / "seen"))
        submit(cluster, "web", *words, kind="service", count=8, spread="node")
        assert {row["node"] for row in cluster.running("web", 8)} == set(nodes)
        for name in nodes[:2]:
            hosts[name].cut()
        until(lambda: {row["node"] for row in cluster.running("web", 8)} == set(nodes[2:]))
        submit(cluster, "meanwhile", "true", count=4)
        cluster.wait("meanwhile")
        for name in nodes[:2]:
            hosts[name].heal()
        until(lambda: [n["state"] for n in cluster.client.get("nodes")["nodes"]] == ["up"] * 4)
        submit(cluster, "after", "sleep", "100000", kind="service", count=4, spread="node")
        assert {row["node"] for row in cluster.running("after", 4)} == set(nodes)
        assert not (tmp_path / "seen" / "twice").exists()
