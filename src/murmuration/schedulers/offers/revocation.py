"""Which tasks to revoke for a framework below its guaranteed share (5.2.3)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from murmuration.schedulers.offers.allocators import revocable
from murmuration.schedulers.offers.ledger import Held, Key, Ledger, fits
from murmuration.schedulers.offers.messages import Filters


def to_revoke(
    ledger: Ledger,
    guaranteed: NDArray[np.float64],
    stopping: Collection[Key],
    needy: str,
    filters: Filters,
) -> list[Key]:
    """Tasks on one node whose end leaves there what the needy framework's filters ask for, or none.

    They belong to the framework furthest above its own guarantee and are the last it started: the
    least work is lost. The master cannot know how much the needy one would use, so this is the
    least that makes an offer to it possible.
    """
    kept = ledger.allocated.copy()
    for key in stopping:
        kept[ledger.position[key[0]]] -= np.array(ledger.tasks[key].task.request)
    victim = revocable(kept, ledger.total, guaranteed)
    if victim < 0 or victim == ledger.position[needy]:
        return []
    newest_first = reversed(ledger.tasks.items())
    tasks = [
        held
        for key, held in newest_first
        if ledger.position[key[0]] == victim and key not in stopping
    ]
    for node in dict.fromkeys(held.task.node for held in tasks):
        if filters.nodes is None or node in filters.nodes:
            here = [held for held in tasks if held.task.node == node]
            chosen = _enough(ledger, guaranteed, kept, here, filters)
            if chosen:
                return chosen
    return []


def _enough(
    ledger: Ledger,
    guaranteed: NDArray[np.float64],
    kept: NDArray[np.int64],
    here: list[Held],
    filters: Filters,
) -> list[Key]:
    """The first of these tasks of one framework on one node that together make enough room; none if
    they cannot."""
    kept = kept.copy()
    room = np.array(ledger.available(here[0].task.node).amount)
    victim, chosen = ledger.position[here[0].framework], list[Key]()
    for held in here:
        # A framework at or below its guarantee keeps its tasks.
        if (kept[victim] / np.maximum(ledger.total, 1)).max() <= guaranteed[victim]:
            return []
        kept[victim] -= np.array(held.task.request)
        room += np.array(held.task.request)
        chosen.append((held.framework, held.task.task))
        if fits(filters.at_least, room.tolist()):
            return chosen
    return []
