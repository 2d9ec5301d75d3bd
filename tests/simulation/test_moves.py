"""What a migration costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from murmuration.simulation.architectures.genetic.kernels import move_task
from murmuration.simulation.engine import run as engine
from murmuration.simulation.scenarios import scenario as sc

MIB = 2**20
TABLES: dict[str, Any] = {
    "name": "moves",
    "seed": 1,
    "days": 0.01,
    "cluster": {"nodes": 4, "cpu": 8, "memory": "16Gi"},
    "workload": {
        "tasks": {
            "initial": 4,
            "arrivals_per_s": 1e-6,
            "task_cpu": 1,
            "task_memory": "512Mi",
            "task_duration_s": 1e6,
            "usage": {"cpu": 0.5, "memory": 0.25},
        }
    },
    "scheduler": {"kind": "monolithic", "usage_s": 60.0},
}


@pytest.mark.parametrize("measured", [False, True])
def test_an_unmeasured_task_moves_its_request_and_a_measured_one_what_it_uses(
    measured: bool,
) -> None:
    """A hundred megabytes for the container and its memory in MiB (Sliwko and Getov, 6.1): a
    quarter of 512 MiB where that is known, all of it where it may be in use."""
    run = engine.prepare(sc.check(TABLES))
    engine.advance(run, 61.0 if measured else 59.0)
    slot = int(np.flatnonzero(run.world.tasks["job"] >= 0)[0])
    assert (run.world.tasks["point"][slot] >= 0) == measured
    used = run.world.task_used[slot, 1] / MIB
    assert used == pytest.approx(128.0, abs=1.0) if measured else used == pytest.approx(512.0)
    # As agents that negotiate count it: they expect a tenth of what is not measured.
    if not measured:
        run.world.task_used[slot, 1] //= 10
    to = (int(run.world.slots["node"][slot]) + 1) % 4
    move_task(run.world, slot, to, 100.0)
    moved = float(run.world.state["migrated_mb"][0])
    assert moved == pytest.approx(100.0 + (used if measured else 512.0))
