"""Google's six tables of 2011: what a folder replays as, and how its bad rows are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.workload.google2011_folder import Folder, lives, random_folder, seconds_used

from murmuration.base.errors import InputError
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.inputs import make_events, make_jobs, make_nodes
from murmuration.workload.describe import describe
from murmuration.workload.detect import open_trace
from murmuration.workload.jobs import JobList
from murmuration.workload.node_events import absent
from murmuration.workload.nodes import NodeTable
from murmuration.workload.trace import Trace, TraceOptions

CPU, GIB = 32.0, 128 * 2**30


def small() -> Folder:
    """Two nodes, one of them later, and two tasks, one of them evicted and started again."""
    folder = Folder()
    folder.node(0, 1, 0, 0.5, 0.25)
    folder.node(700, 2, 0, 1.0, 1.0)
    folder.node(5000, 1, 1)
    folder.attribute(0, 1, "kernel", "abc=")
    folder.attribute(0, 2, "disks", 4)
    folder.task(600, 7, 0, 0, priority=9, klass=2, cpu=0.25, memory=0.125)
    folder.task(601, 7, 0, 1, node=2, priority=9, klass=2, cpu=0.25, memory=0.125)
    folder.task(650, 8, 3, 0, cpu="", memory="")
    folder.task(660, 8, 3, 1, node=1, cpu="", memory="")
    folder.task(700, 8, 3, 2, cpu="", memory="")
    folder.task(750, 8, 3, 1, node=2, cpu="", memory="")
    folder.task(1260, 8, 3, 4, cpu="", memory="")
    folder.constraint(600, 7, 0, 3, "disks", 2)
    folder.usage(601, 901, 7, 0, 0.125, 0.125)
    folder.usage(901, 1801, 7, 0, 0.25, 0.25)
    folder.usage(660, 700, 8, 3, 0.5, 0.0625)
    return folder


def jobs_of(trace: Trace) -> JobList:
    assert trace.jobs is not None
    return trace.jobs


def nodes_of(trace: Trace) -> NodeTable:
    assert trace.nodes is not None
    return trace.nodes


def test_a_folder_is_one_trace(tmp_path: Path) -> None:
    trace = open_trace(small().write(tmp_path), TraceOptions(strict=True))
    assert (trace.kind, trace.rows, trace.skipped) == ("google2011 tables", 14, ())
    nodes, jobs = nodes_of(trace), jobs_of(trace)
    assert nodes.names == ("1",)
    assert nodes.total.tolist() == [[16_000_000, 32 * 2**30]]
    assert nodes.attributes == ({"platform": "plat", "kernel": "abc="},)
    assert jobs.job_id.tolist() == ["7-0", "8-3"]
    assert jobs.submit_s.tolist() == [600, 650]
    assert jobs.duration_s.tolist() == [1801 - 601, 1260 - 660]
    assert jobs.production.tolist() == [True, False]
    assert [jobs.workloads[k] for k in jobs.workload] == ["service", "batch"]
    assert [jobs.recorded_nodes[k] for k in jobs.recorded] == ["2", "1"]
    assert [[str(c) for c in jobs.constraint_sets[k]] for k in jobs.constraint] == [
        ["disks > 2"],
        [],
    ]
    # The second task asks for nothing, so for the most it used.
    assert jobs.request.tolist() == [[8_000_000, 16 * 2**30], [16_000_000, 8 * 2**30]]
    assert jobs.curves is not None
    assert jobs.curves.share[jobs.curve].tolist() == [
        [[0.5, 1.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]],
        [[1.0, 1.0]] * 4,
    ]
    assert any(
        "1 tasks were evicted or failed and scheduled again" in line for line in trace.assumptions
    )
    events = describe(trace)["events"]
    assert (events["add"], events["remove"]) == (2, 1)


def test_the_four_operators(tmp_path: Path) -> None:
    folder = small()
    for operator, value in ((0, "a"), (1, "b"), (2, 9), (3, 1)):
        folder.constraint(650, 8, 3, operator, "disks", value)
    folder.constraint(650, 8, 3, 1, "gpu", "")
    folder.constraint(750, 8, 3, 0, "disks", "said when it came back")
    folder.attribute(0, 2, "gpu", "")
    jobs = jobs_of(open_trace(folder.write(tmp_path)))
    # A node that has `disks = a` has no number of disks, so no node is left; the task is named
    # below.
    assert jobs.job_id.tolist() == ["7-0"]
    sets = [[str(c) for c in constraints] for constraints in jobs.constraint_sets]
    assert sets == [
        [],
        ["disks > 2"],
        ["disks != b", "disks < 9", "disks = a", "disks > 1", "gpu exists"],
    ]


@pytest.mark.parametrize("seed", range(12))
def test_a_plain_reader_sees_the_same(tmp_path: Path, seed: int) -> None:
    folder = random_folder(seed)
    trace = open_trace(folder.write(tmp_path, parts=3))
    jobs, plain = jobs_of(trace), lives(folder)
    homeless = set(plain) - set(jobs.job_id.tolist())
    assert all(
        line.startswith(f"{len(homeless)} row") and "fits no node" in line for line in trace.skipped
    )
    generations = {str(row[1]): int(str(row[3])) for row in folder.rows["machine_attributes"]}
    tests = {0: int.__eq__, 1: int.__ne__, 2: int.__lt__, 3: int.__gt__}
    for task, life in plain.items():
        asked = [row for row in folder.rows["task_constraints"] if f"{row[1]}-{row[2]}" == task]
        able = {
            node
            for node, generation in generations.items()
            if all(tests[int(str(row[3]))](generation, int(str(row[5]))) for row in asked)
        }
        assert (task in homeless) == (not able)
        if task in homeless:
            continue
        row = jobs.job_row(task)
        assert (jobs.submit_s[row], jobs.duration_s[row]) == (
            life.submit,
            pytest.approx(life.end - life.start),
        )
        assert jobs.recorded_nodes[jobs.recorded[row]] == life.node
        for resource, column in ((0, 5), (1, 6)):
            _same_usage(folder, jobs, row, life.start, resource, column)


def _same_usage(
    folder: Folder, jobs: JobList, row: int, start: float, resource: int, column: int
) -> None:
    """The points of a curve against the mean of each step, second by second."""
    assert jobs.curves is not None
    points = jobs.curves.share.shape[1]
    steps = seconds_used(folder, str(jobs.job_id[row]), start, points * 300, column)
    if jobs.curve[row] < 0:
        assert not steps
        return
    used = jobs.curves.share[jobs.curve[row], :, resource] * jobs.request[row, resource]
    value = np.mean(steps[min(steps)])
    for point in range(points):
        value = np.mean(steps[point]) if point in steps else value
        assert used[point] == pytest.approx(value * (CPU * 1e6, GIB)[resource], rel=1e-5)


def _with(change: str) -> Folder:
    """The small trace with one thing wrong."""
    folder = small()
    match change:
        case "unknown task":
            folder.usage(601, 901, 7, 99, 0.1, 0.1)
        case "negative":
            folder.usage(601, 901, 7, 0, -0.1, 0.1)
        case "nan":
            folder.usage(601, 901, 7, 0, 0.1, "nan")
        case "empty":
            folder.usage(601, 901, 7, 0, "", 0.1)
        case "backwards":
            folder.usage(901, 601, 7, 0, 0.1, 0.1)
        case "missing node":
            folder.task(900, 9, 0, 0)
            folder.task(901, 9, 0, 1, node=404)
        case "too large":
            folder.task(900, 9, 0, 0, cpu=1.5)
            folder.task(901, 9, 0, 1, node=1, cpu=1.5)
        case "constrained away":
            folder.task(900, 9, 0, 0)
            folder.task(901, 9, 0, 1, node=1)
            folder.constraint(900, 9, 0, 3, "disks", 4)
        case "no size":
            folder.node(800, 3, 0, "", "")
        case "stranger's attribute":
            folder.attribute(0, 404, "disks", 1)
        case "stranger's constraint":
            folder.constraint(0, 404, 0, 0, "disks", 1)
        case "must lack":
            folder.constraint(650, 8, 3, 0, "disks", "")
    return folder


BAD = {
    "unknown task": ("task_usage", 4, "usage of an unknown task"),
    "negative": ("task_usage", 4, "usage that is negative or no number"),
    "nan": ("task_usage", 4, "usage that is negative or no number"),
    "empty": ("task_usage", 4, "usage that is negative or no number"),
    "backwards": ("task_usage", 4, "a window that ends before it begins"),
    "missing node": ("task_events", 9, "a node that is not in machine_events"),
    "too large": ("task_events", 8, "a task that fits no node"),
    "constrained away": ("task_events", 8, "a task that fits no node"),
    "no size": ("machine_events", 4, "a node that is not added with a size first"),
    "stranger's attribute": (
        "machine_attributes",
        3,
        "an attribute of a node that is not in machine_events",
    ),
    "stranger's constraint": ("task_constraints", 2, "a constraint of an unknown task"),
    "must lack": ("task_constraints", 2, "a constraint that a node must lack an attribute"),
}


@pytest.mark.parametrize("change", BAD)
def test_bad_rows_are_counted_and_named(tmp_path: Path, change: str) -> None:
    table, line, what = BAD[change]
    path = _with(change).write(tmp_path)
    where = f"{path / table / 'part-00000-of-00001.csv.gz'} line {line}"
    trace = open_trace(path)
    assert trace.skipped == (f"1 row with {what}, the first at {where}",)
    assert {"7-0", "8-3"} <= set(jobs_of(trace).job_id.tolist())
    with pytest.raises(InputError) as caught:
        open_trace(path, TraceOptions(strict=True))
    assert str(caught.value) == f"{where}: {what}"


def test_a_bad_row_is_named_by_the_part_it_stands_in(tmp_path: Path) -> None:
    path = _with("negative").write(tmp_path, parts=2)
    (line,) = open_trace(path).skipped
    assert line.endswith(f"{path / 'task_usage' / 'part-00001-of-00002.csv.gz'} line 2")


def test_a_task_on_a_missing_node_keeps_no_record_of_it(tmp_path: Path) -> None:
    jobs = jobs_of(open_trace(_with("missing node").write(tmp_path)))
    assert jobs.recorded[jobs.job_row("9-0")] == -1


@pytest.mark.parametrize("table", ["machine_events", "task_events"])
def test_a_folder_without_a_table_it_needs(tmp_path: Path, table: str) -> None:
    folder = small()
    folder.rows[table] = []
    with pytest.raises(
        InputError, match=rf"{table}: expected files such as part-00000-of-00001.csv.gz"
    ):
        open_trace(folder.write(tmp_path))


def test_a_task_that_never_ran_is_no_bad_row(tmp_path: Path) -> None:
    folder = small()
    folder.task(900, 9, 0, 0)
    folder.task(950, 9, 0, 5)
    folder.constraint(900, 9, 0, 0, "disks", 4)
    trace = open_trace(folder.write(tmp_path), TraceOptions(strict=True))
    assert trace.skipped == ("1 tasks that ended without being scheduled",)
    assert jobs_of(trace).job_id.tolist() == ["7-0", "8-3"]


def test_a_trace_without_a_task_that_could_run(tmp_path: Path) -> None:
    folder = small()
    folder.rows["task_events"] = []
    folder.task(900, 9, 0, 0, cpu=9)
    with pytest.raises(
        InputError, match="task_events: expected tasks that ran and that a node can hold"
    ):
        open_trace(folder.write(tmp_path))


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a file"):
        open_trace(tmp_path)


def test_a_trace_without_usage_and_one_of_the_first_version(tmp_path: Path) -> None:
    folder = small()
    folder.rows["task_usage"] = [row[:-1] for row in folder.rows["task_usage"]]
    assert jobs_of(open_trace(folder.write(tmp_path / "old"))).curves is not None
    folder.rows["task_usage"] = []
    trace = open_trace(folder.write(tmp_path / "none"))
    assert jobs_of(trace).curves is None
    assert "there is no task_usage: every task uses what it requests" in trace.assumptions


def test_a_scenario_replays_a_folder(tmp_path: Path) -> None:
    path = str(_with("negative").write(tmp_path))
    tables = {"cluster": {"trace": path, "events": path}, "workload": {"trace": path}}
    scenario = sc.check(tables)
    nodes = make_nodes(scenario.cluster)
    events = make_events(scenario.cluster, nodes)
    assert events is not None
    assert nodes.names == ("1", "2")
    assert nodes.attributes[1] == {"platform": "plat", "disks": 4.0}
    assert absent(events, nodes.names).tolist() == [False, True]
    jobs = make_jobs(scenario, nodes.resources)
    assert jobs.curves is not None
    assert set(jobs.recorded_nodes) <= set(nodes.names)
    assert jobs.notes[-1].startswith("left out: 1 row with usage that is negative")
    strict = sc.check({**tables, "workload": {"trace": path, "strict": True}})
    with pytest.raises(InputError, match=r"task_usage.* line 4: usage that is negative"):
        make_jobs(strict, nodes.resources)
