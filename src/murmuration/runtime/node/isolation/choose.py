"""Which isolation a node agent uses: the one that was asked for, or the best that this
node and this user can have."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from murmuration.base.errors import InputError, unknown
from murmuration.runtime.isolations import AUTO, ISOLATIONS
from murmuration.runtime.node.isolation import network
from murmuration.runtime.node.isolation.container import Container, missing
from murmuration.runtime.node.isolation.interface import Isolation, RunLimits, RunSpec, StartFailed
from murmuration.runtime.node.isolation.plain import PlainProcess


def choose(
    name: str = AUTO, root: Path = Path("/"), hidden: Iterable[Path] = (), trial: Path | None = None
) -> Isolation:
    """`auto`: containers where they can be run, else plain processes. `hidden` folders look empty
    in a container; in the folder `trial`, if given, one container is tried before `auto` chooses
    them."""
    if name not in ISOLATIONS:
        raise unknown("isolation", name, ISOLATIONS)
    if name == PlainProcess.name:
        return PlainProcess()
    reason = missing(root)
    if name == Container.name and reason:
        raise InputError(f"isolation {name!r}: {reason}; 'process' runs anywhere")
    if reason or (name == AUTO and trial is not None and not works(Container(root), trial)):
        return PlainProcess()
    return Container(root, hidden)


def list_usable() -> list[Isolation]:
    """Every isolation this user can have here: tasks of any of them may have to be cleaned up."""
    containers: list[Isolation] = [] if missing() else [Container()]
    return [PlainProcess(), *containers]


def works(container: Container, trial: Path) -> bool:
    """Whether a container starts here: a disk that cannot carry an overlay, say, shows only
    then."""
    with tempfile.TemporaryDirectory(prefix="trial-", dir=trial) as folder:
        try:
            container.start(
                RunSpec("trial", ["sh", "-c", ":"], {}, RunLimits(), Path(folder))
            ).close()
        except StartFailed:
            return False
        container.clean(Path(folder))
        network.remove(trial)
    return True
