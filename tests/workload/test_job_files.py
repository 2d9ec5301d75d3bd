"""Job lists as files: what is written reads back the same, and what people write by hand is
understood."""

from __future__ import annotations

import gzip
import lzma
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmuration.base.errors import InputError
from murmuration.base.resources import MICRO, Resources
from murmuration.cluster.constraints import Constraint
from murmuration.workload.formats.job_lists import constraint_text, read_jobs, write_jobs
from murmuration.workload.formats.sizes import SIZE_MAX
from murmuration.workload.jobs import TASKS_MAX, JobList, job_list

if TYPE_CHECKING:
    from tests.workload.conftest import Write

HEADER = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task"

PRINTABLE = st.characters(blacklist_categories=("Cc", "Cs"))
IDS = st.text(PRINTABLE, min_size=1, max_size=12).filter(lambda text: text.strip())
WORKLOADS = st.text("abcdefgh-é0 ,\"'", min_size=1, max_size=8).filter(
    lambda text: text == text.strip()
)
TIMES = st.floats(0, 1e12, allow_nan=False)
WORDS = st.text("abcxyz019._-", min_size=1, max_size=6).filter(lambda text: not _is_number(text))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.one_of(WORDS, st.just(""), NUMBERS)
CONSTRAINTS = st.one_of(
    st.builds(Constraint, WORDS, st.sampled_from(["=", "!="]), st.tuples(VALUES)),
    st.builds(Constraint, WORDS, st.sampled_from(["<", ">"]), st.tuples(NUMBERS)),
    st.builds(Constraint, WORDS, st.just("in"), st.lists(VALUES, max_size=3).map(tuple)),
    st.builds(Constraint, WORDS, st.just("exists")),
)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@st.composite
def job_lists(draw: st.DrawFn) -> JobList:
    count = draw(st.integers(1, 8))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    resources = Resources(
        ("cpu", "memory", *draw(st.lists(WORDS.filter(_is_extra), unique=True, max_size=2)))
    )
    workloads = draw(st.lists(WORKLOADS, min_size=1, max_size=3, unique=True))
    sets = (
        (),
        *draw(st.lists(st.lists(CONSTRAINTS, min_size=1, max_size=2).map(tuple), max_size=3)),
    )
    return job_list(
        resources,
        workloads,
        workload=np.array(column(st.integers(0, len(workloads) - 1))),
        submit_s=np.array(column(TIMES)),
        tasks=np.array(column(st.integers(1, TASKS_MAX))),
        duration_s=np.array(column(TIMES)),
        request=np.array(
            [column(st.integers(0, SIZE_MAX // 10**9 * 10**9)) for _ in resources.names]
        ).T,
        job_id=draw(st.lists(IDS, min_size=count, max_size=count, unique=True)),
        priority=np.array(column(st.integers(-(2**62), 2**62))),
        gang=np.array(column(st.booleans())),
        production=np.array(column(st.booleans())),
        constraint=np.array(column(st.integers(0, len(sets) - 1))),
        constraint_sets=sets,
        users=("ann", "bob"),
        user=np.array(column(st.integers(-1, 1))),
        requested_s=np.array(column(st.one_of(TIMES, st.just(0.0)))),
    )


def _is_extra(name: str) -> bool:
    return name not in ("cpu", "memory", "cpus", "mem_gb")


def assert_same(have: JobList, want: JobList) -> None:
    """Job by job the same, whatever the order in which workloads and constraint sets are
    numbered."""
    assert have.resources == want.resources
    for name in (
        "job_id",
        "submit_s",
        "tasks",
        "duration_s",
        "request",
        "priority",
        "gang",
        "production",
        "requested_s",
    ):
        np.testing.assert_array_equal(getattr(have, name), getattr(want, name), err_msg=name)
    assert [(*have.users, "")[k] for k in have.user] == [(*want.users, "")[k] for k in want.user]
    assert [have.workloads[k] for k in have.workload] == [want.workloads[k] for k in want.workload]
    assert [have.constraint_sets[k] for k in have.constraint] == [
        want.constraint_sets[k] for k in want.constraint
    ]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@settings(max_examples=60, deadline=None)
@given(jobs=job_lists())
def test_what_is_written_reads_back_the_same(suffix: str, jobs: JobList) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"jobs{suffix}"
        write_jobs(jobs, path)
        once = path.read_bytes()
        back = read_jobs(path)
        assert_same(back, jobs)
        write_jobs(back, path)
        assert path.read_bytes() == once
        assert list(Path(folder).iterdir()) == [path]


@given(st.integers(0, SIZE_MAX), st.sampled_from([10**9, MICRO]))
def test_sizes_survive_the_way_through_a_float(amount: int, unit: int) -> None:
    assert round((amount / unit) * unit) == amount


def test_by_hand(write: Write) -> None:
    path = write("jobs.csv", f"{HEADER}\nb,Batch,20,3,1.5,0.5,1.5\na,service,10.25,1,1e3, 2 ,0\n")
    jobs = read_jobs(path)
    assert jobs.workloads == ("batch", "service")
    assert jobs.job_id.tolist() == ["a", "b"]
    assert jobs.workload.tolist() == [1, 0]
    assert jobs.submit_s.tolist() == [10.25, 20.0]
    assert jobs.tasks.tolist() == [1, 3]
    assert jobs.duration_s.tolist() == [1000.0, 1.5]
    assert jobs.request.tolist() == [[2_000_000, 0], [500_000, 1_500_000_000]]
    assert not (
        jobs.gang.any() or jobs.production.any() or jobs.priority.any() or jobs.constraint.any()
    )


def test_optional_columns_in_any_order_and_empty(write: Write) -> None:
    text = (
        "gang,gpu_per_task,user," + HEADER + ",priority,production,constraints\n"
        'TRUE,0.5,me,a,batch,0,2.0,1,1,1,7,1,"zone = a; gpu in (x, 3)"\n'
        "0,,you,b,batch,0,1,1,1,1,,false,\n"
        'false,2,,c,batch,0,1,1,1,1,-2,,"zone = a; gpu in (x, 3)"\n'
    )
    jobs = read_jobs(write("jobs.csv", text))
    assert jobs.resources.names == ("cpu", "memory", "gpu")
    assert jobs.request[:, 2].tolist() == [500_000, 0, 2_000_000]
    assert jobs.gang.tolist() == [True, False, False]
    assert jobs.production.tolist() == [True, False, False]
    assert jobs.priority.tolist() == [7, 0, -2]
    assert (jobs.users, jobs.user.tolist()) == (("me", "you"), [0, 1, -1])
    assert jobs.constraint.tolist() == [1, 0, 1]
    assert jobs.constraint_sets == (
        (),
        (Constraint("zone", "=", ("a",)), Constraint("gpu", "in", ("x", 3.0))),
    )
    assert constraint_text(jobs.constraint_sets[1]) == "zone = a; gpu in (x, 3)"


@pytest.mark.parametrize(
    "pack",
    [gzip.compress, lzma.compress, lambda raw: b"\xef\xbb\xbf" + raw.replace(b"\n", b"\r\n")],
)
def test_packed_marked_and_other_line_ends(write: Write, pack: Callable[[bytes], bytes]) -> None:
    plain = f'{HEADER}\n"a",batch,0,1,1,1,1\n\nb,batch,1,1,1,1,1\n\n'.encode()
    assert read_jobs(write("jobs.csv.any", pack(plain))).job_id.tolist() == ["a", "b"]


def test_an_empty_list_is_not_written(tmp_path: Path, write: Write) -> None:
    jobs = read_jobs(write("jobs.csv", f"{HEADER}\na,batch,0,1,1,1,1\n"))
    with pytest.raises(InputError, match="no jobs"):
        write_jobs(jobs.until(0.0), tmp_path / "none.csv")
    assert not (tmp_path / "none.csv").exists()


@pytest.mark.parametrize("value", ["a;b", "3", "a)", " a", "a,b"])
def test_a_constraint_that_would_read_back_as_another_is_not_written(
    tmp_path: Path, write: Write, value: str
) -> None:
    jobs = read_jobs(write("jobs.csv", f"{HEADER}\na,batch,0,1,1,1,1\n"))
    sets = ((), (Constraint("zone", "in", (value,)),))
    constrained = replace(jobs, constraint=np.ones(1, dtype=np.int64), constraint_sets=sets)
    with pytest.raises(InputError, match="cannot be written as text that reads back the same"):
        write_jobs(constrained, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_a_size_that_would_lose_digits_is_not_written(tmp_path: Path, write: Write) -> None:
    jobs = read_jobs(write("jobs.csv", f"{HEADER}\na,batch,0,1,1,1,1\n"))
    huge = replace(jobs, request=jobs.request + 2 * SIZE_MAX)
    with pytest.raises(
        InputError, match=r"out\.csv row 1: cpus_per_task: expected a finite number from 0 to"
    ):
        write_jobs(huge, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_polars_is_not_imported_by_what_reads_no_trace() -> None:
    code = (
        "import sys, murmuration.workload.formats.job_lists, murmuration.workload.detect, "
        "murmuration.workload.describe, "
        "murmuration.cli.trace; sys.exit('polars' in sys.modules or 'numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
