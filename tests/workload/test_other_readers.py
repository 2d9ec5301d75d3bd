"""SWIM, SWF and Alibaba's traces, on a few rows worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from murmuration.base.errors import InputError
from murmuration.cluster.constraints import Constraint
from murmuration.workload.detect import open_trace
from murmuration.workload.trace import TraceOptions

if TYPE_CHECKING:
    from tests.workload.conftest import Write

MIB = 2**20


def test_swim(write: Write) -> None:
    path = write(
        "fb.tsv",
        "job0\t49\t49\t740773\t2339561\t627471\njob1\t101\t52\t128000001\t0\t0\njob2\t101\t0\t0\t0\t5\n",
    )
    trace = open_trace(path)
    assert trace.jobs is not None
    assert trace.kind == "swim"
    assert trace.jobs.job_id.tolist() == ["job0", "job1", "job2"]
    assert trace.jobs.submit_s.tolist() == [49.0, 101.0, 101.0]
    assert trace.jobs.tasks.tolist() == [1, 3, 1]
    assert trace.jobs.duration_s.tolist() == [23.0] * 3
    other = open_trace(
        path, TraceOptions(block_bytes=128e6, duration_s=5.0, task_cpu=0.5, task_memory=2e9)
    ).jobs
    assert other is not None
    assert other.tasks.tolist() == [1, 2, 1]
    assert other.request[0].tolist() == [500_000, 2_000_000_000]
    assert other.duration_s[0] == 5.0


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "job1\t1\t1\tx\t0\t0",
            "map_input_bytes: expected a finite number from 0 to 64000000000000, got 'x'",
        ),
        (
            "job1\t1\t1\t7e13\t0\t0",
            "map_input_bytes: expected a finite number from 0 to 64000000000000, got '7e13'",
        ),
        ("job0\t1\t1\t0\t0\t0", "job_id: 'job0' is there twice, first on line 1"),
        ("job1\t1\t1\t0\t0", "expected 6 fields, got 5"),
    ],
)
def test_bad_swim(write: Write, line: str, sentence: str) -> None:
    path = write("fb.tsv", f"job0\t49\t49\t740773\t2339561\t627471\n{line}\n")
    with pytest.raises(InputError) as error:
        open_trace(path)
    assert str(error.value) == f"{path} line 2: {sentence}"


SWF = """; Version: 2.2
; Note: "odd quotes

    1      0   -1   1451   128   -1  -1   -1  -1     -1  -1   1   1  -1   -1  -1  -1  -1
    2   1460   -1   3726     4   -1  512  -1 7200   2048  -1  12   1  -1   -1  -1  -1  -1
    3   1470   -1     -1     4   -1  -1   -1  -1     -1  -1   1   1  -1   -1  -1  -1  -1
;   4   1471   -1      9     4   -1  -1   -1  -1     -1  -1   1   1  -1   -1  -1  -1  -1
    5   1480    0   10.5     1   -1  -1   -1  -1   2048  -1   1   1  -1   -1  -1  -1  -1
    6   1490    0      7    -1   -1  -1   -1  -1     -1  -1   1   1  -1   -1  -1  -1  -1
"""


def test_swf(write: Write) -> None:
    trace = open_trace(write("log.swf", SWF))
    jobs = trace.jobs
    assert jobs is not None
    assert (trace.kind, trace.rows) == ("swf", 5)
    assert jobs.job_id.tolist() == ["1", "2", "5"]
    assert jobs.submit_s.tolist() == [0.0, 1460.0, 1480.0]
    assert jobs.tasks.tolist() == [128, 4, 1]
    assert jobs.duration_s.tolist() == [1451.0, 3726.0, 10.5]
    assert jobs.request.tolist() == [
        [1_000_000, 10**9],
        [1_000_000, 512 * 1024],
        [1_000_000, 2048 * 1024],
    ]
    assert jobs.gang.all()
    assert jobs.requested_s.tolist() == [0.0, 7200.0, 0.0]
    assert [jobs.users[k] for k in jobs.user] == ["1", "12", "1"]
    assert trace.skipped == ("2 jobs without a submit time, a runtime or processors (-1)",)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "2   1460",
            "2   soon",
            " line 5: submit: expected a finite number of at least -1, got 'soon'",
        ),
        ("2   1460", "1460", " line 5: expected 18 fields, got 17"),
        ("2   1460", "1   1460", " line 5: job: '1' is there twice, first on line 4"),
        ("    6   1490", "    6   x   1490", " line 9: expected 18 fields, got 19"),
        (SWF[SWF.index("    1") :], "", ": expected at least one row, there are no jobs"),
    ],
)
def test_bad_swf(write: Write, old: str, new: str, sentence: str) -> None:
    path = write("log.swf", SWF.replace(old, new))
    with pytest.raises(InputError) as error:
        open_trace(path)
    assert str(error.value) == f"{path}{sentence}"


def test_swf_without_a_usable_job(write: Write) -> None:
    row = " ".join(["1", "0", *["-1"] * 16])
    with pytest.raises(
        InputError,
        match="expected jobs with a submit time, a runtime and processors, there are none",
    ):
        open_trace(write("log.swf", f"{row}\n"))


PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,\
deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,10,100,20
p1,6000,12288,1,460,V100M16|V100M32,BE,Pending,5,50,
p2,500,0,8,1000,T4,Burstable,Running,0,9,0.0
"""


def test_pods(write: Write) -> None:
    jobs = open_trace(write("pods.csv", PODS)).jobs
    assert jobs is not None
    assert jobs.resources.names == ("cpu", "memory", "gpu")
    assert jobs.job_id.tolist() == ["p2", "p1", "p0"]
    assert [jobs.workloads[k] for k in jobs.workload] == ["burstable", "be", "ls"]
    assert jobs.submit_s.tolist() == [0.0, 5.0, 10.0]
    assert jobs.duration_s.tolist() == [9.0, 45.0, 80.0]
    assert jobs.tasks.tolist() == [1, 1, 1]
    assert jobs.request.tolist() == [
        [500_000, 0, 8_000_000],
        [6_000_000, 12288 * MIB, 460_000],
        [12_000_000, 16384 * MIB, 1_000_000],
    ]
    sets = [jobs.constraint_sets[k] for k in jobs.constraint]
    assert sets == [
        (Constraint("model", "in", ("T4",)),),
        (Constraint("model", "in", ("V100M16", "V100M32")),),
        (),
    ]


def test_pods_without_times(write: Write) -> None:
    trace = open_trace(
        write("pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1000,1,0,0\n")
    )
    assert trace.jobs is not None
    assert (trace.jobs.workloads, trace.jobs.submit_s.tolist(), trace.jobs.duration_s.tolist()) == (
        ("pods",),
        [0],
        [3600],
    )
    assert "no times" in trace.assumptions[0]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "5,50,",
            "5,4,",
            "line 3: deletion_time: expected a time that is not before the pod's start, got '4'",
        ),
        (
            "6000,",
            "6 cores,",
            "line 3: cpu_milli: expected a finite number from 0 to 1125899906842.62, got '6 cores'",
        ),
        (
            "1,460",
            "1,2000",
            "line 3: gpu_milli: expected a finite number from 0 to 1000, got '2000'",
        ),
        ("p1,", "p0,", "line 3: name: 'p0' is there twice, first on line 2"),
    ],
)
def test_bad_pods(write: Write, old: str, new: str, sentence: str) -> None:
    path = write("pods.csv", PODS.replace(old, new))
    with pytest.raises(InputError) as error:
        open_trace(path)
    assert str(error.value) == f"{path} {sentence}"


def test_nodes(write: Write) -> None:
    nodes = open_trace(
        write(
            "nodes.csv",
            "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,32000,1,0,\n",
        )
    ).nodes
    assert nodes is not None
    assert nodes.names == ("n0", "n1")
    assert nodes.total.tolist() == [[64_000_000, 262144 * MIB, 2_000_000], [32_000_000, MIB, 0]]
    assert nodes.attributes == ({"model": "P100"}, {})
