"""How long a run will take, before it is made: for architectures that search, on large clusters.

The run is begun and left: twice for a short simulated time, the second time twice as far. What the
second half cost is what the rest will cost at least; what the first cost beyond that (jobs that
are there at the start) is paid once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from murmuration.experiments.specs import SLOW, Spec

#: Smaller clusters take seconds with every architecture.
NODES_LARGE = 2000
#: CPU seconds that a try should at least take, or it says nothing.
TRY_S = 0.3
#: The share of a run that the first try simulates; doubled until it takes long enough.
SHARE = 1 / 2048
#: Runs shorter than this are not worth a sentence.
WORTH_S = 20.0


def estimate_sentences(specs: Sequence[Spec]) -> list[str]:
    """One sentence for each scheduler among these runs that searches and will take long."""
    first = {spec.label: spec for spec in reversed(specs)}
    sentences = []
    for label in dict.fromkeys(spec.label for spec in specs):
        spec, count = first[label], sum(other.label == label for other in specs)
        if spec.scenario.scheduler.kind in SLOW:
            seconds = estimate_cpu_s(spec)
            if seconds * count >= WORTH_S:
                times = f" a run, {count} runs" if count > 1 else ""
                sentences.append(f"{label}: about {in_time(seconds)} of CPU time{times}")
    return sentences


def estimate_cpu_s(spec: Spec) -> float:
    """The CPU seconds that a run will take, preparation included; 0 for a small cluster, which is
    not tried."""
    from murmuration.simulation.engine import run as engine

    began = time.process_time()
    run = engine.prepare(spec.scenario, False)
    prepared = time.process_time() - began
    if len(run.world.total) < NODES_LARGE:
        return 0.0

    def advance(until_s: float) -> float:
        started = time.process_time()
        engine.finish(run, lambda share: None, until_s)
        return time.process_time() - started

    return prepared + extrapolate(advance, run.horizon_s)


def extrapolate(advance: Callable[[float], float], horizon_s: float) -> float:
    """What the whole of a run costs, where `advance` goes on to a simulated time and says what
    that cost."""
    share, spent = SHARE, 0.0
    while share < 1.0:
        first = advance(share * horizon_s)
        second = advance(min(2 * share, 1.0) * horizon_s)
        spent += first + second
        if second >= TRY_S:
            return spent + second * max(1.0 - 2 * share, 0.0) / share
        share *= 4
    return spent


def in_time(seconds: float) -> str:
    """`40 seconds`, `12 minutes`, `3.5 hours`."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"
