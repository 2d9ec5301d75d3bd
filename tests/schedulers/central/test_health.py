"""Health of runs: when a node agent looks, what it concludes, and what a master makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.schedulers.central.clusters import Cluster, facts, spec

from murmuration.base.errors import InputError
from murmuration.schedulers.agent import Connected, Do, Note, Send, Wake
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentJoined,
    Launch,
    Order,
    RunHealth,
    Running,
    RunStarted,
    TaskEnded,
    TaskHealth,
    Welcome,
)
from murmuration.schedulers.central.node_agent import (
    CentralNodeAgent,
    Exited,
    Found,
    Kill,
    RunStopping,
    Started,
)
from murmuration.schedulers.central.services.health import CheckHealth, HealthSeen, HealthTable
from murmuration.schedulers.offers.messages import Status
from murmuration.workload.job_spec import job_from_tables
from murmuration.workload.service_spec import HealthCheck

CHECK = HealthCheck(tcp=True, port=80, interval_s=10.0, failures=3, start_period_s=5.0)


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_a_run_is_judged_as_the_rule_says(answers: list[bool]) -> None:
    """Against the rule in plain words: never well for 35 s (5 and three times 10), or well once and
    then three failures in a row."""
    table, now, well, row = HealthTable(), 0.0, False, 0
    table.begin("run", CHECK, now)
    for is_well in answers:
        now = table.due
        (look,) = table.take_due(now)
        assert table.due == float("inf"), "one look at a time"
        told = table.answer(HealthSeen("run", look.number, "" if is_well else "bad"), now)
        row = 0 if is_well else row + 1
        expected: bool | None = None
        if is_well and not well:
            expected = True
        elif not is_well and (row == 3 if well else now >= 35.0):
            expected = False
        assert told is expected
        if expected is False:
            return
        well |= is_well
        assert table.is_healthy("run") == well
        assert table.due == now + (10.0 if well else 1.0)


def test_an_answer_that_is_not_asked_for_changes_nothing() -> None:
    table = HealthTable()
    table.begin("run", CHECK, 0.0)
    (look,) = table.take_due(table.due)
    assert table.answer(HealthSeen("run", look.number + 1), 1.0) is None
    assert table.answer(HealthSeen("other", look.number), 1.0) is None
    assert table.answer(HealthSeen("run", look.number), 1.0) is True
    assert table.answer(HealthSeen("run", look.number), 1.0) is None
    table.end("run")
    assert table.due == float("inf") and not list(table.take_due(1e9))


class Agent:
    """A node agent with one run, `web.0.1`, and what it says, acts and notes."""

    def __init__(self) -> None:
        self.agent = CentralNodeAgent("n", "n", {"cpu": 1})
        self.tell(Connected("master", 1), 0.0)
        self.tell(Welcome(1, 1e6, 1e5), 0.0)
        self.tell(Launch(1, JOBS, "web.0.1", (1,), Order(("x",), health=CHECK)), 0.0)
        self.tell(Started("web.0.1"), 0.0)

    def tell(self, event: object, now: float) -> list[object]:
        kinds = {Do: "act", Send: "message", Note: "fact"}
        effects = self.agent.handle(event, now)  # type: ignore[arg-type]
        return [getattr(effect, kinds[type(effect)]) for effect in effects]

    def look(self, error: str = "") -> list[object]:
        """The next look, with this outcome."""
        now = self.agent.due
        (look,) = [act for act in self.tell(Wake(), now) if isinstance(act, CheckHealth)]
        return self.tell(HealthSeen("web.0.1", look.number, error), now)


def test_readiness_is_told_once_and_told_again_when_joining() -> None:
    agent = Agent()
    assert agent.look("port 80: connection refused") == []
    assert agent.look() == [RunHealth("n", JOBS, "web.0.1", True, "", 1)]
    assert agent.look() == []
    told = agent.tell(Connected("master", 2), 100.0)
    (joined,) = [message for message in told if isinstance(message, AgentJoined)]
    assert joined.running == (Running(JOBS, "web.0.1", (1,), True),)


def test_an_unhealthy_run_is_told_noted_and_stopped_as_a_failure() -> None:
    agent, reason = Agent(), "unhealthy: bad"
    agent.look()
    assert agent.look("bad") == agent.look("bad") == []
    assert agent.look("bad") == [
        RunHealth("n", JOBS, "web.0.1", False, reason, 1),
        RunStopping("web.0.1", Status.FAILED, reason),
        Kill("web.0.1", reason),
    ]
    assert agent.agent.health.due == float("inf")
    ended = agent.tell(Exited("web.0.1", None, 15), 200.0)
    assert ended[-1].ended.status is Status.FAILED  # type: ignore[attr-defined]
    assert ended[-1].ended.reason == reason  # type: ignore[attr-defined]


def test_a_run_that_is_found_again_is_looked_at() -> None:
    agent = CentralNodeAgent("n", "n", {"cpu": 1})
    agent.find([Found(JOBS, "web.0.1", (1,), health=CHECK)], [], 0.0)
    assert agent.health.due < 1.0 and not agent.health.is_healthy("web.0.1")


def test_a_master_knows_who_is_ready_and_why_one_was_restarted() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec(kind="service", health=CHECK))
    assert cluster.launched["job.0.1"][1].order.health == CHECK
    cluster.start("job.0.1")
    assert cluster.job().tasks[0].healthy_s is None
    told = cluster.tell(RunHealth("n0", JOBS, "job.0.1", True), 5.0)
    assert told == [TaskHealth("job", 0, 1, "n0", True)] and cluster.job().tasks[0].healthy_s == 5.0
    assert cluster.tell(RunHealth("n0", JOBS, "job.0.1", True), 6.0) == []
    told = cluster.tell(RunHealth("n0", JOBS, "job.0.1", False, "unhealthy: x"), 7.0)
    assert facts(told, TaskHealth)[0].reason == "unhealthy: x"
    (ended,) = facts(cluster.end("job.0.1", 143, 8.0, reason="unhealthy: x"), TaskEnded)
    assert (ended.state, ended.reason, ended.failures) == ("waiting", "unhealthy: x", 1)
    assert cluster.job().tasks[0].healthy_s is None


def test_a_node_that_joins_again_says_who_is_ready() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec(kind="service", count=2, health=CHECK))
    runs = [Running(JOBS, run, cluster.launched[run][1].request) for run in ("job.0.1", "job.1.1")]
    healthy = Running(JOBS, "job.0.1", runs[0].request, healthy=True)
    cluster.join("n0", running=(healthy, runs[1]))
    assert [task.healthy_s is None for task in cluster.job().tasks] == [False, True]


def test_a_wake_is_not_lost_to_an_event_that_comes_before_it() -> None:
    """A back-off ends; before the wake for it comes, a run of another job tells of its health."""
    cluster = Cluster(nodes=1)
    cluster.submit(spec("other", kind="service", health=CHECK))
    cluster.start("other.0.1")
    cluster.submit(spec("job", kind="service"))
    cluster.start("job.0.1")
    cluster.end("job.0.1", code=1, now=10.0)
    assert cluster.master.due == 11.0
    cluster.master.handle(RunHealth("n0", JOBS, "other.0.1", True), 11.5)
    assert cluster.master.due <= 11.5
    cluster.tell(Wake(), 11.5)
    assert "job.0.2" in cluster.launched


def test_a_start_that_is_told_late_is_no_health() -> None:
    cluster = Cluster(nodes=1)
    cluster.submit(spec(kind="service", health=CHECK))
    assert facts(cluster.tell(RunHealth("n0", JOBS, "job.0.9", True)), TaskHealth) == []
    assert cluster.tell(RunStarted("n0", JOBS, "job.0.1")) != []


@pytest.mark.parametrize(
    ("health", "sentence"),
    [
        ({}, "health: expected one of command, tcp = true and http"),
        ({"tcp": True, "http": "/"}, "health: expected one of command, tcp = true and http"),
        ({"http": "ready", "port": 80}, "health.http: expected a path such as /ready, got 'ready'"),
        ({"http": "/a b", "port": 80}, "health.http: expected a path such as /ready"),
        ({"http": "/\r\nx", "port": 80}, "health.http: expected a path such as /ready"),
        ({"tcp": True}, "health.port: expected a port, because the job has none of its own"),
        ({"tcp": True, "port": 70000}, "health.port: expected a port from 1 to 65535, or 0"),
        ({"command": ["x"], "port": 80}, "health.port: expected only with tcp or http"),
        ({"command": [""]}, "health.command: expected a program and its arguments"),
        ({"command": ["x"], "interval_s": 0}, "health.interval_s: expected seconds from 0.1"),
        ({"command": ["x"], "timeout_s": 1e9}, "health.timeout_s: expected seconds from 0.1"),
        ({"command": ["x"], "failures": 0}, "health.failures: expected from 1 to 1000, got 0"),
        ({"command": ["x"], "start_period_s": -1}, "health.start_period_s: expected seconds"),
        ({"command": ["x"], "intervall_s": 1}, "health.intervall_s: unknown field; did you mean"),
        ({"command": "x"}, "health.command: expected a list, got text"),
    ],
)
def test_bad_checks(health: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        job_from_tables({"name": "a", "command": ["x"], "kind": "service", "health": health})
    assert sentence in str(error.value)


def test_only_services_have_checks() -> None:
    with pytest.raises(InputError, match='health: expected only for kind = "service"'):
        job_from_tables({"name": "a", "command": ["x"], "health": {"command": ["x"]}})
