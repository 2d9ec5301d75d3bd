"""What must hold of a virtual cluster when calm has returned, from three sources that do not know
of each other: what really ran, what the processes believe, and what the store's log says.

What must hold at every moment (no task twice at once, no run before its placement is on disk, no
answer before what was asked for is, no run after its kill) is seen when it happens, in
`cluster.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.runtime.virtual.cluster import MASTER_HOST, Span, VirtualCluster
from tests.runtime.virtual.faults import GANG, LEASE_S
from tests.runtime.virtual.hosts import CODE

from murmuration.runtime.master.settings import lease_margin_s
from murmuration.runtime.node.executor import Executor
from murmuration.runtime.store.sqlite import SqliteStore
from murmuration.schedulers.agent import Message
from murmuration.schedulers.central.jobs import CentralTaskState
from murmuration.schedulers.central.messages import (
    JobSubmitted,
    NodeDraining,
    NodeIsLost,
    Recover,
    TaskEnded,
    TaskPlaced,
    TaskStopping,
)
from murmuration.schedulers.offers.messages import Status

#: What a fault explains, it explains until so long after its end.
GRACE_S = LEASE_S + lease_margin_s(LEASE_S) + 5.0


@dataclass(frozen=True)
class Dated:
    """A fact of the log, with the world's time at which its master noted it."""

    at_s: float
    fact: Message


def check(cluster: VirtualCluster) -> list[str]:
    """Everything that is not as it must be."""
    broken = [*cluster.world.errors, *cluster.seen.broken]
    if broken:
        return broken
    if cluster.master is None:
        return ["the master did not come back"]
    facts = list(read_facts(cluster))
    checks = (nodes_are_up, nothing_is_lost, all_is_free, jobs_ended_as_they_must, journals_agree)
    return [
        *(line for each in checks for line in each(cluster)),
        *failures_are_their_own(cluster, facts),
        *losses_are_explained(cluster, facts),
        *ends_are_heard(cluster, facts),
        *drained_nodes_get_nothing(facts),
        *gangs_start_whole(facts),
    ]


def read_facts(cluster: VirtualCluster) -> Iterator[Dated]:
    assert cluster._store is not None
    epoch = 0
    for entry in SqliteStore(cluster._store._path).entries():
        if isinstance(entry.value, Recover):
            epoch = entry.value.epoch
        if entry.side == "fact":
            yield Dated(entry.at_s - cluster.offsets_s[epoch], entry.value)


# What the processes believe, against what runs.


def nodes_are_up(cluster: VirtualCluster) -> Iterator[str]:
    assert cluster.master is not None
    up = {name for name, node in cluster.master.nodes.items() if node.up}
    if up != set(cluster.hosts) - cluster.gone:
        yield f"up are {sorted(up)}, gone {sorted(cluster.gone)}"


def nothing_is_lost(cluster: VirtualCluster) -> Iterator[str]:
    assert cluster.master is not None
    for name in cluster.seen.submitted - set(cluster.master.jobs.jobs):
        yield f"{name} was answered for and is not known"
    for name, host in cluster.hosts.items():
        real = {task.run for task in host.tasks.values()}
        known = set(cluster.master.jobs.runs_on(name))
        if real != known:
            yield f"{name} runs {sorted(real)}, the master believes {sorted(known)}"


def all_is_free(cluster: VirtualCluster) -> Iterator[str]:
    assert cluster.master is not None
    jobs, ledger = cluster.master.jobs, cluster.master.resource_manager.ledger
    cluster.master.resource_manager.check()
    for name, row in ledger.nodes.items():
        if {run for _, run in row.tasks} != set(jobs.runs_on(name)):
            yield f"the ledger has {sorted(row.tasks)} on {name}"
    for name in {*jobs.ports, *cluster.hosts}:
        used = Counter(
            port for run in jobs.runs_on(name) for port in jobs.runs[run][0].spec.ports if port
        )
        if +jobs.ports[name] != used:
            yield f"ports {dict(jobs.ports[name])} are held on {name}, {dict(used)} are used"


def jobs_ended_as_they_must(cluster: VirtualCluster) -> Iterator[str]:
    """By the codes of their tasks, or by a kill."""
    assert cluster.master is not None
    own = Counter((span.task, span.code) for span in cluster.seen.spans)
    for name, job in cluster.master.jobs.jobs.items():
        code, counts = int(job.spec.environment.get(CODE, "0")), dict(job.counts())
        is_killed = any(f"{name}.{task.index}" in cluster.seen.killed for task in job.tasks)
        if job.killed or (is_killed and job.spec.kind != "service"):
            wanted = {"killed", "failed" if code else "finished"}
        elif job.spec.kind == "service":
            wanted = {""} if counts == {"running": job.spec.count} else {"running in full"}
        else:
            # A kill may have been noted, and its master gone before it could answer.
            unanswered = {"killed"} if job.counts()[CentralTaskState.KILLED] else set()
            wanted = {"failed" if code else "finished"} | unanswered
            if name == GANG and cluster.gone and len(job.waiting) == job.spec.count:
                wanted.add("")  # there may be no room for it any more
        if job.status not in wanted:
            yield f"{name} is {job.status or 'open'} with {counts}, expected {sorted(wanted)}"
        if job.status == "failed" and job.code != code:
            yield f"{name} has code {job.code}, expected {code}"
        for task in job.tasks:
            ends = own[f"{name}.{task.index}", code]
            needed = 1 + (job.spec.restart.retries or 0) if task.state == "failed" else 1
            if task.state in ("failed", "finished") and ends < needed:
                yield f"{name}.{task.index} is {task.state} and ended {ends} times by itself"


def journals_agree(cluster: VirtualCluster) -> Iterator[str]:
    """What an agent keeps for the next one is what runs; all that has ended is settled."""
    for name in cluster.agents:
        hosted = cluster.hosted(name)
        assert isinstance(hosted.executor, Executor)
        real = {task.run for task in cluster.hosts[name].tasks.values()}
        if set(hosted.executor._journal.begun) != real or set(hosted.agent.runs) != real:
            kept = sorted(hosted.executor._journal.begun), sorted(hosted.agent.runs)
            yield f"{name} runs {sorted(real)} and keeps {kept}"


# What the log says.


def failures_are_their_own(cluster: VirtualCluster, facts: list[Dated]) -> Iterator[str]:
    """A run has failed only if it ended with the code of its job: what is killed, lost or never
    begun is no failure, whoever dies meanwhile."""
    assert cluster.master is not None
    for dated in facts:
        fact = dated.fact
        if isinstance(fact, TaskEnded) and fact.status is Status.FAILED:
            code = int(cluster.master.jobs.jobs[fact.job].spec.environment.get(CODE, "0"))
            if not code or fact.code != code:
                yield f"{fact.job}.{fact.index}.{fact.run} failed with {fact.code}: {fact.reason}"


def losses_are_explained(cluster: VirtualCluster, facts: list[Dated]) -> Iterator[str]:
    """A run is lost only if something went wrong with its node or with the master at that time."""
    placed: dict[tuple[str, int, int], float] = {}
    for dated in facts:
        fact = dated.fact
        if isinstance(fact, TaskPlaced):
            placed[fact.job, fact.index, fact.run] = dated.at_s
        elif isinstance(fact, TaskEnded) and fact.status is Status.LOST:
            began = placed.get((fact.job, fact.index, fact.run), dated.at_s)
            if not any(
                since <= dated.at_s and until + GRACE_S >= began
                for since, until, host in cluster.seen.faults
                if host in (fact.node, MASTER_HOST)
            ):
                run = f"{fact.job}.{fact.index}.{fact.run}"
                yield f"{run} was lost on {fact.node} for nothing: {fact.reason}"


def ends_are_heard(cluster: VirtualCluster, facts: list[Dated]) -> Iterator[str]:
    """A run that ended by itself counts: a task is not run again after it ended well, nor more
    often than its retries say. Only a node that was given up, or rebooted, may have taken the news
    with it."""
    assert cluster.master is not None
    stopped = {
        f"{fact.job}.{fact.index}.{fact.run}"
        for fact in (dated.fact for dated in facts)
        if isinstance(fact, TaskStopping)
        or (isinstance(fact, TaskEnded) and fact.status is Status.LOST)
    }
    for name, job in cluster.master.jobs.jobs.items():
        code = int(job.spec.environment.get(CODE, "0"))
        times = sum(isinstance(d.fact, JobSubmitted) and d.fact.job == name for d in facts)
        ends_max = times * (1 + (job.spec.restart.retries or 0) if code else 1)
        for task in job.tasks:
            heard = [
                span
                for span in cluster.seen.spans
                if span.task == f"{name}.{task.index}"
                and span.code == code
                and not _is_forgotten(cluster, facts, span)
                # Who was told to stop and did not end well has not failed, whatever it says.
                and not (code and span.run in stopped)
            ]
            if len(heard) > ends_max:
                yield f"{name}.{task.index} ended {len(heard)} times, {ends_max} were enough"


def _is_forgotten(cluster: VirtualCluster, facts: list[Dated], span: Span) -> bool:
    """Whether the end of a run may be unknown to the master."""
    is_given_up = any(
        isinstance(dated.fact, NodeIsLost)
        and dated.fact.node == span.node
        and dated.at_s >= span.start_s
        for dated in facts
    )
    return is_given_up or any(at >= span.start_s for at in cluster.hosts[span.node].reboots_s)


def drained_nodes_get_nothing(facts: list[Dated]) -> Iterator[str]:
    draining: set[str] = set()
    for dated in facts:
        match dated.fact:
            case NodeDraining(node, on):
                (draining.add if on else draining.discard)(node)
            case TaskPlaced(job, index, run, node) if node in draining:
                yield f"{job}.{index}.{run} was placed on {node}, which is draining"


def gangs_start_whole(facts: list[Dated]) -> Iterator[str]:
    """The first runs of a gang are placed together."""
    sizes: dict[str, int] = {}
    placed: Counter[tuple[str, float]] = Counter()
    for dated in facts:
        match dated.fact:
            case JobSubmitted(job, spec=spec) if spec.gang and job not in sizes:
                sizes[job] = spec.count
            case TaskPlaced(job, _, 1) if job in sizes:
                placed[job, dated.at_s] += 1
    for (job, at_s), tasks in placed.items():
        if tasks != sizes[job]:
            yield f"{tasks} of {sizes[job]} tasks of the gang {job} were placed at {at_s:.3f} s"
