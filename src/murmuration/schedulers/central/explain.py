"""Why a job of a live cluster waits, and where its tasks would go: the same round as the master's,
on a copy.

An explanation is never a second opinion. It does not reason about what the scheduler might have
thought; it makes the scheduler decide once more, on copies of the rows and of the generator's
state, and looks at what each step ruled out. So it can be asked at any time, changes nothing, and
draws nothing that a later decision would miss. What it says is true of now: the reason a job waited
an hour ago may be gone.

Several things can keep a job waiting at once. They are named in the order in which they must be
settled: a constraint that no node meets before a lack of room on those that do, room before the
queue. Somebody who settles the first reason gets further, which cannot be said of any other order.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from murmuration.cluster.reasons import Explanation, Never, PickedNode, ScoredNode, Wait
from murmuration.placement import explain as ex
from murmuration.placement.view import JobView, View
from murmuration.schedulers.central.jobs import CentralTaskState, JobRecord, TaskRecord, new_job
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.messages import SubmitJob
from murmuration.schedulers.central.placing import Round, job_view
from murmuration.schedulers.central.queue.preemption import made_way_for

#: Reasons by precedence: what is said first is what must be settled first.
POLICY, CONSTRAINT, QUOTA, RESOURCES = "policy", "constraint", "quota", "resources"
QUEUE = "ahead in the queue"
PREEMPTION, DEPENDENCY = "preemption", "dependency"
AHEAD = 5


@dataclass(frozen=True)
class Why:
    """A job's state and, if tasks of it wait, the tier of the reason and the decision behind it."""

    job: str
    state: str
    tasks: dict[str, int]
    tier: str
    reason: str
    #: Its place in the queue from 1, and who is before it; 0 if nothing of it waits.
    position: int
    ahead: tuple[str, ...]
    wakes_on: str
    #: Nodes that take no tasks now, and why.
    closed: dict[str, int]
    decision: Explanation | None


@dataclass(frozen=True)
class Trial:
    """A dry run: the node of each task it finds one for. Nothing is reserved."""

    job: str
    placed: tuple[tuple[str, str], ...]
    unplaced: int
    decision: Explanation
    note: str


def why(master: CentralMaster, job: JobRecord, now: float) -> Why:
    counts = {str(state): count for state, count in job.counts().items()}
    closed = closed_nodes(master)
    if not job.waiting:
        return Why(
            job=job.name,
            state=job_state(job),
            tasks=counts,
            tier="",
            reason=last_reason(job),
            position=0,
            ahead=(),
            wakes_on="",
            closed=closed,
            decision=None,
        )
    queue = [other.name for other in master.in_order()]
    position = queue.index(job.name)
    decision = explain(master, job, now)
    tier, reason, wakes_on = waiting_reason(master, job, now, decision)
    return Why(
        job=job.name,
        state=job_state(job),
        tasks=counts,
        tier=tier,
        reason=reason,
        position=position + 1,
        ahead=tuple(queue[:position][:AHEAD]),
        wakes_on=wakes_on,
        closed=closed,
        # Nothing is to be decided about a task that has its node.
        decision=None if _suspended(job) else decision,
    )


def dry_run(master: CentralMaster, event: SubmitJob, now: float) -> Trial:
    """Where the tasks of a job would go if it were submitted now."""
    request, constraints = master.check(event.spec)
    job = new_job(event, 0, request, constraints, 0, now)
    round_ = _round(master)
    decision = _explanation(
        round_, job, [task.index for task in job.tasks], now, master.never(event.spec)
    )
    round_ = _round(master)
    placements = round_.place(job, job.ready(now)) if round_.rows.names else []
    placed = tuple((f"{job.name}.{task.index}", round_.rows.names[row]) for task, row in placements)
    unplaced = event.spec.count - len(placed)
    return Trial(job.name, placed, unplaced, decision, _feasibility(decision, unplaced))


def _feasibility(decision: Explanation, unplaced: int) -> str:
    """Whether it could run, in a few words."""
    if isinstance(decision.verdict, Never):
        return "infeasible: it can never run on these nodes"
    if unplaced:
        return f"not now: {unplaced} of {decision.tasks} tasks would wait"
    return "feasible now, not reserved"


def explain(master: CentralMaster, job: JobRecord, now: float) -> Explanation:
    """The decision about the waiting tasks of a job as it would be made now."""
    return _explanation(_round(master), job, list(job.waiting), now, master.never(job.spec))


def explain_placing(round_: Round, job: JobRecord, tasks: list[int], now: float) -> Explanation:
    """The decision about some tasks of a job on the rows of a round, which is used up by it."""
    return _explanation(round_, job, tasks, now, None)


def _round(master: CentralMaster) -> Round:
    return master.round(master.rows(), copy.deepcopy(master.rng))


def _explanation(
    round_: Round, job: JobRecord, waiting: list[int], now: float, infeasible: Never | None
) -> Explanation:
    """Filters and best nodes before anything is placed; then what the policy chooses."""
    asked, view = job_view(job, len(waiting)), round_.view(job)
    filtered = _filters(round_, job)
    best = _best(round_, view, asked)
    feasible, unblock = int(view.feasible(asked.request).sum()), ex.unblock(view, asked)
    rows = len(view.names)
    # Placing deducts what it places; the view is of before.
    view = replace(view, free=view.free.copy())
    placements = round_.place(job, [job.tasks[index] for index in waiting]) if rows else []
    chosen = Counter(row for _, row in placements)
    lacks = len(placements) < len(waiting)
    short = Wait(ex.short_of(asked, len(placements), filtered)) if lacks else None
    return Explanation(
        job=job.name,
        workload=asked.workload,
        attempt=0,
        at_s=now,
        tasks=len(waiting),
        request=round_.resources.describe(job.request),
        considered=rows,
        filtered=filtered,
        feasible=feasible,
        best=best,
        chosen=tuple((round_.rows.names[row], count) for row, count in chosen.items()),
        placed=len(placements),
        verdict=infeasible or short,
        unblock=unblock if lacks else (),
        how=ex.how(round_.placement.policy),
        picked=_picks(round_, view, asked, chosen),
    )


def _best(round_: Round, view: View, asked: JobView) -> tuple[ScoredNode, ...]:
    """A score of the user's own that fails is told as the reason; here it only leaves the list
    empty."""
    try:
        return ex.best(round_.placement.policy, view, asked)
    except Exception:
        return ()


def _picks(
    round_: Round, view: View, asked: JobView, chosen: Counter[int]
) -> tuple[PickedNode, ...]:
    try:
        return ex.picks(round_.placement.policy, view, asked, chosen.items())
    except Exception:
        return ()


@dataclass
class ExplainingRound(Round):
    """A round that explains what it decides about one job, without deciding otherwise."""

    wanted: str = ""
    decisions: list[Explanation] = field(default_factory=list)

    def place(
        self, job: JobRecord, tasks: list[TaskRecord], whole: bool = False
    ) -> list[tuple[TaskRecord, int]]:
        if job.name == self.wanted:
            twin = self.twin(self.rows.free.copy())
            waiting = [task.index for task in tasks]
            self.decisions.append(_explanation(twin, job, waiting, self.now, None))
        return super().place(job, tasks, whole)


def _filters(round_: Round, job: JobRecord) -> dict[str, int]:
    """How many nodes each reason rules out, the first that applies: the job's rules, then each
    resource in turn."""
    left = np.ones(len(round_.rows.names), dtype=np.bool_)
    reasons: dict[str, int] = {}
    for reason, mask in round_.rules(job):
        reasons[reason] = int((left & ~mask).sum())
        left &= mask
    for r, name in enumerate(round_.resources.names):
        enough = round_.rows.free[:, r] >= job.request[r]
        reasons[f"too little {name} free"] = int((left & ~enough).sum())
        left &= enough
    return {reason: count for reason, count in reasons.items() if count}


def waiting_reason(
    master: CentralMaster, job: JobRecord, now: float, decision: Explanation
) -> tuple[str, str, str]:
    """The tier of the reason, the reason, and what would wake the job; and for whom it made way."""
    tier, reason, wakes_on = _find_reason(master, job, now, decision)
    others = {made_way_for(job.tasks[index]) for index in job.waiting} - {""}
    if others:
        reason += f"; it made way for {', '.join(sorted(others)[:AHEAD])}"
    return tier, reason, wakes_on


def _find_reason(
    master: CentralMaster, job: JobRecord, now: float, decision: Explanation
) -> tuple[str, str, str]:
    later = [job.tasks[index] for index in job.waiting if job.tasks[index].ready_s > now]
    if job.name in master.policy_errors:
        return POLICY, master.policy_errors[job.name], "a policy that answers"
    if not master.nodes:
        return POLICY, "no node agent has joined", "a node joins"
    if job.pending:
        return DEPENDENCY, f"it runs after {_name_pending(master, job)}", "they have ended"
    if paused := _suspended(job):
        nodes = ", ".join(sorted({task.node for task in paused})[:AHEAD])
        return PREEMPTION, f"suspended on {nodes}, with its memory", "its CPU is free there again"
    if not decision.considered:
        return POLICY, "no node takes tasks", "a node is open again"
    if later and len(later) == len(job.waiting):
        first = min(later, key=lambda task: task.ready_s)
        again = f"{first.reason or 'it ended'}; runs again in {first.ready_s - now:.1f} s"
        return POLICY, f"{again} ({first.failures} in a row)", "its back-off ends"
    if isinstance(decision.verdict, Never):
        return CONSTRAINT, f"never on these nodes: {decision.verdict.reason}", "a node joins"
    quotas = master.access.start_round(
        master.settings.resources, master.jobs, master.resource_manager.ledger
    )
    over_quota = quotas.explain(job, len(job.waiting), master.queue.whole)
    if over_quota:
        return QUOTA, over_quota, "a job of its user ends, or its quota is raised"
    by_rule = sum(
        n for reason, n in decision.filtered.items() if not reason.startswith("too little")
    )
    if by_rule == decision.considered:
        return CONSTRAINT, _name_commonest(decision), "a node joins"
    if decision.placed < decision.tasks:
        runs = master.jobs.runs.items()
        ending = [run for run, (_, task) in runs if made_way_for(task) == job.name]
        if ending:
            reason = f"tasks of lower priority make way for it: {_name_runs(ending)}"
            return PREEMPTION, reason, "they have ended"
        return RESOURCES, decision.verdict.reason if decision.verdict else "no room", "a task ends"
    return QUEUE, "it is about to be placed", "its turn"


def _suspended(job: JobRecord) -> list[TaskRecord]:
    """Its tasks that are suspended, if all that wait are."""
    paused = [task for index in job.waiting if (task := job.tasks[index]).is_suspended]
    return paused if len(paused) == len(job.waiting) else []


def _name_pending(master: CentralMaster, job: JobRecord) -> str:
    """The first few jobs that it waits for, and how they are."""
    names = sorted(job.pending)
    states = [f"{name}, which is {job_state(master.jobs.jobs[name])}" for name in names[:AHEAD]]
    more = f" and {len(names) - AHEAD} more" if len(names) > AHEAD else ""
    return " and ".join(states) + more


def _name_runs(runs: list[str]) -> str:
    """A few tasks by name, and how many more."""
    names = [run.rpartition(".")[0] for run in runs]
    more = f" and {len(names) - AHEAD} more" if len(names) > AHEAD else ""
    return ", ".join(names[:AHEAD]) + more


def _name_commonest(decision: Explanation) -> str:
    parts = sorted(decision.filtered.items(), key=lambda item: -item[1])
    return "no node: " + ", ".join(f"{count} × {reason}" for reason, count in parts)


def closed_nodes(master: CentralMaster) -> dict[str, int]:
    counts = Counter(
        "unreachable" if not node.up else "draining"
        for name, node in master.nodes.items()
        if not node.up or name in master.draining
    )
    return dict(counts)


def job_state(job: JobRecord) -> str:
    """One word for a job: its end, or the liveliest state of its tasks."""
    if job.status:
        return str(job.status)
    counts = job.counts()
    if job.killed:
        return str(CentralTaskState.STOPPING)
    return str(next(state for state in CentralTaskState if counts[state]))


def last_reason(job: JobRecord) -> str:
    """Why a job that has no waiting tasks is as it is: the first failure, if there was one."""
    worst = next((t for t in job.tasks if t.state is CentralTaskState.FAILED), None)
    worst = worst or next((t for t in job.tasks if t.state is CentralTaskState.STOPPING), None)
    worst = worst or next(
        (t for t in job.tasks if t.state is CentralTaskState.KILLED and job.status), None
    )
    return "" if worst is None else f"{job.name}.{worst.index}: {worst.reason}"
