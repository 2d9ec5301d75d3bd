"""Tokens and quotas as the master decides on them: what is good, what waits, what never can."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.placement.registry import resolve
from murmuration.schedulers.agent import Do, Note, Wake
from murmuration.schedulers.central.access import AccessTable, limits_of
from murmuration.schedulers.central.explain import why
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.central.memory import MasterMemory
from murmuration.schedulers.central.messages import (
    JOBS,
    AgentJoined,
    Ended,
    EndSessions,
    IssueToken,
    QuotaSet,
    RevokeToken,
    RunEnded,
    RunStarted,
    SetQuota,
    SubmitJob,
    TokenIssued,
    TokenRevoked,
)
from murmuration.schedulers.offers.messages import Status
from murmuration.schedulers.queues.discipline import find_discipline
from murmuration.workload.job_spec import job_from_tables

CPU, GIB = 1_000_000, 2**30


def test_a_token_is_good_until_its_time_is_over_or_it_is_revoked() -> None:
    access = AccessTable()
    order = IssueToken("laptop", "viewer", "anna", "d1", 100.0)
    assert access.handle(order, 1000.0) == [
        Note(TokenIssued("laptop", "viewer", "anna", "d1", 100.0)),
        Do(EndSessions("laptop")),
    ]
    token = access.find("d1", 1099.9)
    assert token is not None and (token.user, token.role) == ("anna", "viewer")
    assert access.find("d1", 1100.0) is None and access.find("d2", 1000.0) is None
    assert access.handle(RevokeToken("laptop"), 1001.0)[0] == Note(TokenRevoked("laptop"))
    assert access.find("d1", 1001.0) is None
    assert access.handle(RevokeToken("laptop"), 1001.0) == []


def test_a_token_of_the_same_name_ends_the_one_before() -> None:
    access = AccessTable()
    access.handle(IssueToken("a", "viewer", "anna", "old"), 0.0)
    access.handle(IssueToken("a", "operator", "anna", "new"), 1.0)
    assert access.find("old", 2.0) is None
    token = access.find("new", 2.0)
    assert token is not None and token.role == "operator"


def test_what_the_facts_fold_to_is_what_a_master_starts_from() -> None:
    """The memory of a crash knows the same tokens and quotas as the table that did not crash."""
    access, memory = AccessTable(), MasterMemory()
    events = [
        IssueToken("a", "viewer", "anna", "d1", 50.0),
        IssueToken("b", "operator", "bob", "d2"),
        SetQuota("anna", {"jobs": 2, "cpu": CPU}),
        SetQuota("anna", {"memory": GIB}),
        SetQuota("bob", {"jobs": 1}),
        SetQuota("bob", {}),
        IssueToken("c", "viewer", "cleo", "d3"),
        RevokeToken("c"),
    ]
    for at, event in enumerate(events):
        for effect in access.handle(event, float(at)):
            if isinstance(effect, Note):
                memory.apply(effect.fact, float(at))
    after = AccessTable()
    after.recover(memory.recover(1, 1))
    assert (after.tokens, after.quotas) == (access.tokens, access.quotas)
    assert after.quotas == {"anna": {"memory": GIB}} and set(after.tokens) == {"a", "b"}
    for digest in ("d1", "d2", "d3"):
        assert after.find(digest, 30.0) == access.find(digest, 30.0)


def make_master(**more: Any) -> CentralMaster:
    placement = resolve("first-fit")
    return CentralMaster(CentralSettings(Resources(), placement, **more), 1)


class Story:
    """A master with one large node, driven step by step."""

    def __init__(self) -> None:
        self.master, self.now = make_master(), 0.0
        self.tell(AgentJoined("n1", "id", 1, {"cpu": 100 * CPU, "memory": 100 * GIB}))

    def tell(self, event: Any) -> list[Any]:
        self.now += 1.0
        effects = self.master.handle(event, self.now)
        while self.master.due <= self.now:
            effects += self.master.handle(Wake(), self.now)
        return [effect.fact for effect in effects if isinstance(effect, Note)]

    def submit(self, name: str, user: str, cpu: float, count: int = 1, **more: Any) -> None:
        resources = {"cpu": cpu, "memory": 0}
        tables = {"name": name, "command": ["true"], "user": user, "count": count}
        self.tell(SubmitJob(job_from_tables({**tables, "resources": resources, **more})))

    def running(self, *users: str) -> list[str]:
        return sorted(
            run for run, (job, _) in self.master.jobs.runs.items() if job.spec.user in users
        )

    def end(self, run: str) -> None:
        self.tell(RunEnded("n1", Ended(JOBS, run, Status.FINISHED, 0), 1))

    def reason(self, job: str) -> tuple[str, str]:
        answer = why(self.master, self.master.jobs.jobs[job], self.now)
        return answer.tier, answer.reason


def test_what_is_over_a_quota_waits_holds_up_nobody_and_says_so() -> None:
    story = Story()
    assert story.tell(SetQuota("anna", {"cpu": 2 * CPU})) == [QuotaSet("anna", {"cpu": 2 * CPU})]
    story.submit("many", "anna", 1.0, count=3)
    story.submit("other", "bob", 1.0, count=3)
    assert story.running("anna") == ["many.0.1", "many.1.1"]
    assert len(story.running("bob")) == 3
    tier, reason = story.reason("many")
    assert tier == "quota"
    assert reason == "the quota of anna is 2 CPU, and 2 CPU are in use"
    story.end("many.0.1")
    assert story.running("anna") == ["many.1.1", "many.2.1"]


def test_a_quota_of_jobs_counts_those_that_run() -> None:
    story = Story()
    story.tell(SetQuota("anna", {"jobs": 1}))
    for name in ("first", "second"):
        story.submit(name, "anna", 1.0, count=2)
    assert story.running("anna") == ["first.0.1", "first.1.1"]
    assert story.reason("second") == ("quota", "the quota of anna is 1 jobs at once, and 1 run")
    story.end("first.0.1")
    assert story.running("anna") == ["first.1.1"], "the job still runs"
    story.end("first.1.1")
    assert story.running("anna") == ["second.0.1", "second.1.1"]


def test_a_gang_starts_whole_within_its_quota_or_waits() -> None:
    story = Story()
    story.tell(SetQuota("anna", {"cpu": 3 * CPU}))
    story.submit("alone", "anna", 1.0)
    story.submit("gang", "anna", 1.0, count=3, gang=True)
    assert story.running("anna") == ["alone.0.1"]
    assert story.reason("gang")[0] == "quota"
    story.end("alone.0.1")
    assert len(story.running("anna")) == 3


def test_a_quota_that_is_raised_or_removed_wakes_what_waits() -> None:
    story = Story()
    story.tell(SetQuota("anna", {"jobs": 0}))
    story.submit("waits", "anna", 1.0)
    assert story.running("anna") == []
    story.tell(SetQuota("anna", {}))
    assert story.running("anna") == ["waits.0.1"]
    assert story.tell(SetQuota("anna", {})) == [], "nothing changed"


def test_jobs_that_look_alike_but_are_others_are_not_passed_over() -> None:
    """A job that finds no room lets others of its size pass without a look; a quota must not."""
    story = Story()
    story.tell(SetQuota("anna", {"cpu": 0}))
    story.submit("hers", "anna", 1.0)
    story.submit("his", "bob", 1.0)
    assert story.running("anna", "bob") == ["his.0.1"]


def test_what_can_never_start_is_known() -> None:
    story = Story()
    resources, access = Resources(), story.master.access
    story.tell(SetQuota("anna", {"cpu": 2 * CPU, "memory": GIB, "priority": 5}))

    def never(**fields: Any) -> str:
        spec = job_from_tables({"name": "a", "command": ["true"], "user": "anna", **fields})
        request = story.master.check(spec)[0]
        return access.explain_never(resources, spec, request, spec.gang)

    assert never(resources={"cpu": 2, "memory": "1Gi"}, count=50, priority=5) == ""
    assert never(resources={"cpu": 2.5, "memory": 0}) == (
        "a task asks for 2.5 CPU, and the quota of anna is 2 CPU"
    )
    assert never(resources={"cpu": 1, "memory": 0}, count=3, gang=True) == (
        "its tasks together ask for 3 CPU, and the quota of anna is 2 CPU"
    )
    assert never(priority=6) == "the quota of anna allows a priority of 5 at most"
    story.tell(SetQuota("anna", {"jobs": 0}))
    assert never() == "the quota of anna allows no jobs"
    assert never(user="bob", resources={"cpu": 50, "memory": 0}) == ""


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_user_ever_has_more_than_its_quota(data: st.DataObject) -> None:
    """Whatever is submitted, ended and set: what runs is within the quotas, and a user whose next
    task would fit in quota and node does not wait."""
    story = Story()
    limits = {user: data.draw(st.integers(0, 4), f"CPUs of {user}") for user in ("anna", "bob")}
    for user, cpu in limits.items():
        story.tell(SetQuota(user, {"cpu": cpu * CPU}))
    for k in range(data.draw(st.integers(1, 6), "steps")):
        user = data.draw(st.sampled_from(("anna", "bob", "free")), "who")
        story.submit(
            f"j{k}", user, data.draw(st.integers(1, 2), "cpu"), data.draw(st.integers(1, 3))
        )
        runs = story.running("anna", "bob", "free")
        is_end: bool = data.draw(st.booleans(), "end one")
        if runs and is_end:
            story.end(data.draw(st.sampled_from(runs)))
        held: dict[str, int] = {}
        for job, _ in story.master.jobs.runs.values():
            held[job.spec.user] = held.get(job.spec.user, 0) + job.request[0] // CPU
        for who, most in limits.items():
            assert held.get(who, 0) <= most
            for job in story.master.jobs.queue.values():
                if job.spec.user == who:
                    assert held.get(who, 0) + job.request[0] // CPU > most, "it could run"
        assert not [job for job in story.master.jobs.queue.values() if job.spec.user == "free"]


def test_limits_are_read_as_people_write_them() -> None:
    given: dict[str, str | int | float] = {
        "jobs": "3",
        "cpu": "1.5",
        "memory": "2Gi",
        "priority": 7,
    }
    assert limits_of(Resources(), given) == {
        "jobs": 3,
        "cpu": 1_500_000,
        "memory": 2 * GIB,
        "priority": 7,
    }
    for wrong in ({"gpu": "1"}, {"jobs": "1.5"}, {"jobs": "-1"}, {"memory": "2Xi"}, {"jobs": "²"}):
        with pytest.raises(InputError):
            limits_of(Resources(), wrong)


def test_a_queue_discipline_passes_over_who_is_over_its_quota() -> None:
    story = Story()
    story.master = CentralMaster(replace(make_master().settings, queue=find_discipline("fcfs")), 1)
    story.tell(AgentJoined("n1", "id", 1, {"cpu": 100 * CPU, "memory": 100 * GIB}))
    story.tell(SetQuota("anna", {"cpu": 2 * CPU}))
    story.submit("too-many", "anna", 1.0, count=3)
    story.submit("next", "bob", 1.0)
    assert story.running("anna", "bob") == ["next.0.1"]
    assert story.reason("too-many")[0] == "quota"


def test_a_service_that_is_changed_to_ask_for_less_counts_for_what_its_runs_hold() -> None:
    """Otherwise an update that never gets on would be room without end."""
    story = Story()
    story.tell(SetQuota("anna", {"cpu": 4 * CPU}))
    update = {"min_healthy_s": 3000.0, "deadline_s": 3500.0}
    service: dict[str, Any] = {"kind": "service", "count": 4, "update": update}
    held = story.master.resource_manager.ledger.tasks
    for name in ("first", "second", "third"):
        story.submit(name, "anna", 1.0, **service)
        for run in story.running("anna"):
            story.tell(RunStarted("n1", JOBS, run, 1))
        story.submit(name, "anna", 0.01, **service)
        assert sum(each.task.request[0] for each in held.values()) <= 4 * CPU
    assert story.reason("second")[0] == "quota"
    quotas = story.master.access.start_round(
        Resources(), story.master.jobs, story.master.resource_manager.ledger
    )
    assert quotas.use("anna")["cpu"] == sum(each.task.request[0] for each in held.values())
