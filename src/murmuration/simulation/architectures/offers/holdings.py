"""Who holds which free resources while offers are out.

There is one set per scheduler, for its offer, and a last one for what is available. An offer takes
everything that is available, and at any time one set has nearly all of it. That set, the bulk
(`state.bulk`), is not listed: it has what no other set lists. So offering and returning ten
thousand rows costs nothing, and only rows freed in the meantime are listed. Amounts are exact.

Two invariants hold between any two events:

- `free` of a row is the sum over all sets. A claim is in no set: it is taken off `free` and off the
  set it came from.
- The bulk lists nothing. When a set becomes the bulk, what it listed is forgotten (`empty`), and
  belongs to it all the same.
"""

from __future__ import annotations

from typing import Any

from murmuration.base.arrays import Amounts, Counts, Flags, Placements, Records
from murmuration.base.jit import helper, inlined
from murmuration.simulation.architectures.offers.world import OfferWorld


@helper
def add(
    rows: Placements,
    size: Counts,
    listed: Flags,
    amount: Amounts,
    total: Amounts,
    holder: int,
    node: int,
    request: Amounts,
) -> None:
    """A sparse set gets some of a row."""
    if not listed[holder, node]:
        listed[holder, node] = True
        rows[holder, size[holder]] = node
        size[holder] += 1
    for r in range(request.shape[0]):
        amount[holder, node, r] += request[r]
        total[holder, r] += request[r]


@helper
def remove(amount: Amounts, total: Amounts, holder: int, node: int, request: Amounts) -> None:
    """A sparse set loses some of a row (the row stays listed until the set is emptied)."""
    for r in range(request.shape[0]):
        amount[holder, node, r] -= request[r]
        total[holder, r] -= request[r]


@helper
def empty(
    rows: Placements, size: Counts, listed: Flags, amount: Amounts, total: Amounts, holder: int
) -> None:
    """Forget what a set lists: it now belongs to the bulk."""
    for k in range(size[holder]):
        node = rows[holder, k]
        listed[holder, node] = False
        for r in range(total.shape[1]):
            amount[holder, node, r] = 0
    for r in range(total.shape[1]):
        total[holder, r] = 0
    size[holder] = 0


@helper
def move(
    rows: Placements,
    size: Counts,
    listed: Flags,
    amount: Amounts,
    total: Amounts,
    source: int,
    target: int,
) -> None:
    """Everything one sparse set lists goes to another."""
    for k in range(size[source]):
        node = rows[source, k]
        add(rows, size, listed, amount, total, target, node, amount[source, node])
    empty(rows, size, listed, amount, total, source)


@inlined
def available_set(w: OfferWorld) -> Any:
    """The set of what may be offered."""
    return w.set_size.shape[0] - 1


@inlined
def add_freed(w: OfferWorld, node: int, request: Amounts) -> None:
    """Something has become free on a row: it is available.

    Where the available set is the bulk nothing is to do: it has what nobody lists.
    """
    if w.state[0].bulk != available_set(w):
        add(
            w.set_rows,
            w.set_size,
            w.set_listed,
            w.set_amount,
            w.set_sum,
            available_set(w),
            node,
            request,
        )


@inlined
def offer_everything(w: OfferWorld, scheduler: int) -> None:
    """All that is available goes to one scheduler: it becomes the bulk, or gets the few rows that
    were freed while another scheduler was the bulk."""
    if w.state[0].bulk == available_set(w):
        w.state[0].bulk = scheduler
    else:
        move(
            w.set_rows,
            w.set_size,
            w.set_listed,
            w.set_amount,
            w.set_sum,
            available_set(w),
            scheduler,
        )


@inlined
def give_back_offer(w: OfferWorld, scheduler: int) -> None:
    """What a scheduler still holds of its offer is available again.

    The first two cases join a list and the bulk: the list is forgotten, and the bulk then belongs
    to the available set. Only where a third set is the bulk must rows be copied.
    """
    available = available_set(w)
    if w.state[0].bulk == scheduler:
        empty(w.set_rows, w.set_size, w.set_listed, w.set_amount, w.set_sum, available)
        w.state[0].bulk = available
    elif w.state[0].bulk == available:
        empty(w.set_rows, w.set_size, w.set_listed, w.set_amount, w.set_sum, scheduler)
    else:
        move(w.set_rows, w.set_size, w.set_listed, w.set_amount, w.set_sum, scheduler, available)


@helper
def read_held(
    free: Amounts, amount: Amounts, bulk: bool, holder: int, node: int, out: Amounts
) -> None:
    """How much of one row a set has."""
    for r in range(out.shape[0]):
        if bulk:
            out[r] = free[node, r]
            for s in range(amount.shape[0]):
                out[r] -= amount[s, node, r]
        else:
            out[r] = amount[holder, node, r]


@helper
def is_selective(state: Records, workloads: Records, filters: Flags, framework: int) -> bool:
    """Whether a framework is offered only some of the rows."""
    return bool(state[0].min_cpu > 0 or workloads[framework].filter_cpu > 0 or filters.shape[1] > 0)


@helper
def passes(
    state: Records, workloads: Records, filters: Flags, framework: int, node: int, row: Amounts
) -> bool:
    """Whether what is left of a row passes the framework's filter and the minimum offer size."""
    if not is_selective(state, workloads, filters, framework):
        return True
    minimum = max(state[0].min_cpu, workloads[framework].filter_cpu)
    return bool(row[0] >= minimum and (filters.shape[1] == 0 or filters[framework, node]))


@helper
def any_passes(
    state: Records, workloads: Records, filters: Flags, framework: int, free: Amounts
) -> bool:
    """Whether any row that is not empty passes as it is."""
    for node in range(free.shape[0]):
        if free[node].sum() > 0 and passes(state, workloads, filters, framework, node, free[node]):
            return True
    return False


@inlined
def offer_some(w: OfferWorld, scheduler: int, framework: int) -> None:
    """The available rows that pass the framework's filter and the minimum offer size go to one
    scheduler."""
    available = available_set(w)
    bulk = w.state[0].bulk == available
    count = w.free.shape[0] if bulk else w.set_size[available]
    # Scratch: the offer's own table is written only after this.
    row = w.offer_free[0]
    for k in range(count):
        node = k if bulk else w.set_rows[available, k]
        read_held(w.free, w.set_amount, bulk, available, node, row)
        if passes(w.state, w.workloads, w.filters, framework, node, row):
            add(w.set_rows, w.set_size, w.set_listed, w.set_amount, w.set_sum, scheduler, node, row)
            if not bulk:
                remove(w.set_amount, w.set_sum, available, node, row)


@helper
def count_claimed(schedulers: Records, request: Amounts, scheduler: int, r: int) -> Any:
    """How much of one resource a scheduler has claimed of its offer."""
    if schedulers[scheduler].job < 0 or schedulers[scheduler].optimistic:
        return 0
    return schedulers[scheduler].claimed * request[schedulers[scheduler].job, r]


@helper
def amount_held(
    state: Records,
    schedulers: Records,
    request: Amounts,
    sums: Amounts,
    totals: Amounts,
    set_sum: Amounts,
    scheduler: int,
    r: int,
) -> Any:
    """How much of one resource is in a scheduler's offer, what it has claimed of it included."""
    if state[0].bulk != scheduler:
        return set_sum[scheduler, r] + count_claimed(schedulers, request, scheduler, r)
    # The bulk is what is left: all there is, less what runs, what is listed, and what others claim.
    # Its own claim is not deducted, because it is still part of its offer.
    amount = totals[r] - sums[0, r]
    for s in range(set_sum.shape[0]):
        amount -= set_sum[s, r]
    for other in range(schedulers.shape[0]):
        if other != scheduler:
            amount -= count_claimed(schedulers, request, other, r)
    return amount


@helper
def hide_others(
    free: Amounts, rows: Placements, size: Counts, amount: Amounts, holder: int, sign: int
) -> None:
    """Take from the table what other sets list (sign −1), or put it back (+1): a placement sees one
    set's rows."""
    for s in range(size.shape[0]):
        if s == holder:
            continue
        for k in range(size[s]):
            node = rows[s, k]
            for r in range(free.shape[1]):
                free[node, r] += sign * amount[s, node, r]
