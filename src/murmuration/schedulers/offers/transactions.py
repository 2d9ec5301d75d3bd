"""Optimistic transactions on the master's ledger, by the rules of `cluster/transactions.py`."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from murmuration.cluster.transactions import commit
from murmuration.schedulers.offers.ledger import Ledger
from murmuration.schedulers.offers.messages import CommitTasks, Task


def accept_tasks(ledger: Ledger, event: CommitTasks) -> list[Task]:
    """The tasks of a transaction that do not conflict; the ledger is not changed."""
    seen = dict(zip((task.task for task in event.tasks), event.seen, strict=False))
    tasks = [
        task
        for task in event.tasks
        if task.task in seen and _is_possible(ledger, event.framework, task)
    ]
    tasks = list({task.task: task for task in tasks}.values())
    names = list(dict.fromkeys(task.node for task in tasks))
    free = np.array([ledger.nodes[n].available for n in names], dtype=np.int64)
    sequence = np.array([ledger.nodes[n].sequence for n in names], dtype=np.int64)
    began = sequence.copy()
    accepted: list[Task] = []
    for request, run in groupby(tasks, key=ledger.cost):
        alike = list(run)
        rows = np.array([names.index(task.node) for task in alike], dtype=np.int64)
        # A transaction does not conflict with itself: what it has taken so far counts as seen.
        known = np.array([seen[task.task] for task in alike]) + (sequence - began)[rows]
        commit(
            free,
            sequence,
            rows,
            known,
            len(rows),
            np.array(request, dtype=np.int64),
            event.machine,
            False,
        )
        accepted += [task for task, row in zip(alike, rows, strict=True) if row >= 0]
    return [] if event.atomic and len(accepted) < len(event.tasks) else accepted


def _is_possible(ledger: Ledger, framework: str, task: Task) -> bool:
    row = ledger.nodes.get(task.node)
    if row is None or not row.open or (framework, task.task) in ledger.tasks:
        return False
    return len(task.request) == ledger.resources and min(task.request) >= 0
