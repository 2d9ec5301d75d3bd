"""Google's traces of 2011 and 2019 and the Omega simulator's files, on a few rows worked out by
hand."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import numpy as np
import pytest

from murmuration.base.errors import InputError
from murmuration.workload.detect import open_trace
from murmuration.workload.formats.job_lists import read_jobs
from murmuration.workload.nodes import ADD, REMOVE, UPDATE
from murmuration.workload.trace import TraceOptions

if TYPE_CHECKING:
    from tests.workload.conftest import Write

GIB = 2**30
EVENTS = """time_us,missing_info,job_id,event_type,user,scheduling_class,logical_job_name
0,,1,0,7,3,0
0,,1,1,7,3,0
700000000,,2,0,7,0,1
701000000,,2,1,7,0,1
702000000,,3,0,7,2,2
703500000,,3,1,7,2,2
710000000,,9,4,7,1,3
711000000,,2,3,7,0,1
712000000,,2,0,7,0,1
713000000,,2,1,7,0,1
714000000,,2,4,7,0,1
715000000,,4,0,7,1,4
716000000,,4,5,7,1,4
720000000,1,5,0,7,1,5
9223372036854775807,,3,4,7,2,2
"""
SHAPES = """job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task
x,batch,0,10,1,1,1
y,batch,0,20,1,2,2
z,service,0,30,1,3,3
"""


def test_job_events(write: Write) -> None:
    trace = open_trace(write("events.csv", EVENTS))
    jobs = trace.jobs
    assert jobs is not None
    assert (trace.kind, trace.rows) == ("google2011 job events", 15)
    assert jobs.job_id.tolist() == ["2", "3", "5"]
    assert [jobs.workloads[k] for k in jobs.workload] == ["batch", "service", "batch"]
    assert jobs.submit_s.tolist() == [700.0, 702.0, 720.0]
    # Job 2 until its first end, job 3 until the last event, job 5 was never seen to start.
    assert jobs.duration_s.tolist() == [10.0, 16.5, 0.0]
    assert jobs.tasks.tolist() == [1, 1, 1]
    assert jobs.request.tolist() == [[1_000_000, 1_000_000_000]] * 3
    assert trace.skipped == (
        "1 jobs that were there at time 0",
        "1 jobs submitted before this file begins",
        "1 jobs that ended without being scheduled",
    )
    assert any("no task counts" in note for note in trace.assumptions)


def test_job_events_with_the_jobs_at_time_zero(write: Write) -> None:
    trace = open_trace(write("events.csv", EVENTS), TraceOptions(initial=True))
    assert trace.jobs is not None
    assert trace.jobs.job_id.tolist() == ["1", "2", "3", "5"]
    assert trace.jobs.duration_s[0] == 720.0
    assert len(trace.skipped) == 2


def test_job_events_with_drawn_shapes(write: Write) -> None:
    path, shapes = write("events.csv", EVENTS), read_jobs(write("shapes.csv", SHAPES))

    def draw(seed: int) -> list[tuple[int, int]]:
        jobs = open_trace(path, TraceOptions(shapes=shapes, rng=np.random.default_rng(seed))).jobs
        assert jobs is not None
        return list(zip(jobs.tasks.tolist(), jobs.request[:, 0].tolist(), strict=True))

    first = draw(1)
    assert first == draw(1)
    assert first[1] == (30, 3_000_000)
    assert {first[0], first[2]} <= {(10, 1_000_000), (20, 2_000_000)}
    assert len({tuple(draw(seed)) for seed in range(8)}) > 1
    with pytest.raises(ValueError, match="generator"):
        open_trace(path, TraceOptions(shapes=shapes))


def test_raw_job_events_without_a_header(write: Write) -> None:
    raw = "600000000,,11,0,u=,1,n=,l=\n601000000,,11,1,u=,1,n=,l=\n604000000,,11,4,u=,1,n=,l=\n"
    trace = open_trace(write("part-00000-of-00500.csv.gz", gzip.compress(raw.encode())))
    assert trace.jobs is not None
    assert (trace.kind, trace.jobs.submit_s.tolist(), trace.jobs.duration_s.tolist()) == (
        "google2011 job events",
        [600.0],
        [3.0],
    )


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "702000000,,3,0",
            "702000000,,3,9",
            "line 6: event_type: expected a whole number from 0 to 8, got '9'",
        ),
        (
            "702000000,,3",
            "now,,3",
            "line 6: time_us: expected a whole number that is not negative, got 'now'",
        ),
        (
            "702000000,,3,0,7,2",
            "702000000,,3,0,7,4",
            "line 6: scheduling_class: expected a whole number from 0 to 3, got '4'",
        ),
        ("702000000,,3,0,7,2,2", "702000000,,3,0,7,2", "line 6: expected 7 fields, got 6"),
        (
            "702000000,,3,",
            "702000000,,,",
            "line 6: job_id: expected printable text of up to 200 characters, got nothing",
        ),
    ],
)
def test_bad_job_events(write: Write, old: str, new: str, sentence: str) -> None:
    path = write("events.csv", EVENTS.replace(old, new))
    with pytest.raises(InputError) as error:
        open_trace(path)
    assert str(error.value) == f"{path} {sentence}"


def test_job_events_without_a_submission(write: Write) -> None:
    with pytest.raises(InputError, match="no job was submitted after time 0"):
        open_trace(write("events.csv", EVENTS[: EVENTS.index("700000000")]))


def test_machines(write: Write) -> None:
    text = "machine_id,platform_id,cpus,memory\n5,Hof=,0.5,0.2493\n6,Gt=,1,1\n"
    trace = open_trace(write("machines.csv", text))
    assert trace.nodes is not None
    assert trace.nodes.names == ("5", "6")
    assert trace.nodes.total.tolist() == [
        [16_000_000, round(0.2493 * 128 * GIB)],
        [32_000_000, 128 * GIB],
    ]
    assert trace.nodes.attributes == ({"platform": "Hof="}, {"platform": "Gt="})


def test_initial_tasks(write: Write) -> None:
    text = (
        "submit_time_us,job_id,task_index,user_hash,scheduling_class,priority,runtime_us,end_time_us,cpu_request,memory_request\n"
        "0,10,0,u,2,9,100000000,-1,0.25,0.5\n"
        "0,10,1,u,2,9,300000000,300000000,0.75,0.5\n"
        "0,11,0,u,3,8,5000000,5000000,0.125,0.125\n"
    )
    trace = open_trace(write("initial_tasks.csv", text))
    jobs = trace.jobs
    assert jobs is not None
    assert jobs.job_id.tolist() == ["10", "11"]
    assert [jobs.workloads[k] for k in jobs.workload] == ["service", "batch"]
    assert jobs.tasks.tolist() == [2, 1]
    assert jobs.duration_s.tolist() == [200.0, 5.0]
    assert jobs.request.tolist() == [[16_000_000, 64 * GIB], [4_000_000, 16 * GIB]]
    assert jobs.priority.tolist() == [9, 8]
    assert jobs.production.tolist() == [True, False]


STATE = """\
11 0.0  623 0 2 2 1 1074000000
12 12.6 623 0 2 82587
11 0.0 158 1 1 1 1 7286400
11 0 159 1 3 4 2 8000
12 9 7 0 0 1
"""


def test_cell_state(write: Write) -> None:
    trace = open_trace(write("init-cluster-state.log", STATE))
    jobs = trace.jobs
    assert jobs is not None
    assert (trace.kind, trace.rows) == ("omega cell state", 5)
    assert jobs.job_id.tolist() == ["623", "158", "159"]
    assert [jobs.workloads[k] for k in jobs.workload] == ["batch", "batch", "service"]
    assert jobs.duration_s.tolist() == [12.6, 29 * 86400.0, 29 * 86400.0]
    assert jobs.request.tolist() == [
        [500_000, 537_000_000],
        [1_000_000, 7_286_400],
        [500_000, 2000],
    ]
    assert trace.skipped == ("1 ends of jobs that are not in the file",)


def test_cell_state_of_requests_in_microseconds(write: Write) -> None:
    path = write("state.request.log", STATE.replace(" 12.6 ", " 729714878393 "))
    jobs = open_trace(path, TraceOptions(duration_s=1e6)).jobs
    assert jobs is not None
    assert jobs.duration_s.tolist() == [729714.878393, 1e6, 1e6]
    assert jobs.request[0].tolist() == [1_000_000, 1_074_000_000]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("158 1 1 1 1 7286400", "158 1 1 1 1", "line 3: expected 8 fields, got 7"),
        (
            "158 1 1 1 1",
            "158 1 1 0 1",
            "line 3: tasks: expected a whole number from 1 to 1000000, got '0'",
        ),
        (
            "11 0.0 158",
            "13 0.0 158",
            "line 3: type: expected a whole number from 11 to 12, got '13'",
        ),
        ("11 0.0 158", "11 0.0 623", "line 3: job_id: '623' is there twice, first on line 1"),
    ],
)
def test_bad_cell_state(write: Write, old: str, new: str, sentence: str) -> None:
    path = write("state.log", STATE.replace(old, new))
    with pytest.raises(InputError) as error:
        open_trace(path)
    assert str(error.value) == f"{path} {sentence}"


def test_distributions(write: Write) -> None:
    gaps = open_trace(
        write(
            "a_interarrival_cmb.log", "cell cmb-new 0 2.5\ncell cmb-new 1 340\ncell cmb-new 0 0.5\n"
        )
    )
    tasks = open_trace(write("a_csizes_cmb.log", "cell cmb-new 0 1\ncell cmb-new 0 1600\n"))
    assert gaps.tables["batch"].gaps_s.tolist() == [2.5, 0.5]
    assert gaps.tables["service"].gaps_s.tolist() == [340.0]
    assert tasks.tables["batch"].tasks.tolist() == [1.0, 1600.0]
    assert list(tasks.tables) == ["batch"]
    assert len(gaps.tables["service"].tasks) == len(tasks.tables["batch"].durations_s) == 0
    with pytest.raises(InputError, match="expected interarrival, csizes or runtimes in the name"):
        open_trace(write("numbers.log", "cell cmb-new 0 1\n"))


CSV_EVENTS = """time_us,machine_id,event_type,switch,platform,cpus,memory
0,20,1,0,0,0.5,0.25
0,10,1,1,0,1,0.5
5000000,20,2,0,0,0.5,0.25
3000000,30,1,2,1,,
4000000,30,3,2,1,0.25,0.25
"""


def test_machine_events(write: Write) -> None:
    trace = open_trace(write("events.csv", CSV_EVENTS))
    events, nodes = trace.events, trace.nodes
    assert events is not None
    assert nodes is not None
    assert nodes.names == ("10", "20")
    assert nodes.total.tolist() == [[32_000_000, 64 * GIB], [16_000_000, 32 * GIB]]
    assert nodes.attributes == ({"platform": 0.0, "switch": 1.0}, {"platform": 0.0, "switch": 0.0})
    assert events.time_s.tolist() == [0.0, 0.0, 3.0, 4.0, 5.0]
    assert events.node_id.tolist() == ["10", "20", "30", "30", "20"]
    assert events.kind.tolist() == [ADD, ADD, ADD, UPDATE, REMOVE]
    assert events.total[2:4].tolist() == [[0, 0], [8_000_000, 32 * GIB]]
    assert "1 nodes are added without a size" in trace.assumptions[1]


def test_machine_events_in_json(write: Write) -> None:
    lines = (
        '{"time":"5000000","machine_id":"20","type":"2","switch_id":"s","platform_id":"p","capacity":{"cpus":0.5,"memory":0.25}}\n'
        '{"machine_id":"20","type":"1","switch_id":"s","platform_id":"p","capacity":{"cpus":0.5,"memory":0.25}}\n'
        '{"time":"3000000","machine_id":30,"type":1}\n'
    )
    trace = open_trace(write("events.json.gz", gzip.compress(lines.encode())))
    assert trace.events is not None
    assert trace.nodes is not None
    assert trace.nodes.names == ("20",)
    assert trace.nodes.attributes == ({"platform": "p", "switch": "s"},)
    assert trace.events.node_id.tolist() == ["20", "30", "20"]
    assert trace.events.kind.tolist() == [ADD, ADD, REMOVE]
    for bad, sentence in {
        lines + '{"machine_id":"1"}\n': "line 4: expected a node event in JSON: ",
        lines + '\n{"machine_id":"1",': "line 5: expected a node event in JSON: ",
        lines
        + '{"machine_id":"1","type":"7"}': "line 4: event_type: expected a whole number from 1 "
        "to 3, got '7'",
    }.items():
        path = write("events.json", bad)
        with pytest.raises(InputError) as error:
            open_trace(path)
        assert str(error.value).startswith(f"{path} {sentence}")


def test_requests(write: Write) -> None:
    text = (
        "time,user,collection_id,instance_index,cpus,ram,collection_type\n"
        "2000000,u,7,1,0.25,0.5,0\n1000000,u,8,0,0.5,0.5,0\n1500000,u,7,0,0.75,0.5,0\n"
    )
    jobs = open_trace(write("requests.csv", text), TraceOptions(duration_s=60.0)).jobs
    assert jobs is not None
    assert jobs.job_id.tolist() == ["8", "7"]
    assert jobs.submit_s.tolist() == [1.0, 1.5]
    assert jobs.tasks.tolist() == [1, 2]
    assert jobs.duration_s.tolist() == [60.0, 60.0]
    assert jobs.request.tolist() == [[16_000_000, 64 * GIB], [16_000_000, 64 * GIB]]


def test_machine_counts(write: Write) -> None:
    nodes = open_trace(
        write("machines.csv", "cpus,ram,machine_count\n1.0,0.5,2\n0.5,0.25,1\n")
    ).nodes
    assert nodes is not None
    assert nodes.names == ("node-0", "node-1", "node-2")
    assert nodes.total.tolist() == [[32_000_000, 64 * GIB]] * 2 + [[16_000_000, 32 * GIB]]


THERE = "11 0 1 1 2 40 4 1e9\n11 0 77 0 0 7 2 5e8\n"


def test_job_events_with_what_was_there_beside(write: Write) -> None:
    """Job 1 was there at time 0 and is known; the others are drawn from the one that is no
    production job."""
    path = write("events.csv", EVENTS)
    path.with_name("omega-format").mkdir()
    write("omega-format/init-cluster-state.request.log", THERE)
    trace = open_trace(path, TraceOptions(initial=True, rng=np.random.default_rng(1)))
    assert trace.jobs is not None
    assert trace.jobs.job_id.tolist() == ["1", "2", "3", "5"]
    assert trace.jobs.tasks.tolist() == [40, 7, 7, 7]
    assert trace.jobs.request[:, 0].tolist() == [4_000_000, 2_000_000, 2_000_000, 2_000_000]
    assert trace.jobs.production.tolist() == [True, False, False, False]
    assert any("job-level replay with sampled tasks" in note for note in trace.assumptions)
    write(
        "omega-format/init-cluster-state.usage.log", "11 0 1 1 2 40 80 1e10\n11 0 77 0 0 7 14 7e8\n"
    )
    jobs = open_trace(path, TraceOptions(initial=True, rng=np.random.default_rng(1))).jobs
    assert jobs is not None and jobs.curves is not None
    assert jobs.curves.cyclic
    assert jobs.curve.tolist() == [0, 1, 1, 1]
    # Of 4 CPU and 1 GB a task of the first job uses 2 CPU and 250 MB, of 2 CPU and 500 MB one of
    # the other all and 100.
    assert jobs.curves.share.mean(axis=1).tolist() == [
        pytest.approx([0.5, 0.25], rel=0.2),
        pytest.approx([1, 0.2], rel=0.2),
    ]
    # Nothing is drawn without a generator.
    assert open_trace(path, TraceOptions(initial=True)).jobs is not None


REMOVALS = (
    "time_us,machine_id,event_type,platform_id,cpus,memory\n"
    "5000000000,7,1,p=,0.5,0.25\n600000000,7,1,p=,0.5,0.25\n601000000,8,1,p=,1,1\n5001000000,7,1,p=,0.5,0.25\n"
)


def test_removals_without_returns(write: Write) -> None:
    """Back after 1,300 s; half-way where the next removal is sooner; never where the node is listed
    as gone."""
    write(
        "machines_gone_for_good.csv",
        "machine_id,last_event_type,last_event_time_us\n8,1,601000000\n",
    )
    events = open_trace(write("remove.csv", REMOVALS)).events
    assert events is not None
    rows = zip(events.time_s.tolist(), events.node_id.tolist(), events.kind.tolist(), strict=True)
    assert list(rows) == [
        (600, "7", REMOVE),
        (601, "8", REMOVE),
        (1900, "7", ADD),
        (5000, "7", REMOVE),
        (5000.5, "7", ADD),
        (5001, "7", REMOVE),
        (6301, "7", ADD),
    ]
    assert events.total[2].tolist() == [16_000_000, 32 * 2**30]


def test_removals_with_other_events(write: Write) -> None:
    path = write("remove.csv", REMOVALS.replace("601000000,8,1", "601000000,8,0"))
    with pytest.raises(
        InputError, match=r"line 4: event_type: expected 1 \(removed\) in every row, got '0'"
    ):
        open_trace(path)
