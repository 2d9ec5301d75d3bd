"""Which isolation a node agent uses: the one it is told, or the best this node and this user can have."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from murmuration.cluster.errors import InputError, unknown
from murmuration.runtime.isolation.container import Container, missing
from murmuration.runtime.isolation.interface import Isolation
from murmuration.runtime.isolation.plain import PlainProcess

AUTO = "auto"
NAMES = (AUTO, PlainProcess.name, Container.name)


def choose(name: str = AUTO, root: Path = Path("/"), hidden: Iterable[Path] = ()) -> Isolation:
    """`auto`: containers where they can be run, else plain processes. `hidden` folders look empty in a container."""
    if name not in NAMES:
        raise unknown("isolation", name, NAMES)
    if name == PlainProcess.name or (name == AUTO and missing(root)):
        return PlainProcess()
    if reason := missing(root):
        raise InputError(f"isolation {name!r}: {reason}; 'process' runs anywhere")
    return Container(root, hidden)
