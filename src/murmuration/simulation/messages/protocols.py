"""The protocols that can be run through random fault schedules, and how one schedule of each is
run.

A module of the table has `run_schedule(seed)`: it returns the figures of one schedule, or raises
`BrokenError` with a sentence that ends in the command that repeats it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

#: Modules by the name of their protocol; one is imported only when it is run.
PROTOCOLS = {
    "negotiation": "murmuration.simulation.messages.negotiation.faults",
    "central": "murmuration.simulation.messages.central_faults",
    "offers": "murmuration.simulation.messages.offers_faults",
    "swarm": "murmuration.simulation.messages.swarm_faults",
    "depas": "murmuration.simulation.messages.depas_faults",
}


def load_schedule(protocol: str) -> Callable[[int], dict[str, Any]]:
    """The function that runs one schedule of a protocol."""
    run_schedule: Callable[[int], dict[str, Any]] = importlib.import_module(
        PROTOCOLS[protocol]
    ).run_schedule
    return run_schedule
