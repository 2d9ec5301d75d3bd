"""From a scenario to a world: the arrays a run starts from.

A world is arrays and nothing else, because of three readers: compiled kernels cannot follow Python
objects, a snapshot is the arrays written to a file, and two runs are equal if their arrays are.
Tables of records (`world.JOB`, `RUN`, `SLOT`, ...) hold what belongs together; lists within them
are linked by row numbers, with −1 as their end. Unused rows of runs and slots are one such list
too, the free list, whose head is in `state`: taking a row and giving it back are two assignments.

Sizes are powers of two from a generous start, so that a run seldom has to stop for more room; what
is too small grows by `grow_world`, which doubles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from murmuration.base.arrays import Amounts, Column, Flags, Indices, RandomState, Records, Times
from murmuration.base.errors import InputError
from murmuration.base.random import state
from murmuration.base.resources import Resources
from murmuration.cluster.transactions import UNLIMITED
from murmuration.placement.kernels import draw_first_fit, feasible, place_from
from murmuration.placement.room import make_changes
from murmuration.schedulers.admission import NEVER
from murmuration.simulation.engine import world as wd
from murmuration.simulation.engine.setup import Setup
from murmuration.simulation.results.costs import list_watts
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.inputs import DAY_S
from murmuration.workload.jobs import JobList
from murmuration.workload.nodes import NodeTable

PREFILL: dict[str, str | float] = {"cpu": 1.1, "memory": "1.5G"}
SAMPLES = 169
SLOTS_START = 1 << 16
ROWS_START = 1 << 10
#: Rows of a log beyond what one step may write, so that it is not read after each.
LOG_SPARE = 1 << 15


def prefill_nodes(resources: Resources, total: Amounts, share: float, seed: int) -> Amounts:
    """What is free after whole tasks that never end have taken this share of all CPU, by randomised
    first fit."""
    request = resources.vector(PREFILL)
    tasks = int(np.ceil(share * total[:, 0].sum() / request[0]))
    if tasks == 0:
        return total.copy()
    free, every = total.copy(), np.empty(0, dtype=np.bool_)
    chosen = np.empty(tasks, dtype=np.int32)
    rng = state(seed, "prefill")
    placed = draw_first_fit(free, every, request, tasks, rng, chosen)
    rows = feasible(free, every, request)
    placed = place_from(rows, len(rows), free, request, placed, tasks, rng, chosen)
    if placed < tasks:
        limit = placed * request[0] / total[:, 0].sum()
        raise InputError(
            f"cluster.prefill: tasks of 1.1 CPU and 1.5 GB can take {limit:.0%} of all CPU, not "
            f"{share:.0%}"
        )
    return free


def make_world(setup: Setup, free: Amounts, masks: Flags, mask: Indices) -> wd.World:
    """The world at time zero: what every run has, then what its architecture adds."""
    room, rows = _sizes(setup)
    taken = (setup.changes.start - free).sum(axis=0)
    common: dict[str, Column] = {
        **_table(setup, free),
        "masks": masks,
        "jobs": _job_rows(setup, mask),
        "request": setup.jobs.request.copy(),
        **_scheduler_arrays(setup),
        "runs": _link_rows(wd.RUN, "slot", 0, rows),
        "slots": _link_rows(wd.SLOT, "next", 0, room),
        "event_queue": np.zeros(rows, wd.EVENT),
        **_task_arrays(setup, room),
        **_measures(setup, taken),
        "meters": _meters(setup, free),
        **_logs(setup, room),
    }
    running = round(taken[0] / setup.resources.vector(PREFILL)[0])
    world = wd.World(state=_state(setup, room, running), **common)
    _schedule_first(setup, world)
    world = setup.architecture.make_world(setup, world)
    assert (world.free <= world.total).all(), "no node has more free than it has"
    assert world.state["scheduled"][0] <= len(world.event_queue), "the first events fit"
    return world


def _sizes(setup: Setup) -> tuple[int, int]:
    """Room for how many running tasks, and for how many transactions and events, to begin with."""
    # Twice the widest job: a kernel asks for room before a step, and one step may start a whole
    # job. Room for the jobs that are there at time zero, or the first seconds of a full cluster
    # would be spent on growing.
    jobs = setup.jobs
    at_start = jobs.submit_s <= 0.0
    room = max(
        SLOTS_START, 2 * int(jobs.tasks.max()), _power_of_two(2 * jobs.tasks[at_start].sum())
    )
    rows = max(ROWS_START, _power_of_two(4 * at_start.sum()))
    return room, max(rows, room) if setup.architecture.event_per_task else rows


def _table(setup: Setup, free: Amounts) -> dict[str, Column]:
    """The cluster table: one row per node."""
    total = setup.changes.start
    return {
        "total": total.copy(),
        "free": free.copy(),
        "unreserved": total.copy() if setup.has_usage else total[:0].copy(),
        "guaranteed": np.zeros_like(free),
        "sequence": np.zeros(len(free), np.int64),
        "totals": total.sum(axis=0),
        "changes": make_changes(len(free), setup.has_index),
    }


def _scheduler_arrays(setup: Setup) -> dict[str, Column]:
    """One row per scheduler, and for each attempt it may have under way."""
    count, widest = len(setup.schedulers) * setup.slots, int(setup.jobs.tasks.max())
    return {
        "schedulers": _scheduler_rows(setup),
        "queue": np.full((count, len(np.unique(setup.jobs.priority)), 2), -1, np.int32),
        "rng": _generators(setup),
        "times": _times(setup),
        "claim": np.zeros((count, widest), np.int32),
        "seen": np.zeros((count, widest), np.int64),
    }


def _measures(setup: Setup, taken: Amounts) -> dict[str, Column]:
    """What is counted and summed up, starting with what prefilled tasks have taken."""
    resources, workloads = len(setup.resources), len(setup.jobs.workloads)
    schedulers = len(setup.schedulers) * setup.slots
    columns = wd.S_RESOURCES + 3 * resources + len(wd.S_PER_WORKLOAD) * workloads + schedulers
    return {
        "workloads": _workload_rows(setup),
        "busy": np.zeros((workloads, schedulers, 2)),
        "held": np.zeros((workloads, resources), np.int64),
        "held_used": np.zeros((workloads, resources), np.int64),
        "sums": np.stack([taken, np.zeros_like(taken), taken]),
        "sums_s": np.zeros((3, resources)),
        "samples": np.zeros((_samples(setup), columns)),
    }


def _meters(setup: Setup, free: Amounts) -> Records:
    """The meter of each node's energy, where the scenario has costs; prefilled tasks draw from the
    start."""
    costs, total = setup.scenario.cluster.costs, setup.changes.start
    meters = np.zeros(0 if costs is None else len(total), wd.METER)
    if costs is not None:
        meters["idle"], meters["peak"] = list_watts(costs, setup.nodes).T
        meters["total"], meters["cpu"] = total[:, 0], (total - free)[:, 0]
        meters["tasks"] = (total - free).any(axis=1)
    return meters


def _logs(setup: Setup, room: int) -> dict[str, Column]:
    """What records every task and attempt, if that is wanted: room for what one step may write, and
    some to spare."""
    tasks = setup.jobs.tasks if setup.detail else setup.jobs.tasks[:0]
    numbers = np.zeros(len(tasks), wd.NUMBERS)
    numbers["first"] = np.cumsum(tasks) - tasks
    return {
        "stays": np.zeros(room if setup.detail else 0, wd.STAY),
        "numbers": numbers,
        "numbered": np.zeros(int(tasks.sum()), np.bool_),
        "task_log": np.zeros(2 * room + LOG_SPARE if setup.detail else 0, wd.STAY_ROW),
        "attempt_log": np.zeros(len(tasks) + LOG_SPARE if setup.detail else 0, wd.ATTEMPT_ROW),
    }


def _samples(setup: Setup) -> int:
    """How many samples a run takes: one for each time usage is measured, else a fixed number."""
    if not setup.has_usage:
        return SAMPLES
    return max(2, round(setup.scenario.days * DAY_S / setup.scenario.scheduler.usage_s) + 1)


def _power_of_two(count: int) -> int:
    """The first power of two that is no smaller."""
    return 1 << max(int(count) - 1, 0).bit_length()


def _task_arrays(setup: Setup, room: int) -> dict[str, Column]:
    """Tasks with rows of their own, what they follow, and how nodes change; next to nothing where
    there are none."""
    changes, curves, resources = setup.changes, setup.jobs.curves, len(setup.resources)
    events = np.zeros(len(changes.time_s), wd.NODE_EVENT)
    events["time"], events["node"] = changes.time_s, changes.node
    share = (
        np.ones((1, 1, resources), np.float32)
        if curves is None
        else np.ascontiguousarray(curves.share)
    )
    return {
        "tasks": _make_slots(room if setup.has_tasks else 0),
        "task_used": np.zeros((room if setup.has_usage else 0, resources), np.int64),
        "curves": share,
        "node_events": events,
        "node_totals": np.ascontiguousarray(changes.total),
        "outgoing": np.zeros((len(changes.start) if setup.has_tasks else 0, resources), np.int64),
        "reserved_outgoing": np.zeros(
            (len(changes.start) if setup.has_tasks else 0, resources), np.int64
        ),
    }


def _make_slots(count: int) -> Records:
    tasks = np.zeros(count, wd.TASK)
    tasks["job"] = tasks["source"] = -1
    return tasks


def _schedule_first(setup: Setup, world: wd.World) -> None:
    """Schedule what happens whatever else does: agents act, usage is measured, nodes change."""
    first = []
    if setup.architecture.first_act_s is not None:
        first.append((setup.architecture.first_act_s(setup.scenario), wd.AGENTS_ACT))
    if setup.has_usage:
        first.append((setup.scenario.scheduler.usage_s, wd.USAGE_CHANGES))
    if len(world.node_events):
        first.append((float(world.node_events["time"][0]), wd.NODE_CHANGES))
    for k, (time, kind) in enumerate(sorted(first)):
        world.event_queue[k] = (time, world.state["order"][0] + k, kind)
    world.state["scheduled"] = len(first)
    world.state["order"] += len(first)


def _state(setup: Setup, room: int, running: int) -> Records:
    """The scalars that change, and the settings that kernels read."""
    scenario, scheduler = setup.scenario, setup.scenario.scheduler
    horizon, costs = scenario.days * DAY_S, scenario.cluster.costs
    values = {
        "horizon": horizon,
        "sample_step": horizon / (_samples(setup) - 1),
        "order": len(setup.jobs),
        "pending": -1,
        "slots_left": room,
        "running": running,
        "retry_s": scheduler.retry_s,
        "back_off": scheduler.unplaced == "back-off",
        "retry_max_s": scheduler.retry_max_s,
        "attempts_max": scheduler.attempts_max,
        "empty_max": scheduler.empty_attempts_max,
        "slots": setup.slots,
        "nodes": int((setup.changes.start > 0).any(axis=1).sum()),
        "power_off": costs is not None and costs.power_off,
        "usage_s": scheduler.usage_s,
        "reclaim": scheduler.reclaim,
        # Schedulers that read the table expect a task to use all it requests until it is measured.
        "unmeasured": 1.0,
    }
    if setup.jobs.curves is not None:
        values |= {"curve_s": setup.jobs.curves.step_s, "cyclic": setup.jobs.curves.cyclic}
    record = np.zeros(1, wd.STATE)
    for name, value in (values | setup.architecture.set_state(setup)).items():
        record[name] = value
    return record


def _job_rows(setup: Setup, mask: Indices) -> Records:
    jobs = setup.jobs
    rows = np.zeros(len(jobs), wd.JOB)
    rows["submit"], rows["duration"] = jobs.submit_s, jobs.duration_s
    rows["tasks"] = rows["left"] = jobs.tasks
    rows["workload"], rows["mask"], rows["gang"], rows["production"] = (
        jobs.workload,
        mask,
        jobs.gang,
        jobs.production,
    )
    for time in ("first", "started", "full", "ended"):
        rows[time] = np.nan
    rows["behind"] = -1
    rows["curve"], rows["recorded"] = jobs.curve, find_recorded_rows(jobs, setup.nodes)
    rows["scheduler"] = setup.owner * setup.slots
    rows["level"] = np.unique(-jobs.priority, return_inverse=True)[1].ravel()
    rows["status"][list(setup.infeasible)] = NEVER
    return rows


def find_recorded_rows(jobs: JobList, nodes: NodeTable) -> Indices:
    """For each job the row of the node it ran on, or −1 where that is not known or not one of these
    nodes."""
    row_of = {name: row for row, name in enumerate(nodes.names)}
    rows = np.array([*(row_of.get(name, -1) for name in jobs.recorded_nodes), -1], dtype=np.int64)
    return rows[jobs.recorded]


def _scheduler_rows(setup: Setup) -> Records:
    rows = np.zeros(len(setup.schedulers) * setup.slots, wd.SCHEDULER)
    rows["job"] = rows["aside"] = rows["aside_last"] = -1
    for name in ("optimistic", "machine", "atomic"):
        values = [getattr(scheduler, name) for scheduler in setup.schedulers]
        rows[name] = np.repeat(values, setup.slots)
    return rows


def _times(setup: Setup) -> Times:
    """Job time and task time of each scheduler for each workload."""
    times = np.zeros((len(setup.schedulers), len(setup.jobs.workloads), 2))
    for row, scheduler in enumerate(setup.schedulers):
        for name, timing in scheduler.timing.items():
            times[row, setup.jobs.workloads.index(name)] = timing.job_s, timing.task_s
    return np.repeat(times, setup.slots, axis=0)


def _generators(setup: Setup) -> RandomState:
    """The generator of each scheduler, by its name, and last one that belongs to none of them.

    The last is named after its first user, an allocator: another name would be another run for the
    same seed.
    """
    names = [
        scheduler.name if setup.slots == 1 else f"{scheduler.name}/{k}"
        for scheduler in setup.schedulers
        for k in range(setup.slots)
    ]
    return np.stack(
        [state(setup.scenario.seed, "scheduler", name) for name in [*names, "/allocator"]]
    )


def _link_rows(kind: np.dtype[Any], link: str, start: int, end: int, last: int = -1) -> Records:
    """Unused rows, each naming the next."""
    rows = np.zeros(end - start, kind)
    rows[link] = np.arange(start + 1, end + 1)
    rows[link][-1] = last
    return rows


def _workload_rows(setup: Setup) -> Records:
    rows = np.zeros(len(setup.jobs.workloads), wd.WORKLOAD)
    for row, name in zip(rows, setup.jobs.workloads, strict=True):
        policy = setup.scenario.scheduler.policy.get(name, sc.PolicySettings())
        for limit in ("quota", "headroom"):
            value = getattr(policy, limit)
            row[limit] = UNLIMITED if value is None else value
    return rows


def grow_world(world: wd.World) -> wd.World:
    """The same world with twice the room for running tasks, transactions and events."""
    # Row numbers stay valid: new rows are appended, linked among themselves, and the last of them
    # leads to what was still free. The free list then begins with the new rows.
    rows, slots, state = len(world.runs), len(world.slots), world.state
    more_runs = _link_rows(wd.RUN, "slot", rows, 2 * rows, int(state["run_free"][0]))
    more_slots = _link_rows(wd.SLOT, "next", slots, 2 * slots, int(state["slot_free"][0]))
    state["run_free"], state["slot_free"] = rows, slots
    state["slots_left"] += slots
    assert int(state["slots_left"][0]) <= 2 * slots, "no more slots are left than there are"
    return world._replace(
        runs=np.concatenate([world.runs, more_runs]),
        slots=np.concatenate([world.slots, more_slots]),
        event_queue=np.concatenate([world.event_queue, np.zeros_like(world.event_queue)]),
        tasks=np.concatenate([world.tasks, _make_slots(len(world.tasks))]),
        task_used=np.concatenate([world.task_used, np.zeros_like(world.task_used)]),
        stays=np.concatenate([world.stays, np.zeros_like(world.stays)]),
        task_log=np.concatenate([world.task_log, np.zeros(2 * len(world.stays), wd.STAY_ROW)]),
    )
