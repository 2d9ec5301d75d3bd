"""What the central master takes for decided, and for how long it believes in a node."""

from __future__ import annotations

import pytest
from tests.schedulers.central.clusters import CPU, GB, Cluster, facts, sent, spec

from murmuration.base.resources import Resources
from murmuration.placement.registry import resolve
from murmuration.schedulers.agent import Disconnected, Do, Send, Wake
from murmuration.schedulers.central.jobs import CentralTaskState
from murmuration.schedulers.central.leases import TASK_MARGIN_S
from murmuration.schedulers.central.master import RETRY_S, CentralMaster, CentralSettings
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentJoined,
    Ended,
    HangUp,
    Heartbeat,
    HeartbeatSeen,
    Launch,
    NodeIsLost,
    NodeIsUp,
    NodeUnreachable,
    Refused,
    RunEnded,
    Running,
    TaskPlaced,
    Welcome,
)
from murmuration.schedulers.offers.messages import Status

# A decision is a fact when it is accepted.


def test_only_what_the_ledger_accepts_is_placed() -> None:
    """Half of the node is for short tasks, so that one of two tasks finds room."""
    cluster = Cluster(nodes=1, short_share=0.5)
    said = cluster.submit(spec(count=2))
    assert facts(said, TaskPlaced) == [TaskPlaced("job", 0, 1, "n0")]
    assert [message.run for message in sent(said, Launch)] == ["job.0.1"]
    assert cluster.states() == [CentralTaskState.STARTING, CentralTaskState.WAITING]
    cluster.start("job.0.1")
    said = cluster.end("job.0.1", now=5.0)
    assert [message.run for message in sent(said, Launch)] == ["job.1.1"], "it was still waiting"


def test_a_placement_on_a_stale_copy_is_refused_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The job manager decides on a copy from before the other job came: the ledger refuses, no
    fact is written, and the task is tried again after a while."""
    cluster = Cluster(nodes=1)
    stale = cluster.master.rows()
    cluster.submit(spec("first", count=2, resources={"cpu": 1}))
    monkeypatch.setattr(cluster.master, "rows", lambda: stale)
    said = cluster.submit(spec("second"), now=1.0)
    assert facts(said, TaskPlaced) == [] and sent(said, Launch) == []
    assert cluster.states("second") == [CentralTaskState.WAITING]
    assert cluster.job("second").tasks[0].run == 0 and cluster.master.due == 1.0 + RETRY_S
    monkeypatch.undo()
    cluster.end("first.0.1", now=1.5)
    said = cluster.tell(Wake(), 1.0 + RETRY_S)
    assert facts(said, TaskPlaced) == [TaskPlaced("second", 0, 1, "n0")]


def test_a_gang_is_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(nodes=1)
    stale = cluster.master.rows()
    cluster.submit(spec("first", resources={"cpu": 1}))
    monkeypatch.setattr(cluster.master, "rows", lambda: stale)
    assert facts(cluster.submit(spec("gang", count=2, gang=True)), TaskPlaced) == []
    assert cluster.states("gang") == [CentralTaskState.WAITING] * 2


# Leases.


def leased() -> Cluster:
    """A master that gives up a node 12 s after it was last heard, and a task on its one node."""
    cluster = Cluster()
    settings = CentralSettings(
        Resources(), resolve("first-fit"), agent_timeout_s=10.0, margin_s=2.0
    )
    cluster.master = CentralMaster(settings, 1)
    cluster.join("n0")
    cluster.submit(spec(), now=1.0)
    cluster.start("job.0.1")
    return cluster


def test_a_join_is_welcomed_at_once_and_a_heartbeat_answered_at_once() -> None:
    cluster = leased()
    joined = AgentJoined("n1", "id", 7, {"cpu": CPU, "memory": GB})
    effects = cluster.master.handle(joined, 2.0)
    assert Send("n1", Welcome(7, 10.0, 10.0 / 12), at_once=True) in effects
    seen = cluster.master.handle(Heartbeat("n1", 7, 3), 3.0)
    assert seen == [Send("n1", HeartbeatSeen(7, 3), at_once=True)]
    assert cluster.master.handle(Heartbeat("n1", 6, 3), 3.0) == [Do(HangUp("n1", 6))]


def test_a_lease_ends_by_itself_and_its_tasks_run_elsewhere() -> None:
    cluster = leased()
    assert cluster.master.due == 12.0
    cluster.tell(Heartbeat("n0", 1, 1), 4.0)
    assert cluster.tell(Wake(), 12.0) == [], "it was heard since"
    assert cluster.master.due == 16.0
    cluster.join("n1")
    assert cluster.tell(Wake(), 16.0) == [], "it has a task, which takes time to end"
    assert cluster.master.due == 16.0 + TASK_MARGIN_S
    said = cluster.tell(Wake(), 16.0 + TASK_MARGIN_S)
    assert facts(said, NodeIsLost) == [NodeIsLost("n0")] and facts(said, HangUp) == [
        HangUp("n0", 1)
    ]
    assert [fact.node for fact in facts(said, TaskPlaced)] == ["n1"]
    late = RunEnded("n0", Ended(JOBS, "job.0.1", Status.FINISHED, 0), 1)
    assert cluster.tell(late) == [], "a node that was given up is not heard"


def test_a_broken_connection_closes_the_node_until_it_joins_again() -> None:
    cluster = leased()
    assert cluster.tell(Disconnected("n0", 0), 2.0) == [], "an old connection"
    assert facts(cluster.tell(Disconnected("n0", 1), 2.0), NodeUnreachable)
    cluster.submit(spec("other"), now=3.0)
    assert cluster.states("other") == [CentralTaskState.WAITING]
    running = (Running(JOBS, "job.0.1", (CPU, GB)),)
    assert facts(cluster.join("n0", running=running), NodeIsUp)
    assert cluster.states("other") == [CentralTaskState.STARTING]


def test_a_second_agent_of_a_name_is_refused_and_not_heard() -> None:
    cluster = leased()
    stranger = AgentJoined("n0", "somebody else", 9, {"cpu": CPU, "memory": GB})
    (answer,) = cluster.tell(stranger, 2.0)
    assert isinstance(answer.message, Refused)
    ended = RunEnded("n0", Ended(JOBS, "job.0.1", Status.FINISHED, 0), 9)
    assert cluster.tell(ended) == [] and cluster.states() == [CentralTaskState.RUNNING]
