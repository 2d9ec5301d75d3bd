"""Several schedulers over one cluster: whatever is late, lost, suspended or crashed, no node ever
holds more than it has, every pod that fits is bound, and whoever comes too late tries again."""

from __future__ import annotations

import pytest
from tests.kubernetes.control_plane import Object, real_node, real_pod
from tests.kubernetes.virtual_api import Api, Trouble, make, small

from murmuration.kubernetes.scheduling.cluster import LiveCluster
from murmuration.kubernetes.scheduling.shared.ledgers import NodeClaim, ledger_thing
from murmuration.kubernetes.scheduling.shared.sharing import Sharing
from murmuration.schedulers.pods.cluster import PodInfo
from murmuration.schedulers.pods.members import Members

BAD = Trouble(lost_before=0.05, lost_after=0.05, refused=0.05, request_s=1.0, watch_s=2.0)


def unbound(api: Api) -> list[str]:
    return [key for key, pod in api.pods.items() if not pod["spec"].get("nodeName")]


def shared(seed: int, checks: bool = True, crashes: bool = False) -> Api:
    """Three schedulers, three nodes, pods that fill them to the last thousandth, and again."""
    driver, api = make(seed, BAD, nodes=3, names=("a", "b", "c"), shared=True)
    api.checks = checks
    for k in range(12):
        driver.at(20.0 + 0.1 * k, api.add_pod, small(f"p{k}"))
    for k, at in enumerate((21.0, 22.5, 30.0, 41.0)) if crashes else ():
        driver.at(at, driver.crash if k % 2 else driver.pause, "abc"[k % 3], 20.0)
    driver.run(400.0)
    for k in range(0, 12, 2):
        if f"default/p{k}" in api.pods:
            api.remove_pod(f"default/p{k}")
            api.add_pod(small(f"q{k}"))
    driver.run(900.0)
    return api


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_no_node_is_ever_overbooked_and_no_pod_is_left(seed: int, crashes: bool) -> None:
    api = shared(seed, crashes=crashes)
    assert api.overfilled == []
    assert unbound(api) == []


def test_conflicts_happen_and_without_the_commit_point_nodes_are_overbooked() -> None:
    """The same with ledgers that anybody may write at any time: the check above sees it."""
    assert sum(shared(seed).conflicts for seed in range(3)) > 0
    assert any(shared(seed, checks=False).overfilled for seed in range(10))


def test_each_pod_is_taken_by_one_of_those_who_are_there() -> None:
    names = ("a", "b", "c")
    parties = {name: Members(name, 10.0) for name in names}
    for members in parties.values():
        for name in names:
            members.see(name, 0.0)
    pods = [PodInfo(f"default/p{k}", f"uid-{k}") for k in range(300)]
    takers = {pod.key: [n for n, m in parties.items() if m.takes(pod)] for pod in pods}
    assert all(len(taken) == 1 for taken in takers.values())
    counts = [sum(taken == [name] for taken in takers.values()) for name in names]
    assert min(counts) > 60, counts
    # One falls silent: its pods go to the others, theirs stay.
    for name in ("a", "b"):
        for other in ("a", "b"):
            parties[name].see(other, 8.0)
        assert parties[name].expire(10.0)
    after = {p.key: [n for n in ("a", "b") if parties[n].takes(p)] for p in pods}
    assert all(len(taken) == 1 for taken in after.values())
    assert all(after[key] == taken for key, taken in takers.items() if taken != ["c"])


def test_a_gang_goes_to_one_scheduler() -> None:
    members = [Members(name, 10.0) for name in "ab"]
    for each in members:
        assert each.see("ba"[each.me == "b"], 0.0)
    pods = [PodInfo(f"default/p{k}", f"uid-{k}", gang="default/g", gang_size=8) for k in range(8)]
    assert sorted([all(m.takes(p) for p in pods) for m in members]) == [False, True]


def ledger(version: str, *claims: NodeClaim) -> Object:
    thing = dict(ledger_thing("murmuration", "n0", "b", claims))
    return {**thing, "metadata": {**thing["metadata"], "resourceVersion": version}}


def pod(name: str, node: str = "") -> Object:
    thing = real_pod(name, cpu="600m", metadata={"uid": name})
    thing["spec"] |= {"nodeName": node} if node else {}
    return thing


def takers(live: LiveCluster, name: str) -> list[str]:
    view = live.view(f"default/{name}", 0.0)
    rows = view.feasible(live.request(f"default/{name}")).nonzero()[0]
    return [view.names[row] for row in rows.tolist()]


def sharing_cluster() -> LiveCluster:
    """Two nodes with room for one pod each, and a pod of ours that waits."""
    live = LiveCluster(sharing=Sharing("a/1"))
    live.replace("Node", [real_node(f"n{k}", cpu="1") for k in range(2)])
    live.see("Pod", pod("mine"))
    return live


CLAIM = NodeClaim("default/theirs", "theirs", "b/1")


def test_a_claim_on_a_pod_that_was_never_seen_closes_the_node() -> None:
    live = sharing_cluster()
    live.see("Lease", ledger("1", CLAIM))
    assert takers(live, "mine") == ["n1"]
    assert live.unknown_pods() == [("default/theirs", "theirs")]
    # Another pod has that name now: this one will never be seen.
    live.never("theirs")
    assert takers(live, "mine") == ["n0", "n1"] and live.unknown_pods() == []


def test_a_claim_counts_until_the_pod_is_seen_bound_whatever_becomes_of_the_ledger() -> None:
    live = sharing_cluster()
    live.see("Lease", ledger("1", CLAIM))
    live.see("Pod", pod("theirs"))
    assert takers(live, "mine") == ["n1"]
    # Whoever writes next keeps it.
    commit = live.commit("n0")
    assert commit is not None
    assert (commit.version, commit.keep) == ("1", (("default/theirs", "theirs", "b/1"),))
    # Somebody who has seen the pod bound removes the claim; we have not.
    live.see("Lease", ledger("2"))
    assert takers(live, "mine") == ["n1"]
    live.see("Pod", pod("theirs", "n1"))
    assert takers(live, "mine") == ["n0"]
    live.see("Lease", ledger("3", CLAIM))
    assert takers(live, "mine") == ["n0"]
    commit = live.commit("n0")
    assert commit is not None and (commit.version, commit.keep) == ("3", ())


def test_a_pod_does_not_stand_in_its_own_way() -> None:
    """A scheduler claimed a pod and died; whoever takes the pod over may put it there too."""
    live = sharing_cluster()
    live.see("Lease", ledger("1", NodeClaim("default/mine", "mine", "b/1")))
    assert takers(live, "mine") == ["n0", "n1"]
    live.see("Pod", pod("other"))
    assert takers(live, "other") == ["n1"]


def test_a_node_with_a_conflict_is_closed_until_its_ledger_is_seen() -> None:
    live = sharing_cluster()
    live.see("Lease", ledger("1"))
    live.on_conflict("n0", "1")
    assert takers(live, "mine") == ["n1"]
    live.see("Lease", ledger("2"))
    assert takers(live, "mine") == ["n0", "n1"]
    # The answer comes late: something newer was seen already.
    live.on_conflict("n0", "1")
    assert takers(live, "mine") == ["n0", "n1"]
