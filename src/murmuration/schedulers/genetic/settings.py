"""The settings of batches: `scheduler.genetic` of a scenario."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from murmuration.assignment.objectives import parse_objective
from murmuration.base.settings import NODES_MAX, check_number


class GeneticSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How batches are placed: every `batch_s` what waits is searched by `evaluations` placements in
    generations of `population` (0 evaluations: it stays where `scheduler.placement` has it). A
    batch of more than `tasks_max` tasks is not searched, and no search looks at more than
    `nodes_max` nodes. `move` lets running tasks make room for those that fit nowhere; a migration
    takes its megabytes ÷ `mb_per_s`."""

    population: int = 24
    evaluations: int = 120
    objectives: tuple[str, ...] = ("crowding", "replicas", "power", "imbalance")
    batch_s: float = 10.0
    move: bool = True
    mb_per_s: float = 125.0
    nodes_max: int = 200
    tasks_max: int = 500


def find_problems(settings: GeneticSettings, key: str) -> Iterator[str]:
    """What makes no sense, each as a sentence that names the key."""
    yield from check_number(f"{key}.batch_s", settings.batch_s, low=0.001)
    yield from check_number(f"{key}.mb_per_s", settings.mb_per_s, above=0.0)
    yield from check_number(f"{key}.population", settings.population, low=4, high=10_000)
    yield from check_number(f"{key}.evaluations", settings.evaluations, low=0, high=1e9)
    yield from check_number(f"{key}.nodes_max", settings.nodes_max, low=2, high=NODES_MAX)
    yield from check_number(f"{key}.tasks_max", settings.tasks_max, low=0, high=1e6)
    if not settings.objectives:
        yield f"{key}.objectives: expected at least one, such as imbalance"
    for text in settings.objectives:
        parse_objective(text, f"{key}.objectives")
