"""Protocols and scenarios under crashes and partitions, in virtual time.

Two questions are answered here. `run_schedules` asks whether a *protocol* keeps its promises: many
small clusters, each with its own random schedule of faults and with checkers that look after every
step. `run_with_faults` asks whether a *scenario* comes through: its own nodes and jobs on the live
master and its node agents, and what must hold is counted once, when all is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from murmuration.base.random import generator
from murmuration.experiments.execution.workers import Workers
from murmuration.experiments.live import ask_for_times, check_size, master_options
from murmuration.runtime.master.settings import live_settings
from murmuration.schedulers.offers.messages import MASTER
from murmuration.simulation.messages import protocols
from murmuration.simulation.messages.central import CentralCluster
from murmuration.simulation.messages.central_replay import joins, submissions
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.inputs import make_jobs, make_nodes
from murmuration.workload.exports.rows import ENDLESS_S
from murmuration.workload.jobs import JobList

#: The figures of a run, as JSON shows them.
Figures = dict[str, Any]
DAY_S = 86_400.0
#: A run is advanced in so many pieces, so that its progress can be shown.
PIECES = 50
#: Agents have joined by then.
START_S = 5.0


def run_schedules(
    protocol: str,
    schedules: int,
    seed: int,
    update: Callable[[int], None] = lambda count: None,
    masters: int | None = None,
    workers: int = 1,
) -> Figures:
    """Run so many fault schedules of a protocol, from this seed on; with `masters`, of a whole
    control plane. A schedule that breaks a rule does not end the others: `failures` has its
    sentence, and `totals` counts those that passed."""
    passed: list[Figures] = []
    failures: list[str] = []
    run_one, seeds = partial(_run_schedule, protocol, masters), range(seed, seed + schedules)
    with Workers(min(workers, schedules)) as pool:
        for outcome in pool.map(run_one, seeds) if pool.count > 1 else map(run_one, seeds):
            if isinstance(outcome, str):
                failures.append(outcome)
            else:
                passed.append(outcome)
            update(len(passed) + len(failures))
    keys = [key for key in (passed[0] if passed else {}) if key != "seed"]
    return {
        "protocol": protocol,
        "masters": masters or 1,
        "schedules": schedules,
        "seed": seed,
        "failures": failures,
        "totals": {key: sum(figures[key] for figures in passed) for key in keys},
    }


def _run_schedule(protocol: str, masters: int | None, seed: int) -> Figures | str:
    """The figures of one schedule, or the sentence that says what it broke."""
    try:
        if masters is None:
            return protocols.load_schedule(protocol)(seed)
        from murmuration.experiments.control_plane.schedule import run_schedule

        return run_schedule(seed, masters=masters)
    except AssertionError as error:
        return str(error)


def run_with_faults(
    scenario: sc.Scenario, count: int, update: Callable[[float], None] = lambda share: None
) -> Figures:
    """A scenario through the live master and its node agents in virtual time, while so many faults
    happen.

    Masters and node agents crash and come back, and nodes are cut off, at random moments for up to
    twice the time after which a node agent ends its tasks. Faults end with the last submission;
    what must hold is counted at the end.
    """
    nodes = make_nodes(scenario.cluster)
    drawn = end_all(make_jobs(scenario, nodes.resources), scenario.days * DAY_S)
    jobs = submissions(ask_for_times(drawn, scenario))
    check_size(scenario, nodes, jobs)
    options = master_options(scenario, nodes, "")
    rng = generator(scenario.seed, "faults")
    cluster = CentralCluster(
        live_settings(options)[0],
        {join.node: join.total for join in joins(nodes)},
        scenario.seed,
        rng,
        attributes={join.node: join.attributes for join in joins(nodes)},
    )
    driver, timeout_s = cluster.driver, options.agent_timeout_s
    for at_s, event in jobs:
        driver.at(START_S + at_s, cluster.submit_surely, event.spec, event.duration_s)
    horizon = START_S + jobs[-1][0]
    inflicted = [_inflict(cluster, horizon, 2.0 * timeout_s, rng) for _ in range(count)]
    longest = max(event.duration_s or 0.0 for _, event in jobs)
    driver.at(horizon + 2.0 * timeout_s, driver.start, MASTER)
    for piece in range(1, PIECES + 1):
        driver.run((horizon + 2.0 * timeout_s) * piece / PIECES)
        update(piece / (PIECES + 1))
    run_until_quiet(cluster, len(jobs), timeout_s, horizon + 5.0 * timeout_s + 10.0 * longest)
    return _report_survival(scenario.name, cluster, len(jobs), Counter(inflicted))


def end_all(jobs: JobList, seconds: float) -> JobList:
    """The same jobs; those that run without end stop with the scenario, because all must have ended
    before anything can be said of them."""
    rest = np.maximum(seconds - jobs.submit_s, 1.0)
    endless = jobs.duration_s >= ENDLESS_S
    return replace(jobs, duration_s=np.where(endless, rest, jobs.duration_s))


def run_until_quiet(cluster: CentralCluster, jobs: int, timeout_s: float, until: float) -> None:
    """Advance until so many jobs have ended and nothing more can happen, or until a time.

    That the last job has ended is not enough: a launch that is still under way, or an agent that
    was cut off and believes its lease, could start or keep a process that nobody wants, which is
    what the run is to show. So the cluster goes on for three timeouts after it first looks quiet,
    longer than any message, write or lease lasts, and must still look so then. From there on only
    heartbeats would follow; the tasks of a scenario may last for days, and waiting ten times the
    longest of them for heartbeats would be most of the run.
    """
    driver = cluster.driver
    quiet_s = 0.0
    while driver.now < until and quiet_s < 3.0 * timeout_s:
        driver.run(min(driver.now + timeout_s, until))
        quiet_s = quiet_s + timeout_s if cluster.is_quiet(jobs) else 0.0


def _inflict(
    cluster: CentralCluster, horizon: float, longest_s: float, rng: np.random.Generator
) -> str:
    """One fault, drawn at random."""
    driver, names = cluster.driver, list(cluster.hosts)
    node = names[int(rng.random() * len(names))]
    at, lasts = START_S + float(rng.random()) * (horizon - START_S), float(rng.random()) * longest_s
    kinds = ("master crashed", "node agent crashed", "node cut off")
    kind = kinds[int(rng.random() * len(kinds))]
    if kind == "node cut off":
        driver.at(at, cluster.connections.isolate, node, True)
        driver.at(at + lasts, cluster.connections.isolate, node, False)
    else:
        driver.at(at, driver.crash, MASTER if kind == "master crashed" else node, lasts)
    return kind


def _report_survival(
    name: str, cluster: CentralCluster, jobs: int, faults: Counter[str]
) -> Figures:
    assert cluster.master is not None
    ended = Counter(job.status or "open" for job in cluster.master.jobs.jobs.values())
    tasks = {span.run.rpartition(".")[0] for span in cluster.spans}
    return {
        "scenario": name,
        "faults": dict(faults),
        "jobs_submitted": jobs,
        "jobs": dict(ended),
        "tasks_run": len(tasks),
        "runs_repeated": len(cluster.spans) - len(tasks),
        "tasks_run_twice": len(cluster.overlaps),
        "processes_left": sum(len(host.processes) for host in cluster.hosts.values()),
    }


def has_survived(outcome: Figures) -> bool:
    """Whether every job finished, no task ran twice at a time and nothing is left running."""
    finished = outcome["jobs"] == {"finished": outcome["jobs_submitted"]}
    return finished and not outcome["tasks_run_twice"] and not outcome["processes_left"]
