"""The table of architectures. A new one is a folder here and a line in `BUILT_IN`.

One that does not come with the package is registered: by `register(ARCHITECTURE)`, or by an entry
point of the group `murmuration.architectures` whose name is the kind and whose object is the value.

A line names modules instead of importing them: the settings are needed to check a scenario, the
rest only to run one, and that compiles kernels.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import NamedTuple

from murmuration.base.errors import InputError, unknown
from murmuration.simulation.architectures.architecture import Architecture, SettingsTable

ENTRY_POINTS = "murmuration.architectures"


class Line(NamedTuple):
    """The module with the value of an architecture, the name of the value, and the module with its
    `SETTINGS`, if it has a table of its own."""

    module: str
    name: str
    settings: str = ""


#: The architecture of a scenario that names none.
DEFAULT_KIND = "monolithic"
_QUEUES = "murmuration.simulation.architectures.queues.architecture"
BUILT_IN = {
    "monolithic": Line(_QUEUES, "MONOLITHIC"),
    "partitioned": Line(_QUEUES, "PARTITIONED"),
    "offers": Line(
        "murmuration.simulation.architectures.offers.architecture",
        "OFFERS",
        "murmuration.simulation.architectures.offers.settings",
    ),
    "shared-state": Line(_QUEUES, "SHARED_STATE"),
    "negotiation": Line(
        "murmuration.simulation.architectures.negotiation.architecture",
        "NEGOTIATION",
        "murmuration.simulation.architectures.negotiation.settings",
    ),
    "swarm": Line(
        "murmuration.simulation.architectures.swarm.architecture",
        "SWARM",
        "murmuration.simulation.architectures.swarm.settings",
    ),
    "genetic": Line(
        "murmuration.simulation.architectures.genetic.architecture",
        "GENETIC",
        "murmuration.simulation.architectures.genetic.settings",
    ),
}
_registered: dict[str, Architecture] = {}


def register(architecture: Architecture) -> None:
    """Make an architecture known under its kind for the rest of this process."""
    assert architecture.kind not in BUILT_IN, f"{architecture.kind} comes with the package"
    _registered[architecture.kind] = architecture


def unregister(kind: str) -> None:
    """Forget a registered architecture."""
    del _registered[kind]


def kinds() -> tuple[str, ...]:
    """Every kind a scenario may name."""
    return (*BUILT_IN, *_load_installed(), *_registered)


def architecture_of(kind: str) -> Architecture:
    """The value of a kind."""
    if kind in _registered:
        return _registered[kind]
    if kind in BUILT_IN:
        architecture = getattr(import_module(BUILT_IN[kind].module), BUILT_IN[kind].name)
        assert isinstance(architecture, Architecture) and architecture.kind == kind
        return architecture
    if kind in _load_installed():
        return _load_installed()[kind]
    raise InputError(f"scheduler.kind: {unknown('scheduler', kind, kinds())}")


def settings_tables() -> dict[str, SettingsTable]:
    """The settings of all architectures that have some, by the key below `scheduler`."""
    modules = [line.settings for line in BUILT_IN.values() if line.settings]
    tables = [import_module(module).SETTINGS for module in modules]
    others = [*_load_installed().values(), *_registered.values()]
    tables += [other.settings for other in others if other.settings is not None]
    return {table.name: table for table in tables}


@cache
def _load_installed() -> dict[str, Architecture]:
    """Those that installed packages bring."""
    return {point.name: point.load() for point in entry_points(group=ENTRY_POINTS)}
