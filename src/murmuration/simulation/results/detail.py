"""Every task and every attempt of a run, written as the run goes on, in pieces of bounded size.

The rows come from the logs of a world (`results/recording.py`), with numbers for names. Here they
get the names back and go to whoever writes them (`Write`). What has not ended at the horizon is
added last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from murmuration.base.arrays import Column, Records, Table
from murmuration.simulation.engine import world as wd
from murmuration.simulation.results.parts import Write
from murmuration.simulation.results.recording import RUNNING, WHY

if TYPE_CHECKING:
    from murmuration.simulation.engine.setup import Setup

TASKS, ATTEMPTS, NODES, CURVES = (
    "tasks.parquet",
    "attempts.parquet",
    "nodes.parquet",
    "curves.parquet",
)
FILES = (TASKS, ATTEMPTS, NODES, CURVES)


class DetailLog:
    """Gives the rows of a world's logs their names and passes them on."""

    def __init__(self, setup: Setup, write: Write) -> None:
        self.setup, self.write = setup, write
        self.nodes = np.array([*setup.nodes.names, ""], dtype=np.str_)
        names = [scheduler.name for scheduler in setup.schedulers]
        self.schedulers = np.repeat(np.array(names, dtype=np.str_), setup.slots)

    def drain(self, world: wd.World) -> None:
        """Pass on what was logged since the last time."""
        stays, attempts = (int(world.state[f"{name}_logged"][0]) for name in ("stays", "attempts"))
        assert stays <= len(world.task_log) and attempts <= len(world.attempt_log), (
            "the logs hold all that one step may write"
        )
        if stays:
            self.write(TASKS, self.task_table(world.task_log[:stays]))
        if attempts:
            self.write(ATTEMPTS, self.attempt_table(world.attempt_log[:attempts]))
        world.state["stays_logged"] = world.state["attempts_logged"] = 0

    def close(self, world: wd.World) -> None:
        """Pass on the rest, with what has not ended, and what a reader needs besides."""
        self.drain(world)
        self.write(TASKS, self.task_table(running_stays(world)))
        self.write(ATTEMPTS, self.attempt_table(attempts_under_way(world)))
        self.write(NODES, node_table(self.setup))
        if self.setup.jobs.curves is not None:
            self.write(CURVES, curve_table(self.setup))

    def task_table(self, rows: Records) -> Table:
        jobs = self.setup.jobs
        return {
            "job_id": jobs.job_id[rows["job"]],
            "index": rows["index"].astype(np.int64),
            "node": self.nodes[rows["node"]],
            "submit_s": jobs.submit_s[rows["job"]],
            "start_s": rows["start"].copy(),
            "end_s": rows["end"].copy(),
            "why": np.array(WHY, dtype=np.str_)[rows["why"]],
            "moved_from": self.nodes[rows["source"]],
            "moved_mb": rows["mb"].copy(),
            "forced": rows["forced"].copy(),
            "curve_start_s": rows["began"].copy(),
        }

    def attempt_table(self, rows: Records) -> Table:
        return {
            "job_id": self.setup.jobs.job_id[rows["job"]],
            "scheduler": self.schedulers[rows["scheduler"]],
            "start_s": rows["start"].copy(),
            "end_s": rows["end"].copy(),
            "placed": rows["placed"].copy(),
            "refused": rows["refused"].copy(),
            "busy_s": rows["busy"].copy(),
            "wasted_s": rows["wasted"].copy(),
        }


def running_stays(world: wd.World) -> Records:
    """The stays that have not ended, in the order of the log: by slot, what a moving task leaves
    before what it moves to. A slot runs a task if the list of some run has it."""
    slots = running_slots(world)
    stays = world.stays[slots]
    source = world.tasks["source"][slots] if len(world.tasks) else np.full(len(slots), -1)
    now = np.zeros(len(slots), wd.STAY_ROW)
    for name in ("job", "index", "start", "mb", "source", "forced"):
        now[name] = stays[name]
    now["node"] = world.slots["node"][slots]
    now["began"] = world.tasks["began"][slots] if len(world.tasks) else stays["start"]
    now["why"], now["end"] = RUNNING, np.nan
    left = now.copy()
    for name in ("start", "mb", "source", "forced"):
        left[name] = stays[f"left_{name}"]
    left["node"] = source
    return np.concatenate([left[source >= 0], now])


def running_slots(world: wd.World) -> wd.Array:
    """The slots of all runs whose end is still scheduled."""
    events = world.event_queue[: world.state["scheduled"][0]]
    ends = events[events["what"] & wd.KIND_MASK == wd.TASKS_END]["what"] >> wd.KIND_BITS
    slots: list[int] = []
    for slot in world.runs["slot"][np.sort(ends)].tolist():
        while slot >= 0:
            slots.append(slot)
            slot = int(world.slots["next"][slot])
    return np.array(slots, dtype=np.int64)


def attempts_under_way(world: wd.World) -> Records:
    """The attempts that have not ended: they have placed nothing yet."""
    agents = np.flatnonzero((world.schedulers["job"] >= 0) & ~world.schedulers["decided"])
    rows = np.zeros(len(agents), wd.ATTEMPT_ROW)
    rows["job"], rows["scheduler"] = world.schedulers["job"][agents], agents
    rows["start"], rows["end"] = world.schedulers["started"][agents], np.nan
    return rows


def node_table(setup: Setup) -> Table:
    """What each node has from a time on, zeros where it is gone, and what of it tasks that never
    end have taken from the start."""
    from murmuration.simulation.engine.build import PREFILL, prefill_nodes

    changes, scenario = setup.changes, setup.scenario
    start, later = changes.start, changes.total
    prefill = scenario.cluster.prefill
    taken = start - prefill_nodes(setup.resources, start, prefill, scenario.seed)
    table: dict[str, Column] = {
        "node": np.array([*setup.nodes.names], dtype=np.str_)[
            np.concatenate([np.arange(len(start)), changes.node])
        ],
        "time_s": np.concatenate([np.zeros(len(start)), changes.time_s]),
        "prefilled_tasks": np.concatenate(
            [np.rint(taken[:, 0] / setup.resources.vector(PREFILL)[0]), np.zeros(len(later))]
        ).astype(np.int64),
    }
    for r, name in enumerate(setup.resources.names):
        table[f"total.{name}"] = np.concatenate([start[:, r], later[:, r]])
        table[f"prefilled.{name}"] = np.concatenate([taken[:, r], taken[changes.node, r]])
    return table


def curve_table(setup: Setup) -> Table:
    """The shares of their requests that tasks use, by curve and point."""
    curves = setup.jobs.curves
    assert curves is not None
    count, points, _ = curves.share.shape
    table: dict[str, Column] = {
        "curve": np.repeat(np.arange(count), points),
        "point": np.tile(np.arange(points), count),
        "step_s": np.full(count * points, curves.step_s),
        "cyclic": np.full(count * points, curves.cyclic),
    }
    for r, name in enumerate(setup.resources.names):
        table[f"share.{name}"] = curves.share[:, :, r].ravel()
    return table


def job_columns(setup: Setup, rows: wd.Array) -> Table:
    """What a job asked for, beside what became of it."""
    jobs = setup.jobs
    table: dict[str, Column] = {
        "production": jobs.production[rows],
        "curve": jobs.curve[rows].astype(np.int64),
    }
    for r, name in enumerate(setup.resources.names):
        table[f"request.{name}"] = jobs.request[rows, r]
    return table
