"""Plain Python decisions under offers: a policy sees the rows it was offered, and may use of them
only what the offer holds."""

from __future__ import annotations

from typing import cast

from murmuration.base.arrays import Amounts, Placement
from murmuration.base.jit import compiled, loop_kernel
from murmuration.simulation.architectures.architecture import ShownRows
from murmuration.simulation.architectures.offers.claims import fill_offered_table
from murmuration.simulation.architectures.offers.holdings import remove
from murmuration.simulation.architectures.offers.world import OfferWorld
from murmuration.simulation.engine.python_decision import claim_in_table, claim_nodes
from murmuration.simulation.engine.run import Run


@loop_kernel
def show_offer(w: OfferWorld, scheduler: int) -> int:
    """Fill the small table of the rows offered to a scheduler; returns its size."""
    return fill_offered_table(w, scheduler, w.schedulers[scheduler].job)


@compiled
def leave_offer(
    set_amount: Amounts, set_sum: Amounts, scheduler: int, nodes: Placement, request: Amounts
) -> None:
    """What was claimed is no longer part of a listed offer."""
    for k in range(nodes.shape[0]):
        remove(set_amount, set_sum, scheduler, nodes[k], request)


def show_rows(run: Run, scheduler: int, job: int) -> ShownRows:
    """The rows of an offer and what it holds of each."""
    world = cast(OfferWorld, run.world)
    size = show_offer(world, scheduler)
    rows, free = world.offer_rows[:size].copy(), world.offer_free[:size].copy()
    # An offer may list every row and yet in another order than the table.
    whole = size == len(world.total) and bool((rows[1:] > rows[:-1]).all())
    return ShownRows(rows, free, whole)


def claim(run: Run, scheduler: int, rows: Placement, nodes: Placement) -> int:
    """Make a policy's choice the claim of its attempt; returns the position of a node without room,
    or −1.

    The chosen `rows` are those of the offer's small table, which still stands as it was shown; the
    room is taken there first, so that a policy cannot use more of a node than it was offered.
    """
    world = cast(OfferWorld, run.world)
    request, claimed = world.request[world.schedulers["job"][scheduler]], world.claim[scheduler]
    bad = int(claim_nodes(world.offer_free, request, rows, claimed))
    if bad < 0:
        bad = claim_in_table(run, scheduler, rows, nodes)
    if bad < 0 and not world.state["optimistic"][0] and world.state["bulk"][0] != scheduler:
        leave_offer(world.set_amount, world.set_sum, scheduler, nodes, request)
    return bad
