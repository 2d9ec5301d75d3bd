"""Several schedulers of one name: one acts, and when it is gone another one takes over. And several
masters: when the one that leads is gone, a scheduler goes on with the next."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.runtime.clusters import WAIT_S, live_cluster, until
from tests.runtime.masters import many_masters
from tests.schedulers.central.clusters import Cluster

from murmuration import OfferScheduler, SharedStateScheduler
from murmuration.base.errors import InputError
from murmuration.runtime.client.line import MasterGoneError
from murmuration.runtime.folder import write_private
from murmuration.runtime.master.peers import STRANGERS_MAX, Peers
from murmuration.runtime.net.callers import OWNER
from murmuration.runtime.net.wire import Hello, HelloAnswer
from murmuration.schedulers.offers.messages import ResourceOffer, StatusUpdate, Task

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


class Steady(OfferScheduler):
    """Runs one task that stays; when another master leads, a second one."""

    wanted, launched = 1, 0
    running: tuple[str, ...] = ()

    def resource_offer(self, offer: ResourceOffer) -> list[Task]:
        if self.launched == self.wanted:
            return []
        name, node = f"t{self.launched}", offer.slices[0].node
        self.launched += 1
        return [self.new_task(name, node, ["sleep", "100000"], SMALL)]

    def status_update(self, update: StatusUpdate) -> None:
        assert update.status == "running", f"{update.task} has ended"
        self.running = (*self.running, update.task)
        if len(self.running) == self.wanted:
            self.stop()

    def reconnected(self) -> None:
        self.reconcile(self.running)
        self.wanted = 2


@pytest.mark.parametrize("shown", ["token", "issued token", "certificate"])
def test_a_scheduler_goes_on_with_the_next_master_without_dialling(
    tmp_path: Path, shown: str
) -> None:
    """Whatever it shows of itself; a master that stands by cannot know issued tokens yet."""
    secure = shown == "certificate"
    with many_masters(tmp_path, secure=secure, agent_timeout_s=60.0) as cluster:
        leader = cluster.leader
        standby = "m1" if leader == "m0" else "m0"
        ports = [cluster.options(name).agents_port for name in ("m0", "m1")]
        # A master's certificate is good for all; the folder of the standby has no leader in it.
        folder, masters = cluster.folder / standby, [f"127.0.0.1:{port}" for port in ports]
        if shown == "issued token":
            folder = tmp_path / "hers"
            folder.mkdir(mode=0o700)
            order = {"name": "hers", "role": "submitter", "user": "anna", "days": 1}
            write_private(folder / "token", cluster.client.post("tokens", body=order)["token"])
        with (
            Steady("steady", folder, masters=masters) as offers,
            SharedStateScheduler("omega", folder, masters=masters) as omega,
        ):
            offers.set_needs_offers(True)
            offers.run(WAIT_S)
            assert offers.running == ("t0",)
            until(lambda: sorted(omega.sync().names) == ["n0", "n1"])
            lines = [offers._line, omega._line]
            until(lambda: [each.count_waiting() for each in lines] == [1, 1])
            warm = [set(each._links._news) - {each._served} for each in lines]
            cluster.kill(leader)
            with pytest.raises(MasterGoneError):
                omega.receive(WAIT_S)
            offers.run(WAIT_S)
            omega.reconnect(WAIT_S)
            assert [{each._served} for each in lines] == warm, "nobody has dialled"
            assert list(offers.running) == ["t0", "t1"]
            until(lambda: sorted(omega.sync().names) == ["n0", "n1"])
            kept = omega.new_task("kept", omega.sync().names[0], ["true"], SMALL)
            assert omega.commit([kept]).accepted == ("kept",)
            assert str(omega.wait_for(["kept"], WAIT_S)["kept"].status) == "finished"


class Listener:
    """The other side of a connection that nobody reads."""

    def __init__(self) -> None:
        self.answers: list[HelloAnswer] = []
        self.is_aborted = False

    def answer(self, message: HelloAnswer, node: str, request: int) -> None:
        self.answers.append(message)

    def identify(self) -> None:
        return None

    def abort(self) -> None:
        self.is_aborted = True

    close = abort


def test_few_of_those_that_nobody_knows_may_wait_at_a_standby() -> None:
    """Their tokens may be good or not: the oldest makes room, and those that are known stay."""
    keeper = SimpleNamespace(find=lambda token: OWNER if token == b"good" else None)
    peers = Peers(Cluster().master, Any, Any, keeper, Any)  # type: ignore[arg-type]
    known, *strangers = (Listener() for _ in range(STRANGERS_MAX + 6))
    peers._greet(known, Hello("good", "agent", "", waits=True), 1)  # type: ignore[arg-type]
    for each in strangers:
        hello = Hello("whatever", "scheduler", "s", waits=True)
        peers._greet(each, hello, 1)  # type: ignore[arg-type]
    assert [each.is_aborted for each in strangers] == [True] * 5 + [False] * STRANGERS_MAX
    assert not known.is_aborted and known.answers[0].is_standby
    agent = Listener()
    peers._greet(agent, Hello("bad", "agent", "", waits=True), 1)  # type: ignore[arg-type]
    assert agent.is_aborted and "token" in agent.answers[0].error
