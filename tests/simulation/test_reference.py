"""The compiled loop against a second simulator written in plain Python: every job's story is the same, exactly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmuration.cluster.errors import InputError
from murmuration.simulation import engine, invariants
from murmuration.simulation import scenario as sc
from murmuration.simulation.world import STATUS
from tests.simulation.reference import Reference
from tests.simulation.scenarios import HORIZON_S, MODES, WORKLOADS, Tables, scenarios

SETTINGS = settings(max_examples=120, deadline=None, derandomize=True)


def stories(run: engine.Run) -> list[tuple[Any, ...]]:
    """What became of each job."""
    found = []
    for row in run.world.jobs:
        times = tuple(None if math.isnan(row[name]) else float(row[name]) for name in ("first", "full"))
        counts = (int(row["attempts"]), int(row["conflicts"]), STATUS[row["status"]], int(row["left"]))
        found.append((*times, *counts))
    return found


def must_agree(tables: Tables) -> None:
    expected = Reference(tables)
    if not any(map(expected.can_ever_run, expected.jobs)):
        with pytest.raises(InputError, match="no job can ever run"):
            engine.prepare(sc.check(tables))
        return
    results = expected.run()
    run = engine.prepare(sc.check(tables))
    for until_s in (HORIZON_S / 3, HORIZON_S / 2, np.inf):
        engine.advance(run, until_s)
        invariants.check(run)
    assert stories(run) == results
    assert run.world.workloads["tasks_placed"].sum() == expected.placed
    assert run.world.state["events"][0] == expected.events
    assert (run.world.free == expected.free).all() and (run.world.sequence == expected.sequence).all()
    busy = dict(zip(run.setup.jobs.workloads, run.world.busy[:, :, 0].sum(axis=1), strict=True))
    assert busy == pytest.approx(expected.busy)


@SETTINGS
@given(scenarios([{"kind": "monolithic", "paths": "single"}, {"kind": "monolithic", "paths": "multi"}]))
def test_monolithic(tables: Tables) -> None:
    must_agree(tables)


@SETTINGS
@given(scenarios([{"kind": "partitioned"}]), st.sampled_from([{}, {"batch": 0.3}, {"batch": 0.5, "service": 0.4}]))
def test_partitioned(tables: Tables, shares: dict[str, float]) -> None:
    tables["scheduler"]["partition"] = shares
    must_agree(tables)


@settings(SETTINGS, max_examples=300)
@given(
    scenarios(MODES, jobs_most=60),
    st.fixed_dictionaries({name: st.integers(1, 3) for name in WORKLOADS}),
    st.sampled_from([{}, {"batch": {"quota": 0.5}}, {"service": {"headroom": 0.25}, "batch": {"quota": 0.75}}]),
)
def test_shared_state(tables: Tables, agents: dict[str, int], policy: dict[str, Any]) -> None:
    tables["scheduler"] |= {"agents": agents, "policy": policy}
    must_agree(tables)
