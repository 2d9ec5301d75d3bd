"""The way in for a plain Python decision: its nodes become the claim of the attempt under way."""

from __future__ import annotations

from murmuration.base.jit import compiled, loop_kernel
from murmuration.base.rows import fits, take
from murmuration.simulation.architectures.offers.claims import offered_table
from murmuration.simulation.architectures.offers.holdings import remove
from murmuration.simulation.engine.steps import drop_claim
from murmuration.simulation.engine.world import Array, World


@compiled
def claim_nodes(free: Array, request: Array, nodes: Array, claim: Array) -> int:
    """Claim these nodes, one task each, or nothing at all; returns the position of the first
    without room, or −1."""
    for k in range(nodes.shape[0]):
        if not fits(free, nodes[k], request):
            drop_claim(free, nodes, k, request)
            return k
        take(free, nodes[k], request)
        claim[k] = nodes[k]
    return -1


@compiled
def leave_offer(
    set_amount: Array, set_sum: Array, agent: int, nodes: Array, request: Array
) -> None:
    """What was claimed is no longer part of a listed offer."""
    for k in range(nodes.shape[0]):
        remove(set_amount, set_sum, agent, nodes[k], request)


def adopt(w: World, free: Array, agent: int, rows: Array, nodes: Array, offered: bool) -> int:
    """Make Python's choice the claim of the pending attempt; returns the position of a node without
    room, or −1.

    `free` is the table the job's room is counted in; `nodes` are where the chosen `rows` of the
    view stand in it. Of an offer only what it shows may be used, and that still stands in its small
    table.
    """
    request, claim = w.request[w.agents["job"][agent]], w.claim[agent]
    bad = int(claim_nodes(w.offer_free, request, rows, claim)) if offered else -1
    if bad < 0:
        bad = int(claim_nodes(free, request, nodes, claim))
    if bad < 0:
        w.agents["claimed"][agent] = len(nodes)
        if offered and not w.state["optimistic"][0] and w.state["bulk"][0] != agent:
            leave_offer(w.set_amount, w.set_sum, agent, nodes, request)
    return bad


@loop_kernel
def show_offer(w: World, agent: int) -> int:
    """Fill the small table of the rows offered to a scheduler; returns its size."""
    return offered_table(w, agent, w.agents[agent].job)
