"""Framework schedulers, alone and on a master driven through virtual time."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from tests.schedulers.offers.effects import told

from murmuration.base.random import generator
from murmuration.schedulers.agent import Wake
from murmuration.schedulers.offers.frameworks import (
    ElasticFramework,
    Framework,
    GangFramework,
    GangJob,
    Job,
    TaskSpec,
)
from murmuration.schedulers.offers.master import Rules
from murmuration.schedulers.offers.messages import (
    GetGuaranteedShare,
    GuaranteedShare,
    JobFinished,
    KillTask,
    LaunchTask,
    NodeLeft,
    Register,
    ReplyToOffer,
    ResourceOffer,
    SetNeedsOffers,
    Slice,
    Status,
    StatusUpdate,
    StopTask,
    Submit,
    TaskReport,
)
from murmuration.simulation.messages.offers import assemble

SLOT = (1, 1)


def offer(*slices: tuple[str, int], number: int = 1) -> ResourceOffer:
    return ResourceOffer("f", number, tuple(Slice(node, (n, n), (n, n)) for node, n in slices))


def bag(name: str, tasks: int, payload: object = 1.0, nodes: str = "") -> Job:
    return Job(name, ((TaskSpec(SLOT, payload, frozenset(nodes.split())),) * tasks,))


def launched(messages: list[Any]) -> list[tuple[str, object]]:
    (reply,) = (message for message in messages if isinstance(message, ReplyToOffer))
    return [(task.node, task.payload) for task in reply.tasks]


def test_an_elastic_framework_uses_what_it_gets_and_says_when_it_has_enough() -> None:
    framework = ElasticFramework("f")
    assert told(framework, Submit("f", bag("job", 3)), 0.0) == [SetNeedsOffers("f", True)]
    assert launched(told(framework, offer(("n", 2)), 0.0)) == [("n", 1.0)] * 2
    out = told(framework, offer(("n", 2), number=2), 0.0)
    assert out[0] == SetNeedsOffers("f", False)
    assert launched(out) == [("n", 1.0)]


def test_jobs_of_a_framework_share_fairly() -> None:
    framework = ElasticFramework("f")
    told(framework, Submit("f", bag("large", 100, "large")), 0.0)
    told(framework, offer(("n", 4)), 0.0)
    told(framework, Submit("f", bag("small", 100, "small")), 0.0)
    used = launched(told(framework, offer(("n", 8), number=2), 0.0))
    assert Counter(payload for _, payload in used) == {"small": 6, "large": 2}


def test_a_stage_begins_when_the_one_before_has_ended() -> None:
    framework = ElasticFramework("f")
    told(
        framework,
        Submit("f", Job("job", ((TaskSpec(SLOT, "map"),) * 2, (), (TaskSpec(SLOT, "reduce"),)))),
        0.0,
    )
    assert [payload for _, payload in launched(told(framework, offer(("n", 9)), 0.0))] == [
        "map",
        "map",
    ]
    assert told(framework, StatusUpdate("f", "f-1", Status.FINISHED), 1.0) == []
    assert told(framework, StatusUpdate("f", "f-2", Status.FINISHED), 2.0) == [
        SetNeedsOffers("f", True)
    ]
    assert [
        payload for _, payload in launched(told(framework, offer(("n", 9), number=2), 2.0))
    ] == ["reduce"]
    assert told(framework, StatusUpdate("f", "f-3", Status.FINISHED), 3.0) == [
        JobFinished("f", "job")
    ]


@pytest.mark.parametrize("status", [Status.LOST, Status.REVOKED, Status.FAILED, Status.KILLED])
def test_a_task_that_did_not_finish_runs_again(status: Status) -> None:
    framework = ElasticFramework("f")
    told(framework, Submit("f", bag("job", 1)), 0.0)
    told(framework, offer(("n", 1)), 0.0)
    assert told(framework, StatusUpdate("f", "f-1", status), 1.0) == [SetNeedsOffers("f", True)]
    assert launched(told(framework, offer(("n", 1), number=2), 1.0)) == [("n", 1.0)]


def test_only_short_tasks_use_what_is_reserved() -> None:
    framework = ElasticFramework("f")
    specs = (TaskSpec(SLOT, "long"), TaskSpec(SLOT, "long"), TaskSpec(SLOT, "short", short=True))
    told(framework, Submit("f", Job("long", (specs[:2],))), 0.0)
    told(framework, Submit("f", Job("short", (specs[2:],))), 0.0)
    out = told(framework, ResourceOffer("f", 1, (Slice("n", (2, 2), (1, 1)),), 30.0), 0.0)
    assert sorted(str(payload) for _, payload in launched(out)) == ["long", "short"]


def test_delay_scheduling_waits_for_data_and_then_takes_any_node() -> None:
    framework = ElasticFramework("f", delay_s=5.0)
    told(framework, Submit("f", bag("job", 4, "block", "here")), 0.0)
    assert launched(told(framework, offer(("here", 1)), 0.0)) == [("here", "block")]
    (refusal,) = told(framework, offer(("there", 1), number=2), 1.0)
    assert refusal == ReplyToOffer("f", 2, (), refuse_s=5.0)
    (refusal,) = told(framework, offer(("there", 1), number=3), 3.0)
    assert refusal == ReplyToOffer("f", 3, (), refuse_s=3.0)
    assert launched(told(framework, offer(("there", 1), number=4), 6.0)) == [("there", "block")]
    # A local launch starts the wait anew.
    assert launched(told(framework, offer(("here", 1), number=5), 6.0)) == [("here", "block")]
    assert launched(told(framework, offer(("there", 1), number=6), 7.0)) == []


def test_without_delay_data_is_a_preference() -> None:
    framework = ElasticFramework("f")
    job = Job(
        "job", ((TaskSpec(SLOT, "a", frozenset({"x"})), TaskSpec(SLOT, "b", frozenset({"y"}))),)
    )
    told(framework, Submit("f", job), 0.0)
    assert launched(told(framework, offer(("y", 1)), 0.0)) == [("y", "b")]
    assert launched(told(framework, offer(("y", 1), number=2), 0.0)) == [("y", "a")]


def test_a_gang_hoards_until_it_is_whole() -> None:
    framework = GangFramework("f")
    assert told(framework, Submit("f", GangJob("ring", 3, SLOT, 10.0)), 0.0) == [
        GetGuaranteedShare("f")
    ]
    assert told(framework, GuaranteedShare("f", (8, 8)), 0.0) == [SetNeedsOffers("f", True)]
    assert len(launched(told(framework, offer(("n", 2)), 1.0))) == 2
    out = told(framework, offer(("m", 2), number=2), 2.0)
    assert out[0] == SetNeedsOffers("f", False)
    assert launched(out) == [("m", None)]
    for task in ("f-1", "f-2"):
        told(framework, StatusUpdate("f", task, Status.RUNNING), 2.0)
    assert framework.due == math.inf
    told(framework, StatusUpdate("f", "f-3", Status.RUNNING), 4.0)
    assert framework.due == 14.0
    kills = [KillTask("f", f"f-{i}") for i in (1, 2, 3)]
    assert told(framework, Wake(), 14.0) == [*kills, JobFinished("f", "ring")]


def test_a_gang_never_asks_for_more_than_its_guarantee() -> None:
    framework = GangFramework("f")
    told(framework, Submit("f", GangJob("first", 2, SLOT, 10.0)), 0.0)
    told(framework, Submit("f", GangJob("second", 2, SLOT, 10.0)), 0.0)
    told(framework, GuaranteedShare("f", (3, 9)), 0.0)
    out = told(framework, offer(("n", 9)), 0.0)
    assert out[0] == SetNeedsOffers("f", False)
    assert len(launched(out)) == 3


def test_a_gang_that_loses_a_member_begins_again() -> None:
    framework = GangFramework("f")
    told(framework, Submit("f", GangJob("ring", 2, SLOT, 10.0)), 0.0)
    told(framework, GuaranteedShare("f", (2, 2)), 0.0)
    told(framework, offer(("n", 2)), 0.0)
    for task in ("f-1", "f-2"):
        told(framework, StatusUpdate("f", task, Status.RUNNING), 0.0)
    assert told(framework, StatusUpdate("f", "f-1", Status.LOST), 5.0) == [
        SetNeedsOffers("f", True)
    ]
    assert framework.due == math.inf
    told(framework, offer(("n", 1), number=2), 6.0)
    told(framework, StatusUpdate("f", "f-3", Status.RUNNING), 6.0)
    assert framework.due == 16.0


class Run:
    """A cluster of two nodes of two slots; counts what happened and checks the books at every
    launch."""

    def __init__(
        self,
        frameworks: list[Framework],
        guaranteed: float = 0.0,
        delay_s: float = 0.0,
        watch: Any = None,
        **rules: Any,
    ) -> None:
        self.finished: dict[str, float] = {}
        self.ran: Counter[str] = Counter()
        self.updates: Counter[str] = Counter()
        self.loop = assemble(
            {"n0": (2, 2), "n1": (2, 2)},
            [Register(framework.name, guaranteed=guaranteed) for framework in frameworks],
            frameworks,
            Rules(**rules),
            generator(5, "run"),
            delay_s=delay_s,
            watch={
                JobFinished: lambda finished, now: self.finished.update(
                    {f"{finished.framework} {finished.job}": now}
                ),
                LaunchTask: self.on_launch,
                StatusUpdate: lambda update, now: self.updates.update([update.status.value]),
                **(watch or {}),
            },
        )

    def on_launch(self, launch: LaunchTask, now: float) -> None:
        self.ran[launch.framework] += 1
        self.loop.master.check()


def test_two_elastic_frameworks_share_a_cluster() -> None:
    run = Run([ElasticFramework("a"), ElasticFramework("b")])
    run.loop.post(Submit("a", bag("job", 8, 10.0)), 0.0)
    run.loop.post(Submit("b", bag("job", 4, 10.0)), 1.0)
    run.loop.run()
    # a fills the cluster; from 10 s on both hold two slots, until b has had its four.
    assert run.finished == {"a job": 30.0, "b job": 30.0}
    assert run.ran == {"a": 8, "b": 4}


def test_messages_take_time() -> None:
    """Submit is local; then ask, offer, reply, launch and report each take a second, as does the
    word of the end."""
    run = Run([ElasticFramework("a")], delay_s=1.0)
    run.loop.post(Submit("a", bag("job", 1, 10.0)), 0.0)
    run.loop.run()
    assert run.finished == {"a job": 4.0 + 10.0 + 2.0}


def test_lost_nodes_lose_no_work_for_good() -> None:
    run = Run([ElasticFramework("a")])
    run.loop.post(Submit("a", bag("job", 6, 10.0)), 0.0)
    run.loop.post(NodeLeft("n1"), 5.0)
    run.loop.run()
    assert run.finished == {"a job": 30.0}
    assert (run.ran["a"], run.updates["lost"], run.updates["finished"]) == (8, 2, 6)


def test_a_liar_is_killed_at_the_limit_and_runs_again_as_a_long_task() -> None:
    run = Run([ElasticFramework("a")], short_share=0.5, short_max_s=3.0)
    run.loop.post(Submit("a", Job("job", ((TaskSpec(SLOT, 10.0, short=True),),))), 0.0)
    run.loop.run()
    assert run.finished == {"a job": 13.0}
    assert (run.updates["killed"], run.updates["finished"]) == (1, 1)


@pytest.mark.parametrize("patience", [0.0, 4.0])
def test_a_gang_gets_its_guarantee_by_revocation(patience: float) -> None:
    """The hog fills the cluster with long tasks; half of it is the gang's by right, and no more is
    taken."""
    stops: list[float] = []
    watch = {StopTask: lambda stop, now: stops.append(now) if stop.framework == "hog" else None}
    both: list[Framework] = [ElasticFramework("hog"), GangFramework("gang")]
    run = Run(both, guaranteed=0.5, watch=watch, revoke_after_s=patience)
    run.loop.post(Submit("hog", bag("job", 8, 1000.0)), 0.0)
    run.loop.post(Submit("gang", GangJob("ring", 2, SLOT, 100.0)), 10.0)
    run.loop.run()
    assert stops == [10.0 + patience, 10.0 + 2 * patience]
    assert run.finished["gang ring"] == 110.0 + 2 * patience
    assert (run.updates["revoked"], run.updates["finished"]) == (2, 8)


def test_the_same_seed_gives_the_same_run() -> None:
    def story() -> list[tuple[float, str]]:
        seen: list[tuple[float, str]] = []
        watch = dict.fromkeys(
            (LaunchTask, TaskReport), lambda message, now: seen.append((now, repr(message)))
        )
        run = Run([ElasticFramework("a", delay_s=2.0), ElasticFramework("b")], watch=watch)
        rng = generator(9, "story")
        for name in "ab":
            specs = tuple(
                TaskSpec(SLOT, float(s), frozenset({"n0"})) for s in rng.exponential(5.0, 40)
            )
            run.loop.post(Submit(name, Job("job", (specs,))), 0.0)
        run.loop.run()
        return seen

    assert story() == story()
