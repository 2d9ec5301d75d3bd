"""Several schedulers of one name: one acts, and when it is gone another one takes over."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.clusters import WAIT_S, live_cluster, until

from murmuration import SharedStateScheduler
from murmuration.base.errors import InputError
from murmuration.schedulers.offers.messages import StatusUpdate

SMALL: dict[str, str | float] = {"cpu": 0.1, "memory": "8Mi"}


def test_a_scheduler_that_stands_by_takes_over(tmp_path: Path) -> None:
    with live_cluster(tmp_path / "cluster", agents=1) as cluster:
        first, second, third = (
            SharedStateScheduler("pair", cluster.folder, stand_by=True) for _ in range(3)
        )
        assert [each.is_acting for each in (first, second, third)] == [True, False, False]
        with pytest.raises(InputError, match="connected already"):
            SharedStateScheduler("pair", cluster.folder)
        node = first.sync().names[0]
        stays = first.new_task("stays", node, ["sleep", "100000"], SMALL)
        ends = first.new_task("ends", node, ["true"], SMALL)
        assert first.commit([stays, ends]).accepted == ("stays", "ends")
        assert not second.await_turn(0.1)
        second.close()  # one that stands by may go, too
        first.close()
        assert third.await_turn(WAIT_S)
        _take_up(third)
        third.close()


def _take_up(scheduler: SharedStateScheduler) -> None:
    """It asks what became of the tasks of the one before, and hears of those that have ended."""
    heard: dict[str, str] = {}

    def has_ended(task: str) -> bool:
        scheduler.reconcile(["stays", "ends"])
        message = scheduler.receive(0.2)
        if isinstance(message, StatusUpdate):
            heard[message.task] = str(message.status)
        return heard.get(task, "running") != "running"

    until(lambda: has_ended("ends"))
    assert heard == {"ends": "finished"}
    scheduler.kill_task("stays")
    until(lambda: has_ended("stays"))
    assert heard["stays"] == "killed"
