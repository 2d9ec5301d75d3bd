"""Usage tables: what is written reads back the same, what people write by hand is understood, bad
rows are named."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workload.conftest import Write

from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.inputs import make_jobs, make_nodes
from murmuration.workload.detect import open_trace
from murmuration.workload.formats.job_lists import read_jobs, write_jobs
from murmuration.workload.jobs import JobList, job_list
from murmuration.workload.trace import TraceOptions
from murmuration.workload.usage import Curves

JOBS = (
    "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task,recorded\n"
    "a,w,0,1,900,2,4,n1\nb,w,5,2,900,1,1,\nc,w,6,1,900,1,1,n2\n"
)
USAGE = "job_id,time_s,cpu_share\na,0,0.5\na,100,1\na,300,0.25\nc,100,0.75\n"


def test_a_table_written_by_hand(write: Write) -> None:
    jobs = read_jobs(write("jobs.csv", JOBS), write("usage.csv", USAGE))
    assert jobs.curve.tolist() == [0, -1, 1]
    assert jobs.curves is not None
    assert jobs.curves.step_s == 100
    assert jobs.curves.share[:, :, 0].tolist() == [[0.5, 1, 1, 0.25], [0.75] * 4]
    assert jobs.curves.share[:, :, 1].tolist() == [[1] * 4] * 2
    assert [jobs.recorded_nodes[k] if k >= 0 else None for k in jobs.recorded] == ["n1", None, "n2"]


def test_rows_between_two_steps_are_averaged(write: Write) -> None:
    """The shortest time between two rows is 20 s; from 40 to 50 s all is used, from 50 to 60 s
    nothing."""
    usage = write("usage.csv", "job_id,time_s,cpu_share\na,0,1\na,50,0\na,70,0.5\n")
    jobs = read_jobs(write("jobs.csv", JOBS), usage)
    assert jobs.curves is not None
    assert jobs.curves.share[0, :, 0].tolist() == pytest.approx([1, 1, 0.5, 0.25])


def same(one: JobList, two: JobList) -> None:
    for column in fields(one):
        if column.name not in ("curve", "curves", "recorded", "recorded_nodes"):
            assert np.array_equal(getattr(one, column.name), getattr(two, column.name)), column.name
    for jobs in (one, two):
        assert (jobs.curve < 0).all() or jobs.curves is not None
    assert ((one.curve >= 0) == (two.curve >= 0)).all()
    if one.curves is not None and two.curves is not None:
        used = one.curve >= 0
        assert np.array_equal(one.curves.share[one.curve[used]], two.curves.share[two.curve[used]])
        assert one.curves.cyclic == two.curves.cyclic
        assert one.curves.step_s == pytest.approx(two.curves.step_s)
    names = [
        [jobs.recorded_nodes[k] if k >= 0 else None for k in jobs.recorded] for jobs in (one, two)
    ]
    assert names[0] == names[1]


SHARES = st.floats(0, 8, width=32)
STEPS = st.sampled_from([300.0, 86_400 / 98, 0.1, 1 / 3])


@settings(max_examples=40)
@given(st.data(), STEPS, st.booleans(), st.sampled_from([".csv", ".parquet"]))
def test_what_is_written_reads_back_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    step_s: float,
    cyclic: bool,
    suffix: str,
) -> None:
    count, points = data.draw(st.integers(1, 5)), data.draw(st.integers(2, 6))
    share = data.draw(
        st.lists(st.lists(SHARES, min_size=2 * points, max_size=2 * points), min_size=3, max_size=3)
    )
    curve = data.draw(st.lists(st.integers(-1, 2), min_size=count, max_size=count))
    recorded = data.draw(st.lists(st.integers(-1, 1), min_size=count, max_size=count))
    jobs = job_list(
        Resources(),
        ["w"],
        workload=np.zeros(count, dtype=np.int64),
        submit_s=np.arange(count, dtype=np.float64),
        tasks=np.ones(count, dtype=np.int64),
        duration_s=np.ones(count),
        request=np.ones((count, 2), dtype=np.int64),
        curve=np.array(curve),
        curves=Curves(np.array(share, np.float32).reshape(3, points, 2), step_s, cyclic),
        recorded=np.array(recorded),
        recorded_nodes=("n1", "n2"),
    )
    path = tmp_path_factory.mktemp("jobs") / f"jobs{suffix}"
    usage = write_jobs(jobs, path)
    assert usage == (path.with_name(f"jobs.usage{suffix}") if max(curve) >= 0 else None)
    same(jobs, read_jobs(path, usage))


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("a,400,-1", "usage that is negative or no number"),
        ("a,400,nan", "usage that is negative or no number"),
        ("a,400,", "usage that is negative or no number"),
        ("stranger,0,1", "usage of an unknown job"),
    ],
)
def test_bad_rows_are_counted_and_named(write: Write, row: str, what: str) -> None:
    path, usage = write("jobs.csv", JOBS), write("usage.csv", f"{USAGE}{row}\n")
    trace = open_trace(path, TraceOptions(usage=str(usage)))
    assert trace.skipped == (f"1 row with {what}, the first at {usage} line 6",)
    assert trace.jobs is not None
    assert trace.jobs.curve.tolist() == [0, -1, 1]
    with pytest.raises(InputError) as caught:
        open_trace(path, TraceOptions(usage=str(usage), strict=True))
    assert str(caught.value) == f"{usage} line 6: {what}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("job_id,time_s\na,0\n", "usage.csv: expected a column such as 'cpu_share', there is none"),
        (
            "job_id,time_s,cpu_share\na,0,1\na,0,1\n",
            "usage.csv line 3: time_s: expected one row for each job and time",
        ),
        ("job_id,time_s,cpu_share\na,-1,1\n", "usage.csv line 2: time_s: expected a finite number"),
        ("job_id,time_s,gpu_share\na,0,1\n", "usage.csv: unknown resource 'gpu'"),
        (
            "job_id,time_s,cpu_share,cyclic\na,0,1,1\na,9,1,0\n",
            "line 3: cyclic: expected the same in every row",
        ),
        (
            "job_id,time_s,cpu_share\na,0,1\na,1e-6,1\na,1e9,1\n",
            "usage.csv: expected at most 400,000,000 points",
        ),
    ],
)
def test_tables_that_make_no_sense(write: Write, text: str, sentence: str) -> None:
    path, usage = write("jobs.csv", JOBS), write("usage.csv", text)
    with pytest.raises(InputError) as caught:
        read_jobs(path, usage)
    assert sentence in str(caught.value)


def test_a_scenario_names_its_usage(write: Write) -> None:
    write("jobs.csv", JOBS)
    write("usage.csv", USAGE)
    text = (
        '[cluster]\nnodes = 1\n[workload]\ntrace = "jobs.csv"\nusage = "usage.csv"\nmultiply = 2\n'
    )
    scenario = sc.check(sc.load(str(write("s.toml", text))))
    jobs = make_jobs(scenario, make_nodes(scenario.cluster).resources)
    assert jobs.curve.tolist() == [0, 0, -1, -1, 1, 1]


def test_other_traces_take_usage_too(write: Write, tmp_path: Path) -> None:
    swim = write("trace.tsv", "job0\t0\t0\t1000\t0\t0\njob1\t5\t5\t1000\t0\t0\n")
    usage = write("usage.csv", "job_id,time_s,cpu_share\njob1,0,0.5\n")
    jobs = open_trace(swim, TraceOptions(usage=str(usage))).jobs
    assert jobs is not None
    assert jobs.curve.tolist() == [-1, 0]
    same(jobs, read_jobs(tmp_path / "out.csv", write_jobs(jobs, tmp_path / "out.csv")))
