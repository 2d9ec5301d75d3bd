"""Two fidelities of DEPAS side by side: nodes that exchange messages, and the bulk loop, on one
small track."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.experiments.fidelity import Quantity, compare
from murmuration.experiments.replicates import each_seed, measure_each
from murmuration.experiments.result import Reproduction, ReproductionSettings
from murmuration.reports.figures import Chart, Series
from murmuration.simulation.autoscale import build, results, scenario
from murmuration.simulation.messages.depas import DepasWorld, system_of

Floats = NDArray[np.float64]

#: The mean capacity follows from the rule alone. When it is inside the band, and how many nodes
#: come and go, also depends on which nodes a node happens to know.
QUANTITIES = (
    Quantity("mean capacity", 0.03),
    Quantity("share of the time inside the band", 0.1),
    Quantity("nodes added", 0.15),
    Quantity("nodes removed", 0.15),
    Quantity("requests rejected", None),
)
#: Nodes at the start, and the seconds at which the workload doubles, halves and ends, with the
#: cycle.
FULL = {"initial": 30, "up_s": 300, "down_s": 700, "seconds": 1100, "cycle_s": 60}
QUICK = {"initial": 20, "up_s": 60, "down_s": 180, "seconds": 300, "cycle_s": 20}


def small_scenario(track: dict[str, int], seed: int) -> scenario.AutoscaleScenario:
    """A workload that doubles and halves again, on nodes of one kind."""
    rate = 0.7 * track["initial"]
    tables: dict[str, Any] = {
        "name": "depas-fidelities",
        "seed": seed,
        "seconds": track["seconds"],
        "sample_s": 1,
        "autoscaler": {
            "cycle_s": track["cycle_s"],
            "window_s": track["cycle_s"],
            "type": [{"name": "small", "capacity": 1, "initial": track["initial"]}],
            "overlay": {"degree": 10, "cycle_s": 2.0, "exchange": 3, "probes": 3},
        },
        "requests": {
            "rate": [[0, rate], [track["up_s"], 2 * rate], [track["down_s"], rate]],
            "entry_min": 20,
            "entry_share": 0.0,
        },
    }
    return scenario.check(tables, "depas-fidelities")


def bulk_figures(track: dict[str, int], seed: int) -> tuple[list[float], Floats]:
    """The figures of the bulk loop, and its capacity every second."""
    simulation = build.finish(build.prepare(small_scenario(track, seed)))
    state, columns = simulation.world.state[0], results.series(simulation)
    capacity, rate = columns["capacity"], columns["rate"]
    rejected = int(state["rejected"]) / int(state["arrived"])
    nodes = [float(state["added"]), float(state["removed"])]
    return [float(capacity.mean()), _share_inside(capacity, rate), *nodes, rejected], capacity


def message_figures(track: dict[str, int], seed: int) -> tuple[list[float], Floats]:
    """The same of the nodes, message by message."""
    world = DepasWorld(system_of(small_scenario(track, seed)))
    rows = world.run(float(track["seconds"]))
    rate, capacity = rows[:, 1], rows[:, 2]
    rejected = 1.0 - sum(world.answered.values()) / max(1, len(world.answered))
    nodes = [float(world.counts["added"]), float(world.counts["removed"])]
    return [float(capacity.mean()), _share_inside(capacity, rate), *nodes, rejected], capacity


def _both(track: dict[str, int], seed: int) -> tuple[tuple[list[float], Floats], ...]:
    return bulk_figures(track, seed), message_figures(track, seed)


def _share_inside(capacity: Floats, rate: Floats) -> float:
    """The share of samples with the capacity inside the band, L₀ ± δ = 0.7 ± 0.1."""
    return float(((capacity >= rate / 0.8) & (capacity <= rate / 0.6)).mean())


def run(settings: ReproductionSettings) -> Reproduction:
    """Both fidelities on the same track."""
    track, seeds = (QUICK, 4) if settings.quick else (FULL, 8)
    pairs = measure_each(settings, "seeds", partial(_both, track), each_seed(settings, seeds))
    lines = [
        Series(name, [float(at) for at in range(1, len(capacity) + 1)], capacity.tolist())
        for name, (_, capacity) in zip(("bulk", "messages"), pairs[0], strict=True)
    ]
    chart = Chart("Capacity, one seed", "seconds", "requests/s", tuple(lines))
    notes = (
        f"{track['initial']} nodes of capacity 1 at the start, a workload that doubles at second "
        f"{track['up_s']} and halves at second {track['down_s']}, {seeds} seeds; `paper` is the "
        "agents' mean and range.",
        "Means hold within 3 % (capacity), 10 % (share of the time inside the band) and 15 % "
        "(nodes added and removed), and two standard errors of their difference. Rejections judge "
        "nothing: a message takes time, so that more requests meet a full queue.",
    )
    title = "DEPAS in bulk and message by message"
    rows = compare(
        QUANTITIES, *([values for values, _ in column] for column in zip(*pairs, strict=True))
    )
    return Reproduction("depas-fidelities", title, tuple(rows), (chart,), notes)
