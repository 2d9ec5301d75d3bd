"""What settings of queues and reservations must keep to, in a scenario and in a live cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from murmuration.base.settings import check_number
from murmuration.schedulers.queues.discipline import AdvanceReservation, QueueSettings

#: The largest whole number that a float holds exactly.
WHOLE_MAX = 2**53


def find_queue_problems(
    queue: str, settings: QueueSettings, reservations: Sequence[AdvanceReservation], path: str
) -> Iterator[str]:
    """A sentence for each value that cannot be; `path` stands before the keys."""
    key = f"{path}queue_settings"
    if isinstance(settings.estimate, float):
        yield from check_number(f"{key}.estimate", settings.estimate, low=0.0, high=1e6)
    for name, share in settings.shares.items():
        yield from check_number(f"{key}.shares.{name}", share, above=0.0)
    for name in settings.weights.__struct_fields__:
        yield from check_number(
            f"{key}.weights.{name}", getattr(settings.weights, name), low=-WHOLE_MAX, high=WHOLE_MAX
        )
    yield from check_number(f"{key}.age_max_s", settings.age_max_s, above=0.0)
    yield from check_number(f"{key}.user_jobs_max", settings.user_jobs_max, low=0, high=WHOLE_MAX)
    yield from check_number(f"{key}.user_cpu_max", settings.user_cpu_max, low=0.0, high=1e9)
    if settings.preempt != "no" and queue == "conservative":
        yield f"{key}.preempt: expected 'no' with queue = 'conservative', whose jobs have promises"
    yield from check_number(f"{key}.estimate_factor", settings.estimate_factor, above=0.0)
    yield from check_number(f"{key}.ageing_per_h", settings.ageing_per_h, low=0.0)
    yield from check_number(f"{key}.half_life_s", settings.half_life_s, above=0.0)
    for index, each in enumerate(reservations):
        yield from _find_in_reservation(queue, each, f"{path}reservation[{index}]", path)


def _find_in_reservation(
    queue: str, each: AdvanceReservation, key: str, path: str
) -> Iterator[str]:
    if not queue:
        yield f"{key}: expected {path}queue beside it"
    yield from check_number(f"{key}.from_s", each.from_s, low=0.0)
    yield from check_number(f"{key}.until_s", each.until_s, above=each.from_s)
    if bool(each.share) == bool(each.resources):
        yield f"{key}: expected one of share and resources"
    yield from check_number(f"{key}.share", each.share, low=0.0, high=1.0)
