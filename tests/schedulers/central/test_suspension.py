"""Tasks that make way without ending: they keep their node and their memory, their time stands
still, and they go on where they were."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tests.schedulers.central.clusters import CPU, GB, Cluster, facts, sent, spec

from murmuration.schedulers.agent import Connected, Do, Send
from murmuration.schedulers.central.explain import PREEMPTION, why
from murmuration.schedulers.central.jobs import CentralTaskState
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.memory import MasterMemory
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentJoined,
    Drain,
    GoOn,
    KillJob,
    Launch,
    Order,
    Running,
    SetQuota,
    Stop,
    Suspend,
    TaskSuspended,
    TaskWentOn,
    Welcome,
)
from murmuration.schedulers.central.node_agent import (
    CentralNodeAgent,
    Exited,
    Found,
    Freeze,
    Kill,
    Started,
    Thaw,
)
from murmuration.schedulers.offers.messages import Status
from murmuration.schedulers.queues.discipline import QueueSettings, find_discipline

RUNNING, SUSPENDED = CentralTaskState.RUNNING, CentralTaskState.SUSPENDED
WAITING, STOPPING = CentralTaskState.WAITING, CentralTaskState.STOPPING
TWO = {"cpu": 2, "memory": "3G"}


class SuspendingCluster(Cluster):
    """A cluster whose facts are kept, so that another master can take over from them."""

    def __init__(self, queue: str = "", nodes: int = 1) -> None:
        super().__init__()
        self.memory = MasterMemory()
        self.settings = replace(
            self.master.settings,
            queue=find_discipline(queue) if queue else None,
            queue_settings=QueueSettings(preempt="suspend"),
        )
        self.master = CentralMaster(self.settings, 1)
        for k in range(nodes):
            self.join(f"n{k}", memory=8)

    def tell(self, event: Any, now: float | None = None) -> list[Any]:
        said = super().tell(event, now)
        for fact in said:
            if type(fact).__name__.startswith(("Job", "Task", "Node", "Quota")):
                self.memory.apply(fact, self.now)
        return said

    def begin(self, name: str, now: float, **fields: Any) -> list[Any]:
        said = self.submit(spec(name, **fields), now)
        for launch in sent(said, Launch):
            self.start(launch.run)
        return said

    def take_over(self, now: float) -> None:
        """The master dies, and another one starts from what is on disk."""
        self.master = CentralMaster(self.settings, 1)
        self.tell(self.memory.recover(1, 1), now)


def test_a_task_makes_way_at_once_and_goes_on_where_it_was() -> None:
    cluster = SuspendingCluster()
    cluster.begin("low", 10.0, resources=TWO, time_limit_s=100.0)
    said = cluster.begin("high", 40.0, resources=TWO, priority=5)
    orders = [type(message) for message in [*sent(said, Suspend), *sent(said, Launch)]]
    assert orders == [Suspend, Launch]
    kinds = [type(each.message) for each in said if hasattr(each, "message")]
    assert kinds.index(Suspend) < kinds.index(Launch), "the room is given away first"
    assert cluster.states("low") == [SUSPENDED] and cluster.states("high") == [RUNNING]
    free = cluster.master.rows().free.tolist()
    assert free == [[0, 2 * GB]], "its memory is kept: twice three of eight"
    answer = why(cluster.master, cluster.job("low"), 40.0)
    assert answer.tier == PREEMPTION and "suspended on n0" in answer.reason
    assert "it made way for high" in answer.reason and answer.state == "suspended"
    said = cluster.end("high.0.1", now=50.0)
    assert [order.run for order in sent(said, GoOn)] == ["low.0.1"]
    assert cluster.states("low") == [RUNNING] and not sent(said, Launch)
    assert (cluster.job("low").tasks[0].done_s, cluster.job("low").tasks[0].run) == (30.0, 1)


def test_memory_that_is_missing_is_no_reason_to_make_way() -> None:
    cluster = SuspendingCluster()
    cluster.begin("low", 0.5, resources={"cpu": 2, "memory": "6G"})
    said = cluster.begin("high", 1.0, resources=TWO, priority=5)
    assert not sent(said, Suspend) and cluster.states("high") == [WAITING]


def test_a_gang_is_suspended_whole_and_goes_on_whole() -> None:
    cluster = SuspendingCluster(nodes=2)
    one = {"cpu": 2, "memory": "1G"}
    cluster.begin("gang", 0.5, count=2, gang=True, resources=one)
    said = cluster.begin("high", 1.0, resources=one, priority=5)
    assert len(sent(said, Suspend)) == 2 and cluster.states("gang") == [SUSPENDED] * 2
    node = cluster.nodes_of("high")[0]
    other = cluster.begin("other", 2.0, resources=one, priority=4)
    assert cluster.nodes_of("other") != [node] and not sent(other, Suspend)
    assert not sent(cluster.end("other.0.1", now=3.0), GoOn), "the half of a gang does not go on"
    assert len(sent(cluster.end("high.0.1", now=4.0), GoOn)) == 2


def test_what_is_suspended_takes_its_room_from_a_lower_priority() -> None:
    """Middle makes way for high on n0; low starts on n1 and then on n0: when high has ended, low
    makes way for middle, which can go on nowhere else."""
    cluster = SuspendingCluster("priority")
    cluster.begin("middle", 0.5, resources=TWO, priority=3)
    cluster.begin("high", 1.0, resources={"cpu": 1, "memory": "1G"}, priority=5)
    assert cluster.states("middle") == [SUSPENDED]
    cluster.master.jobs.queue.pop("middle")  # so that low may pass it
    cluster.begin("low", 2.0, resources={"cpu": 1, "memory": "1G"}, priority=1)
    cluster.master.jobs.queue["middle"] = cluster.job("middle")
    assert cluster.states("low") == [RUNNING]
    said = cluster.end("high.0.1", now=3.0)
    assert [order.run for order in sent(said, Suspend)] == ["low.0.1"]
    assert [order.run for order in sent(said, GoOn)] == ["middle.0.1"]


def test_another_master_knows_who_is_suspended() -> None:
    """It takes over in the middle; the agent, which missed the order, is told again."""
    cluster = SuspendingCluster()
    cluster.begin("low", 10.0, resources=TWO, time_limit_s=100.0)
    cluster.begin("high", 40.0, resources=TWO, priority=5)
    cluster.take_over(45.0)
    assert cluster.states("low") == [SUSPENDED]
    request = (2 * CPU, 3 * GB)
    runs = (Running(JOBS, "low.0.1", request), Running(JOBS, "high.0.1", request))
    said = cluster.join("n0", memory=8, running=runs)
    assert [order.run for order in sent(said, Suspend)] == ["low.0.1"]
    assert cluster.master.rows().free.tolist() == [[0, 2 * GB]]
    said = cluster.end("high.0.1", now=60.0)
    assert [order.run for order in sent(said, GoOn)] == ["low.0.1"]
    cluster.take_over(70.0)
    task = cluster.job("low").tasks[0]
    assert (task.state, task.done_s, task.resumed_s) == (RUNNING, 30.0, 60.0)
    stale = Running(JOBS, "low.0.1", request, suspended=True)
    said = cluster.join("n0", memory=8, running=(stale,))
    assert [order.run for order in sent(said, GoOn)] == ["low.0.1"], "it missed that it goes on"


def test_a_suspended_task_can_be_killed_and_leaves_a_node_that_is_drained() -> None:
    cluster = SuspendingCluster()
    for name in ("one", "two"):
        cluster.begin(name, 0.5)
    cluster.begin("high", 1.0, resources=TWO, priority=5)
    assert cluster.states("one") == cluster.states("two") == [SUSPENDED]
    assert [stop.run for stop in sent(cluster.tell(KillJob("one"), 2.0), Stop)] == ["one.0.1"]
    assert cluster.states("one") == [STOPPING] and "one" not in cluster.master.jobs.queue
    said = cluster.tell(Drain("n0"), 3.0)
    assert [stop.run for stop in sent(said, Stop)] == ["two.0.1"], "it would wait there for ever"
    cluster.end("two.0.1", now=4.0, status=Status.KILLED)
    assert cluster.states("two") == [WAITING]


def test_a_quota_counts_what_is_suspended() -> None:
    cluster = SuspendingCluster()
    cluster.tell(SetQuota("ann", {"cpu": 2 * CPU}))
    cluster.begin("low", 0.5, resources=TWO, user="ann")
    cluster.begin("high", 1.0, resources=TWO, priority=5, user="bob")
    cluster.submit(spec("more", user="ann"), 2.0)
    assert cluster.states("more") == [WAITING]
    said = cluster.end("high.0.1", now=3.0)
    assert [order.run for order in sent(said, GoOn)] == ["low.0.1"], "its own quota lets it go on"


def test_facts_say_who_and_what_for() -> None:
    cluster = SuspendingCluster()
    cluster.begin("low", 0.5, resources=TWO)
    said = cluster.begin("high", 5.0, resources=TWO, priority=5)
    assert facts(said, TaskSuspended) == [
        TaskSuspended("low", 0, 1, "n0", "preempted: made way for high", 4.5)
    ]
    assert facts(cluster.end("high.0.1", now=9.0), TaskWentOn) == [TaskWentOn("low", 0, 1, "n0")]


# The node agent.


def agent_with_a_run(limit_s: float | None = 10.0) -> CentralNodeAgent:
    agent = CentralNodeAgent("n0", "id", {"cpu": 2 * CPU})
    agent.handle(Connected("master", 1), 0.0)
    agent.handle(Welcome(1, math.inf, math.inf), 0.0)
    order = Order(("sleep", "9"), time_limit_s=limit_s)
    agent.handle(Launch(1, JOBS, "a.0.1", (CPU,), order), 0.0)
    return agent


def acts(effects: list[Any]) -> list[Any]:
    return [effect.act for effect in effects if isinstance(effect, Do)]


def test_the_time_limit_of_a_suspended_run_stands_still() -> None:
    agent = agent_with_a_run()
    agent.handle(Started("a.0.1"), 0.0)
    assert acts(agent.handle(Suspend(1, JOBS, "a.0.1"), 4.0)) == [Freeze("a.0.1", 6.0)]
    assert not acts(agent.handle(Suspend(1, JOBS, "a.0.1"), 5.0)), "once is enough"
    assert agent.due == math.inf
    assert acts(agent.handle(GoOn(1, JOBS, "a.0.1"), 104.0)) == [Thaw("a.0.1", 110.0)]
    assert agent.due == 110.0
    killed = acts(agent.handle(Exited("other"), 110.0))
    assert killed == [Kill("a.0.1", "its time limit was reached", False)]


def test_a_run_that_starts_is_suspended_when_it_has() -> None:
    agent = agent_with_a_run(None)
    assert not acts(agent.handle(Suspend(1, JOBS, "a.0.1"), 1.0))
    assert acts(agent.handle(Started("a.0.1"), 2.0)) == [Freeze("a.0.1", math.inf)]
    assert acts(agent.handle(GoOn(1, JOBS, "a.0.1"), 3.0)) == [Thaw("a.0.1", math.inf)]


def test_another_agent_finds_what_is_suspended() -> None:
    agent = CentralNodeAgent("n0", "id", {"cpu": 2 * CPU})
    agent.find([Found(JOBS, "a.0.1", (CPU,), left_s=6.0)], [], 50.0)
    (join,) = agent.handle(Connected("master", 2), 51.0)
    assert isinstance(join, Send) and isinstance(join.message, AgentJoined)
    assert join.message.running[0].suspended
    agent.handle(Welcome(2, math.inf, math.inf), 51.0)
    assert acts(agent.handle(GoOn(2, JOBS, "a.0.1"), 60.0)) == [Thaw("a.0.1", 66.0)]
