"""What a live cluster can be set to: the architectures it can have, and a master's rules by the
names a simulation knows them by. Apart from the process, so that a replay imports no server."""

from __future__ import annotations

from dataclasses import dataclass

from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.placement.registry import is_user_defined, resolve
from murmuration.runtime.master.queues import LiveQueue, read_queue
from murmuration.runtime.options import MasterOptions
from murmuration.schedulers.central.master import CentralSettings
from murmuration.schedulers.offers.allocators import ALLOCATORS
from murmuration.schedulers.offers.master import Rules
from murmuration.schedulers.queues.discipline import QueueSettings


@dataclass(frozen=True)
class LiveKind:
    """How the central master behaves as one architecture."""

    #: The job manager waits for offers like any other framework, instead of writing to all rows.
    by_offers: bool = False


#: The architectures a live cluster can have; the first is that of a user's own policy. A new one
#: that the central master can be is a line here.
LIVE_KINDS = {
    "monolithic": LiveKind(),
    "shared-state": LiveKind(),
    "offers": LiveKind(by_offers=True),
}


def live_settings(options: MasterOptions) -> tuple[CentralSettings, str, str]:
    """The scheduler and placement by the names a simulation knows them by."""
    kind, placement = options.scheduler, options.placement
    if kind not in LIVE_KINDS and is_user_defined(kind):
        kind, placement = next(iter(LIVE_KINDS)), options.scheduler
    if kind not in LIVE_KINDS:
        known = ", ".join(LIVE_KINDS)
        raise InputError(f"scheduler {kind!r}: expected {known} or module:Class for a live cluster")
    if options.allocator not in ALLOCATORS:
        raise InputError(f"allocator {options.allocator!r}: expected {', '.join(ALLOCATORS)}")
    rules = Rules(
        allocator=ALLOCATORS[options.allocator],
        period_s=options.allocation_interval_s,
        timeout_s=5.0,
        revoke_after_s=10.0,
    )
    queue = read_queue(options.queue, options.settings)
    if LIVE_KINDS[kind].by_offers:
        _refuse_queue(queue, kind)
    resources = Resources(("cpu", "memory", *options.resources))
    settings = CentralSettings(
        resources,
        resolve(placement),
        rules,
        by_offers=LIVE_KINDS[kind].by_offers,
        agent_timeout_s=options.agent_timeout_s,
        queue=queue.discipline,
        queue_settings=queue.settings,
        reservations=queue.reservations,
        margin_s=lease_margin_s(options.agent_timeout_s),
    )
    return settings, kind, placement


def _refuse_queue(queue: LiveQueue, kind: str) -> None:
    """With offers the allocator decides who is next, and takes back what it gave too much of."""
    if queue.discipline is not None:
        raise InputError(f"queue {queue.discipline.name!r}: {kind} has no queue to order")
    if queue.settings != QueueSettings():
        raise InputError(f"scheduler.queue_settings: {kind} has no queue to order")


def lease_margin_s(agent_timeout_s: float) -> float:
    """How much longer than its agents a master waits: for slow kills, and for watches that are not
    alike."""
    return 2.0 + agent_timeout_s / 10.0
