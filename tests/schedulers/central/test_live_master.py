"""The live master: where tasks go, what happens when nodes come and go, and what a new master
knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.schedulers.central.clusters import CPU, GB, Cluster, facts, sent, spec

from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.placement.plain import RankedPolicy
from murmuration.placement.registry import Placement
from murmuration.placement.view import JobView, View
from murmuration.schedulers.agent import Wake
from murmuration.schedulers.central.explain import CONSTRAINT, POLICY, RESOURCES, dry_run, why
from murmuration.schedulers.central.jobs import CentralTaskState
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentLost,
    Drain,
    Ended,
    EndRecorded,
    HangUp,
    KillJob,
    LeaseEnded,
    NodeIsLost,
    NodeUnreachable,
    Order,
    Recover,
    Running,
    Stop,
    StoredJob,
    StoredRun,
    SubmitJob,
    TaskEnded,
)
from murmuration.schedulers.central.orders import requirements
from murmuration.schedulers.offers.messages import (
    CommitTasks,
    Committed,
    Register,
    ReplyToOffer,
    ResourceOffer,
    SetNeedsOffers,
    Status,
    StatusUpdate,
    SyncTable,
    Table,
    Task,
)
from murmuration.workload.job_spec import FieldError

REQUEST = (CPU, GB)


def test_a_job_fills_the_nodes_and_the_rest_waits_for_room() -> None:
    cluster = Cluster(nodes=2)
    cluster.submit(spec(count=5))
    assert cluster.states().count(CentralTaskState.STARTING) == 4
    (waiting,) = cluster.job().waiting
    cluster.end(next(iter(cluster.launched)))
    assert cluster.states()[waiting] is CentralTaskState.STARTING


def test_a_job_that_finds_no_room_holds_up_nobody() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec("large", resources={"cpu": 2}, gang=True, count=2))
    cluster.submit(spec("small"))
    assert cluster.states("large") == [CentralTaskState.WAITING] * 2
    assert cluster.states("small") == [CentralTaskState.STARTING]


def test_the_queue_is_by_priority_then_by_submission() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec("first", resources={"cpu": 2}))
    for name, priority in (("a", 0), ("b", 5), ("c", 5)):
        cluster.submit(spec(name, resources={"cpu": 2}, priority=priority))
    order = []
    for _ in range(3):
        (run,) = [run for run, (job, _) in cluster.master.jobs.runs.items()]
        cluster.end(run)
        order.append(next(iter(cluster.master.jobs.runs)).partition(".")[0])
    assert order == ["b", "c", "a"]


def test_constraints_affinity_and_their_reasons() -> None:
    cluster = Cluster()
    cluster.join("a1", attributes={"zone": "a"})
    cluster.join("b1", attributes={"zone": "b"})
    cluster.submit(spec("near", constraints=["zone = b"]))
    assert cluster.nodes_of("near") == ["b1"]
    cluster.submit(spec("beside", affinity=["near"]))
    assert cluster.nodes_of("beside") == ["b1"]
    cluster.submit(spec("apart", anti_affinity=["near"]))
    assert cluster.nodes_of("apart") == ["a1"]
    cluster.submit(spec("nowhere", affinity=["near"], anti_affinity=["beside"]))
    found = why(cluster.master, cluster.job("nowhere"), 0.0)
    assert found.tier == CONSTRAINT and found.decision is not None
    assert found.decision.filtered == {"no task of near on it": 1, "a task of beside on it": 1}


def test_tasks_of_a_job_that_shuns_itself_go_to_different_nodes() -> None:
    cluster = Cluster(nodes=3)
    cluster.submit(spec(count=4, anti_affinity=["job"]))
    assert sorted(cluster.nodes_of()) == ["", "n0", "n1", "n2"]


def test_tasks_of_a_job_that_seeks_itself_share_a_node() -> None:
    cluster = Cluster()
    for k in range(4):
        cluster.join(f"n{k}", cpu=8)
    cluster.submit(spec(count=4, affinity=["job"]))
    assert len(set(cluster.nodes_of())) == 1


@given(st.integers(1, 12), st.integers(2, 4))
def test_spread_keeps_the_values_of_an_attribute_even(count: int, zones: int) -> None:
    cluster = Cluster()
    for k in range(2 * zones):
        cluster.join(f"n{k}", cpu=8, attributes={"zone": f"z{k % zones}"})
    cluster.submit(spec(count=count, spread="zone", resources={"cpu": 1}))
    by_zone = [0] * zones
    for node in cluster.nodes_of():
        by_zone[int(node[1:]) % zones] += 1
    assert max(by_zone) - min(by_zone) <= 1 and sum(by_zone) == count


def test_a_port_is_held_by_one_task_of_a_host() -> None:
    cluster = Cluster()
    for node, host in (("n0", "x"), ("n1", "x"), ("n2", "y")):
        cluster.join(node, attributes={"host": host})
    cluster.submit(spec(count=3, ports=[8080]))
    used = [node for node in cluster.nodes_of() if node]
    assert len(used) == 2 and "n2" in used
    cluster.submit(spec("other", ports=[0, 0]))
    assert cluster.states("other") == [CentralTaskState.STARTING], "any free port is never taken"


def test_a_gang_starts_whole_or_not_at_all() -> None:
    cluster = Cluster(nodes=2)
    cluster.submit(spec("one"))
    cluster.submit(spec("gang", count=4, gang=True))
    assert cluster.states("gang") == [CentralTaskState.WAITING] * 4
    cluster.end("one.0.1")
    assert cluster.states("gang") == [CentralTaskState.STARTING] * 4


def test_a_job_that_can_never_run_is_known_at_once() -> None:
    cluster = Cluster()
    assert cluster.master.never(spec(resources={"cpu": 100})) is None, (
        "no node has joined: nothing can be said"
    )
    cluster.join("n0")
    hopeless = cluster.master.never(spec(resources={"cpu": 100}))
    assert hopeless is not None and "2 CPU" in hopeless.reason
    assert cluster.master.never(spec(constraints=["zone = a"])) is not None
    assert cluster.master.never(spec(count=3, gang=True)) is not None
    assert cluster.master.never(spec(count=3)) is None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"resources": {"cpu": "much"}}, "resources.cpu"),
        ({"resources": {"memroy": 1}}, "resources.memroy"),
        ({"constraints": ["zone = a", "zone ~ b"]}, "constraints[1]"),
    ],
)
def test_what_only_a_cluster_can_check_names_the_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as error:
        requirements(Resources(), spec(**fields))
    assert error.value.field == field


# Nodes that come and go.


def test_a_node_that_is_away_keeps_its_tasks_until_its_lease_ends() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec())
    assert facts(cluster.tell(AgentLost("n0")), NodeUnreachable)
    cluster.join("n1")
    assert cluster.nodes_of() == ["n0"] and cluster.states() == [CentralTaskState.STARTING]
    said = cluster.tell(LeaseEnded("n0"))
    assert facts(said, NodeIsLost)
    assert cluster.nodes_of() == ["n1"] and "job.0.2" in cluster.launched


def test_a_node_that_comes_back_is_believed() -> None:
    """It runs one task that was being started, one that nobody wants, never got another, and saw
    the end of a last."""
    cluster = Cluster()
    cluster.join("n0", cpu=4)
    cluster.submit(spec(count=4))
    cluster.tell(AgentLost("n0"))
    cluster.tell(KillJob("job", 3))
    running = (
        Running(JOBS, "job.0.1", REQUEST),
        Running(JOBS, "old.7.1", REQUEST),
        Running(JOBS, "job.3.1", REQUEST),
    )
    ended = (Ended(JOBS, "job.1.1", Status.FINISHED, 0),)
    said = cluster.join("n0", cpu=4, running=running, ended=ended)
    assert {stop.run for stop in sent(said, Stop)} == {"old.7.1", "job.3.1"}
    assert [recorded.run for recorded in sent(said, EndRecorded)] == ["job.1.1"]
    assert cluster.states() == [
        CentralTaskState.RUNNING,
        CentralTaskState.FINISHED,
        CentralTaskState.STARTING,
        CentralTaskState.STOPPING,
    ]
    assert [end.reason for end in facts(said, TaskEnded)] == ["", "n0 never got it"]
    assert "job.2.2" in cluster.launched


def test_an_old_connection_that_speaks_late_is_not_heard() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec())
    cluster.sessions = -5
    assert cluster.join("n0") == [HangUp("n0", -4)], "it dials again until its number is newer"
    assert cluster.states() == [CentralTaskState.STARTING]


def test_draining_moves_services_and_lets_terminating_tasks_finish() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec("web", kind="service"))
    cluster.submit(spec("batch"))
    cluster.join("n1")
    said = cluster.tell(Drain("n0"))
    assert [stop.run for stop in sent(said, Stop)] == ["web.0.1"]
    cluster.end("web.0.1", code=143, status=Status.KILLED)
    assert cluster.nodes_of("web") == ["n1"] and cluster.job("web").tasks[0].failures == 0
    assert cluster.states("batch") == [CentralTaskState.STARTING]
    assert [stop.run for stop in sent(cluster.tell(Drain("n0", now=True)), Stop)] == ["batch.0.1"]
    cluster.submit(spec("more", count=2))
    assert cluster.nodes_of("more").count("n0") == 0
    cluster.tell(Drain("n0", on=False))
    assert "n0" in cluster.nodes_of("more")


def test_a_master_that_starts_again_knows_jobs_and_waits_for_their_nodes() -> None:
    runs = (
        StoredRun(0, 1, "n0", "running"),
        StoredRun(1, 2, "n1", "starting"),
        StoredRun(2, 1, "n0", "finished", code=0),
        StoredRun(3, 1, "n0", "waiting", failures=1),
    )
    cluster = Cluster()
    cluster.tell(Recover(1, 1, (StoredJob(spec(count=5), 7, 0.0, runs=runs),), ("n9",)))
    assert cluster.states() == [
        CentralTaskState.RUNNING,
        CentralTaskState.STARTING,
        CentralTaskState.FINISHED,
        CentralTaskState.WAITING,
        CentralTaskState.WAITING,
    ]
    cluster.join("n0", running=(Running(JOBS, "job.0.1", REQUEST),))
    assert cluster.states()[:2] == [CentralTaskState.RUNNING, CentralTaskState.STARTING]
    assert [
        run for run in cluster.launched if run.startswith("job.3.2") or run.startswith("job.4.1")
    ] != []
    cluster.tell(LeaseEnded("n1"))
    cluster.join("n2")
    assert "job.1.3" in cluster.launched, (
        "the run of a node that never came back is run again under a new number"
    )
    cluster.submit(spec("next"))
    assert cluster.job("next").serial == 8
    assert cluster.master.draining == {"n9"}


def test_a_killed_job_is_still_killed_after_a_restart() -> None:
    stored = StoredJob(spec(count=2), 1, 0.0, killed=True, runs=(StoredRun(0, 1, "n0", "running"),))
    cluster = Cluster()
    cluster.tell(Recover(1, 1, (stored,)))
    assert cluster.states() == [CentralTaskState.STOPPING, CentralTaskState.KILLED]
    # The kill was recorded but may never have reached the node; the job manager asks again.
    said = cluster.join("n0", running=(Running(JOBS, "job.0.1", REQUEST),))
    assert [stop.run for stop in sent(said, Stop)] == ["job.0.1"]


def test_a_clock_that_was_set_back_does_not_make_tasks_wait() -> None:
    """A task that failed an hour ahead of now waits for its back-off of one second, not for an
    hour."""
    failed = StoredRun(0, 1, "n0", "waiting", failures=1, ended_s=3600.0)
    cluster = Cluster()
    cluster.tell(Recover(1, 1, (StoredJob(spec(), 1, 3600.0, runs=(failed,)),)), now=10.0)
    cluster.join("n0")
    cluster.tell(Wake(), now=10.9)
    assert cluster.launched == {}
    cluster.tell(Wake(), now=11.1)
    assert list(cluster.launched) == ["job.0.2"]


# Schedulers from outside.


def outside(name: str, node: str, cpu: int = 1) -> Task:
    return Task(name, node, (cpu * CPU, GB), payload=Order(("true",)))


def test_an_outside_scheduler_commits_transactions_and_conflicts_are_refused() -> None:
    cluster = Cluster(nodes=2)
    (table,) = facts(cluster.tell(SyncTable("omega")), Table)
    seen = {row.node: row.sequence for row in table.rows}
    cluster.submit(spec(count=2, constraints=[]))
    taken = cluster.nodes_of()[0]
    tasks = tuple(outside(f"t{k}", node) for k, node in enumerate(seen))
    by_machine = CommitTasks("omega", 1, tasks, tuple(seen.values()), machine=True)
    (outcome,) = facts(cluster.tell(by_machine), Committed)
    assert [tasks[k].node for k in range(2) if f"t{k}" in outcome.refused] == sorted(
        set(cluster.nodes_of())
    )
    (table,) = facts(cluster.tell(SyncTable("omega")), Table)
    (full,) = facts(
        cluster.tell(CommitTasks("omega", 2, (outside("big", taken, 3),), (0,))), Committed
    )
    assert full.refused == ("big",)


def test_an_atomic_transaction_leaves_nothing_behind() -> None:
    cluster = Cluster(nodes=1)
    tasks = (outside("a", "n0"), outside("b", "n0", 5))
    (outcome,) = facts(cluster.tell(CommitTasks("omega", 1, tasks, (0, 0), atomic=True)), Committed)
    assert outcome.accepted == () and outcome.refused == ("a", "b")
    assert cluster.master.resource_manager.ledger.nodes["n0"].sequence == 0
    assert not cluster.launched


def test_what_is_on_offer_is_out_of_reach_until_it_is_answered() -> None:
    cluster = Cluster(nodes=1)
    (offer,) = facts(cluster.tell(SetNeedsOffers("mesos", True)), ResourceOffer)
    cluster.submit(spec())
    assert cluster.states() == [CentralTaskState.WAITING]
    cluster.tell(ReplyToOffer("mesos", offer.offer, (outside("t", "n0"),)))
    assert cluster.states() == [CentralTaskState.STARTING]
    assert cluster.launched["t"][1].framework == "mesos"


def test_outside_tasks_survive_their_master_and_are_lost_with_their_node() -> None:
    cluster = Cluster()
    cluster.join("n0", running=(Running("mesos", "t", REQUEST),))
    assert ("mesos", "t") in cluster.master.resource_manager.ledger.tasks
    assert facts(cluster.tell(LeaseEnded("n0")), StatusUpdate)[0].status is Status.LOST


def test_a_revoked_task_runs_again_and_has_not_failed() -> None:
    cluster = Cluster(nodes=1, revoke_after_s=10.0)
    cluster.submit(spec(count=2))
    cluster.tell(Register("promised", guaranteed=0.5))
    cluster.tell(SetNeedsOffers("promised", True), 1.0)
    said = cluster.tell(Wake(), 11.0)
    (stop,) = sent(said, Stop)
    assert "revoked" in stop.reason
    cluster.end(stop.run, code=143, status=Status.KILLED)
    index = int(stop.run.split(".")[1])
    assert (
        cluster.states()[index] is CentralTaskState.WAITING
        and cluster.job().tasks[index].failures == 0
    )


def test_by_offers_the_job_manager_shares_with_others() -> None:
    cluster = Cluster(nodes=2, by_offers=True)
    cluster.submit(spec(count=5))
    assert sorted(cluster.states()) == [CentralTaskState.STARTING] * 4 + [CentralTaskState.WAITING]
    assert cluster.tell(SetNeedsOffers("mesos", True)) == [], "nothing is free"
    said = cluster.end(next(iter(cluster.launched)))
    (offer,) = facts(said, ResourceOffer)
    assert offer.framework == "mesos", "it holds less, so what is free is its turn"
    cluster.tell(SetNeedsOffers("mesos", False))
    cluster.tell(ReplyToOffer("mesos", offer.offer))
    assert CentralTaskState.WAITING not in cluster.states()


def test_by_offers_a_job_that_waits_costs_nothing_until_something_changes() -> None:
    cluster = Cluster(nodes=2, by_offers=True)
    cluster.submit(spec("large", count=2, gang=True, resources={"cpu": 2}))
    cluster.submit(spec("blocked", resources={"cpu": 2}))
    assert cluster.states("blocked") == [CentralTaskState.WAITING]
    assert cluster.master.due >= 3600.0
    cluster.end("large.0.1", now=5.0)
    assert cluster.states("blocked") == [CentralTaskState.STARTING]
    cluster.end("blocked.0.1")
    cluster.end("large.1.1")
    assert (
        not cluster.master.resource_manager.offers
        and not cluster.master.resource_manager.clients[JOBS].needs
    )


# A policy of one's own.


class Stubborn:
    """Always the first node, fitting or not."""

    def decide(self, view: View, job: JobView, rng: np.random.Generator) -> list[int]:
        return [0] * job.tasks


class Broken:
    def decide(self, view: View, job: JobView, rng: np.random.Generator) -> list[int]:
        raise ZeroDivisionError("oh")


def no_score(total: Any, free: Any, request: Any) -> Any:
    raise KeyError("gone")


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (Stubborn(), "no room"),
        (Broken(), "ZeroDivisionError"),
        (RankedPolicy(no_score), "KeyError"),
    ],
)
def test_a_policy_that_fails_is_named_in_the_reason_and_ends_nothing(
    policy: object, says: str
) -> None:
    cluster = Cluster(nodes=1)
    placement = Placement("mine", policy, fast=False)  # type: ignore[arg-type]
    cluster.master = CentralMaster(CentralSettings(Resources(), placement), 1)
    cluster.join("n0")
    cluster.submit(spec(count=3))
    found = why(cluster.master, cluster.job(), 0.0)
    assert (
        found.tier == POLICY
        and says in found.reason
        and cluster.states() == [CentralTaskState.WAITING] * 3
    )


# Why, and what if.


def test_why_names_tier_position_counts_and_what_would_help() -> None:
    cluster = Cluster()
    cluster.join("n0", attributes={"zone": "a"})
    cluster.join("n1", attributes={"zone": "b"})
    cluster.submit(spec("full", count=2, constraints=["zone = a"]))
    cluster.submit(spec("ahead", resources={"cpu": 2}, constraints=["zone = a"], priority=1))
    cluster.submit(spec("me", resources={"cpu": 2}, constraints=["zone = a"]))
    found = why(cluster.master, cluster.job("me"), 1.0)
    assert (found.tier, found.position, found.ahead) == (RESOURCES, 2, ("ahead",))
    assert found.decision is not None
    assert found.decision.filtered == {"not zone = a": 1, "too little cpu free": 1}
    assert "without its constraints 1 more nodes would fit" in found.decision.unblock


def test_a_dry_run_deducts_as_it_goes_and_changes_nothing() -> None:
    cluster = Cluster(nodes=2)
    before = cluster.master.rng.bit_generator.state
    trial = dry_run(cluster.master, SubmitJob(spec(count=5)), 0.0)
    assert len(trial.placed) == 4 and trial.unplaced == 1
    assert sorted(node for _, node in trial.placed) == ["n0", "n0", "n1", "n1"]
    assert trial.note == "not now: 1 of 5 tasks would wait"
    assert not cluster.master.jobs.jobs and str(before) == str(
        cluster.master.rng.bit_generator.state
    )
    cluster.submit(spec(count=5))
    assert dict(trial.placed) == {f"job.{k}": n for k, n in enumerate(cluster.nodes_of()) if n}, (
        "and it comes true"
    )


def test_an_unknown_unit_is_bad_input() -> None:
    with pytest.raises(InputError, match=r"resources\.cpu"):
        requirements(Resources(), spec(resources={"cpu": "3 lightyears"}))
