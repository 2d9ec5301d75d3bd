"""Readers of traces with usage: virtual machines and containers as services with a curve each."""

from __future__ import annotations

import csv
import lzma
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.workload.conftest import Write

from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.simulation.engine.build import find_recorded_rows
from murmuration.simulation.scenarios.inputs import align
from murmuration.workload.describe import describe
from murmuration.workload.detect import open_trace
from murmuration.workload.jobs import JobList, multiply
from murmuration.workload.trace import TraceOptions
from murmuration.workload.windows import resample

PLANETLAB = {"20110303": 1052, "20110306": 898, "20110322": 1516}


def jobs_in(path: Path, options: TraceOptions | None = None) -> JobList:
    jobs = open_trace(path, options).jobs
    assert jobs is not None
    return jobs


def curve_of(jobs: JobList, job: str, resource: int = 0) -> list[float]:
    assert jobs.curves is not None
    return [float(share) for share in jobs.curves.share[jobs.curve[jobs.job_row(job)], :, resource]]


def _lines(path: Path) -> list[str]:
    return lzma.decompress(path.read_bytes()).decode().splitlines()


def test_planetlab(write: Write) -> None:
    path = write("day.csv", "vm,u000,u001,u002\na,10,20,30\nb,0,99,100\n")
    jobs = jobs_in(path, TraceOptions(task_cpu=2.0, task_memory=4e9))
    assert jobs.workloads == ("service",)
    assert jobs.request.tolist() == [[2_000_000, 4 * 10**9]] * 2
    assert (jobs.submit_s.tolist(), jobs.duration_s.tolist()) == ([0, 0], [900, 900])
    assert curve_of(jobs, "b") == pytest.approx([0, 0.99, 1])
    assert curve_of(jobs, "b", 1) == [1, 1, 1]
    assert describe(open_trace(path))["usage"] == {
        "jobs": 2,
        "curves": 2,
        "points": 3,
        "step_s": 300,
        "cyclic": False,
        "mean": {"cpu": pytest.approx(259 / 600), "memory": 1},
        "max": {"cpu": 1, "memory": 1},
    }


def test_planetlab_percentages_are_checked(write: Write) -> None:
    path = write("day.csv", "vm,u000,u001\na,10,101\n")
    with pytest.raises(
        InputError, match=r"day.csv line 2: u001: expected a finite number from 0 to 100, got '101'"
    ):
        open_trace(path)


@pytest.mark.parametrize("day", PLANETLAB)
def test_the_published_days_of_planetlab(data: Path, day: str) -> None:
    path = data / "planetlab" / f"{day}.csv.xz"
    jobs = jobs_in(path)
    assert jobs.curves is not None
    assert len(jobs) == PLANETLAB[day]
    assert jobs.curves.share.shape[1] * jobs.curves.step_s == 86_400
    rows = list(csv.reader(_lines(path)))[1:]
    plain = sum(float(value) for row in rows for value in row[1:]) / (288 * len(rows))
    # The data's own description: a mean of 9 to 12 percent.
    assert 9.0 <= plain <= 12.5
    assert float(jobs.curves.share[:, :, 0].mean()) * 100 == pytest.approx(plain, rel=1e-5)


INSTANCES = "inst_1,app_1,machine_2\ninst_2,app_2,\ninst_3,app_1,machine_9\n"
APPS = "app_1,0.5|1.0|2.0,4.0|4.0|8.0,60,0,1,1\napp_2,0|0|0,1|1|1,0,0,0,0\n"


def test_alibaba_containers(write: Write) -> None:
    write("app_resources.csv", APPS)
    trace = open_trace(write("instance_deploy.csv", INSTANCES))
    jobs = trace.jobs
    assert jobs is not None
    assert jobs.resources.names == ("cpu", "memory", "disk", "p", "m", "pm")
    assert jobs.request[0].tolist() == [2_000_000, 8 * 10**9, 60_000_000, 0, 1_000_000, 1_000_000]
    assert curve_of(jobs, "inst_3") == pytest.approx([0.25, 0.5, 1.0])
    assert curve_of(jobs, "inst_3", 1) == [0.5, 0.5, 1.0]
    assert curve_of(jobs, "inst_2") == [0, 0, 0]
    assert [jobs.recorded_nodes[k] if k >= 0 else None for k in jobs.recorded] == [
        "machine_2",
        None,
        "machine_9",
    ]
    assert jobs.curves is not None
    assert jobs.curves.step_s == 28_800
    assert any("1 instances were not yet on a node" in line for line in trace.assumptions)


@pytest.mark.parametrize(
    ("apps", "sentence"),
    [
        (
            None,
            "instance_deploy.csv: expected a file app_resources.csv beside it, with what the "
            "apps use",
        ),
        (APPS.replace("app_2", "app_3"), "instance_deploy.csv line 2: app: expected an app of"),
        (
            APPS.replace("1|1|1", "1|1"),
            "app_resources.csv line 2: memory: expected 3 numbers separated by |",
        ),
        (
            APPS.replace("0|0|0", "0|-1|0"),
            "app_resources.csv line 2: cpu: expected numbers that are not negative",
        ),
    ],
)
def test_containers_without_their_apps(write: Write, apps: str | None, sentence: str) -> None:
    if apps is not None:
        write("app_resources.csv", apps)
    path = write("instance_deploy.csv", INSTANCES)
    with pytest.raises(InputError) as caught:
        open_trace(path)
    assert sentence in str(caught.value)


def test_the_published_containers_of_alibaba(data: Path) -> None:
    """The counts of the contest's text; the peak of an app read by hand."""
    jobs = jobs_in(data / "alibaba-containers-2018" / "instance_deploy.csv.xz")
    nodes = open_trace(data / "alibaba-containers-2018" / "machine_resources.csv.xz").nodes
    assert nodes is not None
    assert (len(jobs), int((jobs.recorded >= 0).sum()), len(nodes)) == (68_224, 61_254, 6_000)
    assert set(jobs.recorded_nodes) <= set(nodes.names)
    assert np.unique(nodes.total[:, :3], axis=0).tolist() == [
        [32_000_000, 64 * 10**9, 1440_000_000],
        [92_000_000, 288 * 10**9, 2457_000_000],
    ]
    assert jobs.curves is not None
    share = jobs.curves.share[jobs.curve]
    assert share.max() == 1.0
    apps = csv.reader(_lines(data / "alibaba-containers-2018" / "app_resources.csv.xz"))
    plain = {row[0]: [float(x) for x in row[1].split("|")] for row in apps}
    deployed = _lines(data / "alibaba-containers-2018" / "instance_deploy.csv.xz")
    for name, app, _ in (line.split(",") for line in deployed[:: len(deployed) // 50]):
        row = jobs.job_row(name)
        used = share[row, :, 0] * (jobs.request[row, 0] / 1e6)
        assert used.tolist() == pytest.approx(plain[app], abs=2e-5)


def test_the_recorded_placement_of_alibaba_never_overfills_a_node(data: Path) -> None:
    """The contest's first placement keeps to every limit at all 98 instants."""
    jobs = jobs_in(data / "alibaba-containers-2018" / "instance_deploy.csv.xz")
    nodes = open_trace(data / "alibaba-containers-2018" / "machine_resources.csv.xz").nodes
    assert nodes is not None and jobs.curves is not None
    row = find_recorded_rows(jobs, nodes)
    known = np.flatnonzero(row >= 0)
    assert [nodes.names[row[k]] for k in known[:50]] == [
        jobs.recorded_nodes[jobs.recorded[k]] for k in known[:50]
    ]
    for point in range(0, 98, 7):
        used = np.zeros(nodes.total.shape)
        np.add.at(
            used, row[known], jobs.request[known] * jobs.curves.share[jobs.curve[known], point]
        )
        assert (used <= nodes.total * (1 + 1e-6)).all()


VMS = (
    "vm_id,start_s,stop_s,cpu_count,cpu_capacity_mhz,mem_capacity\n"
    "7,1000,2000,2,4000,1024\n8,1300,1900,1,2000,2048\n"
)
USAGE = (
    "vm_id,end_s,duration_ms,cpu_count,cpu_usage_mhz\n7,1300,300000,2,1000\n7,1900,600000,2,4000\n"
)


def test_bitbrains(write: Write) -> None:
    write("usage.csv", USAGE + "9,1300,300000,1,5\n7,1300,300000,2,-1\n7,1300,300000,2,nan\n")
    trace = open_trace(write("vms.csv", VMS))
    jobs = trace.jobs
    assert jobs is not None
    assert jobs.request.tolist() == [[2_000_000, 1024**2], [1_000_000, 2 * 1024**2]]
    assert (jobs.submit_s.tolist(), jobs.duration_s.tolist()) == ([0, 300], [1000, 600])
    assert curve_of(jobs, "7") == [0.25, 1, 1, 1]
    assert jobs.curve.tolist() == [0, -1]
    path = Path(str(trace.skipped[0]).rpartition("the first at ")[2].rpartition(" line")[0])
    assert trace.skipped == (
        f"1 row with usage of an unknown task, the first at {path} line 4",
        f"2 rows with usage that is negative or no number, the first at {path} line 5",
    )
    with pytest.raises(InputError, match=r"usage.csv line 4: usage of an unknown task"):
        open_trace(path.parent / "vms.csv", TraceOptions(strict=True))


def test_the_published_machines_of_bitbrains(data: Path) -> None:
    trace = open_trace(data / "bitbrains-small" / "vms.csv", TraceOptions(strict=True))
    assert trace.jobs is not None
    assert (len(trace.jobs), trace.skipped) == (50, ())
    assert (trace.jobs.curve >= 0).all()


WINDOWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-3, 30), st.integers(0, 9), st.integers(0, 5)),
    max_size=12,
)


@given(WINDOWS)
def test_points_are_means_over_time(windows: list[tuple[int, int, int, int]]) -> None:
    """Second by second: what was measured in a step, averaged over its seconds."""
    columns = [np.array([float(window[k]) for window in windows]) for k in range(4)]
    row, start, length, used = columns
    points = resample(row.astype(np.int64), start, start + length, used[:, None], 3, 6, 5.0)[
        :, :, 0
    ]
    for r in range(3):
        seconds: dict[int, list[int]] = {}
        for which, begin, count, value in windows:
            for second in range(max(begin, 0), begin + count):
                if which == r:
                    seconds.setdefault(second // 5, []).append(value)
        plain = [sum(seconds[p]) / len(seconds[p]) if p in seconds else math.nan for p in range(6)]
        known = [value for value in plain if not math.isnan(value)]
        before = known[0] if known else math.nan
        for p in range(6):
            before = before if math.isnan(plain[p]) else plain[p]
            assert points[r, p] == pytest.approx(before, nan_ok=True)


def test_a_copy_of_a_job_has_its_curve_and_no_node(write: Write) -> None:
    write("app_resources.csv", APPS)
    jobs = jobs_in(write("instance_deploy.csv", INSTANCES))
    twice = multiply(jobs, 2.0)
    assert twice.curve.tolist() == [0, 0, 1, 1, 0, 0]
    assert [twice.recorded_nodes[k] if k >= 0 else "" for k in twice.recorded] == [
        "machine_2",
        "",
        "",
        "",
        "machine_9",
        "",
    ]


def test_curves_follow_the_resources_of_the_cluster(write: Write) -> None:
    write("app_resources.csv", APPS)
    jobs = jobs_in(write("instance_deploy.csv", INSTANCES))
    wanted = Resources(("cpu", "memory", "gpu", "pm", "m", "p", "disk"))
    moved = align(jobs, wanted, "file")
    assert moved.curves is not None
    assert moved.curves.share.shape == (2, 3, 7)
    assert curve_of(moved, "inst_1", 1) == [0.5, 0.5, 1.0]
    assert curve_of(moved, "inst_1", 2) == [1, 1, 1]
    assert moved.request[0].tolist() == [
        2_000_000,
        8 * 10**9,
        0,
        1_000_000,
        1_000_000,
        0,
        60_000_000,
    ]
