"""Decisions that Python makes: what the scheduler of a pending attempt sees, and how the nodes
it chooses become a claim.

A kernel that meets such a decision stops with DECIDE and leaves the scheduler's row in
`state.pending`. `answer` shows the policy what that scheduler may see, lets it decide with the
scheduler's own generator, and makes its nodes the claim of the attempt; the kernel then goes on as
if it had decided itself. So both paths share the queue, the commit and every figure.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from murmuration.base.arrays import Amounts, Counts, Flags, Placement
from murmuration.base.errors import InputError
from murmuration.base.jit import compiled
from murmuration.base.random import load, save
from murmuration.base.rows import fits, take
from murmuration.placement.decide import decide as checked_decision
from murmuration.placement.room import log_all
from murmuration.placement.view import JobView, View
from murmuration.simulation.architectures.architecture import ShownRows
from murmuration.simulation.engine import loop
from murmuration.simulation.engine.policies import compile_policy, index_of
from murmuration.simulation.engine.steps import drop_claim
from murmuration.simulation.engine.world import World

if TYPE_CHECKING:
    from murmuration.simulation.engine.run import Run


def pending_job(run: Run) -> int:
    """The job of the attempt that waits for a decision."""
    return int(run.world.schedulers["job"][run.world.state["pending"][0]])


def pending_view(run: Run) -> tuple[View, JobView, Placement]:
    """What the scheduler that must decide now sees, its job, and the node behind each row of the
    view."""
    world, setup = run.world, run.setup
    scheduler, job = int(world.state["pending"][0]), pending_job(run)
    show = setup.architecture.show_rows or show_all_rows
    rows, free, whole = show(run, scheduler, job)
    mask = world.jobs["mask"][job]
    allowed = _all_rows(len(rows))[1] if mask < 0 else world.masks[mask][rows]
    view = View(
        resources=setup.resources,
        names=setup.nodes.names if whole else tuple(setup.nodes.names[i] for i in rows),
        attributes=(
            setup.nodes.attributes if whole else tuple(setup.nodes.attributes[i] for i in rows)
        ),
        total=_freeze(world.total if whole else world.total[rows]),
        free=_freeze(free),
        allowed=allowed,
        now_s=run.now_s,
    )
    return view, job_view(run, job), rows


def show_all_rows(run: Run, scheduler: int, job: int) -> ShownRows:
    """The whole table, as every scheduler that reads it itself sees it."""
    return ShownRows(_all_rows(len(run.world.free))[0], room_table(run.world, job), True)


def room_table(world: World, job: int) -> Amounts:
    """The table a job's room is counted in, as `steps.room_of` has it."""
    reserved = world.jobs["production"][job] or not world.state["reclaim"][0]
    return world.unreserved if len(world.unreserved) and reserved else world.free


@lru_cache(maxsize=4)
def _all_rows(count: int) -> tuple[Placement, Flags]:
    """The numbers of all rows, and the mask that allows them all."""
    rows, allowed = np.arange(count, dtype=np.int32), np.ones(count, dtype=np.bool_)
    allowed.flags.writeable = False
    return rows, allowed


def _freeze(array: Amounts) -> Amounts:
    """A view of the same data that cannot be written."""
    shown = array.view()
    shown.flags.writeable = False
    return shown


def job_view(run: Run, job: int) -> JobView:
    """A job as a policy sees it."""
    jobs, rows = run.setup.jobs, run.world.jobs
    return JobView(
        id=str(jobs.job_id[job]),
        workload=jobs.workloads[jobs.workload[job]],
        tasks=int(rows["left"][job]),
        request=_freeze(jobs.request[job]),
        duration_s=float(jobs.duration_s[job]),
        priority=int(jobs.priority[job]),
        gang=bool(jobs.gang[job]),
        production=bool(jobs.production[job]),
        submit_s=float(jobs.submit_s[job]),
        attempt=int(rows["attempts"][job]) + int(run.setup.architecture.queued_while_deciding),
    )


def answer(run: Run) -> None:
    """Let the plain policy decide the pending attempt, and hand its nodes to the kernel."""
    scheduler = int(run.world.state["pending"][0])
    view, job, rows = pending_view(run)
    bits = _bits()
    load(bits, run.world.rng[scheduler])
    placed = decide(run, view, job, bits)
    save(bits, run.world.rng[scheduler])
    claim = run.setup.architecture.claim or claim_in_table
    bad = claim(run, scheduler, placed, rows[placed])
    if bad >= 0:
        name, node = run.setup.placement.name, view.names[placed[bad]]
        raise InputError(f"{name}: job {job.id}: node {node} has no room for this task")


def decide(run: Run, view: View, job: JobView, bits: np.random.SFC64) -> Placement:
    """The rows the plain policy chooses for the tasks it places, refused if they make no sense."""
    return checked_decision(run.setup.placement, view, job, np.random.Generator(bits))


def kernel_choice(run: Run) -> Placement:
    """The nodes the compiled placement claims for the pending attempt (which stays pending in this
    copy of the run)."""
    place, score = compile_policy(run.setup.placement)
    scheduler = int(run.world.state["pending"][0])
    choose = run.setup.architecture.choose or loop.choose
    choose(run.world, scheduler, place, score, index_of(run))
    return run.world.claim[scheduler, : run.world.schedulers["claimed"][scheduler]]


@cache
def _bits() -> np.random.SFC64:
    return np.random.SFC64(0)


def claim_in_table(run: Run, scheduler: int, rows: Placement, nodes: Placement) -> int:
    """Make Python's choice the claim of the pending attempt; returns the position of a node without
    room, or −1. The room is taken from the table at once, as the kernel's own placement does."""
    job = pending_job(run)
    claim, request = run.world.claim[scheduler], run.world.request[job]
    bad = int(claim_nodes(room_table(run.world, job), request, nodes, claim))
    if bad < 0:
        run.world.schedulers["claimed"][scheduler] = len(nodes)
        log_claim(run.world.changes, nodes)
    return bad


@compiled
def log_claim(changes: Counts, nodes: Placement) -> None:
    """Log the rows that Python's choice has changed."""
    log_all(changes, nodes, nodes.shape[0])


@compiled
def claim_nodes(free: Amounts, request: Amounts, nodes: Placement, claim: Placement) -> int:
    """Claim these nodes, one task each, or nothing at all; returns the position of the first
    without room, or −1."""
    for k in range(nodes.shape[0]):
        if not fits(free, nodes[k], request):
            drop_claim(free, nodes, k, request)
            return k
        take(free, nodes[k], request)
        claim[k] = nodes[k]
    return -1
