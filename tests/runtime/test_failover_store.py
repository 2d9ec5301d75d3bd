"""The member of etcd that leads is killed: another one does, and nothing is lost."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from pathlib import Path

from tests.runtime.clusters import until
from tests.runtime.etcd import Members
from tests.runtime.masters import many_masters
from tests.runtime.test_failover import submit

from murmuration.runtime.net.addresses import Address


def find_leader(etcd: Members, but: int = -1) -> int:
    """The member that leads, as the members say; not this one."""

    def is_leading(address: Address) -> bool:
        with closing(
            http.client.HTTPConnection(address.host, address.port, timeout=5.0)
        ) as connection:
            connection.request("POST", "/v3/maintenance/status", b"{}")
            status = json.loads(connection.getresponse().read())
        return bool(status["leader"] == status["header"]["member_id"])

    def leading() -> list[int]:
        members = [k for k in range(len(etcd.addresses)) if k != but]
        return [k for k in members if is_leading(etcd.addresses[k])]

    return int(until(leading)[0])


def test_the_leader_of_the_store_is_killed(tmp_path: Path) -> None:
    with many_masters(tmp_path, members=3, agent_timeout_s=60.0) as cluster:
        submit(cluster, "web", "sleep", "100000", kind="service", count=4)
        before = {(r["task"], r["run"], r["node"]) for r in cluster.running("web", 4)}
        for k in range(2):
            member = find_leader(cluster.etcd)
            submit(cluster, f"job-{k}", "sh", "-c", "sleep 1", count=5)
            cluster.etcd.kill(member)
            assert find_leader(cluster.etcd, but=member) != member
            submit(cluster, f"after-{k}", "true", count=2)
            for job, count in ((f"job-{k}", 5), (f"after-{k}", 2)):
                tasks = cluster.wait(job)
                assert [(row["state"], row["run"]) for row in tasks] == [("finished", 1)] * count
            cluster.etcd.start(member)
            cluster.etcd.wait()
        assert {(r["task"], r["run"], r["node"]) for r in cluster.running("web", 4)} == before
