"""The settings of negotiation as a table of a scenario. The struct lies with the agents, which read
it too."""

from __future__ import annotations

from collections.abc import Iterator

from murmuration.schedulers.negotiation import settings
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.simulation.architectures.architecture import SettingsTable
from murmuration.simulation.scenarios import scenario as sc


def find_problems(given: NegotiationSettings, scheduler: sc.SchedulerSettings) -> Iterator[str]:
    """What makes no sense, each as a sentence that names the key."""
    return settings.find_problems(given, "scheduler.negotiation")


SETTINGS = SettingsTable("negotiation", NegotiationSettings, find_problems)
