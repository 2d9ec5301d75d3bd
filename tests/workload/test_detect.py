"""Any trace: told by content, described in figures, and taken apart into distributions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from murmuration.base.errors import InputError
from murmuration.workload.describe import describe, tables_of
from murmuration.workload.detect import open_trace
from murmuration.workload.formats.job_lists import read_jobs, write_jobs
from murmuration.workload.nodes import read_nodes, write_nodes

if TYPE_CHECKING:
    from tests.workload.conftest import Write

JOBS = """job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task,team
a,batch,0,1,10,1,1,me
b,batch,4,3,20,3,1,me
c,service,5,2,30,1,1,me
d,batch,10,2,30,2,4,me
"""


def test_our_own_files_whatever_their_name(write: Write, tmp_path: Path) -> None:
    path = write("jobs.dat", JOBS)
    trace = open_trace(path)
    assert (trace.kind, trace.rows, trace.assumptions) == (
        "job list",
        4,
        ("column 'team' is not used",),
    )
    write_jobs(read_jobs(path), tmp_path / "jobs.parquet")
    assert open_trace(tmp_path / "jobs.parquet").kind == "job list"
    nodes = write("nodes.csv", "node_id,cpu,mem_gb\nn,1,2\n")
    assert open_trace(nodes).kind == "node table"
    write_nodes(read_nodes(nodes), tmp_path / "nodes.parquet")
    assert open_trace(tmp_path / "nodes.parquet").kind == "node table"


def test_a_job_list_that_lacks_a_column_is_still_one(write: Write) -> None:
    with pytest.raises(InputError, match="column 'tasks' is missing"):
        open_trace(write("jobs.csv", JOBS.replace("tasks", "size")))


@pytest.mark.parametrize(
    "text", ["hello\n", "a,b,c\n1,2,3\n", "1 2 3\n", "{}\n", "a\tb\n", "[1, 2]\n", "<html>\n"]
)
def test_an_unknown_format_says_what_is_expected(write: Write, text: str) -> None:
    with pytest.raises(InputError) as error:
        open_trace(write("file.csv", text))
    assert "not a trace of a known format" in str(error.value)
    assert "job_id, workload, submit_s" in str(error.value)


def test_describe(write: Write) -> None:
    described = describe(open_trace(write("jobs.csv", JOBS)))
    assert json.loads(json.dumps(described)) == described
    assert described["jobs"] == {
        "jobs": 4,
        "tasks": 8,
        "first_submit_s": 0,
        "last_submit_s": 10,
        "constrained": 0,
        "production": 0,
        "recorded": 0,
    }
    assert described["workloads"] == {
        "batch": {
            "jobs": 3,
            "tasks": 6,
            "gap_s_mean": 5.0,
            "tasks_mean": 2.0,
            "duration_s_mean": 20.0,
            "size_mean": {"cpu": 2.0, "mem_gb": 2.0},
        },
        "service": {
            "jobs": 1,
            "tasks": 2,
            "gap_s_mean": None,
            "tasks_mean": 2.0,
            "duration_s_mean": 30.0,
            "size_mean": {"cpu": 1.0, "mem_gb": 1.0},
        },
    }


def test_describe_nodes(write: Write) -> None:
    text = "node_id,cpu,mem_gb,zone\na,4,16,x\nb,8,32,x\nc,8,32,\n"
    described = describe(open_trace(write("nodes.csv", text)))["nodes"]
    assert described == {
        "nodes": 3,
        "total": {"cpu": 20.0, "mem_gb": 80.0},
        "mix": [{"nodes": 2, "cpu": 8.0, "mem_gb": 32.0}, {"nodes": 1, "cpu": 4.0, "mem_gb": 16.0}],
        "attributes": ["zone"],
    }


def test_tables_of(write: Write) -> None:
    jobs = read_jobs(write("jobs.csv", JOBS))
    batch = tables_of(jobs, "batch")
    assert batch.gaps_s.tolist() == [4.0, 6.0]
    assert batch.tasks.tolist() == [1.0, 3.0, 2.0]
    assert batch.durations_s.tolist() == [10.0, 20.0, 30.0]
    assert batch.requests.tolist() == [
        [1_000_000, 10**9],
        [3_000_000, 10**9],
        [2_000_000, 4 * 10**9],
    ]
    assert tables_of(jobs).gaps_s.tolist() == [4.0, 1.0, 5.0]
    assert len(tables_of(jobs.select(np.array([0, 0]))).gaps_s) == 0
    with pytest.raises(InputError, match="unknown workload 'bach'; did you mean 'batch'"):
        tables_of(jobs, "bach")
