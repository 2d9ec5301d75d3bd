"""Several masters: one leads, the next takes over, and nothing is lost, moved or doubled by it."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.authorities import TestAuthority
from tests.runtime.clusters import until
from tests.runtime.masters import ManyMasters, many_masters
from tests.runtime.test_many import SMALL, WITNESS

from murmuration.runtime.client.requests import ApiClient
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.net.etcd_client import EtcdClient, EtcdError, put
from murmuration.runtime.net.etcd_directory import EtcdDirectory

KILLS = 10
NO_CLIENT: Any = None


def submit(cluster: ManyMasters, name: str, *command: str, **fields: Any) -> None:
    body = {"name": name, "command": list(command), "resources": SMALL, **fields}
    until(lambda: cluster.client.post("jobs", body=body))


def test_a_leader_that_is_killed_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    with many_masters(tmp_path, members=3, agent_timeout_s=60.0) as cluster:
        submit(cluster, "web", "sh", "-c", WITNESS, "sh", str(seen), kind="service", count=6)
        before = {(r["task"], r["run"], r["node"]) for r in cluster.running("web", 6)}
        for k in range(KILLS):
            leader = cluster.leader
            submit(cluster, f"job-{k}", "sh", "-c", "sleep 1; exit 0", count=5)
            cluster.kill(leader)
            if k % 3 == 1:
                cluster.etcd.kill(k % 2)
            if k % 3 == 2:
                cluster.etcd.start((k - 1) % 2)
            assert cluster.leader != leader
            cluster.start(leader)
        for k in range(KILLS):
            tasks = cluster.wait(f"job-{k}")
            assert [(row["state"], row["run"]) for row in tasks] == [("finished", 1)] * 5
        assert {(r["task"], r["run"], r["node"]) for r in cluster.running("web", 6)} == before
        assert not (seen / "twice").exists()
        assert cluster.client.get("status")["epoch"] >= KILLS


def test_a_leader_that_was_suspended_is_deposed_and_says_nothing(tmp_path: Path) -> None:
    """It wakes when another one leads: no order of it is obeyed, no lease kept alive, nothing
    written, and it ends."""
    seen = tmp_path / "seen"
    seen.mkdir()
    with many_masters(tmp_path, agent_timeout_s=10.0, leader_timeout_s=3) as cluster:
        submit(cluster, "web", "sh", "-c", WITNESS, "sh", str(seen), kind="service", count=4)
        cluster.running("web", 4)
        old = cluster.leader
        cluster.kill(old, signal.SIGSTOP)
        standby = "m1" if old == "m0" else "m0"
        until(lambda: ApiClient(cluster.folder / standby).get("status")["epoch"] == 1)
        until(lambda: {n["state"] for n in cluster.client.get("nodes")["nodes"]} == {"up"})
        cluster.kill(old, signal.SIGCONT)
        until(lambda: cluster.parts[old].poll() is not None)
        assert "later master" in cluster.log(old) or "does not lead" in cluster.log(old)
        assert cluster.leader == standby
        cluster.running("web", 4)
        assert not (seen / "twice").exists()
        # What has ended stands by again, and takes over in its turn.
        cluster.start(old)
        cluster.kill(standby)
        assert cluster.leader == old
        cluster.running("web", 4)
        assert not (seen / "twice").exists()


def test_without_a_majority_nobody_leads_and_tasks_end_by_their_lease(tmp_path: Path) -> None:
    """A cluster that cannot write decides nothing: what was promised to the agents still holds."""
    with many_masters(tmp_path, members=3, agent_timeout_s=10.0) as cluster:
        submit(cluster, "web", "sleep", "600", kind="service", count=2)
        cluster.running("web", 2)
        leader = cluster.leader
        cluster.etcd.kill(0)
        cluster.etcd.kill(1)
        until(lambda: cluster.parts[leader].poll() is not None)
        assert all("this master leads" not in cluster.log(m) for m in ("m0", "m1") if m != leader)
        cluster.etcd.start(0)
        cluster.etcd.start(1)
        cluster.etcd.wait()
        cluster.start(leader)
        rows = cluster.running("web", 2)
        assert all(row["run"] >= 1 for row in rows)


def connections_to(port: int) -> set[str]:
    """Established connections of this host to a port of loopback, by what names their sockets."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[9] for row in rows if row[2].endswith(f":{port:04X}") and row[3] == "01"}


def test_node_agents_wait_at_the_door_of_a_standby(tmp_path: Path) -> None:
    """When it leads it is served over the connections that were there: nobody dials."""
    with many_masters(tmp_path, agents=3) as cluster:
        leader = cluster.leader
        standby = "m1" if leader == "m0" else "m0"
        port = cluster.options(standby).agents_port
        until(lambda: len(connections_to(port)) == 3)
        before = connections_to(port)
        submit(cluster, "web", "sleep", "600", kind="service", count=3)
        runs = [row["run"] for row in cluster.running("web", 3)]
        cluster.kill(leader)
        assert cluster.leader == standby
        until(lambda: {n["state"] for n in cluster.client.get("nodes")["nodes"]} == {"up"})
        assert connections_to(port) == before
        assert [row["run"] for row in cluster.running("web", 3)] == runs
        # The one that was killed stands by now, and is waited for in its turn.
        cluster.start(leader)
        until(lambda: len(connections_to(cluster.options(leader).agents_port)) == 3)


def test_a_standby_that_is_told_to_stop_ends(tmp_path: Path) -> None:
    with many_masters(tmp_path, agents=1, leader_timeout_s=600) as cluster:
        leader = cluster.leader
        standby = "m1" if leader == "m0" else "m0"
        until(lambda: connections_to(cluster.options(standby).agents_port))
        cluster.kill(standby, signal.SIGTERM)
        assert cluster.parts[standby].wait() == 0
        assert cluster.leader == leader


def test_a_master_that_is_told_to_stop_hands_over_at_once(tmp_path: Path) -> None:
    """Its lease alone would last for longer than this test waits."""
    with many_masters(tmp_path, leader_timeout_s=600) as cluster:
        leader = cluster.leader
        cluster.kill(leader, signal.SIGTERM)
        assert cluster.parts[leader].wait() == 0
        assert cluster.leader != leader


def test_masters_agents_and_etcd_trust_certificates_alone(tmp_path: Path) -> None:
    with many_masters(tmp_path, secure=True) as cluster:
        submit(cluster, "web", "sleep", "600", kind="service", count=2)
        before = [row["run"] for row in cluster.running("web", 2)]
        leader = cluster.leader
        assert ApiClient(cluster.folder / leader).get("status")["api"].startswith("https://")
        cluster.kill(leader)
        assert cluster.leader != leader
        assert [row["run"] for row in cluster.running("web", 2)] == before
        plain = EtcdClient(cluster.etcd.addresses, timeout_s=10.0)
        with pytest.raises(EtcdError):
            plain.get("/")
        plain.close()


def test_a_master_waits_for_an_etcd_that_is_away_and_says_so_once(tmp_path: Path) -> None:
    with many_masters(tmp_path, masters=1, agents=1) as cluster:
        leader = cluster.leader
        cluster.kill(leader)
        cluster.etcd.kill(0)
        cluster.start(leader)
        until(lambda: "etcd does not answer" in cluster.log(leader))
        cluster.etcd.start(0)
        assert cluster.leader == leader
        assert cluster.log(leader).count("etcd does not answer") == 1
        assert "Traceback" not in cluster.log(leader)


def test_a_store_of_another_version_is_a_sentence(tmp_path: Path) -> None:
    with many_masters(tmp_path, masters=1, agents=0) as cluster:
        leader = cluster.leader
        cluster.kill(leader)
        client = cluster.etcd.client()
        client.commit([], [put("/murmuration/murmuration/version", b"7")])
        client.close()
        cluster.start(leader)
        assert cluster.parts[leader].wait() == 2
        assert "expected a store of version 3 or older, got 7" in cluster.log(leader)
        assert "Traceback" not in cluster.log(leader)


def test_two_clusters_of_one_name_are_not_mixed(tmp_path: Path) -> None:
    """A master with another token does not stand by for a cluster whose nodes would not trust it;
    the cluster goes on."""
    with many_masters(tmp_path, masters=2, agents=1) as cluster:
        leader = cluster.leader
        other = "m1" if leader == "m0" else "m0"
        cluster.kill(other)
        (cluster.folder / other / "token").write_text("that-of-another-cluster-in-this-etcd")
        cluster.start(other)
        assert cluster.parts[other].wait() == 2
        assert "etcd has another cluster named 'murmuration'" in cluster.log(other)
        assert "Traceback" not in cluster.log(other)
        submit(cluster, "on", "true")
        cluster.wait("on")


def test_clusters_are_told_apart_by_whom_they_trust(tmp_path: Path) -> None:
    """By their authority where there are certificates, whatever tokens lie in the folders."""

    def digest(name: str, authority: TestAuthority | None, token: str) -> str:
        FolderDirectory(tmp_path / name).create(token)
        if authority is not None:
            shutil.copytree(authority.issue(name, "master"), tmp_path / name / "tls")
        return EtcdDirectory(tmp_path / name, NO_CLIENT, "c", 3)._digest()

    ours, theirs = TestAuthority(tmp_path / "ours"), TestAuthority(tmp_path / "theirs")
    token, another = "a" * 40, "b" * 40
    assert digest("m1", ours, token) == digest("m2", ours, another) != digest("m3", theirs, token)
    assert digest("m4", None, token) == digest("m5", None, token) != digest("m6", None, another)
    assert token not in digest("m7", None, token)
