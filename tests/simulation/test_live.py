"""The live cluster in virtual time: whatever fails, no task runs twice, nothing is lost, and all
ends well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from murmuration.base.random import generator
from murmuration.base.resources import Resources
from murmuration.placement.plain import FirstFit
from murmuration.placement.registry import resolve
from murmuration.placement.view import JobView, View
from murmuration.schedulers.agent import Note, Wake
from murmuration.schedulers.central.jobs import CentralTaskState
from murmuration.schedulers.central.master import CentralMaster, CentralSettings
from murmuration.schedulers.central.messages import Recover, SubmitJob, TaskPlaced
from murmuration.schedulers.central.replaying import replay
from murmuration.schedulers.offers.messages import MASTER
from murmuration.simulation.engine import run as engine
from murmuration.simulation.messages.central import CentralCluster
from murmuration.simulation.messages.central_replay import joins, rehearse, submissions
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.inputs import make_jobs, make_nodes
from murmuration.workload.job_spec import JobSpec

SETTINGS = CentralSettings(Resources(), resolve("first-fit"), agent_timeout_s=10.0, margin_s=2.0)
NODES = {f"n{k}": {"cpu": 2_000_000, "memory": 10**9} for k in range(3)}
BATCH = JobSpec(name="batch", command=["x"], count=12, resources={"cpu": 0.5})
WEB = JobSpec(name="web", kind="service", command=["x"], count=3, resources={"cpu": 0.2})
HEALED_S, END_S = 80.0, 170.0

faults = st.lists(
    st.tuples(
        st.sampled_from(["master", "agent", "network", "pause"]),
        st.integers(0, 2),
        st.floats(0.5, 60.0),
        st.floats(0.05, 20.0),
    ),
    max_size=10,
)


def cluster(seed: int, settings: CentralSettings = SETTINGS, disk: Any = None) -> CentralCluster:
    made = CentralCluster(settings, NODES, 1, generator(seed, "network"), disk=disk)
    for job, duration_s in ((BATCH, 5.0), (WEB, None)):
        made.driver.at(1.0, made.submit_surely, job, duration_s)
    return made


def inflict(made: CentralCluster, what: str, node: int, at: float, lasts: float) -> None:
    driver, name = made.driver, list(made.hosts)[node]
    if what == "network":
        driver.at(at, made.connections.isolate, name, True)
        driver.at(at + lasts, made.connections.isolate, name, False)
    elif what == "pause":
        driver.at(at, driver.pause, name, lasts)
    else:
        driver.at(at, driver.crash, MASTER if what == "master" else name, lasts)


def check_all_well(made: CentralCluster) -> None:
    assert made.overlaps == []
    assert made.master is not None
    made.master.resource_manager.check()
    jobs = made.master.jobs.jobs
    assert jobs["batch"].status == "finished", "nothing was lost"
    assert jobs["web"].counts() == {CentralTaskState.RUNNING: 3}
    assert sum(len(host.processes) for host in made.hosts.values()) == 3, "no stray process"
    assert made.disk.load().recover(9, 1).jobs[0].spec == BATCH


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), faults)
@example(0, [("pause", 0, 1.0, 12.0)])
def test_no_task_runs_twice_and_everything_ends_well(seed: int, inflicted: list[Any]) -> None:
    made = cluster(seed)
    for fault in inflicted:
        inflict(made, *fault)
    made.driver.run(END_S)
    check_all_well(made)


def test_the_margin_is_what_keeps_tasks_from_running_twice() -> None:
    """The check above can fail: a master that waits less long than its agents runs tasks twice."""
    hasty = CentralSettings(Resources(), resolve("first-fit"), agent_timeout_s=10.0, margin_s=-6.0)
    overlaps = 0
    for seed in range(10):
        made = cluster(seed, hasty)
        inflict(made, "network", seed % 3, 8.0, 20.0)
        made.driver.run(40.0)
        overlaps += len(made.overlaps)
    assert overlaps


def test_without_faults_every_task_runs_once() -> None:
    made = cluster(1)
    made.driver.run(60.0)
    assert sorted(span.run for span in made.spans) == sorted(f"batch.{k}.1" for k in range(12))
    assert all(span.end_s - span.start_s == pytest.approx(5.0) for span in made.spans)


# The same decisions.

SCENARIO = """
name = "small"
seed = 5
days = 0.05
[cluster]
nodes = 40
cpu = 4
memory = "8G"
[workload.batch]
arrivals_per_s = 0.05
tasks_per_job = 4
task_duration_s = 100
task_cpu = 1
task_memory = "1G"
[scheduler]
kind = "monolithic"
decision.default = { job_time_s = 0.0, task_time_s = 0.0 }
"""

decided: list[tuple[str, str]] = []


class Recorder(FirstFit):
    """First fit that writes down what it chose."""

    def decide(self, view: View, job: JobView, rng: np.random.Generator) -> Any:
        chosen = super().decide(view, job, rng)
        decided.extend((job.id, view.names[row]) for row in chosen if row >= 0)
        return chosen


def test_the_live_master_decides_as_the_simulator_does() -> None:
    """Same seed, nodes and jobs, decisions that take no time, room for all: the simulator and the
    live master agree."""
    import tomllib

    tables = tomllib.loads(SCENARIO)
    scenario = sc.check(tables)
    nodes = make_nodes(scenario.cluster)
    jobs = make_jobs(scenario, nodes.resources)
    decided.clear()
    tables["scheduler"]["kind"] = f"{Recorder.__module__}:Recorder"
    run = engine.simulate(tables)
    live = rehearse(SETTINGS, scenario.seed, nodes, submissions(jobs))
    assert len(decided) > 400 and not run.setup.infeasible
    assert [(p.job, p.node) for p in live.placed][: len(decided)] == decided


def test_a_log_replays_and_a_changed_one_does_not() -> None:
    master = CentralMaster(SETTINGS, 1)
    events = [Recover(0, 1), *joins(make_nodes(sc.ClusterSettings(nodes=3, cpu=4, memory="8G")))]
    log: list[tuple[int, float, str, Any]] = [(0, 0.0, "options", None)]

    for at, event in enumerate([*events, SubmitJob(BATCH), Wake()]):
        log.append((len(log), float(at), "event", event))
        facts = [f.fact for f in master.handle(event, float(at)) if isinstance(f, Note)]
        log += [(len(log) + k, float(at), "fact", fact) for k, fact in enumerate(facts)]
    good = replay(log, lambda options: CentralMaster(SETTINGS, 1))
    assert good.agrees and good.decisions == 12
    spot = next(k for k, entry in enumerate(log) if isinstance(entry[3], TaskPlaced))
    placed = log[spot][3]
    wrong = TaskPlaced(placed.job, placed.index, placed.run, "elsewhere")
    bad = replay(
        [*log[:spot], (spot, 0.0, "fact", wrong), *log[spot + 1 :]],
        lambda options: CentralMaster(SETTINGS, 1),
    )
    assert not bad.agrees and bad.difference == (spot, wrong, placed)
    other = replay(
        log, lambda options: CentralMaster(CentralSettings(Resources(), resolve("worst-fit")), 1)
    )
    assert not other.agrees, "another policy decides otherwise"
