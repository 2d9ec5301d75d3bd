"""The settings of offers: the table `scheduler.offers` of a scenario."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from murmuration.base.resources import parse_quantity
from murmuration.base.settings import check_number
from murmuration.cluster.constraints import parse_constraint
from murmuration.simulation.architectures.architecture import SettingsTable
from murmuration.simulation.scenarios import scenario as sc


class FrameworkRules(sc.ScenarioTable, frozen=True):
    """What the allocator knows of one framework: its weight (or priority), the share it may keep,
    whether it declares its tasks short, and the nodes it filters out: those that do not meet its
    constraints, or have less than `filter_cpu` free."""

    weight: float = 1.0
    guaranteed: float = 0.0
    short: bool = False
    filter: tuple[str, ...] = ()
    filter_cpu: sc.Quantity = 0


class OfferRules(sc.ScenarioTable, frozen=True):
    """How resources are offered (Mesos)."""

    allocator: str = "drf"
    offer_time_s: float = 0.001
    period_s: float = 0.0
    timeout_s: float = 0.0
    min_cpu: sc.Quantity = 0
    short_share: float = 0.0
    short_max_s: float = 60.0
    optimistic: bool = False
    double_booked: bool = False
    batch_s: float = 0.0
    batch_min_cpu: sc.Quantity = 0
    framework: dict[str, FrameworkRules] = msgspec.field(default_factory=dict)


def find_problems(offers: OfferRules, scheduler: sc.SchedulerSettings) -> Iterator[str]:
    """What makes no sense, each as a sentence that names the key."""
    for name in ("offer_time_s", "period_s", "timeout_s", "short_max_s", "batch_s"):
        yield from check_number(f"scheduler.offers.{name}", getattr(offers, name), low=0.0)
    yield from check_number("scheduler.offers.short_share", offers.short_share, low=0.0, high=0.99)
    parse_quantity(offers.min_cpu, "scheduler.offers.min_cpu")
    parse_quantity(offers.batch_min_cpu, "scheduler.offers.batch_min_cpu")
    yield from _alone(offers)
    if offers.optimistic and offers.short_share > 0.0:
        yield (
            "scheduler.offers.short_share: expected 0 with optimistic offers, which reserve nothing"
        )
    for name, framework in offers.framework.items():
        key = f"scheduler.offers.framework.{name}"
        yield from check_number(f"{key}.weight", framework.weight, above=0.0)
        yield from check_number(f"{key}.guaranteed", framework.guaranteed, low=0.0, high=1.0)
        parse_quantity(framework.filter_cpu, f"{key}.filter_cpu")
        for text in framework.filter:
            parse_constraint(text, f"{key}.filter")
    if sum(f.guaranteed for f in offers.framework.values()) > 1.0 + 1e-9:
        yield "scheduler.offers.framework: expected guaranteed shares of at most 1 in all"


def _alone(offers: OfferRules) -> Iterator[str]:
    """The simulator whose rules batched offers follow has none of the others."""
    default = OfferRules()
    others = ("period_s", "timeout_s", "min_cpu", "short_share", "optimistic", "double_booked")
    if offers.batch_s == 0.0:
        if offers.batch_min_cpu != default.batch_min_cpu:
            yield "scheduler.offers.batch_min_cpu: expected only with batch_s above 0"
        return
    for name in others:
        if getattr(offers, name) != getattr(default, name):
            yield f"scheduler.offers.{name}: expected none with batch_s, whose rules have none"
    for name, framework in offers.framework.items():
        plain = FrameworkRules(weight=framework.weight)
        if framework != plain:
            yield f"scheduler.offers.framework.{name}: expected a weight alone with batch_s"


def name_workloads(offers: OfferRules) -> Mapping[str, Collection[str]]:
    return {"offers.framework": offers.framework}


SETTINGS = SettingsTable("offers", OfferRules, find_problems, name_workloads)
