"""A cluster on this host: what its master and its node agents are started with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from murmuration.base.resources import Resources, parse_quantity
from murmuration.runtime.options import AgentOptions, MasterOptions, NodeVolume
from murmuration.runtime.supervisor import Parts

#: Of the host's memory, what the nodes have together unless it is said.
MEMORY_SHARE = 0.9


def node_amounts(
    agents: int,
    cpu: float | None = None,
    memory: str | int | None = None,
    extra: Mapping[str, str | float] | None = None,
) -> dict[str, int]:
    """The resources of each node: as given, else its share of the host, but at least one CPU."""
    cores = len(os.sched_getaffinity(0))
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    given: dict[str, str | int | float] = {
        "cpu": max(1.0, cores / agents) if cpu is None else cpu,
        "memory": int(MEMORY_SHARE * total / agents) if memory is None else memory,
        **(extra or {}),
    }
    resources = Resources(tuple(given))
    return {name: resources.exact(name, amount, f"--{name}") for name, amount in given.items()}


def local_parts(
    master: MasterOptions,
    agents: int,
    amounts: Mapping[str, int],
    attributes: Mapping[str, str | float],
    volumes: Mapping[str, NodeVolume] | None = None,
    images: Mapping[str, str] | None = None,
) -> Parts:
    """A master and so many node agents, all alike but for their name."""
    names = [f"node-{k + 1}" for k in range(agents)]
    return Parts(
        master,
        [
            AgentOptions(
                folder=str(Path(master.folder)),
                name=name,
                resources=dict(amounts),
                attributes={**attributes, "node": name},
                isolation=master.isolation,
                volumes=dict(volumes or {}),
                images=dict(images or {}),
                disk_bytes_max=int(parse_quantity(master.disk_max or 0, "--disk-max")),
                log_format=master.log_format,
            )
            for name in names
        ],
    )
