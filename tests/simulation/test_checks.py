"""No key of a scenario goes unchecked: every number that makes no sense gets a sentence that names
its key."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, get_type_hints

import msgspec
import pytest

from murmuration.base.errors import InputError
from murmuration.schedulers.genetic.settings import GeneticSettings
from murmuration.schedulers.negotiation.settings import NegotiationSettings, TabuSettings
from murmuration.simulation.architectures.offers.settings import FrameworkRules, OfferRules
from murmuration.simulation.architectures.swarm.settings import SwarmRules
from murmuration.simulation.scenarios import scenario as sc

TABLES: dict[str, type[msgspec.Struct]] = {
    "": sc.Scenario,
    "cluster": sc.ClusterSettings,
    "workload.batch": sc.Generator,
    "workload.batch.usage": sc.UsageSettings,
    "scheduler": sc.SchedulerSettings,
    "scheduler.decision.batch": sc.DecisionTime,
    "scheduler.offers": OfferRules,
    "scheduler.offers.framework.batch": FrameworkRules,
    "scheduler.swarm": SwarmRules,
    "scheduler.negotiation": NegotiationSettings,
    "scheduler.negotiation.tabu": TabuSettings,
    "scheduler.genetic": GeneticSettings,
    "scheduler.policy.batch": sc.PolicySettings,
}
#: Less than nothing makes sense for these.
ANY_SIGN = {"workload.batch.priority"}


def numbers() -> Iterator[tuple[str, Any]]:
    """Every key that is a number, with one that is none, or far below nothing."""
    for table, part in TABLES.items():
        for name, kind in get_type_hints(part).items():
            key = f"{table}.{name}".lstrip(".")
            if kind is float:
                yield key, math.nan
            if kind in (int, float) and key not in ANY_SIGN:
                yield key, -(10**6)


@pytest.mark.parametrize(("key", "value"), list(numbers()))
def test_a_number_that_makes_no_sense_is_refused_by_name(key: str, value: float) -> None:
    base = {
        "cluster": {"nodes": 3},
        "days": 1.0,
        "workload": {"batch": {"arrivals_per_s": 1.0, "task_cpu": 1}},
    }
    with pytest.raises(InputError, match=rf"{key}: expected"):
        sc.check(sc.override(base, {key: value}), "it")


@pytest.mark.parametrize(
    "key", ["negotiation.initial", "negotiation.move", "swarm.search", "negotiation.selection"]
)
def test_a_word_that_is_not_known_is_refused_by_name(key: str) -> None:
    base = {
        "cluster": {"nodes": 3},
        "days": 1.0,
        "workload": {"batch": {"arrivals_per_s": 1.0, "task_cpu": 1}},
    }
    with pytest.raises(InputError, match=f"scheduler.{key}: .*'srass'"):
        sc.check(sc.override(base, {f"scheduler.{key}": "srass"}), "it")
