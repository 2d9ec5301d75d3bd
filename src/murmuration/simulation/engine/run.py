"""Runs: build the world of a scenario, advance it to the horizon, answer for plain Python policies,
stop and resume.

Three seams. `prepare` makes a run at time zero; `advance` moves it on to a time, a decision or the
horizon, and leaves no trace of where it stopped; `finish` goes to the horizon in pieces. What is
particular to an architecture is asked of its value (`architectures/architecture.py`).

Everything that is decided once is decided in `prepare`, in an order that is part of the result:
inputs first, since every scheduler must meet the same jobs and nodes; then who schedules what; then
which rows a job may use, which depends on its scheduler's partition; then which jobs can never run,
which depends on the rows. The world is made last and is from then on the only thing that changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from murmuration.base.arrays import Amounts
from murmuration.base.errors import InputError, unknown
from murmuration.base.random import generator
from murmuration.placement.ranking import RankIndex
from murmuration.placement.registry import Placement, is_user_defined, resolve
from murmuration.schedulers.architecture import assign_jobs
from murmuration.simulation.architectures.architecture import Admission, State
from murmuration.simulation.architectures.table import architecture_of, kinds
from murmuration.simulation.engine import loop, rounds
from murmuration.simulation.engine.build import grow_world, make_world, prefill_nodes
from murmuration.simulation.engine.eligibility import (
    find_infeasible,
    job_masks,
    refuse_infeasible,
)
from murmuration.simulation.engine.policies import (
    check_score,
    decides_compiled,
    is_row_wise,
    raise_score_error,
)
from murmuration.simulation.engine.python_decision import answer, pending_job
from murmuration.simulation.engine.setup import NodeChanges, Setup, node_changes
from murmuration.simulation.engine.world import World
from murmuration.simulation.results import measured
from murmuration.simulation.results.detail import DetailLog
from murmuration.simulation.results.measured import UsageSamples
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.checks import unknown_workloads
from murmuration.simulation.scenarios.failures import draw_failures
from murmuration.simulation.scenarios.inputs import (
    DAY_S,
    keep_share,
    make_events,
    make_jobs,
    make_nodes,
)
from murmuration.workload.jobs import JobList
from murmuration.workload.nodes import NodeTable

Progress = Callable[[float], None]
#: A run is advanced in at least this many pieces, so that progress can be shown and a stop is
#: noticed, and a piece is meant to take no longer than this.
PIECES = 50
PIECE_WALL_S = 0.25


@dataclass
class Run:
    """A run under way. The setup never changes; all that does is arrays: the world, those of the
    architecture, and what is measured on the way."""

    setup: Setup
    world: World
    state: State = None
    measured: UsageSamples | None = None
    #: Where every task and attempt is written, if that was asked for.
    detail: DetailLog | None = None
    #: What a ranking has kept of earlier decisions (`policies.index_of`): speed, not state.
    index: RankIndex | None = None

    @property
    def now_s(self) -> float:
        return float(self.world.state["now"][0])

    @property
    def horizon_s(self) -> float:
        return float(self.world.state["horizon"][0])

    @property
    def path(self) -> str:
        return "compiled" if self.setup.placement.fast else "python"


def prepare(scenario: sc.Scenario, detail: bool = False) -> Run:
    """A run at time zero; with `detail` every task and attempt is recorded, and the caller says
    where (`Run.detail`)."""
    placement, scenario = _policy(scenario)
    architecture = architecture_of(scenario.scheduler.kind)
    nodes, jobs, free, changes = _inputs(scenario)
    if scenario.scheduler.queue and not architecture.orders_queue:
        raise InputError(f"scheduler.queue: {architecture.kind} has no queue to order")
    architecture.check_inputs(scenario, jobs, changes)
    jobs = architecture.change_jobs(scenario, jobs)
    for problem in unknown_workloads(scenario.scheduler, jobs.workloads):
        raise InputError(problem)
    shared_out = _without_idle_parts(scenario, jobs)
    schedulers = tuple(architecture.schedulers(shared_out, jobs.workloads, len(nodes.names)))
    owner = assign_jobs(schedulers, jobs.workloads, jobs.workload)
    masks, mask = job_masks(scenario, nodes, jobs, schedulers, owner)
    # What is free once every node is there. A job is infeasible only if it would not fit even then:
    # one that waits for a node which joins tomorrow is merely waiting.
    max_free = free + (changes.max_total - changes.start)
    admission = Admission(scenario, nodes, jobs, max_free, masks, mask)
    whole_jobs = architecture.whole_jobs or bool(scenario.scheduler.queue)
    infeasible = find_infeasible(admission, whole_jobs)
    infeasible |= architecture.find_infeasible(admission)
    refuse_infeasible(scenario, jobs, infeasible)
    setup = Setup(
        architecture,
        scenario,
        nodes,
        jobs,
        schedulers,
        placement,
        infeasible=infeasible,
        changes=changes,
        owner=owner,
        detail=detail,
        row_wise=is_row_wise(placement, nodes.total),
    )
    run = Run(setup, make_world(setup, free, masks, mask))
    if architecture.make_state is not None:
        run.state = architecture.make_state(setup, run.world)
    if setup.has_usage:
        run.measured = measured.make_samples(run.world)
    check_score(placement, run.world)
    return run


def _without_idle_parts(scenario: sc.Scenario, jobs: JobList) -> sc.Scenario:
    """The scenario with no share of the nodes for workloads that have no jobs, unless it says
    otherwise."""
    present = set(np.unique(jobs.workload).tolist())
    idle = {name: 0.0 for code, name in enumerate(jobs.workloads) if code not in present}
    partition = idle | scenario.scheduler.partition
    scheduler = msgspec.structs.replace(scenario.scheduler, partition=partition)
    return msgspec.structs.replace(scenario, scheduler=scheduler)


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
        jobs = make_jobs(scenario, nodes.resources, nodes.total.sum(axis=0))
        _made.clear()
        nodes, events = keep_share(
            nodes,
            make_events(scenario.cluster, nodes, sc.trace_start(scenario)),
            scenario.cluster.keep,
            scenario.seed,
        )
        if scenario.cluster.failures is not None:
            rng = generator(scenario.seed, "failures")
            seconds = scenario.days * DAY_S
            events = draw_failures(scenario.cluster.failures, nodes, events, seconds, rng)
        changes = node_changes(nodes, events)
        free = prefill_nodes(
            nodes.resources, changes.start, scenario.cluster.prefill, scenario.seed
        )
        _made[key] = nodes, jobs, free, changes
    return _made[key]


def _policy(scenario: sc.Scenario) -> tuple[Placement, sc.Scenario]:
    """The placement, and the scenario with an architecture's name as its kind where the user's own
    class was named."""
    kind = scenario.scheduler.kind
    if kind in kinds():
        return resolve(scenario.scheduler.placement), scenario
    if not is_user_defined(kind):
        raise InputError(f"scheduler.kind: {unknown('scheduler', kind, kinds())}")
    placement = resolve(kind)
    base = getattr(placement.policy, "architecture", sc.SchedulerSettings().kind)
    if base not in kinds():
        raise InputError(f"{kind}: {unknown('architecture', str(base), kinds())}")
    scheduler = msgspec.structs.replace(scenario.scheduler, kind=base, placement=kind)
    return placement, msgspec.structs.replace(scenario, scheduler=scheduler)


def advance(run: Run, until_s: float = np.inf, watch: int = -1) -> int:
    """Advance a run past a time, to the horizon, or to the next attempt of job `watch`; says why it
    stopped."""
    # Samples are taken just *before* their instant: the kernel runs up to the largest time below
    # it. What happens at that very instant then falls into the next sample in every run, whether
    # it is advanced in one piece or in many.
    while run.measured is not None:
        at = measured.due(run.measured, run.world)
        if at > min(until_s, run.horizon_s):
            break
        if _advance_to(run, float(np.nextafter(at, -np.inf)), watch) == loop.DECIDE:
            return loop.DECIDE
        measured.take(run.measured, run.world, at)
    return _advance_to(run, until_s, watch)


def _advance_to(run: Run, until_s: float, watch: int) -> int:
    """The same in one go: call the kernel until it stops for a reason that is not ours to deal
    with."""
    architecture = run.setup.architecture
    ask = loop.PYTHON if not decides_compiled(run) else loop.COMPILED if watch < 0 else loop.ONE_JOB
    while True:
        why = architecture.advance(run, ask, watch, until_s)
        raise_score_error(run.setup.placement)
        if why == loop.GROW:
            # Kernels allocate nothing; they stop before an event that could need more rows than
            # there are. The architecture's own arrays grow with the world, never apart from it.
            run.world = grow_world(run.world)
            run.state = architecture.grow_state(run.state, run.world)
        elif why == loop.DRAIN:
            drain(run)
        elif why == rounds.ACT and architecture.act is not None:
            # A round may write more rows than any event: as many as there are jobs that wait.
            drain(run)
            architecture.act(run)
        elif why == loop.DECIDE:
            if watch >= 0 and pending_job(run) == watch:
                return why
            answer(run)
        else:
            return why


def drain(run: Run) -> None:
    """Write out what the logs hold of tasks and attempts."""
    if run.setup.detail:
        assert run.detail is not None, "somebody takes what is recorded"
        run.detail.drain(run.world)


def finish(run: Run, progress: Progress = lambda share: None, until_s: float = np.inf) -> bool:
    """Advance to the horizon (True) or past `until_s` (False), telling the progress.

    A piece that took long is followed by a shorter one: while a kernel runs nobody is told how far
    it is, and nobody can stop it. Where pieces end leaves no trace in the results.
    """
    piece_s = longest_s = run.horizon_s / PIECES
    end_s = run.now_s
    while True:
        end_s += piece_s
        until = min(end_s, until_s) if end_s < run.horizon_s else until_s
        began = time.monotonic()
        why = advance(run, until)
        took = time.monotonic() - began
        progress(min(run.now_s / run.horizon_s, 1.0))
        if why == loop.FINISHED or until >= until_s:
            return why == loop.FINISHED
        piece_s *= min(max(PIECE_WALL_S / max(took, 1e-9), 0.25), 2.0)
        piece_s = min(max(piece_s, 1e-6 * longest_s), longest_s)


def simulate(tables: Mapping[str, Any], progress: Progress = lambda share: None) -> Run:
    """Run a scenario given as tables to its horizon."""
    run = prepare(sc.check(tables))
    finish(run, progress)
    return run
