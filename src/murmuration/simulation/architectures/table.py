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
    """Where the value of an architecture is, as `module:NAME` below this folder, and the module
    with its `SETTINGS`, if it has a table of its own."""

    value: str
    settings: str = ""


BUILT_IN = {
    "monolithic": Line("queues.architecture:MONOLITHIC"),
    "partitioned": Line("queues.architecture:PARTITIONED"),
    "offers": Line("offers.architecture:OFFERS", "offers.settings"),
    "shared-state": Line("queues.architecture:SHARED_STATE"),
    "negotiation": Line("negotiation.architecture:NEGOTIATION", "negotiation.settings"),
    "swarm": Line("swarm.architecture:SWARM", "swarm.settings"),
    "genetic": Line("genetic.architecture:GENETIC", "genetic.settings"),
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
    return (*BUILT_IN, *_installed(), *_registered)


def architecture_of(kind: str) -> Architecture:
    """The value of a kind."""
    if kind in _registered:
        return _registered[kind]
    if kind in BUILT_IN:
        module, name = BUILT_IN[kind].value.split(":")
        architecture = getattr(import_module(f"{__package__}.{module}"), name)
        assert isinstance(architecture, Architecture) and architecture.kind == kind
        return architecture
    if kind in _installed():
        return _installed()[kind]
    raise InputError(f"scheduler.kind: {unknown('scheduler', kind, kinds())}")


def settings_tables() -> dict[str, SettingsTable]:
    """The settings of all architectures that have some, by the key below `scheduler`."""
    modules = [line.settings for line in BUILT_IN.values() if line.settings]
    tables = [import_module(f"{__package__}.{module}").SETTINGS for module in modules]
    others = [*_installed().values(), *_registered.values()]
    tables += [other.settings for other in others if other.settings is not None]
    return {table.name: table for table in tables}


@cache
def _installed() -> dict[str, Architecture]:
    """Those that installed packages bring."""
    return {point.name: point.load() for point in entry_points(group=ENTRY_POINTS)}
