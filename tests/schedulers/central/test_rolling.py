"""Rolling updates: task by task, never more missing than allowed, and back again if the new version
does not do well."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.schedulers.central.clusters import Cluster, facts, sent, spec
from tests.schedulers.central.test_scaling import Crashing

from murmuration.base.errors import InputError
from murmuration.schedulers.agent import Disconnected, Wake
from murmuration.schedulers.central.jobs import CentralTaskState
from murmuration.schedulers.central.messages import (
    JOBS,
    JobChanged,
    KillJob,
    Launch,
    RollBackJob,
    RunHealth,
    ScaleJob,
    Stop,
)
from murmuration.schedulers.offers.messages import Status
from murmuration.workload.job_spec import job_from_tables
from murmuration.workload.service_spec import HealthCheck, UpdatePolicy

RUNNING = CentralTaskState.RUNNING
QUICK = UpdatePolicy(max_unavailable=1, min_healthy_s=5.0, deadline_s=60.0)


def service(count: int = 3, colour: str = "blue", **fields: Any) -> Any:
    fields.setdefault("update", QUICK)
    return spec(count=count, kind="service", environment={"COLOUR": colour}, **fields)


def grown(count: int = 3, **fields: Any) -> Cluster:
    cluster = Cluster(nodes=8)
    cluster.submit(service(count, **fields))
    for k in range(count):
        cluster.start(f"job.{k}.1")
    return cluster


def stopped(told: list[Any]) -> list[str]:
    return [stop.run for stop in sent(told, Stop)]


def launched(told: list[Any]) -> list[tuple[str, str]]:
    orders = sent(told, Launch)
    return [(launch.run, launch.order.environment["COLOUR"]) for launch in orders]


def give_way(cluster: Cluster, run: str, now: float) -> list[Any]:
    return cluster.end(run, 143, now, status=Status.KILLED, reason="replaced")


def test_a_changed_service_is_replaced_task_by_task() -> None:
    cluster = grown()
    told = cluster.submit(service(colour="red"), 100.0)
    assert stopped(told) == ["job.0.1"]
    assert facts(told, JobChanged)[0].rollout.phase == "updating"
    for k in range(3):
        told = give_way(cluster, f"job.{k}.1", 110.0 + 10 * k)
        assert launched(told) == [(f"job.{k}.2", "red")] and not stopped(told)
        # It runs, but not for long enough.
        assert not stopped(cluster.start(f"job.{k}.2"))
        assert cluster.master.due == 115.0 + 10 * k
        told = cluster.tell(Wake(), 115.0 + 10 * k)
        assert stopped(told) == ([f"job.{k + 1}.1"] if k < 2 else [])
    (over,) = facts(told, JobChanged)
    assert over.rollout.phase == "" and over.rollout.version == 1
    assert cluster.job().counts() == {RUNNING: 3} and not cluster.master.jobs.rolling


def test_the_same_again_changes_nothing_and_outside_fields_replace_nothing() -> None:
    cluster = grown()
    assert cluster.submit(service(), 10.0) == []
    told = cluster.submit(service(count=4, priority=7), 20.0)
    assert not stopped(told) and launched(told) == [("job.3.1", "blue")]
    assert cluster.job().spec.priority == 7 and not cluster.job().rollout.phase


def test_more_may_be_missing_if_that_is_allowed() -> None:
    cluster = grown(5, update=UpdatePolicy(max_unavailable=2, min_healthy_s=1.0))
    update = UpdatePolicy(max_unavailable=2, min_healthy_s=1.0)
    assert len(stopped(cluster.submit(service(5, "red", update=update), 10.0))) == 2


def test_who_does_not_run_makes_no_other_give_way() -> None:
    """One task is missing already: none that does its work is stopped beside it."""
    cluster = grown()
    cluster.end("job.2.1", code=1, now=50.0)
    told = cluster.submit(service(colour="red"), 50.1)
    assert not stopped(told) and launched(told) == [("job.2.2", "red")]


def test_what_runs_on_a_node_that_is_cut_off_is_not_counted_on() -> None:
    cluster = grown(anti_affinity=["job"])
    lost = cluster.nodes_of()[2]
    cluster.tell(Disconnected(lost, cluster.master.nodes[lost].session), 50.0)
    assert not stopped(cluster.submit(service(colour="red", anti_affinity=["job"]), 60.0))


def test_tasks_of_the_old_version_need_no_check_that_only_the_new_one_has() -> None:
    cluster = grown()
    check = HealthCheck(tcp=True, port=80)
    assert stopped(cluster.submit(service(health=check), 50.0)) == ["job.0.1"]


def test_a_version_whose_first_run_fails_is_rolled_back_at_once() -> None:
    cluster = grown()
    cluster.submit(service(colour="red"), 100.0)
    give_way(cluster, "job.0.1", 101.0)
    cluster.start("job.0.2")
    told = cluster.end("job.0.2", code=3, now=103.0)
    (back,) = facts(told, JobChanged)
    assert back.rollout.phase == "rolling back"
    assert back.rollout.reason == "job.0: exit code 3"
    # Nobody waits for the back-off of a failure that the old version did not have.
    assert launched(told) == [("job.0.3", "blue")] and not stopped(told)
    cluster.start("job.0.3")
    told = cluster.tell(Wake(), 108.0)
    assert facts(told, JobChanged)[0].rollout.phase == ""
    assert [task.run for task in cluster.job().tasks] == [3, 1, 1]


def test_a_version_that_never_becomes_healthy_is_rolled_back() -> None:
    check = HealthCheck(tcp=True, port=80)
    cluster = grown(health=check)
    for k in range(3):
        cluster.tell(RunHealth("n0", JOBS, f"job.{k}.1", True), 1.0)
        cluster.tell(RunHealth(cluster.launched[f"job.{k}.1"][0], JOBS, f"job.{k}.1", True), 1.0)
    cluster.submit(service(colour="red", health=check), 100.0)
    give_way(cluster, "job.0.1", 101.0)
    cluster.start("job.0.2")
    assert not stopped(cluster.tell(Wake(), 150.0))
    told = cluster.tell(Wake(), 160.0)
    assert facts(told, JobChanged)[0].rollout.reason == "no task became available within 60 s"
    assert stopped(told) == ["job.0.2"]


def test_without_rollback_it_stays_and_stops_no_more() -> None:
    policy = UpdatePolicy(min_healthy_s=5.0, deadline_s=60.0, rollback=False)
    cluster = grown(update=policy)
    cluster.submit(service(colour="red", update=policy), 100.0)
    give_way(cluster, "job.0.1", 101.0)
    cluster.start("job.0.2")
    told = cluster.end("job.0.2", code=3, now=103.0)
    assert not facts(told, JobChanged) and not stopped(told)
    assert cluster.job().rollout.phase == "updating"


def test_lost_runs_are_not_the_version_s_fault() -> None:
    cluster = grown()
    cluster.submit(service(colour="red"), 100.0)
    give_way(cluster, "job.0.1", 101.0)
    cluster.start("job.0.2")
    told = cluster.end("job.0.2", code=0, now=102.0, status=Status.LOST)
    assert not facts(told, JobChanged) and launched(told) == [("job.0.3", "red")]


def test_a_client_undoes_a_change_and_undoes_that() -> None:
    cluster = grown(1)
    assert cluster.tell(RollBackJob("job"), 5.0) == []
    now, run = 10.0, 1
    cluster.submit(service(1, "red"), now)
    for colour in ("red", "blue", "red"):
        (new,) = launched(give_way(cluster, f"job.0.{run}", now + 1))
        run += 1
        assert new == (f"job.0.{run}", colour)
        cluster.start(new[0])
        cluster.tell(Wake(), now + 10)
        assert not cluster.job().rollout.phase
        now += 20
        assert stopped(cluster.tell(RollBackJob("job"), now)) == [new[0]]


def test_an_update_on_top_of_one_leads_back_to_where_that_began() -> None:
    cluster = grown(2)
    cluster.submit(service(2, "red"), 100.0)
    give_way(cluster, "job.0.1", 101.0)
    cluster.start("job.0.2")
    assert stopped(cluster.submit(service(2, "green"), 102.0)) == ["job.0.2"]
    told = cluster.tell(RollBackJob("job"), 103.0)
    assert facts(told, JobChanged)[0].spec.environment["COLOUR"] == "blue"
    assert launched(give_way(cluster, "job.0.2", 104.0)) == [("job.0.3", "blue")]


def test_scaling_in_the_middle_counts_for_both_versions() -> None:
    cluster = grown(2)
    cluster.submit(service(2, "red"), 100.0)
    assert ("job.3.1", "red") in launched(cluster.tell(ScaleJob("job", 4), 100.5))
    cluster.tell(RollBackJob("job"), 101.0)
    assert cluster.job().spec.count == 4 and len(cluster.job().tasks) == 4


def test_a_killed_service_is_updated_no_more() -> None:
    cluster = grown()
    cluster.submit(service(colour="red"), 100.0)
    cluster.tell(KillJob("job"), 101.0)
    assert not cluster.master.jobs.rolling
    assert cluster.submit(service(colour="green"), 102.0) == []


def test_only_services_that_are_no_gangs_change() -> None:
    cluster = Cluster(nodes=2)
    cluster.submit(spec(count=1))
    assert not cluster.job().can_become(spec(count=1, kind="service"))
    cluster.submit(spec("gang", kind="service", gang=True, count=1))
    assert not cluster.job("gang").can_become(spec("gang", kind="service", count=1))


def test_ports_of_the_version_that_goes_are_free_again() -> None:
    cluster = grown(1, ports=[4000])
    node = cluster.nodes_of()[0]
    cluster.submit(service(1, "red", ports=[5000]), 100.0)
    assert +cluster.master.jobs.ports[node] == {4000: 1}
    give_way(cluster, "job.0.1", 101.0)
    held = {port for ports in cluster.master.jobs.ports.values() for port in +ports}
    assert held == {5000}


class Watched(Crashing):
    """Keeps its own account of what is at work, and checks it whenever an update stops something:
    no more may be missing than is allowed, by what really runs and not by what a master believes.
    """

    def __init__(self, allowed: int) -> None:
        self.allowed, self.begun, self.told_off = allowed, set[str](), set[str]()
        super().__init__(6)

    @property
    def at_work(self) -> set[str]:
        return (self.up & self.begun) - self.told_off

    def tell(self, event: Any, now: float | None = None) -> list[Any]:
        told = super().tell(event, now)
        before = self.at_work
        self.told_off |= set(stopped(told))
        if before - self.at_work:
            assert len(self.at_work) >= 4 - self.allowed, f"{sorted(self.at_work)} are left"
        return told

    def start(self, run: str) -> list[Any]:
        self.begun.add(run)
        return super().start(run)

    def is_starting(self, run: str) -> bool:
        return run not in self.begun

    def leave(self, run: str, code: int, status: Status) -> None:
        self.up.discard(run)
        self.end(run, code, status=status)


@pytest.mark.parametrize("seed", range(60))
def test_never_fewer_than_allowed_whatever_happens(seed: int) -> None:
    """Updates, good and bad ones, roll backs, failures and masters that crash, at random. In the
    end everything runs one version, and it is the one on disk."""
    rng = random.Random(seed)
    cluster, good = Watched(allowed=rng.randint(1, 3)), True
    policy = UpdatePolicy(cluster.allowed, min_healthy_s=1.0, deadline_s=30.0)
    cluster.submit(service(4, "v0", update=policy))
    for step in range(60):
        cluster.now += rng.uniform(0.1, 3.0)
        match rng.randrange(8):
            case 0:
                good = rng.random() < 0.6
                cluster.submit(service(4, f"v{step}", update=policy))
            case 1:
                cluster.crash()
            case 2 if rng.random() < 0.3:
                cluster.tell(RollBackJob("job"))
            case _:
                play(cluster, rng, good)
    for _ in range(200):
        cluster.now += 2.0
        play(cluster, rng, True)
    job = cluster.job()
    assert job.counts() == {RUNNING: 4} and not job.rollout.phase
    colours = {cluster.launched[run][1].order.environment["COLOUR"] for run in cluster.up}
    assert colours == {job.spec.environment["COLOUR"]}
    (stored,) = cluster.disk.recover(0, 1).jobs
    assert (stored.spec, stored.rollout) == (job.spec, job.rollout)
    assert [run.version for run in stored.runs] == [task.version for task in job.tasks]


def play(cluster: Watched, rng: random.Random, good: bool) -> None:
    """Some runs start, end because they were told to, or fail, if the version is a bad one."""
    for run in sorted(cluster.up):
        state = cluster.master.jobs.runs[run][1].state
        if state is CentralTaskState.STARTING and rng.random() < 0.7:
            cluster.start(run)
            if not good and rng.random() < 0.5:
                cluster.leave(run, 1, Status.FAILED)
        elif state is CentralTaskState.STOPPING and rng.random() < 0.7:
            cluster.leave(run, 143, Status.KILLED)
    cluster.tell(Wake())


def test_a_restart_of_the_master_stops_nobody_it_has_not_heard_of() -> None:
    """In the middle of an update a master starts again: until the nodes are back it counts on
    nothing, and stops nothing."""
    cluster = Watched(allowed=1)
    cluster.submit(service(4, "blue"))
    for k in range(4):
        cluster.start(f"job.{k}.1")
    cluster.now = 100.0
    cluster.submit(service(4, "red"))
    cluster.leave("job.0.1", 143, Status.KILLED)
    cluster.start("job.0.2")
    cluster.now = 103.0
    cluster.crash()
    assert cluster.told_off == {"job.0.1"} and cluster.job().rollout.phase == "updating"
    cluster.tell(Wake(), 105.0)
    assert cluster.told_off == {"job.0.1", "job.1.1"}


@pytest.mark.parametrize(
    ("update", "sentence"),
    [
        ({"max_unavailable": 0}, "update.max_unavailable: expected a number from 1 to 100000"),
        ({"min_healthy_s": -1}, "update.min_healthy_s: expected seconds from 0"),
        ({"deadline_s": 0.5}, "update.deadline_s: expected seconds from 1"),
        ({"min_healthy_s": 400}, "update.deadline_s: expected more than min_healthy_s"),
        ({"rolback": True}, "update.rolback: unknown field; did you mean 'rollback'?"),
        ({"rollback": "yes"}, "update.rollback: expected true or false, got text"),
    ],
)
def test_bad_policies(update: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        job_from_tables({"name": "a", "command": ["x"], "kind": "service", "update": update})
    assert sentence in str(error.value)
