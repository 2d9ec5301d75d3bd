"""The machine under a node agent, as far as the agent asks it: what time it is, which ports are
free, how tasks are isolated, and who watches over them.

Everything else of an agent, its journal, its leases and its files, is the same on every host; so an
agent on a host of another kind, one in virtual time for example, runs the code that ships.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from murmuration.base.errors import InputError
from murmuration.runtime.net.sockets import find_ports
from murmuration.runtime.node import watchdog
from murmuration.runtime.node.disks.watch import DiskWatch
from murmuration.runtime.node.isolation import Isolation, network
from murmuration.runtime.node.isolation.choose import choose
from murmuration.runtime.node.isolation.plain import PlainProcess
from murmuration.runtime.options import AgentOptions


class NodeHost(Protocol):
    """What a node agent asks of its host."""

    def monotonic(self) -> float:
        """Seconds by a clock that never goes back and that all processes of the host share; it may
        begin again when the host restarts."""

    def wall(self) -> float:
        """Seconds since 1970, which somebody may set to anything."""

    def find_ports(self, wanted: Sequence[int]) -> list[int]:
        """These ports, each 0 replaced by a free one; InputError if one is in use."""

    def isolate(self, options: AgentOptions) -> Isolation:
        """How tasks run here."""

    def watch_disk(self, end: Callable[[str], None]) -> DiskWatch | None:
        """Who calls `end` for runs that have too much on disk; None if nothing is on a disk."""

    def start_watchdog(self, folder: Path, tasks: Path, isolation: Isolation) -> int:
        """A process that fences the node; it replaces the one that may be there."""

    def has_ended(self, watchdog: int) -> bool:
        """Whether a watchdog is gone."""

    def end_watchdog(self, folder: Path) -> None:
        """End the watchdog of a node, if there is one."""


class ThisHost:
    """The host this process runs on."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    start_watchdog = staticmethod(watchdog.start_watchdog)
    has_ended = staticmethod(watchdog.has_ended)
    end_watchdog = staticmethod(watchdog.end_watchdog)
    watch_disk = DiskWatch

    def find_ports(self, wanted: Sequence[int]) -> list[int]:
        return find_ports(wanted, network.list_taken_ports)

    def isolate(self, options: AgentOptions) -> Isolation:
        isolation = choose(options.isolation, Path(options.root), hidden=[Path(options.folder)])
        if isinstance(isolation, PlainProcess):
            for flag, given in (("--volume", options.volumes), ("--image", options.images)):
                if given:
                    raise InputError(f"{flag}: expected only with containers (--isolation runc)")
            isolation.owns_orphans = True
        return isolation
