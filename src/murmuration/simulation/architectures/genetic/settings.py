"""The settings of batches as a table of a scenario."""

from __future__ import annotations

from collections.abc import Iterator

from murmuration.schedulers.genetic import settings
from murmuration.schedulers.genetic.settings import GeneticSettings
from murmuration.simulation.architectures.architecture import SettingsTable
from murmuration.simulation.scenarios import scenario as sc


def find_problems(given: GeneticSettings, scheduler: sc.SchedulerSettings) -> Iterator[str]:
    """What makes no sense, each as a sentence that names the key."""
    yield from settings.find_problems(given, "scheduler.genetic")
    if scheduler.kind == "genetic" and scheduler.reclaim:
        yield "scheduler.reclaim: expected false with genetic, which places by what tasks request"


SETTINGS = SettingsTable("genetic", GeneticSettings, find_problems)
