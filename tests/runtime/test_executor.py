"""What an executor finds that another one left."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.virtual.hosts import VirtualHost, VirtualTask
from tests.runtime.virtual.network import VirtualNetwork
from tests.runtime.virtual.world import World

from murmuration.runtime.node.executor import NEVER_STARTED, Executor
from murmuration.runtime.node.journal import Begun, Journal
from murmuration.schedulers.central.messages import JOBS, Ended
from murmuration.schedulers.offers.messages import Status


class Nobody:
    def began(self, node: str, task: VirtualTask) -> None: ...
    def ended(self, node: str, task: VirtualTask, code: int | None) -> None: ...


def make_executor(folder: Path) -> Executor:
    world = World(1)
    host = VirtualHost(world, VirtualNetwork(world), "n", Nobody())
    return Executor(folder / "tasks", host.isolation, set, lambda event: None, host)


def test_what_was_ordered_and_never_began_is_told_as_lost(tmp_path: Path) -> None:
    """Its agent was killed after it had written down the order and before anything was made."""
    Journal(tmp_path / "journal").write(Begun(JOBS, "job.0.1", (1, 1), None))
    running, ended = make_executor(tmp_path).find()
    assert running == []
    (end,) = ended
    assert (end.run, end.status, end.reason) == ("job.0.1", Status.LOST, NEVER_STARTED)


def test_an_end_that_left_no_trace_but_in_the_journal_is_told_as_it_was(tmp_path: Path) -> None:
    """A command that is no program has failed; without the journal it would seem lost, and be run
    for ever."""
    Journal(tmp_path / "journal").write(Begun(JOBS, "job.0.1", (1, 1), None))
    end = Ended(JOBS, "job.0.1", Status.FAILED, reason="command x: not found, or not a program")
    make_executor(tmp_path).note_end(end)
    assert make_executor(tmp_path).find() == ([], [end])
