"""The published traces themselves, against the counts their authors or collectors give."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from murmuration.base.errors import InputError
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.inputs import make_events, make_jobs, make_nodes
from murmuration.workload.detect import open_trace
from murmuration.workload.formats.job_lists import read_jobs, write_jobs
from murmuration.workload.nodes import ADD, REMOVE, UPDATE
from murmuration.workload.reshape import add_up_use
from murmuration.workload.trace import Trace, TraceOptions


@pytest.fixture(scope="module")
def initial(data: Path) -> Trace:
    return open_trace(data / "google2011" / "omega-format" / "init-cluster-state.request.log.xz")


def test_google2011_job_events(data: Path, initial: Trace, tmp_path: Path) -> None:
    options = TraceOptions(initial=True, shapes=initial.jobs, rng=np.random.default_rng(1))
    trace = open_trace(data / "google2011" / "job_events_days00-20.csv.xz", options)
    jobs = trace.jobs
    assert jobs is not None
    assert (trace.rows, len(jobs), trace.skipped) == (1_468_845, 490_947, ())
    assert int((jobs.submit_s == 0).sum()) == 3_986
    # 2,527 of the jobs at time 0 and 1,475 later ones have no end.
    assert trace.assumptions[1].startswith("4,002 jobs without an end")
    assert jobs.submit_s.max() < 1_815_000
    later = jobs.select(jobs.submit_s > 0)
    assert len(later) == 486_961
    assert later.submit_s[0] == pytest.approx(604.046279)
    # Shapes keep their workload: no service job has a shape that only batch jobs have.
    assert initial.jobs is not None
    service = initial.jobs.select(initial.jobs.workload == 1)
    assert (
        later.tasks[later.workload == 1].max()
        <= service.tasks.max()
        < later.tasks[later.workload == 0].max()
    )
    write_jobs(later, tmp_path / "jobs.parquet")
    np.testing.assert_array_equal(read_jobs(tmp_path / "jobs.parquet").request, later.request)


@pytest.mark.parametrize(("part", "rows"), [(0, 10_704), (1, 3_099), (2, 3_360), (3, 4_179)])
def test_google2011_raw_parts(data: Path, part: int, rows: int) -> None:
    trace = open_trace(
        data / "google2011" / "raw" / "job_events" / f"part-0000{part}-of-00500.csv.gz"
    )
    assert (trace.kind, trace.rows) == ("google2011 job events", rows)


def test_google2011_machines(data: Path) -> None:
    nodes = open_trace(data / "google2011" / "machines.csv.xz").nodes
    assert nodes is not None
    assert len(nodes) == 12_583
    whole = nodes.total == np.array([32_000_000, 128 * 2**30])
    assert int(whole.all(axis=1).sum()) == 795
    assert len({node["platform"] for node in nodes.attributes}) == 3


def test_google2011_initial_jobs(data: Path, initial: Trace) -> None:
    jobs = initial.jobs
    assert jobs is not None
    assert (initial.rows, len(jobs), int(jobs.tasks.sum())) == (3_979 + 79, 3_979, 147_050)
    assert int((jobs.duration_s < 29 * 86400).sum()) == 79
    used = open_trace(data / "google2011" / "omega-format" / "init-cluster-state.usage.log.xz").jobs
    assert used is not None
    assert len(used) == 3_979
    tasks = open_trace(data / "google2011" / "initial_tasks.csv.xz").jobs
    assert tasks is not None
    assert (len(tasks), int(tasks.tasks.sum())) == (1_145, 33_302)
    # The sources agree on the workload of every job and on the tasks of nearly all.
    for other, agree in ((used, 1_134), (jobs, 1_136)):
        known = {name: k for k, name in enumerate(other.job_id.tolist())}
        rows = np.array([known[name] for name in tasks.job_id.tolist()])
        np.testing.assert_array_equal(other.workload[rows], tasks.workload)
        assert int((other.tasks[rows] == tasks.tasks).sum()) == agree


def test_omega_examples(data: Path) -> None:
    folder = data / "google2011" / "omega-format"
    state = open_trace(folder / "example-init-cluster-state.log").jobs
    assert state is not None
    assert state.duration_s.tolist() == [29 * 86400.0, 6.844149, 8.921186]
    sizes = open_trace(folder / "example_csizes_cmb.log").tables
    assert sizes["batch"].tasks.tolist() == [1, 1, 1, 1600, 1, 1, 1, 1, 1, 1]
    assert len(sizes["service"].tasks) == 10
    assert len(open_trace(folder / "example_runtimes_cmb.log").tables["service"].durations_s) == 10


def test_google2019_machine_events(data: Path) -> None:
    tables = open_trace(data / "google2019" / "cell_a_machine_events.csv.xz")
    lines = open_trace(data / "google2019" / "cell_a_machine_events.json.gz")
    for trace in (tables, lines):
        assert trace.events is not None
        assert trace.nodes is not None
        assert (len(trace.events), len(trace.nodes)) == (46_219, 9_526)
        kinds = [int((trace.events.kind == kind).sum()) for kind in (ADD, REMOVE, UPDATE)]
        assert kinds == [27_777, 17_941, 501]
        assert len(set(trace.events.node_id.tolist())) == 10_001
    for name in ("time_s", "node_id", "kind", "total"):
        np.testing.assert_array_equal(getattr(tables.events, name), getattr(lines.events, name))


@pytest.mark.parametrize(
    ("cell", "jobs", "nodes"),
    [
        ("a", 742, 10_002),
        ("b", 323, 10_047),
        ("c", 598, 13_245),
        ("d", 399, 12_578),
        ("e", 157, 14_123),
    ],
)
def test_google2019_cells(data: Path, cell: str, jobs: int, nodes: int) -> None:
    requests = open_trace(data / "google2019" / f"cell_{cell}_requests.csv.xz").jobs
    assert requests is not None
    assert (len(requests), int(requests.tasks.sum())) == (jobs, 10_000)
    machines = open_trace(data / "google2019" / f"cell_{cell}_machines.csv").nodes
    assert machines is not None
    assert len(machines) == nodes


@pytest.mark.parametrize(("year", "count"), [(2009, 5_894), (2010, 24_442)])
def test_swim(data: Path, year: int, count: int) -> None:
    jobs = open_trace(data / "swim-facebook" / f"FB-{year}_samples_24_times_1hr_0.tsv.xz").jobs
    assert jobs is not None
    assert len(jobs) == count


def test_swf(data: Path) -> None:
    trace = open_trace(data / "nasa-ipsc-swf" / "NASA-iPSC-1993-3.1-cln.swf.gz")
    assert trace.jobs is not None
    assert (len(trace.jobs), trace.skipped) == (18_239, ())
    assert trace.jobs.tasks.max() == 128
    assert trace.jobs.submit_s[-1] // 86400 == 92


def test_alibaba(data: Path) -> None:
    folder = data / "alibaba-openb-2023"
    pods = open_trace(folder / "openb_pod_list_default.csv.gz").jobs
    assert pods is not None
    counts = {name: int((pods.workload == k).sum()) for k, name in enumerate(pods.workloads)}
    assert counts == {"ls": 4_647, "be": 3_398, "burstable": 100, "guaranteed": 7}
    for name, count in {"cpu050": 7_439, "cpu200": 8_832, "multigpu20": 8_324}.items():
        assert open_trace(folder / f"openb_pod_list_{name}.csv.gz").rows == count
    picky = open_trace(folder / "openb_pod_list_gpuspec10.csv.gz").jobs
    assert picky is not None
    assert (len(picky.constraint_sets), int((picky.constraint > 0).sum())) == (17, 8_152 - 7_420)
    nodes = open_trace(folder / "openb_node_list_all_node.csv").nodes
    assert nodes is not None
    assert len(nodes) == 1_523
    assert sum("model" in node for node in nodes.attributes) == 1_213


def test_google2011_cell_as_it_was(data: Path) -> None:
    """Nodes with their removals, and jobs with what was there at time 0, all told in seconds of the
    trace.

    The Omega log counts 147,050 tasks at time 0 in 3,979 jobs; seven more jobs of the events are
    drawn. The MASB study found 85 % of the CPU and 70 % of the memory guaranteed to production.
    """
    folder = data / "google2011"
    scenario = sc.check(
        {
            "cluster": {
                "trace": str(folder / "machines.csv.xz"),
                "events": str(folder / "machine_remove_events_days00-20.csv.xz"),
            },
            "workload": {"trace": str(folder / "job_events_days00-20.csv.xz"), "initial": True},
            "days": 0.01,
        }
    )
    nodes = make_nodes(scenario.cluster)
    events = make_events(scenario.cluster, nodes)
    assert events is not None
    assert (len(nodes), int((events.kind == REMOVE).sum())) == (12_583, 6_285)
    # Of the 97 nodes that never came back, so many went in these days.
    assert int((events.kind == ADD).sum()) == 6_285 - 28
    there = make_jobs(scenario, nodes.resources)
    there = there.select(there.submit_s == 0)
    assert len(there) == 3_986
    assert 147_050 <= there.tasks.sum() < 147_050 * 1.01
    guaranteed = (there.request * there.tasks[:, None])[there.production].sum(
        axis=0
    ) / nodes.total.sum(axis=0)
    assert guaranteed.tolist() == pytest.approx([0.85, 0.70], abs=0.06)
    # The Omega log of what was used adds up to 36.5 % of the CPU and 24.3 % of the memory.
    assert there.curves is not None
    mean = there.curves.share.mean(axis=1)[there.curve]
    used = (there.request * there.tasks[:, None] * mean).sum(axis=0) / nodes.total.sum(axis=0)
    assert used.tolist() == pytest.approx([0.365, 0.243], abs=0.02)


def state_totals(path: Path) -> dict[bool, list[float]]:
    """CPUs and bytes that the jobs of a cell state ask for, read line by line: of scheduling class
    2 and 3, and of the others."""
    totals = {True: [0.0, 0.0], False: [0.0, 0.0]}
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        fields = line.split()
        if fields[0] == "11":
            mine = totals[int(fields[4]) >= 2]
            mine[0] += int(fields[5]) * float(fields[6])
            mine[1] += int(fields[5]) * float(fields[7])
    return totals


def test_the_cell_of_masb_is_googles_own(data: Path) -> None:
    """The preset: the cell state of time 0 by scheduling class, in the paper's sizes, then a day's
    arrivals in their own order, using what the paper's cell used."""
    folder = data / "google2011"
    tables = sc.override(
        sc.load("masb-google"), {"workload.trace": str(folder / "job_events_days00-20.csv.xz")}
    )
    scenario = sc.check(tables)
    nodes = make_nodes(scenario.cluster)
    total = nodes.total.sum(axis=0)
    jobs = make_jobs(scenario, nodes.resources, total)
    there = jobs.submit_s == 0.0
    asked = jobs.request * jobs.tasks[:, None] / [4e6 / 16, 2**30 / 8]
    state = state_totals(folder / "omega-format" / "init-cluster-state.request.log.xz")
    for production, (cpu, memory) in state.items():
        mine = asked[there & (jobs.production == production)].sum(axis=0)
        # Seven jobs of the events are not in the state, and are drawn.
        assert mine.tolist() == pytest.approx([cpu, memory / 2**30], rel=0.02)
    assert add_up_use(jobs, scenario.days * 86_400.0) / total == pytest.approx([0.436, 0.621])
    # Real arrivals come in bursts: the number a minute varies five times as much as at random.
    first = ~there & ~np.char.count(jobs.job_id, "~").astype(np.bool_)
    minutes = np.bincount((jobs.submit_s[first] // 60).astype(np.int64), minlength=1440)
    assert 0.99 * 23_614 < first.sum() <= 23_614
    assert minutes.var() / minutes.mean() == pytest.approx(5.3, abs=0.1)
    assert jobs.tasks[~there].sum() / 1440 == pytest.approx(1158, rel=0.1)


def test_a_preset_without_its_data_says_where_to_put_it(tmp_path: Path) -> None:
    tables = sc.override(sc.load("masb-google"), {"workload.trace": str(tmp_path / "none.csv")})
    scenario = sc.check(tables)
    with pytest.raises(InputError, match=r"none\.csv: no such file\. It needs Google's .*--set"):
        make_jobs(scenario, make_nodes(scenario.cluster).resources)
