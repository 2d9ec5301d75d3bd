"""Which nodes a job may use, and which jobs can never run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from murmuration.base.arrays import Amounts, Column, Flags, Indices
from murmuration.base.errors import InputError
from murmuration.base.random import generator
from murmuration.cluster.constraints import node_mask
from murmuration.cluster.reasons import Never
from murmuration.schedulers.admission import explain_never, find_oversized
from murmuration.schedulers.architecture import Scheduler
from murmuration.simulation.architectures.architecture import Admission
from murmuration.simulation.scenarios import scenario as sc
from murmuration.workload.generators import PICKY_MASKS, picky_masks
from murmuration.workload.jobs import JobList
from murmuration.workload.nodes import NodeTable


def job_masks(
    scenario: sc.Scenario,
    nodes: NodeTable,
    jobs: JobList,
    schedulers: tuple[Scheduler, ...],
    owner: Indices,
) -> tuple[Flags, Indices]:
    """The distinct row masks, and the mask of each job (−1: every row): its constraints, pickiness
    and partition."""
    count = len(nodes.total)
    constraint_masks = [node_mask(c, nodes.attributes) for c in jobs.constraint_sets]
    picky, picked = _draw_masks(scenario, count, jobs)
    partition = np.where(
        np.array([scheduler.rows is not None for scheduler in schedulers])[owner], owner, -1
    )
    # A mask has an entry for each node, and there may be a million jobs: jobs that ask for the same
    # share one. A mask that allows everything is not kept at all (−1), so that the kernels' usual
    # case reads no mask.
    first, which = distinct_rows([jobs.constraint, picked, partition])
    masks: list[Flags] = []
    index = []
    for row in first:
        mask = constraint_masks[jobs.constraint[row]].copy()
        if picked[row] >= 0:
            mask &= picky[picked[row]]
        if partition[row] >= 0:
            mask &= schedulers[partition[row]].rows
        index.append(-1 if mask.all() else len(masks))
        if not mask.all():
            masks.append(mask)
    table = np.array(masks, dtype=np.bool_) if masks else np.ones((1, count), dtype=np.bool_)
    return np.ascontiguousarray(table), np.array(index, dtype=np.int64)[which]


def distinct_rows(columns: Sequence[Column]) -> tuple[Indices, Indices]:
    """One row of each kind, and the kind of every row, where a kind is a combination of values."""
    kind = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        # Renumbered after every column: the product of all counts of values could exceed 64 bits,
        # the product of the kinds so far and one column cannot.
        values, code = np.unique(column, return_inverse=True)
        kind = np.unique(kind * len(values) + code.ravel(), return_inverse=True)[1].ravel()
    return np.unique(kind, return_index=True)[1], kind


def _draw_masks(scenario: sc.Scenario, nodes: int, jobs: JobList) -> tuple[Flags, Indices]:
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


def find_infeasible(admission: Admission, whole_jobs: bool) -> dict[int, Never]:
    """The jobs that can never run. Jobs that are alike are looked at once.

    `whole_jobs`: all tasks of a job must fit at once, as those of a gang must anywhere.
    """
    # Three sieves, each slower and finer than the one before: kinds of jobs instead of jobs; of
    # those, the kinds that no single node holds (`_doubtful`), by whole arrays; and only for what
    # is left the exact question, with its sentence, for each job. Of a kind the job with the most
    # tasks is asked first: if it can run, all others can.
    nodes, jobs, free, masks, mask = admission[1:]
    whole = jobs.gang | whole_jobs
    first, which = distinct_rows([*jobs.request.T, mask, whole])
    max_tasks = np.zeros(len(first), dtype=np.int64)
    np.maximum.at(max_tasks, which, jobs.tasks)

    def reason(row: int, tasks: int) -> Never | None:
        allowed = None if mask[row] < 0 else masks[mask[row]]
        return explain_never(
            nodes.resources, free, allowed, jobs.request[row], tasks, bool(whole[row])
        )

    reasons: dict[int, Never] = {}
    needs = jobs.request[first] * np.where(whole[first], max_tasks, 1)[:, None]
    for kind in _doubtful(free, masks, mask[first], needs):
        row = first[kind]
        if reason(row, int(max_tasks[kind])) is not None:
            each = {int(k): reason(row, int(jobs.tasks[k])) for k in np.flatnonzero(which == kind)}
            reasons.update({k: why for k, why in each.items() if why is not None})
    return reasons


def _doubtful(free: Amounts, masks: Flags, mask: Indices, needs: Amounts) -> list[int]:
    """The needs that no single node allowed to them holds."""
    doubtful: list[int] = []
    for which in np.unique(mask):
        rows = np.flatnonzero(mask == which)
        usable = free if which < 0 else free[masks[which]]
        doubtful += rows[find_oversized(usable, needs[rows])].tolist()
    return sorted(doubtful)


def refuse_infeasible(scenario: sc.Scenario, jobs: JobList, infeasible: dict[int, Never]) -> None:
    """Raise if no job at all can ever run, or no job of some generator: that is a mistake."""
    lost = np.zeros(len(jobs), dtype=np.bool_)
    lost[list(infeasible)] = True
    groups = {"no job": np.ones(len(jobs), dtype=np.bool_)}
    if not sc.is_replay(scenario.workload):
        groups |= {
            f"no job of workload {name!r}": jobs.workload == k
            for k, name in enumerate(jobs.workloads)
        }
    for what, rows in groups.items():
        if rows.any() and lost[rows].all():
            first = int(np.flatnonzero(rows)[0])
            reason = infeasible[first].reason
            raise InputError(
                f"{scenario.name}: {what} can ever run; job {jobs.job_id[first]}: {reason}"
            )
