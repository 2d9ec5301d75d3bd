"""Runs: build the world of a scenario, advance it to the horizon, answer for plain Python policies,
stop and resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from murmuration.base.errors import InputError, unknown
from murmuration.base.jit import AMOUNTS, FirstClass
from murmuration.base.loading import load_object
from murmuration.base.random import load, save
from murmuration.base.resources import Amounts
from murmuration.cluster.reasons import Never
from murmuration.placement import kernels, scores
from murmuration.placement.decide import decide as checked_decision
from murmuration.placement.decide import what_failed
from murmuration.placement.registry import Placement, is_user_defined, resolve
from murmuration.placement.view import JobView, View
from murmuration.schedulers import architecture as arch
from murmuration.schedulers.offers.allocators import ALLOCATORS
from murmuration.simulation.architectures.genetic import batches
from murmuration.simulation.architectures.genetic.batches import Batches
from murmuration.simulation.architectures.negotiation import loop as negotiation_loop
from murmuration.simulation.architectures.negotiation.world import Parley, grown_parley, parley
from murmuration.simulation.architectures.offers import loop as offers
from murmuration.simulation.architectures.swarm import loop as swarm_loop
from murmuration.simulation.architectures.swarm.world import gathered, never_together
from murmuration.simulation.engine import loop, rounds
from murmuration.simulation.engine import world as wd
from murmuration.simulation.engine.build import (
    NodeChanges,
    Setup,
    find_hopeless,
    grown,
    job_masks,
    make_world,
    node_changes,
    prefilled,
)
from murmuration.simulation.engine.python_decision import adopt, show_offer
from murmuration.simulation.results import measured
from murmuration.simulation.results.measured import Measured
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.checks import unknown_workloads
from murmuration.simulation.scenarios.inputs import kept, make_events, make_jobs, make_nodes
from murmuration.workload.jobs import JobList
from murmuration.workload.nodes import NodeTable

Progress = Callable[[float], None]
#: A run is advanced in this many pieces, so that progress can be shown and a stop is noticed.
PIECES = 50


@dataclass
class Run:
    """A run under way. The setup never changes; the world is all that does."""

    setup: Setup
    world: wd.World
    parley: Parley | None = None
    measured: Measured | None = None
    batches: Batches | None = None

    @property
    def now_s(self) -> float:
        return float(self.world.state["now"][0])

    @property
    def horizon_s(self) -> float:
        return float(self.world.state["horizon"][0])

    @property
    def path(self) -> str:
        return "compiled" if self.setup.placement.fast else "python"


def prepare(scenario: sc.Scenario) -> Run:
    """A run at time zero."""
    placement, scenario = _policy(scenario)
    cluster, work, free, changes = _inputs(scenario)
    _check_offers(scenario, work, changes)
    work = gathered(scenario, work)
    agents = tuple(_agents(scenario, work, len(cluster.names)))
    owner = arch.assign_jobs(agents, work.workloads, work.workload)
    masks, mask = job_masks(scenario, cluster, work, agents, owner)
    # What is free once every node is there.
    most = free + (changes.most - changes.start)
    hopeless = find_hopeless(scenario, cluster, work, most, masks, mask)
    hopeless |= never_together(scenario, cluster, work, most, masks, mask)
    hopeless |= _never_recorded(scenario, work)
    _refuse_hopeless(scenario, work, hopeless)
    setup = Setup(scenario, cluster, work, agents, placement, hopeless, changes)
    run = Run(setup, make_world(setup, free, masks, mask))
    if setup.is_negotiation:
        run.parley = parley(scenario.scheduler.negotiation, run.world, changes.most, work)
    if setup.is_genetic:
        _refuse_slow(setup)
        run.batches = batches.batches(run.world)
    if setup.has_usage:
        run.measured = measured.measured(run.world)
    _check_score(run)
    return run


def _never_recorded(scenario: sc.Scenario, jobs: JobList) -> dict[int, Never]:
    """Where tasks go to their recorded nodes, those without one."""
    rules = scenario.scheduler
    if rules.kind != "negotiation" or rules.negotiation.initial != "recorded":
        return {}
    return {
        int(row): Never("the trace has no node for it") for row in np.flatnonzero(jobs.recorded < 0)
    }


def _refuse_hopeless(scenario: sc.Scenario, jobs: JobList, hopeless: dict[int, Never]) -> None:
    """A run none of whose jobs can ever run is a mistake, and so is a generator that makes no other
    jobs."""
    lost = np.zeros(len(jobs), dtype=np.bool_)
    lost[list(hopeless)] = True
    groups = {"no job": np.ones(len(jobs), dtype=np.bool_)}
    if not sc.is_replay(scenario.workload):
        groups |= {
            f"no job of workload {name!r}": jobs.workload == k
            for k, name in enumerate(jobs.workloads)
        }
    for what, rows in groups.items():
        if rows.any() and lost[rows].all():
            first = int(np.flatnonzero(rows)[0])
            reason = hopeless[first].reason
            raise InputError(
                f"{scenario.name}: {what} can ever run; job {jobs.job_id[first]}: {reason}"
            )


def _check_offers(scenario: sc.Scenario, jobs: JobList, changes: NodeChanges) -> None:
    """Offers hold rows of the table for as long as a framework thinks; nothing else may change them
    meanwhile."""
    if scenario.scheduler.kind == "offers" and (jobs.curves is not None or len(changes.time_s)):
        what = "usage that is measured" if jobs.curves is not None else "nodes that come and go"
        raise InputError(
            f"{scenario.name}: scheduler.kind offers cannot run with {what}; choose another "
            "scheduler"
        )


def _refuse_slow(setup: Setup) -> None:
    """Batches start from a placement that can be called for many jobs at once."""
    if not setup.placement.fast:
        raise InputError(
            f"{setup.placement.name}: scheduler.kind genetic starts from a compiled placement; "
            f"use one of ours or mark a score with murmuration.kernel"
        )


Inputs = tuple[NodeTable, JobList, Amounts, NodeChanges]
_made: dict[bytes, Inputs] = {}


def _inputs(scenario: sc.Scenario) -> Inputs:
    """Nodes, jobs and what is free at time zero. The last made are kept: schedulers are compared on
    the same inputs."""
    key = msgspec.json.encode(
        [scenario.cluster, scenario.workload, scenario.days, scenario.seed, scenario.name]
    )
    if key not in _made or sc.names_files(scenario):
        nodes = make_nodes(scenario.cluster)
        jobs = make_jobs(scenario, nodes.resources)
        _made.clear()
        nodes, events = kept(
            nodes, make_events(scenario.cluster, nodes), scenario.cluster.keep, scenario.seed
        )
        changes = node_changes(nodes, events)
        free = prefilled(nodes.resources, changes.start, scenario.cluster.prefill, scenario.seed)
        _made[key] = nodes, jobs, free, changes
    return _made[key]


def _policy(scenario: sc.Scenario) -> tuple[Placement, sc.Scenario]:
    """The placement, and the scenario with an architecture's name as its kind where the user's own
    class was named."""
    kind = scenario.scheduler.kind
    if kind in arch.KINDS:
        return resolve(scenario.scheduler.placement), scenario
    if not is_user_defined(kind):
        raise InputError(f"scheduler.kind: {unknown('scheduler', kind, arch.KINDS)}")
    placement = resolve(kind)
    base = getattr(placement.policy, "architecture", "monolithic")
    if base not in arch.KINDS:
        raise InputError(f"{kind}: {unknown('architecture', str(base), arch.KINDS)}")
    scheduler = msgspec.structs.replace(scenario.scheduler, kind=base, placement=kind)
    return placement, msgspec.structs.replace(scenario, scheduler=scheduler)


def _agents(scenario: sc.Scenario, jobs: JobList, nodes: int) -> list[arch.Agent]:
    scheduler, names = scenario.scheduler, jobs.workloads
    default = scheduler.decision.get("default", sc.Decision())
    tables = {"default": default, **{name: scheduler.decision.get(name, default) for name in names}}
    timing = {name: arch.Timing(t.job_time_s, t.task_time_s) for name, t in tables.items()}
    for problem in unknown_workloads(scheduler, names):
        raise InputError(problem)
    if scheduler.kind == "negotiation":
        return [
            arch.Agent("brokers", tuple(names), {name: arch.Timing(0.0, 0.0) for name in names})
        ]
    if scheduler.kind in ("monolithic", "swarm", "genetic"):
        return arch.monolithic(names, timing, scheduler.paths == "single")
    if scheduler.kind == "partitioned":
        return arch.partitioned(names, timing, scheduler.partition, nodes)
    if scheduler.kind == "offers":
        return arch.frameworks(names, timing, scheduler.offers.optimistic)
    atomic = scheduler.transaction == "all-or-nothing"
    return arch.shared_state(
        names, timing, scheduler.agents, scheduler.conflict == "machine", atomic
    )


@cache
def _compiled_placement(ranked: bool) -> FirstClass:
    return kernels.as_placement(kernels.ranked if ranked else kernels.first_fit)


@cache
def _compiled_score(function: Any) -> FirstClass:
    """A score of ours is cached on disk; a user's is compiled for this process."""
    if function in scores.SCORES.values():
        return kernels.as_score(function)
    return _compiled_own(
        lambda: kernels.as_score(function, cache=False), f"{function.__name__}: expected a score"
    )


def _compiled_own(compile_it: Callable[[], FirstClass], what: str) -> FirstClass:
    """Compile what a user wrote; what the compiler says of it is long, and its first lines are the
    ones that help."""
    from numba.core.errors import NumbaError

    try:
        return compile_it()
    except (NumbaError, TypeError) as error:
        said = " ".join(line.strip() for line in str(error).splitlines()[:4] if line.strip())
        raise InputError(f"{what} that can be compiled: {said}") from error


def _check_score(run: Run) -> None:
    """A user's score is tried once before the run: a kernel calls it without any check of what it
    answers."""
    placement, world = run.setup.placement, run.world
    if placement.score is None or placement.score in scores.SCORES.values():
        return
    score = _compiled_score(placement.score).compiled if placement.fast else placement.score
    try:
        answered = np.asarray(score(world.total, world.free.copy(), world.request[0]))
    except Exception as error:
        raise InputError(f"{placement.name}: {what_failed(error)}") from error
    if (
        answered.shape != (len(world.total),)
        or answered.dtype.kind not in "iuf"
        or np.isnan(answered).any()
    ):
        raise InputError(
            f"{placement.name}: expected one number for each of the {len(world.total)} nodes"
        )


@cache
def _compiled_allocator(name: str) -> FirstClass:
    from numba import types

    if name not in ALLOCATORS and ":" not in name:
        raise InputError(f"scheduler.offers.allocator: {unknown('allocator', name, ALLOCATORS)}")
    vector, flags = types.int64[::1], types.boolean[::1]
    signature = types.int64(AMOUNTS, AMOUNTS, vector, types.float64[::1], flags, types.float64)
    if name in ALLOCATORS:
        return FirstClass(ALLOCATORS[name], signature)
    own = load_object(name)
    function = getattr(own, "function", own)
    return _compiled_own(
        lambda: FirstClass(function, signature, cache=False), f"{name}: expected an allocator"
    )


def _compiled_policy(placement: Placement) -> tuple[FirstClass, FirstClass]:
    """What the kernel calls: the placement, and the score behind it (any, where it uses none)."""
    ranked = placement.fast and placement.score is not None
    return _compiled_placement(ranked), _compiled_score(
        placement.score if ranked else scores.best_fit
    )


def _advance(run: Run, ask: int, watch: int, until: float) -> int:
    """Call the kernel of the run's architecture."""
    if run.parley is not None:
        return int(rounds.advance_rounds(run.world, run.parley.settings["answer_s"][0], until))
    if run.batches is not None:
        return int(
            rounds.advance_rounds(run.world, run.setup.scenario.scheduler.genetic.batch_s, until)
        )
    place, score = _compiled_policy(run.setup.placement)
    if run.setup.is_offers:
        allocate = _compiled_allocator(run.setup.scenario.scheduler.offers.allocator)
        return int(offers.advance_offers(run.world, place, score, allocate, ask, watch, until))
    if run.setup.is_swarm:
        return int(swarm_loop.advance_swarm(run.world, place, score, ask, watch, until))
    return int(loop.advance(run.world, place, score, ask, watch, until))


def advance(run: Run, until_s: float = np.inf, watch: int = -1) -> int:
    """Advance a run past a time, to the horizon, or to the next attempt of job `watch`; says why it
    stopped."""
    while run.measured is not None:
        at = measured.due(run.measured, run.world)
        if at > min(until_s, run.horizon_s):
            break
        if _advance_to(run, float(np.nextafter(at, -np.inf)), watch) == loop.DECIDE:
            return loop.DECIDE
        measured.note(run.measured, run.world, at)
    return _advance_to(run, until_s, watch)


def _advance_to(run: Run, until_s: float, watch: int) -> int:
    """The same in one go."""
    ask = (
        loop.PYTHON
        if not run.setup.placement.fast
        else loop.COMPILED
        if watch < 0
        else loop.ONE_JOB
    )
    while True:
        why = _advance(run, ask, watch, until_s)
        if why == loop.GROW:
            run.world = grown(run.world)
            if run.parley is not None:
                run.parley = grown_parley(run.parley, len(run.world.slots))
        elif why == rounds.ACT and run.parley is not None:
            negotiation_loop.agents_act(run.world, run.parley)
        elif why == rounds.ACT and run.batches is not None:
            run.world = batches.act(
                run.setup, run.world, run.batches, *_compiled_policy(run.setup.placement)
            )
        elif why == loop.DECIDE:
            if watch >= 0 and pending_job(run) == watch:
                return why
            answer(run)
        else:
            return why


def pending_job(run: Run) -> int:
    return int(run.world.agents["job"][run.world.state["pending"][0]])


def pending_view(run: Run) -> tuple[View, JobView, NDArray[np.int32]]:
    """What the scheduler that must decide now sees, its job, and the node behind each row of the
    view."""
    world, setup = run.world, run.setup
    agent, job = int(world.state["pending"][0]), pending_job(run)
    rows, free, whole = _all_rows(len(world.free))[0], room_table(world, job), True
    if setup.is_offers:
        size = show_offer(world, agent)
        rows, free = world.offer_rows[:size].copy(), world.offer_free[:size].copy()
        # An offer may list every row and yet in another order than the table.
        whole = size == len(setup.nodes.names) and bool((rows[1:] > rows[:-1]).all())
    mask = world.jobs["mask"][job]
    allowed = _all_rows(len(rows))[1] if mask < 0 else world.masks[mask][rows]
    view = View(
        setup.resources,
        setup.nodes.names if whole else tuple(setup.nodes.names[i] for i in rows),
        setup.nodes.attributes if whole else tuple(setup.nodes.attributes[i] for i in rows),
        _frozen(world.total if whole else world.total[rows]),
        _frozen(free),
        allowed,
        run.now_s,
    )
    return view, job_view(run, job), rows


def room_table(world: wd.World, job: int) -> NDArray[np.int64]:
    """The table a job's room is counted in, as `steps.room_of` has it."""
    firm = world.jobs["production"][job] or not world.state["reclaim"][0]
    return world.firm if len(world.firm) and firm else world.free


@lru_cache(maxsize=4)
def _all_rows(count: int) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """The numbers of all rows, and the mask that allows them all."""
    rows, allowed = np.arange(count, dtype=np.int32), np.ones(count, dtype=np.bool_)
    allowed.flags.writeable = False
    return rows, allowed


def _frozen(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """A view of the same data that cannot be written."""
    shown = array.view()
    shown.flags.writeable = False
    return shown


def job_view(run: Run, job: int) -> JobView:
    jobs, rows = run.setup.jobs, run.world.jobs
    return JobView(
        id=str(jobs.job_id[job]),
        workload=jobs.workloads[jobs.workload[job]],
        tasks=int(rows["left"][job]),
        request=_frozen(jobs.request[job]),
        duration_s=float(jobs.duration_s[job]),
        priority=int(jobs.priority[job]),
        gang=bool(jobs.gang[job]),
        production=bool(jobs.production[job]),
        submit_s=float(jobs.submit_s[job]),
        # A framework's attempt begins when it has found something in its offer, so it is not
        # counted yet.
        attempt=int(rows["attempts"][job]) + int(run.setup.is_offers),
    )


def answer(run: Run) -> None:
    """Let the plain policy decide the pending attempt, and hand its nodes to the kernel."""
    agent = int(run.world.state["pending"][0])
    view, job, rows = pending_view(run)
    bits = _bits()
    load(bits, run.world.rng[agent])
    placed = decide(run, view, job, bits)
    save(bits, run.world.rng[agent])
    table = room_table(run.world, pending_job(run))
    bad = adopt(run.world, table, agent, placed, rows[placed], run.setup.is_offers)
    if bad >= 0:
        name, node = run.setup.placement.name, view.names[placed[bad]]
        raise InputError(f"{name}: job {job.id}: node {node} has no room for this task")


def decide(run: Run, view: View, job: JobView, bits: np.random.SFC64) -> NDArray[np.int32]:
    """The rows the plain policy chooses for the tasks it places, refused if they make no sense."""
    return checked_decision(run.setup.placement, view, job, np.random.Generator(bits))


def kernel_choice(run: Run) -> NDArray[np.int32]:
    """The nodes the compiled placement claims for the pending attempt (which stays pending in this
    copy of the run)."""
    place, score = _compiled_policy(run.setup.placement)
    agent = int(run.world.state["pending"][0])
    choose = offers.choose_offered if run.setup.is_offers else loop.choose
    choose(run.world, agent, place, score)
    return run.world.claim[agent, : run.world.agents["claimed"][agent]]


@cache
def _bits() -> np.random.SFC64:
    return np.random.SFC64(0)


def finish(run: Run, progress: Progress = lambda share: None, until_s: float = np.inf) -> bool:
    """Advance to the horizon (True) or past `until_s` (False), telling the progress."""
    for piece in range(1, PIECES + 1):
        until = min(run.horizon_s * piece / PIECES, until_s) if piece < PIECES else until_s
        why = advance(run, until)
        progress(min(run.now_s / run.horizon_s, 1.0))
        if why == loop.FINISHED:
            return True
        if until >= until_s:
            return False
    return False


def simulate(tables: Mapping[str, Any], progress: Progress = lambda share: None) -> Run:
    """Run a scenario given as tables to its horizon."""
    run = prepare(sc.check(tables))
    finish(run, progress)
    return run
