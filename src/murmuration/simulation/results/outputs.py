"""The files of a run besides its summary, jobs and series: with measured usage the ticks and the
usage of nodes, what its architecture adds, and the log of what was left out or can never run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.simulation.engine.run import Run
from murmuration.simulation.results import snapshots
from murmuration.simulation.results import summary as results
from murmuration.simulation.results.measured import USAGE_EVERY_S, UsageSamples

Table = dict[str, NDArray[Any]]


def outputs(run: Run) -> dict[str, Table | str]:
    """Tables and the log, by the name of their file."""
    tables: dict[str, Table | str] = {}
    if run.measured is not None:
        tables |= {
            snapshots.TICKS: tick_table(run, run.measured),
            snapshots.USAGE: usage_table(run, run.measured),
        }
    tables |= run.setup.architecture.make_outputs(run)
    log = errors(run)
    return tables | ({snapshots.ERRORS: "\n".join(log) + "\n"} if log else {})


def tick_table(run: Run, measured: UsageSamples) -> Table:
    """The cluster at each sample: the series without workloads and queues, and what migrations have
    come to."""
    series = results.series(run)
    count = min(len(series["time_s"]), int(measured.noted[0]))
    prefixes = ("time_s", "tasks_running", "nodes.", "required.", "guaranteed.", "used.")
    table: Table = {
        name: shorten(column[:count])
        for name, column in series.items()
        if name.startswith(prefixes)
    }
    migrations, forced, megabytes = measured.ticks[:count].T
    return {
        **table,
        "migrations": migrations.astype(np.int64),
        "migrations_forced": forced.astype(np.int64),
        "migrated_mb": shorten(megabytes),
    }


def usage_table(run: Run, measured: UsageSamples) -> Table:
    """A row for each node that is there, every 100 minutes."""
    rows = measured.usage[: measured.noted[1]]
    time, node = np.nonzero(~np.isnan(rows[:, :, 0]))
    table: Table = {
        "time_s": (time + 1) * USAGE_EVERY_S,
        "node": np.array(run.setup.nodes.names, dtype=np.str_)[node],
    }
    names = run.setup.resources.names
    for k, name in enumerate(
        [*(f"used.{name}" for name in names), *(f"guaranteed.{name}" for name in names)]
    ):
        table[name] = shorten(rows[time, node, k])
    return {**table, "tasks": rows[time, node, -1].astype(np.int64)}


def errors(run: Run) -> list[str]:
    """What was left out of traces, and the jobs that can never run."""
    left_out = [text for text in run.setup.jobs.notes if text.startswith("left out: ")]
    ids = run.setup.jobs.job_id
    return left_out + [
        f"job {ids[row]} can never run: {why.reason}"
        for row, why in sorted(run.setup.infeasible.items())
    ]


def shorten(column: NDArray[Any]) -> NDArray[Any]:
    """Numbers for reading: six digits after the point."""
    return np.round(np.asarray(column, dtype=np.float64), 6)
