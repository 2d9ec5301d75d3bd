"""The arrays of batch queues, from the jobs, the discipline and the reservations of a scenario."""

from __future__ import annotations

from typing import cast

import numpy as np

from murmuration.base.arrays import Column, Flags, Integers, Records, Times
from murmuration.base.errors import InputError, did_you_mean
from murmuration.base.random import generator
from murmuration.base.resources import MICRO, Amounts
from murmuration.schedulers.queues import shares
from murmuration.schedulers.queues.discipline import (
    AdvanceReservation,
    QueuedJobs,
    QueueSettings,
    find_discipline,
)
from murmuration.schedulers.queues.look import LOOK
from murmuration.simulation.architectures.queues import batch_world as bw
from murmuration.simulation.engine.run import Run
from murmuration.simulation.engine.setup import Setup
from murmuration.simulation.engine.world import ATTEMPT_ROW, World, extend_world
from murmuration.simulation.scenarios import scenario as sc
from murmuration.workload.jobs import JobList

PREEMPT = {"no": bw.KEEP, "requeue": bw.REQUEUE, "suspend": bw.SUSPEND}


def widen_for_queue(setup: Setup, world: World) -> World:
    """The world as it is, or with the arrays of a batch queue where a discipline is named."""
    rules = setup.scenario.scheduler
    if not rules.queue:
        return world
    jobs, settings = setup.jobs, rules.queue_settings
    discipline = find_discipline(rules.queue)
    estimate = estimate_times(jobs, settings, setup.scenario.seed)
    queued = QueuedJobs(jobs.submit_s, estimate, jobs.priority)
    accounts, account = list_accounts(jobs)
    own: dict[str, Column] = {
        "rules": _rules(settings, discipline.overtaking, discipline.order),
        "look": np.zeros(1, LOOK),
        "queued": _queued(jobs, estimate, account),
        # A copy: ranks may change, and submissions are the inputs of other runs too.
        "rank": np.array(discipline.rank(queued, settings), dtype=np.float64),
        "waiting": np.zeros(len(jobs), np.int64),
        **_pools(setup, world),
        **_accounts(settings, accounts),
        **_work_room(len(jobs), len(setup.resources), len(rules.reservation)),
    }
    own |= _windows(setup, own["pools"], accounts)
    # Nobody decides while others do: no transaction of a look can meet a conflict.
    world.schedulers["optimistic"] = False
    if len(world.attempt_log):
        # A look may try every job that waits.
        world = world._replace(
            attempt_log=np.zeros(len(world.attempt_log) + 2 * len(jobs), ATTEMPT_ROW)
        )
    wide = extend_world(world, bw.BatchWorld, own)
    return _schedule_windows(wide)


def estimate_times(jobs: JobList, settings: QueueSettings, seed: int) -> Times:
    """The run time that each job asks for."""
    exact = np.asarray(jobs.duration_s * settings.estimate_factor, dtype=np.float64)
    if settings.estimate == "exact":
        return exact
    if settings.estimate == "trace":
        return np.where(jobs.requested_s > 0.0, jobs.requested_s, exact)
    more = generator(seed, "estimates").random(len(jobs)) * float(settings.estimate)
    return np.asarray(exact * (1.0 + more), dtype=np.float64)


def list_accounts(jobs: JobList) -> tuple[list[str], Integers]:
    """Whose use is counted together: users, or workloads where no user is known; and the account of
    each job. Jobs of nobody share one account."""
    if not jobs.users:
        return list(jobs.workloads), jobs.workload
    return [*jobs.users, "nobody"], np.where(jobs.user >= 0, jobs.user, len(jobs.users))


def _rules(settings: QueueSettings, overtaking: int, order: int) -> Records:
    rules = np.zeros(1, bw.RULES)
    rules["overtaking"], rules["order"] = overtaking, order
    rules["preempt"], rules["half_life_s"] = PREEMPT[settings.preempt], settings.half_life_s
    rules["jobs_max"] = settings.user_jobs_max
    rules["cpu_max"] = round(settings.user_cpu_max * MICRO)
    return rules


def _queued(jobs: JobList, estimate: Times, account: Integers) -> Records:
    rows = np.zeros(len(jobs), bw.QUEUED)
    rows["estimate"], rows["account"], rows["inside"] = estimate, account, -1
    rows["priority"] = jobs.priority
    return rows


def _pools(setup: Setup, world: World) -> dict[str, Column]:
    """The queues of the schedulers, and what each pool of nodes has free at time zero."""
    batch = np.zeros(len(setup.schedulers), bw.BATCH)
    owned = np.bincount(setup.owner, minlength=len(batch))
    batch["first"] = np.cumsum(owned) - owned
    parts = [scheduler.rows for scheduler in setup.schedulers]
    node_pool = np.zeros(len(world.total), np.int64)
    if any(rows is not None for rows in parts):
        batch["pool"] = np.arange(len(batch))
        node_pool[:] = -1
        for pool, rows in enumerate(parts):
            node_pool[rows] = pool
    pools = np.zeros((int(batch["pool"].max()) + 1, world.total.shape[1]), np.int64)
    np.add.at(pools, node_pool[node_pool >= 0], world.free[node_pool >= 0])
    return {"batch": batch, "node_pool": node_pool, "pools": pools}


def _accounts(settings: QueueSettings, accounts: list[str]) -> dict[str, Column]:
    for name in settings.shares:
        if name not in accounts:
            hint = did_you_mean(name, accounts)
            raise InputError(f"scheduler.queue_settings.shares: there is no user {name!r}; {hint}")
    promised = np.array([settings.shares.get(name, 1.0) for name in accounts])
    return {
        "accounts": np.zeros(len(accounts), bw.ACCOUNT),
        "recent": np.zeros(len(accounts)),
        "using": np.zeros(len(accounts)),
        "promised": promised / promised.sum(),
        "weights": shares.list_weights(settings.weights, settings.age_max_s),
    }


def _windows(setup: Setup, pools: Amounts, accounts: list[str]) -> dict[str, Column]:
    """The reservations of a scenario: times, amounts by pool, and who may use them."""
    reservations = setup.scenario.scheduler.reservation
    total = np.zeros((len(reservations), *pools.shape), np.int64)
    owner: Flags = np.zeros((len(reservations), len(accounts)), np.bool_)
    for k, reservation in enumerate(reservations):
        key = f"scheduler.reservation[{k}]"
        total[k] = _reserved(setup, reservation, pools, key)
        for name in reservation.users:
            if name not in accounts:
                hint = did_you_mean(name, accounts)
                raise InputError(f"{key}.users: there is no user {name!r}; {hint}")
            owner[k, accounts.index(name)] = True
    times = [(each.from_s, each.until_s) for each in reservations]
    return {
        "windows": np.array(times, dtype=np.float64).reshape(-1, 2),
        "window_left": total,
        "window_owner": owner,
    }


def _reserved(setup: Setup, reservation: AdvanceReservation, pools: Amounts, key: str) -> Amounts:
    """What a reservation takes of each pool: a share of what it has, or amounts of the one pool."""
    if not reservation.resources:
        return np.asarray(np.floor(pools * reservation.share), dtype=np.int64)
    if len(pools) > 1:
        raise InputError(
            f"{key}.resources: expected share where schedulers have nodes of their own"
        )
    amounts = setup.resources.vector(reservation.resources, f"{key}.resources")
    if (amounts > pools[0]).any():
        raise InputError(f"{key}.resources: expected no more than the cluster has")
    return amounts[None, :]


def _work_room(jobs: int, resources: int, windows: int) -> dict[str, Column]:
    """Room to work in. A profile has a point for now, one for each end, at most two for each
    reservation of a job and of a scenario."""
    points = 3 * jobs + 2 * windows + 2
    return {
        "ends": np.zeros(jobs),
        "amounts": np.zeros((jobs, resources), np.int64),
        "order": np.zeros(jobs, np.int64),
        "entries": np.zeros((3, jobs), np.int64),
        "points": np.zeros(points),
        "profile": np.zeros((points, resources), np.int64),
        "vectors": np.zeros((2, resources), np.int64),
    }


def _schedule_windows(world: bw.BatchWorld) -> bw.BatchWorld:
    """The queues are looked at when a reservation begins and when it ends."""
    state, times = world.state, np.unique(world.windows)
    first = int(state["scheduled"][0])
    rows = np.zeros(len(times), world.event_queue.dtype)
    rows["time"], rows["what"] = times, bw.LOOK_AGAIN
    rows["order"] = int(state["order"][0]) + np.arange(len(times))
    queue = np.concatenate([world.event_queue[:first], rows])
    # Sorted by time and order, a list is a heap.
    queue = queue[np.lexsort((queue["order"], queue["time"]))]
    room = np.zeros(max(len(world.event_queue), 2 * len(queue)), queue.dtype)
    room[: len(queue)] = queue
    state["scheduled"] += len(times)
    state["order"] += len(times)
    return world._replace(event_queue=room)


def check_queue_inputs(scenario: sc.Scenario, *_: object) -> None:
    """Refuse what a queue discipline would pass over."""
    if scenario.scheduler.queue and scenario.scheduler.policy:
        raise InputError(
            "scheduler.policy: quotas and headroom of workloads are not checked with "
            "scheduler.queue; user_jobs_max and user_cpu_max in scheduler.queue_settings are"
        )


def count_queue(run: Run) -> dict[str, float]:
    """What preemption cost, where there is any."""
    queue = run.setup.scenario.scheduler
    if not queue.queue or queue.queue_settings.preempt == "no":
        return {}
    rules = cast(bw.BatchWorld, run.world).rules[0]
    return {
        "jobs_preempted": int(rules["jobs_preempted"]),
        "tasks_preempted": int(rules["tasks_preempted"]),
        "cpu_h_preempted": float(rules["cpu_s_preempted"] / MICRO / 3600.0),
    }
