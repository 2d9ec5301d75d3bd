"""How long decisions take, by workload, as a scenario says."""

from __future__ import annotations

from collections.abc import Sequence

from murmuration.schedulers.architecture import Timing
from murmuration.simulation.scenarios import scenario as sc


def timing_of(scenario: sc.Scenario, workloads: Sequence[str]) -> dict[str, Timing]:
    """The time of an attempt at a job of each workload, and of any other as "default"."""
    tables = scenario.scheduler.decision
    default = tables.get("default", sc.DecisionTime())
    chosen = {"default": default, **{name: tables.get(name, default) for name in workloads}}
    return {name: Timing(t.job_time_s, t.task_time_s) for name, t in chosen.items()}
