"""The figures of a summary, worked out by hand for stories short enough to do so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.simulation.stories import Ended, Story

from murmuration.base.random import generator
from murmuration.placement.plain import FirstFit
from murmuration.placement.view import JobView, View
from murmuration.simulation.engine import run as engine
from murmuration.simulation.engine.build import PREFILL, prefill_nodes
from murmuration.simulation.results import summary as results
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.inputs import make_nodes


def conflict(folder: Path) -> Ended:
    """A node of four CPUs, two schedulers that both want three of them; the slower one finds them
    taken.

    a decides from 0 to 1 s and runs three tasks until 11 s. b decides from 0 to 3 s, gets one of
    three tasks in (until 13 s), finds nothing free at 3, 6 and 9 s, and places the other two from
    12 to 15 s (until 25 s).
    """
    story = Story(folder, nodes=1, cpu=4, seconds=100)
    story.job("a", "a", tasks=3, lasts=10.0)
    story.job("b", "b", tasks=3, lasts=10.0)
    times = {
        "a": {"job_time_s": 1.0, "task_time_s": 0.0},
        "b": {"job_time_s": 3.0, "task_time_s": 0.0},
    }
    return story.run("shared-state", decision=times)


def test_each_figure_of_a_workload(tmp_path: Path) -> None:
    ended = conflict(tmp_path)
    a, b = (ended.summary["workloads"][name] for name in "ab")
    assert (a["jobs_submitted"], a["jobs_scheduled"], a["jobs_abandoned"], a["jobs_queued"]) == (
        1,
        1,
        0,
        0,
    )
    assert (a["tasks_placed"], a["attempts_mean"], a["wait_s_mean"], a["wait_full_s_mean"]) == (
        3,
        1.0,
        1.0,
        1.0,
    )
    assert (a["busy_fraction"], a["busy_wasted_fraction"], a["conflict_fraction"]) == (
        0.01,
        0.0,
        0.0,
    )
    assert (b["tasks_placed"], b["attempts_mean"], b["wait_s_mean"], b["wait_full_s_mean"]) == (
        3,
        5.0,
        3.0,
        15.0,
    )
    assert a["wait_first_attempt_s_mean"] == b["wait_first_attempt_s_mean"] == 0.0
    # a ends at 11 s and b at 25 s, after ten seconds of work each.
    assert (a["jobs_finished"], a["turnaround_s_mean"]) == (1, 11.0)
    assert (b["jobs_finished"], b["turnaround_s_mean"]) == (1, 25.0)
    assert (a["slowdown_mean"], b["slowdown_mean"]) == (pytest.approx(1.1), pytest.approx(2.5))
    assert ended.summary["makespan_s"] == 25.0
    # The attempts that found nothing count in neither; the one with a conflict was wasted.
    assert (b["busy_fraction"], b["busy_wasted_fraction"]) == (
        pytest.approx(0.06),
        pytest.approx(0.03),
    )
    assert b["conflict_fraction"] == 1.0, "one failed, one successful"
    assert not a["saturated"] and not b["saturated"]
    assert ended.summary["schedulers"] == {
        "a": {"busy_fraction": 0.01},
        "b": {"busy_fraction": pytest.approx(0.06)},
    }


def test_each_figure_of_the_cluster(tmp_path: Path) -> None:
    """Thirty, ten and twenty task-seconds of one CPU, on four CPUs for a hundred seconds."""
    ended = conflict(tmp_path)
    cluster = ended.summary["cluster"]
    assert cluster["tasks_running_mean"] == pytest.approx(0.6)
    assert cluster["required"] == {"cpu": pytest.approx(0.15), "memory": 0.0}
    assert cluster["used"] == cluster["required"] and cluster["guaranteed"] == {
        "cpu": 0.0,
        "memory": 0.0,
    }
    assert (cluster["nodes_mean"], cluster["offered_fraction"]) == (1.0, 0.0)
    # Two jobs, six attempts that ended and six tasks that ended.
    assert ended.summary["events"] == 2 + 6 + 6
    # Idle but from 1 to 13 and from 15 to 25 s, within one of the samples.
    assert cluster["allocation_types"]["idle"] == pytest.approx(0.78, abs=0.01)
    assert sum(cluster["allocation_types"].values()) == pytest.approx(1.0)


def test_production_tasks_are_guaranteed() -> None:
    workload: dict[str, Any] = {
        "arrivals_per_s": 0.1,
        "task_duration_s": 30,
        "task_cpu": 2,
        "task_memory": "1G",
    }
    both = {"a": {**workload, "production": True}, "b": workload}
    tables = {"days": 0.05, "cluster": {"nodes": 20}}
    cluster = results.summary(engine.simulate({**tables, "workload": both}), "x")["cluster"]
    assert 0.0 < cluster["guaranteed"]["cpu"] < cluster["required"]["cpu"]
    only = results.summary(engine.simulate({**tables, "workload": {"a": both["a"]}}), "x")[
        "cluster"
    ]
    assert only["guaranteed"] == only["required"]


def test_offered_resources_are_counted_while_they_are_locked(tmp_path: Path) -> None:
    """One framework holds all of a node of four CPUs from 0.001 to 20.001 s, of a hundred."""
    story = Story(tmp_path, nodes=1, cpu=4, seconds=100)
    story.job("j", "w", lasts=1000.0)
    ended = story.run(job_time_s=20.0)
    assert ended.summary["cluster"]["offered_fraction"] == pytest.approx(0.2)


def test_percentiles_of_waits(tmp_path: Path) -> None:
    """Ten jobs at once, two seconds each: tried after 0, 2, … 18 s and started two seconds later;
    nine tenths are tried within 16.2 s."""
    story = Story(tmp_path, nodes=10, seconds=100)
    for k in range(10):
        story.job(f"j{k}", "w")
    workload = story.run("monolithic", job_time_s=2.0).summary["workloads"]["w"]
    assert workload["wait_first_attempt_s_mean"] == pytest.approx(9.0)
    assert workload["wait_first_attempt_s_p90"] == pytest.approx(16.2)
    starts = np.arange(2.0, 21.0, 2.0)
    assert workload["wait_s_mean"] == pytest.approx(starts.mean())
    for percent in (50, 90, 95, 99):
        assert workload[f"wait_s_p{percent}"] == pytest.approx(np.percentile(starts, percent))
    assert workload["wait_full_s_mean"] == pytest.approx(11.0) and workload[
        "wait_full_s_p90"
    ] == pytest.approx(18.2)


def test_a_job_that_never_starts_has_waited_until_the_end(tmp_path: Path) -> None:
    """One node, taken for ever by the first job: the second has waited all hundred seconds."""
    story = Story(tmp_path, nodes=1, cpu=4, seconds=100)
    story.job("filler", "w", cpu=4.0, lasts=1000.0)
    story.job("second", "v", cpu=4.0)
    ended = story.run("monolithic", job_time_s=2.0).summary
    waiting = ended["workloads"]["v"]
    assert (waiting["jobs_not_started"], waiting["jobs_finished"]) == (1, 0)
    assert waiting["wait_s_mean"] == pytest.approx(100.0)
    assert waiting["turnaround_s_mean"] is None and ended["makespan_s"] is None
    assert ended["workloads"]["w"]["jobs_not_started"] == 0


def test_fragmentation_and_imbalance(tmp_path: Path) -> None:
    """Four nodes of four CPUs, three tasks of three CPUs: one CPU is left on three of them and four
    on the last. All seven in one place would hold two such tasks; as they lie, one fits."""
    story = Story(tmp_path, nodes=4, cpu=4, seconds=100)
    for k in range(3):
        story.job(f"j{k}", "w", cpu=3.0, lasts=1000.0)
    cluster = story.run("monolithic", job_time_s=0.001).summary["cluster"]
    # The first of the 169 samples is taken before anything runs.
    share = 168 / 169
    assert cluster["fragmentation_mean"] == pytest.approx(0.5 * share, rel=1e-3)
    assert cluster["imbalance_mean"] == pytest.approx(np.std([0.75] * 3 + [0.0]) * share, rel=1e-3)
    assert cluster["nodes_in_use_mean"] == pytest.approx(3 * share, rel=1e-3)


def test_a_job_tried_too_often_is_abandoned(tmp_path: Path) -> None:
    story = Story(tmp_path, nodes=1, cpu=4)
    story.job("filler", "w", cpu=4.0)
    story.job("second", "w", cpu=1.0)
    ended = story.run("monolithic", empty_attempts_max=3)
    assert (ended["second"]["status"], ended["second"]["attempts"]) == ("abandoned", 3)
    ended = story.run("monolithic", attempts_max=2)
    assert (ended["second"]["status"], ended["second"]["attempts"]) == ("abandoned", 2)
    assert ended.summary["workloads"]["w"]["jobs_abandoned"] == 1


def test_a_job_that_finds_no_room_comes_back_after_a_while(tmp_path: Path) -> None:
    story = Story(tmp_path, nodes=1, cpu=4, seconds=60)
    story.job("filler", "w", cpu=4.0, lasts=30.0)
    story.job("second", "w", cpu=1.0)
    # Tried at 1, 12, 23 and 34 s: each try takes a second, and it waits ten before the next.
    ended = story.run("monolithic", retry_s=10.0)
    assert (ended["second"]["attempts"], ended["second"]["scheduled_s"]) == (4, 35.0)


@pytest.mark.parametrize(("share", "nodes"), [(0.0, 7), (0.3, 7), (0.6, 50), (0.7, 3)])
def test_prefill_is_whole_tasks_by_randomised_first_fit(share: float, nodes: int) -> None:
    """As many tasks of 1.1 CPU and 1.5 GB as it takes, where the plain placement puts them with the
    same generator."""
    table = make_nodes(sc.ClusterSettings(nodes=nodes, cpu=4, memory="16G"))
    request = table.resources.vector(PREFILL)
    free = prefill_nodes(table.resources, table.total, share, seed=5)
    tasks = int(np.ceil(share * 4 * nodes / 1.1))
    expected = table.total.copy()
    if tasks:
        every = np.ones(nodes, dtype=np.bool_)
        view = View(table.resources, table.names, table.attributes, table.total, table.total, every)
        rows = FirstFit().decide(
            view, JobView("p", "p", tasks, request, 0.0), generator(5, "prefill")
        )
        np.subtract.at(expected, rows, request)
    assert (free == expected).all()
    assert (
        (table.total - free)[:, 0] == (table.total - free)[:, 1] // request[1] * request[0]
    ).all()


def test_picky_jobs_leave_a_share_of_the_nodes_alone() -> None:
    workload = {"arrivals_per_s": 0.5, "task_duration_s": 5, "task_cpu": 1}
    tables = {
        "days": 0.01,
        "cluster": {"nodes": 40},
        "workload": {"a": workload, "b": {**workload, "picky": 0.75}},
    }
    run = engine.simulate(tables)
    picky = run.world.jobs["workload"] == run.setup.jobs.workloads.index("b")
    assert (run.world.jobs["mask"][~picky] == -1).all() and (
        run.world.jobs["mask"][picky] >= 0
    ).all()
    assert (run.world.masks[np.unique(run.world.jobs["mask"][picky])].sum(axis=1) == 10).all()
