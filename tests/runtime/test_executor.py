"""What an executor finds that another one left."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.virtual.hosts import VirtualHost, VirtualTask
from tests.runtime.virtual.network import VirtualNetwork
from tests.runtime.virtual.world import World

from murmuration.runtime.node.executor import NEVER_STARTED, Executor
from murmuration.runtime.node.journal import Begun, Journal
from murmuration.schedulers.central.messages import JOBS
from murmuration.schedulers.offers.messages import Status


class Nobody:
    def began(self, node: str, task: VirtualTask) -> None: ...
    def ended(self, node: str, task: VirtualTask, code: int | None) -> None: ...


def test_what_was_ordered_and_never_began_is_told_as_lost(tmp_path: Path) -> None:
    """Its agent was killed after it had written down the order and before anything was made."""
    Journal(tmp_path / "journal").write(Begun(JOBS, "job.0.1", (1, 1), None))
    world = World(1)
    host = VirtualHost(world, VirtualNetwork(world), "n", Nobody())
    executor = Executor(tmp_path / "tasks", host.isolation, set, lambda event: None, host)
    running, ended = executor.find()
    assert running == []
    (end,) = ended
    assert (end.run, end.status, end.reason) == ("job.0.1", Status.LOST, NEVER_STARTED)
