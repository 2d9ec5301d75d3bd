"""Queue disciplines against a second implementation: the same start for every job."""

from __future__ import annotations

import csv
import lzma
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.simulation.reference_queues import RULES, Job, simulate

from murmuration.base.errors import InputError
from murmuration.simulation.engine import run as engine
from murmuration.simulation.scenarios import scenario as sc

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
NASA = DATA / "nasa-ipsc-swf" / "NASA-iPSC-1993-3.1-cln.swf.gz"
LISA = DATA / "surf-lisa-2022" / "jobs_2022-07_2022-09.csv.xz"


def run_queue(
    path: Path, nodes: int, queue: str, days: float, factor: float = 1.0
) -> tuple[list[Job], list[float], list[str]]:
    """The jobs of a file as the program read them, and when it started each."""
    scheduler = {"queue": queue, "queue_settings": {"estimate_factor": factor}}
    tables = {
        "days": days,
        "cluster": {"nodes": nodes, "cpu": 1, "memory": "4000G"},
        "workload": {"trace": str(path)},
        "scheduler": scheduler,
    }
    run = engine.simulate(tables)
    jobs, rows = run.setup.jobs, run.world.jobs
    read = [
        Job(float(s), int(n), float(d), float(d) * factor)
        for s, n, d in zip(jobs.submit_s, jobs.tasks, jobs.duration_s, strict=True)
    ]
    return read, rows["started"].tolist(), jobs.job_id.tolist()


def write_jobs(folder: Path, jobs: list[tuple[int, int, int]]) -> Path:
    path = folder / "jobs.csv"
    header = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task\n"
    lines = [f"j{k},batch,{s},{n},{d},1,0\n" for k, (s, n, d) in enumerate(jobs)]
    path.write_text(header + "".join(lines))
    return path


@pytest.mark.parametrize("queue", RULES)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    made=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 8), st.integers(0, 30)),
        min_size=1,
        max_size=40,
    ),
    factor=st.sampled_from([1.0, 1.5, 3.0, 0.5]),
)
def test_every_job_starts_when_the_definition_says(
    queue: str, made: list[tuple[int, int, int]], factor: float, tmp_path: Path
) -> None:
    path = write_jobs(tmp_path, sorted(made))
    jobs, starts, _ = run_queue(path, 8, queue, 1.0, factor)
    assert starts == simulate(jobs, 8, queue)


@pytest.mark.parametrize("queue", RULES)
def test_nasa_ipsc(queue: str) -> None:
    """A month of 128 processors."""
    if not NASA.is_file():
        pytest.skip("the log is not there")
    jobs, starts, _ = run_queue(NASA, 128, queue, 30.0)
    assert len(jobs) > 3000
    assert starts == [
        s if s < 30 * 86_400 else pytest.approx(np.nan, nan_ok=True)
        for s in simulate(jobs, 128, queue)
    ]


def read_lisa(count: int, widest: int) -> list[tuple[int, int, int]]:
    """The first jobs of the log that took any time. In it every job has one whole node; wider ones
    have a width by their number."""
    with lzma.open(LISA, "rt") as file:
        rows = [row for row in islice(csv.DictReader(file), 3 * count) if row["duration_ms"] != "0"]
    first_ms = int(rows[0]["submit_time_ms"])
    return [
        (
            (int(row["submit_time_ms"]) - first_ms) // 1000,
            1 + int(row["job_id"]) % widest,
            int(row["duration_ms"]) // 1000,
        )
        for row in rows[:count]
    ]


@pytest.mark.parametrize(
    ("queue", "widest"), [*((queue, 8) for queue in RULES), ("sjf", 1), ("ljf", 1)]
)
def test_lisa(queue: str, widest: int, tmp_path: Path) -> None:
    """Jobs of the LISA cluster on half as many nodes as they would need, so that many wait."""
    if not LISA.is_file():
        pytest.skip("the log is not there")
    # The plain definition of conservative backfilling takes long.
    made = sorted(read_lisa(120 if queue == "conservative" else 500, widest))
    work, span_s = sum(size * lasts for _, size, lasts in made), made[-1][0] - made[0][0]
    nodes = max(work // max(2 * span_s, 1), 8)
    last_s = max(submit + lasts for submit, _, lasts in made)
    days = (last_s + work / nodes) / 86_400.0 + 1.0
    jobs, starts, _ = run_queue(write_jobs(tmp_path, made), int(nodes), queue, days)
    assert starts == simulate(jobs, int(nodes), queue)
    assert sum(start > job.submit for start, job in zip(starts, jobs, strict=True)) > 30


def test_overtaking_helps_and_delays_nobody(tmp_path: Path) -> None:
    """Eight processors, six of them taken until 10. The head wants all eight; a job of one for
    10 s may go first, and one of one for 11 s may not."""
    made = [(0, 6, 10), (1, 8, 5), (2, 1, 8), (3, 1, 11)]
    path = write_jobs(tmp_path, made)
    starts = {queue: run_queue(path, 8, queue, 1.0)[1] for queue in RULES}
    assert starts["fcfs"] == [0, 10, 15, 15]
    assert starts["easy"] == [0, 10, 2, 15]
    assert starts["conservative"] == [0, 10, 2, 15]
    assert starts["sjf"] == [0, 10, 15, 15], "the job of eight is the shortest"


def test_priority_ages(tmp_path: Path) -> None:
    """A job of priority 10 goes before one of 0 that came at the same time, and behind one that has
    waited so long that it has gained more."""
    path = tmp_path / "jobs.csv"
    header = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task,priority\n"
    path.write_text(header + "a,w,0,1,7200,1,0,0\nb,w,1,1,5,1,0,0\nc,w,5000,1,5,1,0,10\n")
    tables = {
        "days": 1.0,
        "cluster": {"nodes": 1, "cpu": 1, "memory": "1G"},
        "workload": {"trace": str(path)},
        "scheduler": {"queue": "priority"},
    }
    order = engine.simulate(tables).world.jobs["started"].argsort().tolist()
    assert order == [0, 2, 1]
    tables["scheduler"] = {"queue": "priority", "queue_settings": {"ageing_per_h": 8.0}}
    assert engine.simulate(tables).world.jobs["started"].argsort().tolist() == [0, 1, 2]


def test_fair_share_prefers_who_used_less(tmp_path: Path) -> None:
    """Two workloads, one processor: the one that has just used it waits for the other, though it
    came first."""
    path = tmp_path / "jobs.csv"
    header = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task\n"
    path.write_text(header + "a,x,0,1,100,1,0\nb,x,1,1,5,1,0\nc,y,2,1,5,1,0\n")
    tables = {
        "days": 1.0,
        "cluster": {"nodes": 1, "cpu": 1, "memory": "1G"},
        "workload": {"trace": str(path)},
        "scheduler": {"queue": "fair-share"},
    }
    run = engine.simulate(tables)
    assert run.world.jobs["started"].tolist() == [0, 105, 100]
    assert run.setup.jobs.submit_s.tolist() == [0, 1, 2], "the inputs are left alone"


@pytest.mark.parametrize("queue", ["easy", "conservative"])
def test_a_run_in_pieces_is_the_same_run(queue: str, tmp_path: Path) -> None:
    made = [(k // 2, 1 + k % 8, 1 + 7 * k % 29) for k in range(60)]
    path = write_jobs(tmp_path, made)
    tables = {
        "days": 0.01,
        "cluster": {"nodes": 8, "cpu": 1, "memory": "1G"},
        "workload": {"trace": str(path)},
        "scheduler": {"queue": queue},
    }
    once, pieces = engine.simulate(tables), engine.prepare(sc.check(tables))
    for until in np.linspace(0.0, 800.0, 97):
        engine.advance(pieces, float(until))
    assert engine.finish(pieces)
    assert pieces.world.jobs.tobytes() == once.world.jobs.tobytes()


def test_who_has_no_queue_says_so() -> None:
    workload = {"w": {"arrivals_per_s": 1.0, "task_duration_s": 1.0}}
    tables = {"days": 0.001, "cluster": {"nodes": 2}, "workload": workload}
    with pytest.raises(InputError, match="offers has no queue to order"):
        engine.simulate({**tables, "scheduler": {"kind": "offers", "queue": "easy"}})
    with pytest.raises(InputError, match="did you mean 'easy'"):
        engine.simulate({**tables, "scheduler": {"queue": "easi"}})
