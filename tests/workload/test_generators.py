"""Generated jobs: the distributions that were asked for, from the seed alone, whatever else is
generated.

Statistics are taken at fixed seeds, so a test that passes once passes always.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from murmuration.base.errors import InputError
from murmuration.base.random import generator
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Constraint
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.inputs import make_jobs, make_nodes
from murmuration.workload.generators import (
    PICKY_MASKS,
    Stream,
    Tables,
    arrivals,
    generate,
    picky_masks,
)
from murmuration.workload.jobs import COLUMNS, TASKS_MAX, JobList, job_list, merge, multiply

RESOURCES = Resources()
TASK = RESOURCES.vector({"cpu": 1.1, "memory": "1.5G"})
BATCH = Stream(
    "batch", arrivals_per_s=0.212, tasks_per_job=37.19, task_duration_s=274.0, request=TASK
)
WEEK_S = 7 * 86_400.0


def drawn(
    stream: Stream = BATCH, seconds: float = WEEK_S, seed: int = 1, tables: Tables | None = None
) -> JobList:
    return generate(
        stream, RESOURCES, seconds, generator(seed, "workload", stream.name), tables or Tables()
    )


def same(one: JobList, other: JobList) -> bool:
    return one.workloads == other.workloads and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in COLUMNS
    )


def test_gaps_and_durations_are_exponential() -> None:
    jobs = drawn()
    gaps = np.diff(np.concatenate(([0.0], jobs.submit_s)))
    assert stats.kstest(gaps, "expon", args=(0.0, 1 / 0.212)).pvalue > 0.01
    assert stats.kstest(jobs.duration_s, "expon", args=(0.0, 274.0)).pvalue > 0.01
    assert stats.spearmanr(jobs.tasks, jobs.duration_s).pvalue > 0.01, (
        "drawn independently of each other"
    )


def test_arrivals_are_a_poisson_process_up_to_the_horizon() -> None:
    jobs = drawn()
    expected = 0.212 * WEEK_S
    assert abs(len(jobs) - expected) < 4 * math.sqrt(expected)
    assert jobs.submit_s[0] > 0.0 and jobs.submit_s[-1] < WEEK_S
    assert stats.kstest(jobs.submit_s, "uniform", args=(0.0, WEEK_S)).pvalue > 0.01


@pytest.mark.parametrize("mean", [0.3, 1.0, 5.0, 37.19])
def test_tasks_rounded_up_are_geometric(mean: float) -> None:
    """P(tasks > k) = exp(−k/m), so that the mean is 1/(1 − exp(−1/m)) and not m."""
    tasks = drawn(replace(BATCH, tasks_per_job=mean)).tasks
    p = 1.0 - math.exp(-1.0 / mean)
    assert tasks.min() == 1
    assert abs(tasks.mean() - 1.0 / p) < 4 * math.sqrt(1.0 - p) / p / math.sqrt(len(tasks))
    edges = np.arange(1, max(2, int(5 * mean)) + 1)
    observed = np.append([(tasks == k).sum() for k in edges], (tasks > edges[-1]).sum())
    odds = np.append(stats.geom.pmf(edges, p), stats.geom.sf(edges[-1], p))
    assert stats.chisquare(observed, odds * len(tasks)).pvalue > 0.01


def test_all_jobs_carry_what_the_stream_says() -> None:
    zone = Constraint("zone", "=", ("a",))
    stream = replace(BATCH, priority=3, gang=True, production=True, constraints=(zone,))
    jobs = drawn(stream, 3600.0)
    assert (jobs.request == TASK).all()
    assert (jobs.priority == 3).all() and jobs.gang.all() and jobs.production.all()
    assert jobs.constraint_sets == ((), (zone,)) and (jobs.constraint == 1).all()
    assert jobs.job_id.tolist() == [f"batch-{j}" for j in range(len(jobs))]
    assert drawn(BATCH, 3600.0).constraint_sets == ((),)


def test_no_job_is_without_tasks_or_has_more_than_there_may_be() -> None:
    assert (drawn(replace(BATCH, tasks_per_job=1e-9), 3600.0).tasks == 1).all()
    assert drawn(replace(BATCH, tasks_per_job=1e9), 3600.0).tasks.max() == TASKS_MAX


def test_the_same_seed_gives_the_same_list_and_another_one_another() -> None:
    assert same(drawn(seed=1), drawn(seed=1))
    assert not same(drawn(seed=1), drawn(seed=2))


GAPS, COUNTS, DURATIONS = (
    np.array([1.0, 5.0, 30.0]),
    np.array([1.0, 2.0, 40.0]),
    np.array([0.5, 600.0]),
)
REQUESTS = np.array([[1, 10], [2, 20], [3, 30]], dtype=np.int64)


def test_tables_are_drawn_from_and_nothing_else() -> None:
    tables = Tables(GAPS, COUNTS, DURATIONS, REQUESTS)
    jobs = drawn(seconds=86_400.0, tables=tables)
    gaps = np.diff(np.concatenate(([0.0], jobs.submit_s)))
    assert set(np.round(gaps, 6)) == set(GAPS)
    assert set(jobs.tasks) == set(COUNTS)
    assert set(jobs.duration_s) == set(DURATIONS)
    assert {tuple(row) for row in jobs.request} == {tuple(row) for row in REQUESTS}, (
        "rows stay together"
    )
    for column, table in (
        (np.round(gaps, 6), GAPS),
        (jobs.tasks, COUNTS),
        (jobs.duration_s, DURATIONS),
    ):
        assert stats.chisquare([(column == value).sum() for value in table]).pvalue > 0.01
    assert abs(len(jobs) - 86_400.0 / GAPS.mean()) < 4 * math.sqrt(len(jobs))


def test_an_empty_table_keeps_the_exponential() -> None:
    jobs = drawn(tables=Tables(tasks=COUNTS))
    assert set(jobs.tasks) == set(COUNTS)
    assert stats.kstest(jobs.duration_s, "expon", args=(0.0, 274.0)).pvalue > 0.01


def test_gaps_alone_need_no_rate() -> None:
    times = arrivals(0.0, 1000.0, generator(1, "gaps"), np.array([10.0]))
    assert times.tolist() == [10.0 * k for k in range(1, 100)]


def test_gaps_of_zero_would_let_no_time_pass() -> None:
    with pytest.raises(InputError, match="got zeros alone, which let no time pass"):
        arrivals(1.0, 1000.0, generator(1, "gaps"), np.zeros(3))
    some = arrivals(1.0, 1000.0, generator(1, "gaps"), np.array([0.0, 20.0]))
    assert some[-1] < 1000.0 and (np.diff(some) == 0.0).any()


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_picky_jobs_cannot_use_a_share_of_the_nodes(share: float) -> None:
    masks = picky_masks(40, share, generator(1, "picky"))
    assert masks.shape == (PICKY_MASKS, 40)
    assert (masks.sum(axis=1) == 40 - 40 * share).all()
    assert len({mask.tobytes() for mask in masks}) == (PICKY_MASKS if share == 0.25 else 1)


def scenario(workload: dict[str, Any], **changes: Any) -> sc.Scenario:
    return sc.check({"days": 0.2, "cluster": {"nodes": 10}, "workload": workload, **changes})


WORKLOAD = {
    "arrivals_per_s": 0.05,
    "tasks_per_job": 3.0,
    "task_duration_s": 60.0,
    "task_memory": "1G",
}


def of_workload(jobs: JobList, name: str) -> JobList:
    """The jobs of one workload, whatever its number in the list."""
    mine = jobs.select(jobs.workload == jobs.workloads.index(name))
    return replace(mine, workloads=(name,), workload=np.zeros(len(mine), dtype=np.int64))


def test_adding_a_workload_does_not_change_another() -> None:
    alone = make_jobs(scenario({"batch": WORKLOAD}), RESOURCES)
    for others in (("service", "batch"), ("batch", "alpha", "omega")):
        both = make_jobs(scenario(dict.fromkeys(others, WORKLOAD)), RESOURCES)
        assert same(of_workload(both, "batch"), of_workload(alone, "batch"))
        assert (np.diff(both.submit_s) >= 0).all()
        assert len(both) > len(alone)


def test_workloads_that_are_alike_draw_different_jobs() -> None:
    jobs = make_jobs(scenario({"a": WORKLOAD, "b": WORKLOAD}), RESOURCES)
    a, b = of_workload(jobs, "a"), of_workload(jobs, "b")
    assert set(a.submit_s).isdisjoint(b.submit_s)


def test_what_a_stream_cannot_say_names_its_field() -> None:
    with pytest.raises(
        InputError, match=r"^workload\.batch\.task_cpu: expected a size that is neither"
    ):
        make_jobs(scenario({"batch": {**WORKLOAD, "task_cpu": -1}}), RESOURCES)
    with pytest.raises(
        InputError, match=r"^workload\.batch\.resources\.gpu: unknown resource 'gpu'"
    ):
        make_jobs(scenario({"batch": {**WORKLOAD, "resources": {"gpu": 1}}}), RESOURCES)


def test_jobs_may_be_drawn_from_a_trace(tmp_path: Path) -> None:
    """Gaps of 30 and 90 s, and the two shapes of job, in any order; the rate comes from the
    trace."""
    trace = tmp_path / "seen.csv"
    header = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task"
    trace.write_text(f"{header}\na,batch,0,2,10,1,1\nb,batch,30,7,20,2,4\nc,batch,120,2,10,1,1\n")
    jobs = make_jobs(scenario({"batch": {"empirical": str(trace)}}), RESOURCES)
    assert set(np.diff(jobs.submit_s)) == {30.0, 90.0}
    assert {(t, c) for t, c in zip(jobs.tasks, jobs.request[:, 0], strict=True)} <= {
        (tasks, cpu) for tasks in (2, 7) for cpu in (1_000_000, 2_000_000)
    }
    assert abs(len(jobs) - 0.2 * 86_400 / 60) < 4 * math.sqrt(len(jobs))


def test_attributes_of_nodes_are_met_however_they_are_written() -> None:
    """A number is a number, in quotes or not, on the node and in the job."""
    nodes = make_nodes(
        sc.ClusterSettings(nodes=1, attributes={"generation": "3", "zone": "a", "rack": 7})
    )
    for text in ("generation = 3", 'generation = "3"', "generation > 2", "rack = 7.0", "zone = a"):
        constraint = sc.check(
            {
                "cluster": {"nodes": 1},
                "workload": {"w": {**WORKLOAD, "constraints": [text]}},
                "days": 1,
            }
        )
        (constraints,) = make_jobs(constraint, RESOURCES).constraint_sets[1:]
        assert constraints[0].meets(nodes.attributes[0]), text


def listed(ids: list[str], submit: list[float], workloads: list[str] | None = None) -> JobList:
    """A list by hand: job j has j + 1 tasks."""
    names = workloads or ["w"] * len(ids)
    known = list(dict.fromkeys(names))
    return job_list(
        RESOURCES,
        known,
        workload=np.array([known.index(name) for name in names]),
        submit_s=np.array(submit),
        tasks=np.arange(len(ids)) + 1,
        duration_s=np.ones(len(ids)),
        request=np.tile(TASK, (len(ids), 1)),
        job_id=ids,
    )


def test_lists_are_sorted_and_jobs_of_one_instant_keep_their_order() -> None:
    jobs = listed(["a", "b", "c", "d"], [5.0, 1.0, 5.0, 1.0])
    assert jobs.job_id.tolist() == ["b", "d", "a", "c"]
    assert jobs.tasks.tolist() == [2, 4, 1, 3]


def test_until_keeps_what_is_submitted_before() -> None:
    jobs = listed(["a", "b", "c"], [1.0, 2.0, 3.0])
    assert jobs.until(3.0).job_id.tolist() == ["a", "b"]
    assert len(jobs.until(0.0)) == 0


def test_select_takes_rows_by_number_or_by_mask_in_every_column() -> None:
    jobs = listed(["a", "b", "c"], [1.0, 2.0, 3.0])
    picked = jobs.select(np.array([2, 0, 2]))
    assert (picked.job_id.tolist(), picked.tasks.tolist(), picked.submit_s.tolist()) == (
        ["c", "a", "c"],
        [3, 1, 3],
        [3, 1, 3],
    )
    assert same(jobs.select(np.array([True, False, True])), jobs.select(np.array([0, 2])))
    assert len(jobs) == 3, "the list itself stays as it was"


def test_a_job_is_found_by_its_id() -> None:
    jobs = listed(["a", "b"], [2.0, 1.0])
    assert (jobs.job_row("b"), jobs.job_row("a")) == (0, 1)
    with pytest.raises(InputError, match="no job 'x'; ids run from 'b' to 'a'"):
        jobs.job_row("x")


def test_merged_lists_share_workloads_by_name() -> None:
    zone, rack = (Constraint("zone", "=", ("a",)),), (Constraint("rack", "exists"),)
    one = replace(
        listed(["a", "b"], [1.0, 4.0], ["batch", "service"]),
        constraint=np.array([0, 1]),
        constraint_sets=((), zone),
    )
    two = replace(
        listed(["c", "d"], [2.0, 3.0], ["test", "batch"]),
        constraint=np.array([1, 0]),
        constraint_sets=((), rack),
    )
    jobs = merge([one, two])
    assert jobs.job_id.tolist() == ["a", "c", "d", "b"]
    assert [jobs.workloads[k] for k in jobs.workload] == ["batch", "test", "batch", "service"]
    assert jobs.workloads == ("batch", "service", "test")
    assert [jobs.constraint_sets[k] for k in jobs.constraint] == [(), rack, (), zone]
    assert merge([one]) is one


@pytest.mark.parametrize("factor", [0.25, 1.0, 1.5, 3.0])
def test_multiply_copies_by_the_id_alone(factor: float) -> None:
    """No seed is told, the jobs around it do not matter, and copies stand beside the original under
    their own names."""
    jobs = drawn(seconds=86_400.0)
    many = multiply(jobs, factor)
    assert abs(len(many) - factor * len(jobs)) < 4 * math.sqrt(len(jobs))
    assert len(set(many.job_id.tolist())) == len(many)
    assert (np.diff(many.submit_s) >= 0).all()
    half = multiply(jobs.select(np.arange(0, len(jobs), 2)), factor)
    assert set(half.job_id.tolist()) == {
        name for name in many.job_id.tolist() if _number(name) % 2 == 0
    }


def _number(job_id: str) -> int:
    return int(job_id.removeprefix("batch-").partition("+")[0])


def test_multiplied_jobs_are_the_same_jobs() -> None:
    jobs = listed(["a", "b"], [1.0, 2.0])
    many = multiply(jobs, 2.0)
    assert many.job_id.tolist() == ["a", "a+1", "b", "b+1"]
    assert (many.tasks.tolist(), many.submit_s.tolist()) == ([1, 1, 2, 2], [1.0, 1.0, 2.0, 2.0])
    assert same(multiply(jobs, 1.0), jobs)


def test_the_choice_of_copies_is_spread_evenly() -> None:
    """Names that hardly differ, as in any trace, and every fraction from the same names: more
    copies, never others."""
    jobs = drawn(seconds=WEEK_S)
    chosen: set[str] = set()
    for factor in (0.1, 0.2, 0.5, 0.9):
        more = set(multiply(jobs, factor).job_id.tolist())
        assert chosen < more
        chosen = more
    kept = np.array(sorted(_number(name) for name in multiply(jobs, 0.1).job_id))
    assert stats.kstest(kept, "uniform", args=(0, len(jobs))).pvalue > 0.01


@pytest.mark.parametrize("factor", [0.0, -1.0, 1000.5, math.nan, math.inf])
def test_a_factor_that_makes_no_sense(factor: float) -> None:
    with pytest.raises(
        InputError, match=r"^workload\.multiply: expected a number above 0 and up to 1000, got"
    ):
        multiply(listed(["a"], [1.0]), factor)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20), st.floats(0, 100))
def test_until_and_sorted_agree_with_lists(times: list[float], end: float) -> None:
    jobs = listed([str(k) for k in range(len(times))], times)
    order = sorted(range(len(times)), key=lambda k: (times[k], k))
    assert jobs.job_id.tolist() == [str(k) for k in order]
    before: NDArray[np.str_] = jobs.until(end).job_id
    assert before.tolist() == [str(k) for k in order if times[k] < end]
