"""Which tasks the master revokes for a framework below its guaranteed share (5.2.3)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from murmuration.base.arrays import Amounts, Shares
from murmuration.schedulers.offers.allocators import find_revocable
from murmuration.schedulers.offers.clearing import can_clear, is_enough
from murmuration.schedulers.offers.ledger import Held, Key, Ledger
from murmuration.schedulers.offers.messages import Filters

#: Nothing is reserved of what the master reckons with.
NO_RESERVE: Amounts = np.zeros(0, dtype=np.int64)


def choose_victims(
    ledger: Ledger,
    guaranteed: Shares,
    stopping: Collection[Key],
    needy: str,
    filters: Filters,
) -> list[Key]:
    """Tasks on one node whose end leaves there what the needy framework's filters ask for, or none.

    They belong to the framework furthest above its own guarantee. The master cannot know how much
    the needy one would use, so this is the least that makes an offer to it possible, and one task
    at least. Tasks that are being stopped already count as gone.
    """
    held = ledger.allocated.copy()
    for key in stopping:
        held[ledger.position[key[0]]] -= np.array(ledger.tasks[key].task.request)
    victim = find_revocable(held, ledger.total, guaranteed)
    if victim < 0 or victim == ledger.position[needy]:
        return []
    newest_first = reversed(ledger.tasks.items())
    tasks = [
        task
        for key, task in newest_first
        if ledger.position[key[0]] == victim and key not in stopping
    ]
    wanted = _require_amounts(filters, ledger.resources)
    for node in dict.fromkeys(task.task.node for task in tasks):
        here = [task for task in tasks if task.task.node == node]
        if (filters.nodes is None or node in filters.nodes) and can_clear(
            np.array(ledger.available(node).amount),
            NO_RESERVE,
            np.sum([task.task.request for task in here], axis=0),
            wanted,
            held[victim],
            ledger.total,
            float(guaranteed[victim]),
        ):
            return _pick_newest(ledger, here, wanted)
    return []


def _require_amounts(filters: Filters, resources: int) -> Amounts:
    """What an offer must have at least; filters may name the first resources only."""
    wanted = np.zeros(resources, dtype=np.int64)
    wanted[: len(filters.at_least)] = filters.at_least
    return wanted


def _pick_newest(ledger: Ledger, here: list[Held], wanted: Amounts) -> list[Key]:
    """The first of these tasks of one node, newest first, that together make enough room."""
    room = np.array(ledger.available(here[0].task.node).amount)
    chosen: list[Key] = []
    for task in here:
        chosen.append((task.framework, task.task.task))
        room += np.array(task.task.request)
        if is_enough(room, NO_RESERVE, wanted):
            break
    return chosen
