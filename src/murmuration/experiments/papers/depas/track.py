"""The experiment of the DEPAS paper (section III): 32 runs of one track, and what the paper claims
without showing it.

A step is *settled* from the moment at which the mean capacity of the runs lies inside the band
and stays there until the workload changes again. It must be within two cycles and one window (180
s): a window to see the change whole, a cycle in which every node answers it, and another to put
right what the first answers, given on half a window, left over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.experiments.papers.depas.cycle import cycle_chart, cycle_rows
from murmuration.experiments.replicates import measure_row, replicate
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.reports.figures import Chart, Series
from murmuration.simulation.autoscale import build, results, scenario
from murmuration.simulation.scenarios import scenario as sc

Floats = NDArray[np.float64]
Run = dict[str, Floats]

RUNS, RUNS_QUICK = 32, 4
FAULT_RUNS, FAULT_RUNS_QUICK = 8, 2
SETTLED_S = 180.0
PAPER = "back inside the band"
#: From here on the workload falls.
FALL_S = 1500.0
CRASH_S = 1250.0
SLOW_START_S = 60.0
#: Ten thousand nodes of one type: steps up from a thousand, and down.
LARGE: dict[str, Any] = {
    "seconds": 1200,
    "requests.rate": [[0, 700], [150, 7000], [650, 3500]],
    "autoscaler.nodes_max": 30_000,
    "autoscaler.type": [{"name": "low", "capacity": 1, "initial": 1000}],
}
LARGE_QUICK = {**LARGE, "requests.rate": [[0, 70], [150, 700], [650, 350]]}
LARGE_QUICK["autoscaler.type"] = [{"name": "low", "capacity": 1, "initial": 100}]
KEPT = (
    "time_s",
    "rate",
    "capacity",
    "nodes",
    "optimum",
    "band_low",
    "band_high",
    "added",
    "removed",
    "rejected",
    "arrived",
)

NOTES = (
    "Settled: from then on the mean capacity of the runs stays inside the band until the next "
    "step. Holds if that "
    "takes at most 180 s (two cycles and a window) after every step.",
    "An oscillation is a turn of the capacity by more than the band's half-width (12.5 %) beyond "
    "the turns of the "
    "optimum; holds if no run has one. Actions against the trend (removals before second 1500, "
    "additions after) hold "
    "below 1 % of all actions.",
    "Types are removed in proportion if the share of low-capacity nodes changes by at most 3 "
    "points while scaling in.",
    "The crash takes 30 % of all nodes at second 1250; with losses each message, of gossip and "
    "of requests, is lost "
    "with probability 0.2. Both hold by the rule of settling. The paper shows neither; it says "
    "that DEPAS is robust.",
    "Chosen, since the paper's table and figure lost them: the steps of the track, execution "
    "time 1 s, at most 2 "
    "queued requests per unit of capacity, 8 hops, an entry point that knows 20 % of the "
    "workers; nodes start at once.",
    "The paper's nodes start at once. With a start-up delay of a cycle there are oscillations, "
    "because nobody knows of "
    "a node that starts; the row shows them and judges nothing.",
    "One cycle: every node acts once and knows the load exactly; simulated cycles against the "
    "binomial formula. Holds "
    "within 3.3 standard errors.",
)


def run(settings: ReproductionSettings) -> Reproduction:
    """Figures 2 and 3, the claims about faults and size, and the analysis of one cycle."""
    runs, fault_runs = (RUNS_QUICK, FAULT_RUNS_QUICK) if settings.quick else (RUNS, FAULT_RUNS)
    large = LARGE_QUICK if settings.quick else LARGE
    # Compile the kernel once, before worker processes would each do so.
    run_once(settings.seed, {"seconds": 1})
    paper = replicate(settings, "depas", partial(run_once, changes={}), runs)
    crash = replicate(
        settings,
        "crash",
        partial(run_once, changes={"faults.crash_s": CRASH_S, "faults.crash_share": 0.3}),
        fault_runs,
    )
    loss = replicate(settings, "loss", partial(run_once, changes={"faults.loss": 0.2}), fault_runs)
    slow = replicate(
        settings,
        "slow start",
        partial(run_once, changes={"autoscaler.start_s": SLOW_START_S}),
        fault_runs,
    )
    big = replicate(settings, "large", partial(run_once, changes=large), 2)
    size = f"{large['autoscaler.type'][0]['initial'] * 10:,} nodes"
    rows = (
        *_paper_rows(paper),
        _settling_row("after the crash of 30 % of the nodes, settled after, s", crash, [CRASH_S]),
        _settling_row("with 20 % of messages lost, slowest step settled after, s", loss),
        _settling_row(f"up to {size}, slowest step settled after, s", big),
        _oscillation_row(f"oscillations of a run, up to {size}", big),
        measure_row(
            f"oscillations of a run, nodes that take {SLOW_START_S:g} s to start",
            None,
            _oscillations(slow),
        ),
        *cycle_rows(settings),
    )
    figures = (
        *_figures(paper),
        _capacity("With 30 % of the nodes crashed at 1250 s", crash),
        _capacity("With 20 % of messages lost", loss),
        _capacity(f"Up to {size}", big),
        _capacity(f"With nodes that take {SLOW_START_S:g} s to start", slow),
        cycle_chart(settings),
    )
    title = "Decentralised auto-scaling of a heterogeneous system (DEPAS, figures 2 and 3)"
    return Reproduction("depas", title, rows, figures, NOTES)


def run_once(seed: int, changes: Mapping[str, Any]) -> Run:
    """One run of the paper's scenario with some keys changed; the columns that are judged."""
    tables = sc.override(sc.load("depas"), {**changes, "seed": seed, "sample_s": 1})
    done = build.finish(build.prepare(scenario.check(tables, "depas")))
    columns = results.series(done)
    judged = {name: columns[name] for name in columns if name in KEPT or name.startswith("nodes.")}
    judged["oscillations"] = np.array([results.oscillations(columns, 0.7, 0.1)], dtype=np.float64)
    return judged


def mean_of(runs: Sequence[Run], name: str) -> Floats:
    mean: Floats = np.mean([run[name] for run in runs], axis=0, dtype=np.float64)
    return mean


def changes_of(rate: Floats, time_s: Floats) -> list[float]:
    """When the workload changed."""
    return [float(t) for t in time_s[1:][np.diff(rate) != 0.0]]


def settling_time(runs: Sequence[Run], start: float) -> float:
    """Seconds from a change until the mean capacity is inside the band for the rest of the step;
    infinite if never."""
    time_s, capacity = runs[0]["time_s"], mean_of(runs, "capacity")
    later = [t for t in changes_of(runs[0]["rate"], time_s) if t > start]
    step = (time_s >= start) & (time_s < (later[0] if later else math.inf))
    outside = (capacity < runs[0]["band_low"]) | (capacity > runs[0]["band_high"])
    outside_s = time_s[step & outside]
    if len(outside_s) == 0:
        return 0.0
    last = float(outside_s[-1])
    return math.inf if last == time_s[step][-1] else last + 1.0 - start


def _settling_row(quantity: str, runs: Sequence[Run], starts: Sequence[float] | None = None) -> Row:
    """The slowest step of the mean of the runs."""
    starts = changes_of(runs[0]["rate"], runs[0]["time_s"]) if starts is None else starts
    slowest = max(settling_time(runs, start) for start in starts)
    return Row(quantity, PAPER, slowest, holds=slowest <= SETTLED_S)


def _oscillations(runs: Sequence[Run]) -> list[float]:
    return [float(run["oscillations"][0]) for run in runs]


def _oscillation_row(quantity: str, runs: Sequence[Run]) -> Row:
    counts = _oscillations(runs)
    return measure_row(quantity, 0.0, counts, max(counts) == 0.0)


def _paper_rows(runs: Sequence[Run]) -> list[Row]:
    time_s = runs[0]["time_s"]
    rows = []
    for start in changes_of(runs[0]["rate"], time_s):
        rate = float(runs[0]["rate"][time_s == start][0])
        after = settling_time(runs, start)
        rows.append(
            Row(
                f"step to {rate:,.0f} requests/s, settled after, s",
                PAPER,
                after,
                holds=after <= SETTLED_S,
            )
        )
    against = [_against_trend(run) for run in runs]
    before, after_fall = (
        [_low_share(run, at) for run in runs] for at in (FALL_S - 1, float(time_s[-1]))
    )
    drift = [b - a for a, b in zip(before, after_fall, strict=True)]
    return [
        *rows,
        measure_row(
            "single runs: share of time inside the band once settled",
            None,
            [_share_inside(run) for run in runs],
        ),
        _oscillation_row("oscillations of a run", runs),
        measure_row(
            "actions against the trend, share of all", 0.0, against, float(np.mean(against)) < 0.01
        ),
        measure_row("low-capacity share of nodes before scaling in", None, before),
        measure_row("its change while scaling in", 0.0, drift, abs(float(np.mean(drift))) <= 0.03),
        measure_row(
            "rejected share of requests",
            None,
            [float(r["rejected"][-1] / r["arrived"][-1]) for r in runs],
        ),
    ]


def _share_inside(run: Run) -> float:
    """The share of time one run spends inside the band, the adaptation after each step left out."""
    time_s = run["time_s"]
    judged = np.ones(len(time_s), dtype=bool)
    for start in changes_of(run["rate"], time_s):
        judged &= (time_s < start) | (time_s >= start + SETTLED_S)
    inside = (run["capacity"] >= run["band_low"]) & (run["capacity"] <= run["band_high"])
    return float(np.mean(inside[judged]))


def _against_trend(run: Run) -> float:
    """Removals while the workload rises and additions while it falls, as a share of all."""
    turn = int(np.searchsorted(run["time_s"], FALL_S))
    removed, added = run["removed"][turn], run["added"][-1] - run["added"][turn]
    return float((removed + added) / (run["removed"][-1] + run["added"][-1]))


def _low_share(run: Run, second: float) -> float:
    at = int(np.searchsorted(run["time_s"], second))
    return float(run["nodes.low"][at] / run["nodes"][at])


def _figures(runs: Sequence[Run]) -> tuple[Chart, Chart]:
    x = runs[0]["time_s"][::4].tolist()
    kinds = [
        ("all nodes", "nodes", True),
        ("low capacity", "nodes.low", False),
        ("high capacity", "nodes.high", False),
    ]
    lines = tuple(
        Series(name, x, mean_of(runs, key)[::4].tolist(), dotted=dotted)
        for name, key, dotted in kinds
    )
    note = f"Mean of {len(runs)} runs."
    return _capacity("Allocated capacity against the optimum (figure 2)", runs), Chart(
        "Nodes by type (figure 3)", "second", "nodes", lines, note=note
    )


def _capacity(title: str, runs: Sequence[Run]) -> Chart:
    """The mean capacity and its extremes over the runs, on the optimum with its band."""
    x = runs[0]["time_s"][::4].tolist()
    all_runs = np.array([run["capacity"] for run in runs])[:, ::4]
    band = {name: runs[0][name][::4].tolist() for name in ("optimum", "band_low", "band_high")}
    optimum = Series(
        "optimum, band L₀ ± δ",
        x,
        band["optimum"],
        band["band_low"],
        band["band_high"],
        dotted=True,
        colour=1,
    )
    mean, low, high = (f(all_runs, axis=0).tolist() for f in (np.mean, np.min, np.max))
    capacity = Series("capacity, mean and extremes", x, mean, low, high, colour=0)
    return Chart(
        title, "second", "requests in parallel", (optimum, capacity), note=f"{len(runs)} runs."
    )
