"""From a scenario to a world: the arrays a run starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.base.errors import InputError
from murmuration.base.random import generator, state
from murmuration.base.resources import Amounts, Resources
from murmuration.cluster.constraints import node_mask, parse_constraint
from murmuration.cluster.reasons import Never
from murmuration.placement.kernels import draw_first_fit, feasible, place_from
from murmuration.placement.registry import Placement
from murmuration.schedulers.admission import beyond_one_node, never
from murmuration.schedulers.architecture import Agent, assign_jobs
from murmuration.schedulers.negotiation.rules import UNMEASURED
from murmuration.simulation.architectures.swarm.world import swarm_arrays
from murmuration.simulation.engine import world as wd
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.inputs import DAY_S
from murmuration.workload.generators import PICKY_MASKS, picky_masks
from murmuration.workload.jobs import JobList
from murmuration.workload.node_events import absent, rows_of
from murmuration.workload.nodes import REMOVE, NodeEvents, NodeTable

PREFILL: dict[str, str | float] = {"cpu": 1.1, "memory": "1.5G"}
SAMPLES = 169
DOUBLE_BOOKED_SLOTS = 32
SLOTS_START = 1 << 16
ROWS_START = 1 << 10


@dataclass(frozen=True)
class NodeChanges:
    """The size a node has from a time on, by time; zeros where it is gone. `start` is what each
    node has at time 0."""

    start: Amounts
    time_s: NDArray[np.float64]
    node: NDArray[np.int64]
    total: Amounts

    @property
    def most(self) -> Amounts:
        """The most each node ever has."""
        most = self.start.copy()
        np.maximum.at(most, self.node, self.total)
        return most

    def capacity(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """What all nodes together have at each of these times; a change counts from its own time
        on."""
        size = self.start.copy()
        steps = np.empty((len(self.time_s) + 1, size.shape[1]))
        steps[0] = size.sum(axis=0)
        for k, (node, total) in enumerate(zip(self.node, self.total, strict=True)):
            steps[k + 1] = steps[k] + total - size[node]
            size[node] = total
        return steps[np.searchsorted(self.time_s, times, side="right")]

    def capacity_mean(self, seconds: float) -> NDArray[np.float64]:
        """What all nodes together have, on average until then."""
        times = np.concatenate([[0.0], self.time_s[(self.time_s > 0) & (self.time_s < seconds)]])
        lasts = np.diff(times, append=seconds)
        return np.asarray(
            (self.capacity(times) * lasts[:, None]).sum(axis=0) / seconds, dtype=np.float64
        )


def node_changes(nodes: NodeTable, events: NodeEvents | None) -> NodeChanges:
    """What happens to the nodes, by their rows."""
    if events is None:
        return NodeChanges(nodes.total, np.empty(0), np.empty(0, np.int64), nodes.total[:0])
    start = np.where(absent(events, nodes.names)[:, None], 0, nodes.total)
    total = np.where((events.kind == REMOVE)[:, None], 0, events.total)
    return NodeChanges(start, events.time_s, rows_of(events, nodes.names), total)


@dataclass(frozen=True)
class Setup:
    """Everything about a run that does not change while it runs."""

    scenario: sc.Scenario
    nodes: NodeTable
    jobs: JobList
    agents: tuple[Agent, ...]
    placement: Placement
    #: Jobs that can never run, by row, with the reason.
    hopeless: dict[int, Never]
    #: How nodes come, go and change.
    changes: NodeChanges

    @property
    def resources(self) -> Resources:
        return self.nodes.resources

    @property
    def has_usage(self) -> bool:
        """Whether what tasks use is measured apart from what they request."""
        return self.jobs.curves is not None or self.is_negotiation

    @property
    def has_tasks(self) -> bool:
        """Whether every task has a row of its own."""
        return self.has_usage or self.is_swarm or self.is_genetic

    @property
    def is_offers(self) -> bool:
        return self.scenario.scheduler.kind == "offers"

    @property
    def is_negotiation(self) -> bool:
        return self.scenario.scheduler.kind == "negotiation"

    @property
    def is_genetic(self) -> bool:
        return self.scenario.scheduler.kind == "genetic"

    @property
    def is_swarm(self) -> bool:
        return self.scenario.scheduler.kind == "swarm"


def prefilled(resources: Resources, total: Amounts, share: float, seed: int) -> Amounts:
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
        most = placed * request[0] / total[:, 0].sum()
        raise InputError(
            f"cluster.prefill: tasks of 1.1 CPU and 1.5 GB can take {most:.0%} of all CPU, not "
            f"{share:.0%}"
        )
    return free


def job_masks(
    scenario: sc.Scenario,
    nodes: NodeTable,
    jobs: JobList,
    agents: tuple[Agent, ...],
    owner: NDArray[np.int64],
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The distinct row masks, and the mask of each job (−1: every row): its constraints, pickiness
    and partition."""
    count = len(nodes.total)
    constraint_masks = [node_mask(c, nodes.attributes) for c in jobs.constraint_sets]
    picky, picked = _pickiness(scenario, count, jobs)
    partition = np.where(np.array([agent.rows is not None for agent in agents])[owner], owner, -1)
    first, which = distinct_rows([jobs.constraint, picked, partition])
    masks: list[NDArray[np.bool_]] = []
    index = []
    for row in first:
        mask = constraint_masks[jobs.constraint[row]].copy()
        if picked[row] >= 0:
            mask &= picky[picked[row]]
        if partition[row] >= 0:
            mask &= agents[partition[row]].rows
        index.append(-1 if mask.all() else len(masks))
        if not mask.all():
            masks.append(mask)
    table = np.array(masks, dtype=np.bool_) if masks else np.ones((1, count), dtype=np.bool_)
    return np.ascontiguousarray(table), np.array(index, dtype=np.int64)[which]


def distinct_rows(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """One row of each kind, and the kind of every row, where a kind is a combination of values."""
    kind = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, code = np.unique(column, return_inverse=True)
        kind = np.unique(kind * len(values) + code.ravel(), return_inverse=True)[1].ravel()
    return np.unique(kind, return_index=True)[1], kind


def _pickiness(
    scenario: sc.Scenario, nodes: int, jobs: JobList
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Random masks for picky workloads, and which one each job has (−1: none)."""
    picked = np.full(len(jobs), -1, dtype=np.int64)
    masks = [np.empty((0, nodes), dtype=np.bool_)]
    if sc.is_replay(scenario.workload):
        return masks[0], picked
    for name, table in sc.generators(scenario).items():
        if table.picky > 0.0:
            rng = generator(scenario.seed, "picky", name)
            rows = np.flatnonzero(jobs.workload == jobs.workloads.index(name))
            picked[rows] = sum(map(len, masks)) + rng.integers(0, PICKY_MASKS, len(rows))
            masks.append(picky_masks(nodes, table.picky, rng))
    return np.concatenate(masks), picked


def find_hopeless(
    scenario: sc.Scenario,
    nodes: NodeTable,
    jobs: JobList,
    free: Amounts,
    masks: NDArray[np.bool_],
    mask: NDArray[np.int64],
) -> dict[int, Never]:
    """The jobs that can never run. Jobs that are alike are looked at once."""
    whole = jobs.gang | (scenario.scheduler.kind == "partitioned")
    first, which = distinct_rows([*jobs.request.T, mask, whole])
    most = np.zeros(len(first), dtype=np.int64)
    np.maximum.at(most, which, jobs.tasks)

    def reason(row: int, tasks: int) -> Never | None:
        allowed = None if mask[row] < 0 else masks[mask[row]]
        return never(nodes.resources, free, allowed, jobs.request[row], tasks, bool(whole[row]))

    found: dict[int, Never] = {}
    needs = jobs.request[first] * np.where(whole[first], most, 1)[:, None]
    for kind in _doubtful(free, masks, mask[first], needs):
        row = first[kind]
        if reason(row, int(most[kind])) is not None:
            each = {int(k): reason(row, int(jobs.tasks[k])) for k in np.flatnonzero(which == kind)}
            found.update({k: why for k, why in each.items() if why is not None})
    return found


def _doubtful(
    free: Amounts, masks: NDArray[np.bool_], mask: NDArray[np.int64], needs: Amounts
) -> list[int]:
    """The needs that no single node allowed to them holds."""
    found: list[int] = []
    for which in np.unique(mask):
        rows = np.flatnonzero(mask == which)
        found += rows[
            beyond_one_node(free if which < 0 else free[masks[which]], needs[rows])
        ].tolist()
    return sorted(found)


def make_world(
    setup: Setup, free: Amounts, masks: NDArray[np.bool_], mask: NDArray[np.int64]
) -> wd.World:
    """The world at time zero."""
    scenario, resources = setup.scenario, len(setup.resources)
    workloads = len(setup.jobs.workloads)
    slots = (
        DOUBLE_BOOKED_SLOTS if setup.is_offers and scenario.scheduler.offers.double_booked else 1
    )
    agents, widest = len(setup.agents) * slots, int(setup.jobs.tasks.max())
    total = setup.changes.start
    taken = (total - free).sum(axis=0)
    columns = wd.S_RESOURCES + 3 * resources + len(wd.S_PER_WORKLOAD) * workloads + agents
    room = max(
        SLOTS_START,
        2 * widest,
        _power_of_two(2 * setup.jobs.tasks[setup.jobs.submit_s <= 0.0].sum()),
    )
    rows = max(ROWS_START, _power_of_two(4 * (setup.jobs.submit_s <= 0.0).sum()))
    # Where any task may be under way, each may have an entry of its own on the agenda.
    rows = max(rows, room) if setup.is_genetic else rows
    samples = _samples(setup)
    world = wd.World(
        state=_state(
            setup, agents, slots, room, round(taken[0] / setup.resources.vector(PREFILL)[0])
        ),
        total=total.copy(),
        free=free.copy(),
        firm=total.copy() if setup.has_usage else total[:0].copy(),
        guaranteed=np.zeros_like(free),
        sequence=np.zeros(len(free), np.int64),
        totals=total.sum(axis=0),
        masks=masks,
        jobs=_job_rows(setup, mask, slots),
        request=setup.jobs.request.copy(),
        agents=_agent_rows(setup, slots),
        queue=np.full((agents, len(np.unique(setup.jobs.priority)), 2), -1, np.int32),
        rng=_generators(setup, slots),
        times=_times(setup, slots),
        claim=np.zeros((agents, widest), np.int32),
        seen=np.zeros((agents, widest), np.int64),
        runs=_linked(wd.RUN, "slot", 0, rows),
        slots=_linked(wd.SLOT, "next", 0, room),
        agenda=np.zeros(rows, wd.NOTE),
        **_task_arrays(setup, room),
        workloads=_workload_rows(setup),
        busy=np.zeros((workloads, agents, 2)),
        held=np.zeros((workloads, resources), np.int64),
        sums=np.stack([taken, np.zeros_like(taken), taken]),
        sums_s=np.zeros((3, resources)),
        samples=np.zeros((samples, columns)),
        **_offer_arrays(setup, agents, free),
        **swarm_arrays(setup.is_swarm, scenario.scheduler.swarm, setup.changes.most, setup.jobs),
    )
    _begin(setup, world)
    return world


def _samples(setup: Setup) -> int:
    """How many samples a run takes: one for each time usage is measured, else a fixed number."""
    if not setup.has_usage:
        return SAMPLES
    return max(2, round(setup.scenario.days * DAY_S / setup.scenario.scheduler.usage_s) + 1)


def _power_of_two(least: int) -> int:
    return 1 << max(int(least) - 1, 0).bit_length()


def _task_arrays(setup: Setup, room: int) -> dict[str, NDArray[Any]]:
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
        "tasks": _unused_tasks(room if setup.has_tasks else 0),
        "task_used": np.zeros((room if setup.has_usage else 0, resources), np.int64),
        "curves": share,
        "node_events": events,
        "node_totals": np.ascontiguousarray(changes.total),
        "outgoing": np.zeros((len(changes.start) if setup.has_tasks else 0, resources), np.int64),
        "firm_outgoing": np.zeros(
            (len(changes.start) if setup.has_tasks else 0, resources), np.int64
        ),
    }


def _unused_tasks(count: int) -> NDArray[Any]:
    tasks = np.zeros(count, wd.TASK)
    tasks["job"] = tasks["source"] = -1
    return tasks


def _begin(setup: Setup, world: wd.World) -> None:
    """Note what happens of itself: agents act, usage is measured, nodes change."""
    first = []
    if setup.is_swarm:
        first.append((float(world.swarm["step_s"][0]), wd.AGENTS_ACT))
    if setup.is_negotiation or setup.is_genetic:
        first.append((0.0, wd.AGENTS_ACT))
    if setup.has_usage:
        first.append((setup.scenario.scheduler.usage_s, wd.USAGE_CHANGES))
    if len(world.node_events):
        first.append((float(world.node_events["time"][0]), wd.NODE_CHANGES))
    for k, (time, kind) in enumerate(sorted(first)):
        world.agenda[k] = (time, world.state["order"][0] + k, kind)
    world.state["notes"] = len(first)
    world.state["order"] += len(first)


def _state(setup: Setup, agents: int, slots: int, room: int, running: int) -> NDArray[Any]:
    scenario, rules = setup.scenario, setup.scenario.scheduler.offers
    min_cpu = setup.resources.exact("cpu", rules.min_cpu, "scheduler.offers.min_cpu")
    if setup.is_offers and min_cpu > setup.nodes.total[:, 0].max():
        raise InputError(
            "scheduler.offers.min_cpu: no node has that much, so nothing would be offered"
        )
    horizon = scenario.days * DAY_S
    state = np.zeros(1, wd.STATE)
    values = {
        "horizon": horizon,
        "sample_step": horizon / (_samples(setup) - 1),
        "order": len(setup.jobs),
        "pending": -1,
        "slots_left": room,
        "running": running,
        "retry_s": scenario.scheduler.retry_s,
        "attempts_max": scenario.scheduler.attempts_max,
        "empty_max": scenario.scheduler.empty_attempts_max,
        "bulk": agents,
        "slots": slots,
        "optimistic": rules.optimistic,
        "min_cpu": min_cpu,
        "offer_time_s": rules.offer_time_s,
        "period_s": rules.period_s,
        "timeout_s": rules.timeout_s,
        "short_max_s": rules.short_max_s,
        "nodes": int((setup.changes.start > 0).any(axis=1).sum()),
    }
    # Node agents count what is not measured yet as the paper does; schedulers that read the table
    # expect the most.
    values |= {
        "usage_s": scenario.scheduler.usage_s,
        "reclaim": setup.is_negotiation or scenario.scheduler.reclaim,
    }
    values["unmeasured"] = UNMEASURED if setup.is_negotiation else 1.0
    if setup.jobs.curves is not None:
        values |= {"curve_s": setup.jobs.curves.step_s, "cyclic": setup.jobs.curves.cyclic}
    for name, value in values.items():
        state[name] = value
    return state


def _job_rows(setup: Setup, mask: NDArray[np.int64], slots: int) -> NDArray[Any]:
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
    rows["first"] = rows["full"] = np.nan
    rows["behind"] = -1
    rows["curve"], rows["recorded"] = jobs.curve, recorded_rows(jobs, setup.nodes)
    rows["agent"] = assign_jobs(setup.agents, jobs.workloads, jobs.workload) * slots
    rows["level"] = np.unique(-jobs.priority, return_inverse=True)[1].ravel()
    rows["status"][list(setup.hopeless)] = wd.NEVER
    return rows


def recorded_rows(jobs: JobList, nodes: NodeTable) -> NDArray[np.int64]:
    """For each job the row of the node it ran on, or −1 where that is not known or not one of these
    nodes."""
    row_of = {name: row for row, name in enumerate(nodes.names)}
    rows = np.array([*(row_of.get(name, -1) for name in jobs.recorded_nodes), -1], dtype=np.int64)
    return rows[jobs.recorded]


def _agent_rows(setup: Setup, slots: int) -> NDArray[Any]:
    rows = np.zeros(len(setup.agents) * slots, wd.AGENT)
    rows["job"] = -1
    for name in ("optimistic", "machine", "atomic"):
        rows[name] = np.repeat([getattr(agent, name) for agent in setup.agents], slots)
    return rows


def _times(setup: Setup, slots: int) -> NDArray[np.float64]:
    """Job time and task time of each scheduler for each workload."""
    times = np.zeros((len(setup.agents), len(setup.jobs.workloads), 2))
    for row, agent in enumerate(setup.agents):
        for name, timing in agent.timing.items():
            times[row, setup.jobs.workloads.index(name)] = timing.job_s, timing.task_s
    return np.repeat(times, slots, axis=0)


def _generators(setup: Setup, slots: int) -> NDArray[np.uint64]:
    """The generator of each scheduler, by its name, and last that of the allocator."""
    names = [
        agent.name if slots == 1 else f"{agent.name}/{k}"
        for agent in setup.agents
        for k in range(slots)
    ]
    return np.stack(
        [state(setup.scenario.seed, "scheduler", name) for name in [*names, "/allocator"]]
    )


def _linked(kind: np.dtype[Any], link: str, start: int, end: int, last: int = -1) -> NDArray[Any]:
    """Unused rows, each naming the next."""
    rows = np.zeros(end - start, kind)
    rows[link] = np.arange(start + 1, end + 1)
    rows[link][-1] = last
    return rows


def _workload_rows(setup: Setup) -> NDArray[Any]:
    scheduler = setup.scenario.scheduler
    rows = np.zeros(len(setup.jobs.workloads), wd.WORKLOAD)
    rows["revoked_at"] = -1.0
    for row, name in zip(rows, setup.jobs.workloads, strict=True):
        policy = scheduler.policy.get(name, sc.Policy())
        framework = scheduler.offers.framework.get(name, sc.Framework())
        row["quota"], row["headroom"], row["short"] = policy.quota, policy.headroom, framework.short
        row["filter_cpu"] = setup.resources.exact(
            "cpu", framework.filter_cpu, "scheduler.offers.framework.filter_cpu"
        )
    return rows


def _offer_arrays(setup: Setup, agents: int, free: Amounts) -> dict[str, NDArray[Any]]:
    """The allocator's arrays; next to nothing where the architecture has no offers."""
    rules, names, total = setup.scenario.scheduler.offers, setup.jobs.workloads, setup.nodes.total
    frameworks = [rules.framework.get(name, sc.Framework()) for name in names]
    sets, nodes, resources = agents + 1, len(free) if setup.is_offers else 0, len(setup.resources)
    long_free = np.floor(total * (1.0 - rules.short_share)).astype(np.int64) - (total - free)
    reserved = setup.is_offers and rules.short_share > 0.0
    return {
        "set_rows": np.zeros((sets, nodes), np.int32),
        "set_size": np.zeros(sets, np.int64),
        "set_listed": np.zeros((sets, nodes), np.bool_),
        "set_amount": np.zeros((sets, nodes, resources), np.int64),
        "set_sum": np.zeros((sets, resources), np.int64),
        "weight": np.array([f.weight for f in frameworks]),
        "guarantee": np.array([f.guaranteed for f in frameworks]),
        "filters": _filters(setup, frameworks),
        "long_free": long_free if reserved else np.zeros((0, resources), np.int64),
        "offered": np.zeros((len(names), resources), np.int64),
        "wants": np.zeros(len(names), np.bool_),
        "offer_rows": np.zeros(nodes, np.int32),
        "offer_free": np.zeros((max(nodes, 1), resources), np.int64),
        "offer_total": np.zeros((nodes, resources), np.int64),
        "offer_mask": np.zeros(nodes, np.bool_),
    }


def _filters(setup: Setup, frameworks: list[sc.Framework]) -> NDArray[np.bool_]:
    """The nodes each framework lets through; no columns at all if none filters."""
    if not any(f.filter for f in frameworks):
        return np.zeros((len(frameworks), 0), dtype=np.bool_)
    parsed = [
        [parse_constraint(text, "scheduler.offers.framework.filter") for text in f.filter]
        for f in frameworks
    ]
    masks = np.stack([node_mask(constraints, setup.nodes.attributes) for constraints in parsed])
    for name, mask in zip(setup.jobs.workloads, masks, strict=True):
        if setup.is_offers and not mask.any():
            raise InputError(
                f"scheduler.offers.framework.{name}.filter: no node passes, so nothing would be "
                "offered"
            )
    return masks


def grown(world: wd.World) -> wd.World:
    """The same world with twice the room for running tasks, transactions and the agenda."""
    rows, slots, state = len(world.runs), len(world.slots), world.state
    more_runs = _linked(wd.RUN, "slot", rows, 2 * rows, int(state["run_free"][0]))
    more_slots = _linked(wd.SLOT, "next", slots, 2 * slots, int(state["slot_free"][0]))
    state["run_free"], state["slot_free"] = rows, slots
    state["slots_left"] += slots
    return world._replace(
        runs=np.concatenate([world.runs, more_runs]),
        slots=np.concatenate([world.slots, more_slots]),
        agenda=np.concatenate([world.agenda, np.zeros_like(world.agenda)]),
        tasks=np.concatenate([world.tasks, _unused_tasks(len(world.tasks))]),
        task_used=np.concatenate([world.task_used, np.zeros_like(world.task_used)]),
    )
