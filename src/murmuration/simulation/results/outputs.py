"""The files of a run besides its summary, jobs and series: with measured usage the ticks and the
usage of nodes, with negotiation some of its decisions; and the log of what was left out or can
never run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.simulation.architectures.negotiation.world import Parley
from murmuration.simulation.engine.run import Run
from murmuration.simulation.results import snapshots
from murmuration.simulation.results import summary as results
from murmuration.simulation.results.measured import USAGE_EVERY_S, Measured

Table = dict[str, NDArray[Any]]
#: In the order in which negotiation numbers them.
DECISIONS = ("selection", "candidates", "target")


def outputs(run: Run) -> dict[str, Table | str]:
    """Tables and the log, by the name of their file."""
    found: dict[str, Table | str] = {}
    if run.measured is not None:
        found |= {
            snapshots.TICKS: tick_table(run, run.measured),
            snapshots.USAGE: usage_table(run, run.measured),
        }
    if run.parley is not None:
        found[snapshots.DECISIONS] = decision_table(run, run.parley)
    log = errors(run)
    return found | ({snapshots.ERRORS: "\n".join(log) + "\n"} if log else {})


def tick_table(run: Run, measured: Measured) -> Table:
    """The cluster at each sample: the series without workloads and queues, and what migrations have
    come to."""
    series = results.series(run)
    count = min(len(series["time_s"]), int(measured.noted[0]))
    kept = ("time_s", "tasks_running", "nodes.", "required.", "guaranteed.", "used.")
    table: Table = {
        name: _short(column[:count]) for name, column in series.items() if name.startswith(kept)
    }
    migrations, forced, megabytes = measured.ticks[:count].T
    return {
        **table,
        "migrations": migrations.astype(np.int64),
        "migrations_forced": forced.astype(np.int64),
        "migrated_mb": _short(megabytes),
    }


def usage_table(run: Run, measured: Measured) -> Table:
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
        table[name] = _short(rows[time, node, k])
    return {**table, "tasks": rows[time, node, -1].astype(np.int64)}


def decision_table(run: Run, parley: Parley) -> Table:
    """The decisions that were sampled. A selection weighs the tasks of a node; candidates are drawn
    from the nodes that a broker scored; a target is the node that takes the task. A task from
    outside has no node yet."""
    rows = parley.decisions[: parley.progress["logged"][0]]
    names = np.array([*run.setup.nodes.names, ""], dtype=np.str_)
    jobs = np.append(run.setup.jobs.job_id, "")
    is_target = rows["kind"] == DECISIONS.index("target")
    return {
        "time_s": _short(rows["time"]),
        "decision": np.array(DECISIONS, dtype=np.str_)[rows["kind"]],
        "node": names[rows["node"]],
        "job_id": jobs[rows["job"]],
        "considered": rows["count"].astype(np.int64),
        "drawn": np.where(is_target, 0, rows["chosen"]).astype(np.int64),
        "target": names[np.where(is_target, rows["chosen"], -1)],
        "forced": rows["forced"].astype(np.int64),
        "value": _short(rows["value"]),
    }


def errors(run: Run) -> list[str]:
    """What was left out of traces, and the jobs that can never run."""
    left_out = [text for text in run.setup.jobs.notes if text.startswith("left out: ")]
    ids = run.setup.jobs.job_id
    return left_out + [
        f"job {ids[row]} can never run: {why.reason}"
        for row, why in sorted(run.setup.hopeless.items())
    ]


def _short(column: NDArray[Any]) -> NDArray[Any]:
    """Numbers for reading: six digits after the point."""
    return np.round(np.asarray(column, dtype=np.float64), 6)
