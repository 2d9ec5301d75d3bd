"""The offers protocol under random fault schedules; and that the checks would notice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from murmuration.schedulers.offers.frameworks import ElasticFramework
from murmuration.schedulers.offers.ledger import Ledger
from murmuration.schedulers.offers.master import Master
from murmuration.simulation.messages.drive import BrokenError
from murmuration.simulation.messages.offers_faults import run_schedule


@pytest.mark.parametrize("seed", range(1, 61))
def test_random_schedules(seed: int) -> None:
    assert run_schedule(seed)["jobs_finished"] > 0


def test_a_seed_explains_everything() -> None:
    assert run_schedule(5) == run_schedule(5) != run_schedule(6)


def loses_tasks_silently(patch: pytest.MonkeyPatch) -> None:
    """The tasks of a node that comes back are dropped, and nobody is told."""

    def drop(self: Master, node: str, kept: object) -> None:
        self._rescind_of(node)
        for held in self.ledger.drop_node(node):
            self.stopping.pop((held.framework, held.task.task), None)

    patch.setattr(Master, "_drop_node", drop)


def forgets_what_is_on_offer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "hold", lambda self, framework, part: None)


def never_asks_again(patch: pytest.MonkeyPatch) -> None:
    """A task that was lost waits, and the framework does not say that it needs offers."""
    status = ElasticFramework._on_status
    patch.setattr(
        ElasticFramework,
        "_on_status",
        lambda self, update: status(self, update) and [],
    )


@pytest.mark.parametrize(
    "break_it", [loses_tasks_silently, forgets_what_is_on_offer, never_asks_again]
)
def test_a_broken_protocol_is_caught(
    break_it: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    with pytest.raises(BrokenError, match="murmur faults --protocol offers --schedules 1 --seed"):
        for seed in range(1, 61):
            run_schedule(seed)
