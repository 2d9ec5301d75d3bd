"""The estimate of a run that takes long, and when it is given."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from murmuration.experiments.execution import estimate
from murmuration.experiments.specs import make_spec


def costing(rate: float, at_start: float) -> tuple[Callable[[float], float], list[float]]:
    """A run that costs so many CPU seconds for each simulated one, and some for its first step."""
    times = [0.0]

    def advance(until_s: float) -> float:
        first = at_start if len(times) == 1 else 0.0
        times.append(until_s)
        return first + rate * (times[-1] - times[-2])

    return advance, times


@pytest.mark.parametrize("rate", [1e-3, 0.01, 1.0])
@pytest.mark.parametrize("at_start", [0.0, 7.0])
def test_a_run_of_even_cost_is_known_exactly(rate: float, at_start: float) -> None:
    advance, times = costing(rate, at_start)
    horizon_s = 86_400.0
    assert estimate.extrapolate(advance, horizon_s) == pytest.approx(rate * horizon_s + at_start)
    tried_s = max(estimate.TRY_S / rate, estimate.SHARE * horizon_s)
    assert times[-1] <= 8 * tried_s, "no more of the run is made than needed"


def test_times_in_words() -> None:
    assert estimate.in_time(40.2) == "40 seconds"
    assert estimate.in_time(720.0) == "12 minutes"
    assert estimate.in_time(12_600.0) == "3.5 hours"


def test_only_what_searches_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "estimate_cpu_s", lambda spec: 600.0)
    tables = {"cluster": {"nodes": 10}, "workload": {"b": {"arrivals_per_s": 0.1}}}
    specs = [
        make_spec(kind, {**tables, "seed": seed, "scheduler": {"kind": kind}})
        for kind in ("monolithic", "swarm")
        for seed in (1, 2)
    ]
    assert estimate.estimate_sentences(specs) == [
        "swarm: about 10 minutes of CPU time a run, 2 runs"
    ]
