"""Nodes that fail, and what nodes cost and draw: against formulas."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration.base.errors import InputError
from murmuration.base.random import generator
from murmuration.experiments.pages.verdict import judge
from murmuration.simulation.engine import run as engine
from murmuration.simulation.results.costs import hours_there
from murmuration.simulation.results.invariants import check
from murmuration.simulation.results.summary import series, summary
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.failures import draw_span, draw_times

DAY_S = 86_400.0


def tables(**cluster: Any) -> dict[str, Any]:
    return {
        "days": 1.0,
        "cluster": {"nodes": 20, "cpu": 4, "memory": "16G", **cluster},
        "workload": {
            "batch": {
                "arrivals_per_s": 0.003,
                "tasks_per_job": 8.0,
                "task_duration_s": 900.0,
                "task_cpu": 1.0,
                "task_memory": "1G",
            }
        },
    }


@pytest.mark.parametrize("shape", [0.7, 1.0, 3.0])
def test_spans_have_their_mean_and_distribution(shape: float) -> None:
    """The mean, and the share that outlives it: exp(−Γ(1 + 1/k)^k) for Weibull's distribution."""
    rng, count = generator(1, "test"), 20_000
    spans = np.array([draw_span(shape, 5.0, rng) for _ in range(count)])
    variance = math.gamma(1 + 2 / shape) / math.gamma(1 + 1 / shape) ** 2 - 1
    assert abs(spans.mean() - 5.0) < 5 * 5.0 * math.sqrt(variance / count)
    outlives = math.exp(-(math.gamma(1 + 1 / shape) ** shape))
    assert abs((spans > 5.0).mean() - outlives) < 5 * math.sqrt(outlives / count)


def test_availability_is_that_of_an_alternating_renewal() -> None:
    """MTBF ÷ (MTBF + MTTR), whatever the shapes are."""
    settings = sc.FailureSettings(mtbf_h=10.0, repair_h=2.0, shape=0.8, repair_shape=1.5)
    rng, seconds, up = generator(2, "test"), 4000 * 3600.0, []
    for _ in range(40):
        times = draw_times(settings, seconds, rng)
        edges = np.concatenate([[0.0], times, [seconds]])
        up.append(np.diff(edges)[::2].sum() / seconds)
    error = np.std(up) / math.sqrt(len(up))
    assert abs(np.mean(up) - 10.0 / 12.0) < 5 * error
    assert error < 0.01


def test_lost_tasks_run_again_and_are_counted() -> None:
    failures = {"mtbf_h": 20.0, "repair_h": 4.0}
    run = engine.prepare(sc.check(tables(failures=failures)))
    for until in np.linspace(0.1, 0.9, 4):
        engine.advance(run, float(until) * DAY_S)
        check(run)
    assert engine.finish(run)
    check(run)
    cluster = summary(run, "x")["cluster"]
    rows, state = run.world.jobs, run.world.state[0]
    placed = int(run.world.workloads["tasks_placed"].sum())
    running = int(state["running"])
    assert cluster["tasks_lost"] > 10
    # Every start ended well, was lost, or still runs.
    assert placed == int(rows["done"].sum()) + cluster["tasks_lost"] + running
    assert 0 < cluster["cpu_h_lost"] <= cluster["tasks_lost"] * 900.0 * 10 / 3600.0
    # Up from the start: the mean over a day lies between the steady state and 1.
    assert 20.0 / 24.0 < cluster["nodes_mean"] / 20 < 1.0
    whole = engine.simulate(tables())
    assert "tasks_lost" not in summary(whole, "x")["cluster"]
    again = engine.simulate(tables(failures=failures))
    assert again.world.jobs.tobytes() == rows.tobytes()


def test_what_was_lost_with_a_node_by_hand(tmp_path: Path) -> None:
    """One task of two CPUs for 100 s; its node goes at 30 and is back at 50: 30 s × 2 CPUs are
    lost, and it ends at 150."""
    jobs, events = tmp_path / "jobs.csv", tmp_path / "events.csv"
    header = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task\n"
    jobs.write_text(header + "a,w,0,1,100,2,1\n")
    events.write_text("time_s,node_id,event\n30,node-0,remove\n50,node-0,add\n")
    run = engine.simulate(
        {
            "days": 0.01,
            "cluster": {"nodes": 1, "events": str(events)},
            "workload": {"trace": str(jobs)},
            "scheduler": {"queue": "fcfs"},
        }
    )
    cluster = summary(run, "x")["cluster"]
    assert (cluster["tasks_lost"], cluster["cpu_h_lost"]) == (1, pytest.approx(60.0 / 3600.0))
    assert run.world.jobs["ended"].tolist() == [150.0]


def fixed_load(
    folder: Path, costs: dict[str, Any], attributes: dict[str, Any] | None = None
) -> Any:
    """Four nodes of four CPUs, and from the start to the end a job of six tasks of one."""
    jobs = folder / "jobs.csv"
    header = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task\n"
    jobs.write_text(header + "a,w,0,6,1e6,1,0.001\n")
    cluster = {"nodes": 4, "cpu": 4, "memory": "4G", "costs": costs, "attributes": attributes or {}}
    return engine.simulate(
        {
            "days": 0.5,
            "cluster": cluster,
            "workload": {"trace": str(jobs)},
            "scheduler": {"placement": "best-fit", "queue": "fcfs"},
        }
    )


def test_energy_and_cost_by_hand(tmp_path: Path) -> None:
    """Six of sixteen CPUs are in use for 12 h: 4 × 100 W idle and 6/4 × (300 − 100) W for load; a
    node costs 0.5 an hour, a kWh 0.2."""
    costs = {"idle_watts": 100.0, "peak_watts": 300.0, "price_per_h": 0.5, "price_per_kwh": 0.2}
    run = fixed_load(tmp_path, costs)
    cluster = summary(run, "x")["cluster"]
    rows = series(run)["power_w"]
    assert set(rows[1:]) == {400.0 + 300.0}, "after the first sample all tasks run"
    assert cluster["energy_kwh"] == pytest.approx(0.7 * 12.0, rel=1e-12)
    assert cluster["price_of_nodes"] == pytest.approx(4 * 0.5 * 12.0)
    assert cluster["cost"] == pytest.approx(24.0 + 0.2 * cluster["energy_kwh"])
    off = series(fixed_load(tmp_path, {**costs, "power_off": True}))["power_w"]
    assert set(off[1:]) == {2 * 100.0 + 300.0}, "six tasks fill one node and half another"
    given = series(fixed_load(tmp_path, {}, {"idle_watts": 10.0, "peak_watts": 20.0}))["power_w"]
    assert set(given[1:]) == {40.0 + 15.0}
    model = series(fixed_load(tmp_path, {}))["power_w"]
    assert set(model[1:]) == {4 * 171.0 + 6 / 4 * (218.0 - 171.0)}, "plans' model at its own size"


def test_energy_of_tasks_between_two_samples(tmp_path: Path) -> None:
    """A minute of work between two samples counts, node by node: a task of two CPUs for 60 s and
    one of one CPU for 30 s, on nodes that are off without tasks."""
    jobs = tmp_path / "jobs.csv"
    header = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task\n"
    jobs.write_text(header + "a,w,1100,1,60,2,1\nb,w,1100,1,30,1,1\n")
    costs = {"idle_watts": 100.0, "peak_watts": 300.0, "power_off": True}
    run = engine.simulate(
        {
            "days": 1.0,
            "cluster": {"nodes": 3, "cpu": 4, "memory": "4G", "costs": costs},
            "workload": {"trace": str(jobs)},
            "scheduler": {"placement": "best-fit", "queue": "fcfs"},
        }
    )
    # Best fit puts both on one node, which is on for 60 s; a CPU in use draws 50 W.
    joules = 100.0 * 60 + 50.0 * (2 * 60 + 30)
    assert not series(run)["power_w"].any(), "no sample saw it"
    assert summary(run, "x")["cluster"]["energy_kwh"] == pytest.approx(joules / 3.6e6, rel=1e-12)


def test_nodes_are_paid_while_they_are_there() -> None:
    group = {"count": 2, "cpu": 1, "memory": "1G"}
    setup = engine.prepare(
        sc.check(
            {
                "days": 0.5,
                "cluster": {
                    "group": [{**group, "leave_s": 3600.0}, {**group, "join_s": 7200.0}, group],
                    "costs": {"price_per_h": 1.0},
                },
                "workload": {"w": {"arrivals_per_s": 0.001, "task_duration_s": 1.0}},
            }
        )
    ).setup
    assert hours_there(setup.changes, 43_200.0).tolist() == [1.0, 1.0, 10.0, 10.0, 12.0, 12.0]


def test_a_verdict_speaks_of_energy_where_there_is_any(tmp_path: Path) -> None:
    def made(label: str, energy: float) -> dict[str, Any]:
        run = fixed_load(tmp_path, {"idle_watts": energy, "peak_watts": energy})
        return {**summary(run, label), "scheduler": label}

    assert "energy" in " ".join(judge([made("a", 100.0), made("b", 50.0)]))


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        ({"failures": {"mtbf_h": 0.0, "repair_h": 1.0}}, "failures.mtbf_h: expected a number"),
        ({"failures": {"mtbf_h": 1.0}}, "repair_h"),
        ({"costs": {"idle_watts": 200.0, "peak_watts": 100.0}}, "peak_watts of at least"),
        ({"costs": {}, "attributes": {"price_per_h": "dear"}}, "price_per_h: expected a number"),
    ],
)
def test_bad_values_are_refused(cluster: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        summary(engine.simulate(tables(**cluster)), "x")
