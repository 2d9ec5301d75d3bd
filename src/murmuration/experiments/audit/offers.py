"""What attempts and tasks say of offers."""

from __future__ import annotations

import heapq

import numpy as np

from murmuration.experiments.audit.folder import RecordedRun
from murmuration.simulation.architectures.offers.settings import FrameworkRules, OfferRules


def offer_counts(run: RecordedRun) -> dict[str, float | None]:
    """Tasks that were revoked, or killed at the limit of short ones, and offers that came back
    before they were answered: an attempt that took time, chose nodes and may not use any."""
    rules, stays = run.scenario.scheduler.settings_of(OfferRules), run.stays
    counts: dict[str, float | None] = {"tasks_revoked": int(stays.ends("revoked").sum())}
    if rules.batch_s == 0.0:
        late = run.attempts.ended & (run.attempts.placed == 0) & (run.attempts.refused == 0)
        late &= run.attempts.busy > 0
        if not rules.timeout_s:
            counts["offers_rescinded"] = int(late.sum())
    if rules.short_share == 0.0:
        counts["tasks_killed"] = int(stays.ends("killed").sum())
    return counts


def locked_share(run: RecordedRun, capacity: float) -> dict[str, float | None]:
    """The share of all CPU that was on offer. An offer is all that is free and not on offer when it
    is made, and stays locked until its attempt ends; so each follows from those before it. Where
    some nodes are held back from an offer, or offers are not answered when attempts end, or one is
    made just when something comes free, the files do not say."""
    rules = run.scenario.scheduler.settings_of(OfferRules)
    plain = all(
        framework.filter == () and framework.filter_cpu == FrameworkRules().filter_cpu
        for framework in rules.framework.values()
    )
    if rules.optimistic:
        return {"offered_fraction": 0.0}
    if not plain or rules.min_cpu or rules.timeout_s or rules.batch_s or rules.offer_time_s == 0.0:
        return {}
    seconds = _locked_seconds(run)
    return {} if seconds is None else {"offered_fraction": seconds / run.horizon / capacity}


def _locked_seconds(run: RecordedRun) -> float | None:
    stays, attempts = run.stays, run.attempts
    cpu = run.jobs.request[:, 0]
    starts, ended = stays.begins, ~stays.running
    change_time = np.concatenate([stays.start[starts], stays.end[ended]])
    change = np.concatenate([-cpu[stays.job[starts]], cpu[stays.job[ended]]])
    order = np.argsort(change_time, kind="stable")
    times, free = change_time[order], np.cumsum(change[order])
    if np.isin(attempts.start, np.concatenate([times, attempts.end])).any():
        return None
    empty = float((run.nodes.start - run.nodes.prefilled)[:, 0].sum())
    out: list[tuple[float, float]] = []
    held = area = 0.0
    for k in np.argsort(attempts.start, kind="stable"):
        start, end = float(attempts.start[k]), float(attempts.end[k])
        while out and out[0][0] <= start:
            held -= heapq.heappop(out)[1]
        at = int(np.searchsorted(times, start, side="right")) - 1
        offer = empty + (float(free[at]) if at >= 0 else 0.0) - held
        heapq.heappush(out, (end, offer))
        held += offer
        area += offer * (end - start)
    return area
