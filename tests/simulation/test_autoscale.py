"""The auto-scaling kernel: against queueing theory, against a plain simulator, and by what must
always hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.simulation.reference_autoscale import Reference

from murmuration.simulation.autoscale import build, results, scenario
from murmuration.simulation.autoscale.world import CRASHED
from murmuration.simulation.scenarios import scenario as sc

Tables = dict[str, Any]


def finished(tables: Tables) -> build.AutoscaleRun:
    return build.finish(build.prepare(scenario.check(tables)))


def erlang_c(servers: int, load: float) -> float:
    """The probability to wait in M/M/c with this many erlangs."""
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    return last / (sum(load**k / math.factorial(k) for k in range(servers)) + last)


@pytest.mark.parametrize(("servers", "rate"), [(1, 0.6), (3, 2.1), (5, 4.0)])
def test_one_node_without_limits_is_the_m_m_c_queue(servers: int, rate: float) -> None:
    tables = {
        "seconds": 150_000.0 / rate,
        "autoscaler": {
            "nodes_min": 1,
            "nodes_max": 1,
            "type": [{"name": "node", "capacity": servers, "initial": 1}],
        },
        "requests": {"rate": rate, "queue_max": 1e9, "hops_max": 0},
    }
    run = finished(tables)
    response = results.summary(run)["response_s"]["mean"]
    assert response == pytest.approx(1.0 + erlang_c(servers, rate) / (servers - rate), rel=0.05)
    assert run.world.state["rejected"][0] == 0


def test_constant_times_are_the_m_d_1_queue() -> None:
    tables = {
        "seconds": 200_000,
        "autoscaler": {"nodes_max": 1, "type": [{"name": "node", "capacity": 1, "initial": 1}]},
        "requests": {"rate": 0.6, "queue_max": 1e9, "hops_max": 0, "execution": "constant"},
    }
    response = results.summary(finished(tables))["response_s"]["mean"]
    assert response == pytest.approx(1.0 + 0.6 / (2 * 0.4), rel=0.05)


STEPS = [[0, 12], [40, 30], [90, 8], [130, 0], [150, 20]]
TINY: Tables = {
    "seed": 4,
    "seconds": 200,
    "sample_s": 1,
    "autoscaler": {
        "kind": "threshold",
        "cycle_s": 7.0,
        "window_s": 10,
        "start_s": 3.0,
        "stabilise_s": 20.0,
        "nodes_max": 40,
        "type": [
            {"name": "small", "capacity": 1, "price": 1.0, "initial": 12, "from_s": 60.0},
            {"name": "large", "capacity": 3, "price": 2.0, "initial": 2},
        ],
    },
    "requests": {"rate": STEPS, "hops_max": 0, "entry_min": 5, "entry_share": 0.5, "entry_s": 11.0},
}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"autoscaler.kind": "oracle"},
        {"faults.crash_s": 55.5, "faults.crash_share": 0.4},
        {"requests.execution": "constant", "requests.execution_s": 0.7, "requests.queue_max": 0.0},
        {"autoscaler.nodes_max": 15, "autoscaler.nodes_min": 9, "autoscaler.start_s": 0.0},
    ],
    ids=["threshold", "oracle", "crash", "constant", "limits"],
)
def test_the_kernel_tells_the_same_story_as_the_plain_simulator(changes: Tables, seed: int) -> None:
    tables = sc.override(TINY, {**changes, "seed": seed})
    run, plain = finished(tables), Reference(scenario.check(tables)).run()
    state = run.world.state[0]
    for name in ("arrived", "done", "rejected", "lost", "added", "removed"):
        assert int(state[name]) == getattr(plain, name), name
    assert float(state["response_s"]) == pytest.approx(plain.response_s, rel=1e-9)
    columns = results.series(run)
    assert columns["capacity"].tolist() == plain.capacity_by_second
    assert columns["cost"][-1] == pytest.approx(plain.cost, rel=1e-9)


@st.composite
def small_scenarios(draw: st.DrawFn) -> Tables:
    steps = [
        [0.0, draw(st.floats(1, 80))],
        [25.0, draw(st.floats(0, 200))],
        [60.0, draw(st.floats(0, 60))],
    ]
    return {
        "seed": draw(st.integers(0, 10_000)),
        "seconds": draw(st.integers(20, 120)),
        "sample_s": 1,
        "autoscaler": {
            "kind": draw(st.sampled_from(["depas", "threshold", "oracle"])),
            "cycle_s": draw(st.floats(1.0, 30.0)),
            "estimate": draw(st.sampled_from(["neighbourhood", "gossip"])),
            "window_s": draw(st.integers(1, 30)),
            "formula": draw(st.sampled_from(["heterogeneous", "homogeneous"])),
            "start_s": draw(st.floats(0, 20)),
            "nodes_max": draw(st.integers(30, 300)),
            "overlay": {"degree": 20, "epoch_s": 3.0},
            "type": [
                {
                    "name": "a",
                    "capacity": draw(st.integers(1, 4)),
                    "initial": draw(st.integers(1, 30)),
                },
                {"name": "b", "capacity": draw(st.integers(1, 8)), "price": draw(st.floats(0, 9))},
            ],
        },
        "requests": {
            "rate": steps,
            "queue_max": draw(st.floats(0, 4)),
            "hops_max": draw(st.integers(0, 6)),
            "execution_s": draw(st.floats(0.1, 5.0)),
            "entry_min": draw(st.integers(1, 60)),
        },
        "faults": {
            "loss": draw(st.sampled_from([0.0, 0.3])),
            "crash_s": 30.0,
            "crash_share": draw(st.floats(0, 0.9)),
        },
    }


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables=small_scenarios())
def test_no_request_and_no_node_is_ever_lost_from_the_books(tables: Tables) -> None:
    run = finished(tables)
    world, state = run.world, run.world.state[0]
    used = world.nodes[: int(state["slots"])]
    alive = used[used["status"] != CRASHED]
    in_flight = int(alive["running"].sum() + alive["queued"].sum())
    assert state["arrived"] == state["done"] + state["rejected"] + state["lost"] + in_flight
    assert state["queued"] == used["queued"].sum()
    assert state["ends"] == used["running"].sum(), "every request that runs has an end"
    live = world.live[: int(state["live"])]
    assert sorted(live.tolist()) == np.flatnonzero(world.up).tolist()
    assert state["capacity"] == world.capacity[live].sum()
    assert int(world.types["up"].sum()) == len(live)
    existing = world.types["starting"] + world.types["up"] + world.types["leaving"]
    assert float(state["price"]) == pytest.approx(
        float((existing * world.types["price"]).sum()), abs=1e-6
    )
    initial = sum(kind["initial"] for kind in tables["autoscaler"]["type"] if "initial" in kind)
    assert initial + state["added"] - state["removed"] - state["crashed"] - world.types[
        "starting"
    ].sum() == len(live)
    assert len(live) + world.types["starting"].sum() <= tables["autoscaler"]["nodes_max"]


def test_the_same_seed_gives_the_same_run_in_one_piece_or_many() -> None:
    tables = sc.override(sc.load("depas"), {"seconds": 330})
    one = finished(tables)
    many = build.finish(build.prepare(scenario.check(tables)), pieces=977)
    assert np.array_equal(one.world.samples, many.world.samples)
    assert np.array_equal(one.world.rng, many.world.rng)
    other = finished(sc.override(tables, {"seed": 2}))
    assert not np.array_equal(one.world.samples, other.world.samples)


def test_every_scaler_meets_the_same_requests() -> None:
    runs = [
        finished(sc.override(TINY, {"autoscaler.kind": kind}))
        for kind in ("depas", "threshold", "oracle")
    ]
    arrived = [results.series(run)["arrived"].tolist() for run in runs]
    assert arrived[0] == arrived[1] == arrived[2]


def test_room_for_requests_is_made_when_it_is_needed() -> None:
    tables = {
        "seconds": 60,
        "autoscaler": {"nodes_max": 1, "type": [{"name": "node", "capacity": 1, "initial": 1}]},
        "requests": {"rate": 1000.0, "queue_max": 1e9, "hops_max": 0},
    }
    run = finished(tables)
    assert len(run.world.requests) > build.REQUESTS_FIRST
    assert run.world.state["queued"][0] > build.REQUESTS_FIRST


def test_hops_are_limited_and_a_refusal_counts_as_load() -> None:
    """Two nodes of capacity 1 without queues, far too much work: all are refused somewhere, after
    at most two hops."""
    tables = {
        "seconds": 200,
        "autoscaler": {
            "nodes_min": 2,
            "nodes_max": 2,
            "type": [{"name": "node", "capacity": 1, "initial": 2}],
        },
        "requests": {"rate": 40.0, "queue_max": 0.0, "hops_max": 2},
    }
    run = finished(tables)
    state = run.world.state[0]
    assert state["hops"] <= 2 * state["arrived"]
    # The load a DEPAS node sees is what was asked of it, far above 1: 40 requests/s over two nodes.
    assert run.world.work[:2].sum() == pytest.approx(40.0, rel=0.1)


def test_the_last_nodes_stay_when_nothing_arrives() -> None:
    tables = sc.override(
        sc.load("depas"),
        {"requests.rate": [[0, 70], [100, 0]], "seconds": 900, "autoscaler.nodes_min": 3},
    )
    assert results.series(finished(tables))["nodes"][-1] == 3


@pytest.mark.parametrize("estimate", ["neighbourhood", "gossip"])
def test_depas_returns_to_the_band(estimate: str) -> None:
    """A step to three times the workload: four cycles later the capacity is right."""
    tables = sc.override(sc.load("depas"), {"requests.rate": [[0, 70], [200, 210]], "seconds": 560})
    run = finished(sc.override(tables, {"autoscaler.estimate": estimate}))
    columns = results.series(run)
    assert (columns["capacity"][-100:] >= columns["band_low"][-100:]).all()
    assert (columns["capacity"][-100:] <= columns["band_high"][-100:]).all()


def test_starting_takes_time_and_costs_money() -> None:
    tables = sc.override(
        TINY,
        {
            "autoscaler.kind": "oracle",
            "requests.rate": [[0, 14], [100, 140]],
            "autoscaler.start_s": 30.0,
        },
    )
    columns = results.series(finished(sc.override(tables, {"autoscaler.nodes_max": 300})))
    assert columns["starting"][80] > 0, "the oracle orders ahead"
    assert columns["capacity"][101] >= columns["band_low"][101]


def test_turns() -> None:
    assert results.turns([1.0, 1.05, 1.0, 1.05], 0.1) == 0
    assert results.turns([1.0, 2.0, 3.0, 2.0, 1.0], 0.1) == 1
    assert results.turns([1.0, 2.0, 1.0, 2.0, 1.95], 0.1) == 2
    assert results.turns([2.0, 1.0, 1.0, 2.0], 0.1) == 1
