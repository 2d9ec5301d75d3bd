"""What must hold in a control plane of several masters, beside what must hold under one
(`simulation/messages/central_checks.py`): one leader acts, no node is overbooked, every offer is
answered or rescinded, every piece of work is done, and shares converge once all is well."""

from __future__ import annotations

from collections.abc import Sequence

from murmuration.experiments.control_plane.cluster import ControlPlane
from murmuration.schedulers.agent import Do, Effect, Message, Send, Wake
from murmuration.schedulers.offers.messages import Status, StatusUpdate
from murmuration.simulation.messages.central_checks import CHECKERS as CENTRAL_CHECKERS
from murmuration.simulation.messages.drive import BrokenError, Checker, VirtualDriver

#: How much later than its time an offer may be rescinded, for rounding.
LATE_S = 0.01
#: When shares are compared: from then on, for so long.
SHARES_S, SHARES_FOR_S = 200.0, 40.0
#: By how many tasks of the same size the shares of two frameworks with equal weights may differ, on
#: average. One is what an allocator that hands out whole tasks cannot avoid.
APART = 1.5


class PlaneChecker(Checker):
    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane


class OneLeaderActs(PlaneChecker):
    """Nothing leaves a master while another one has the key. (That no other one writes is seen by
    the store's witness.)"""

    def leaves(self, driver: VirtualDriver, name: str, effect: Send | Do) -> None:
        if name in self.plane.masters and not self.plane.has_key(name):
            raise BrokenError(f"{name} acts while {self.plane.key_holder} leads: {effect}")


class NoNodeIsOverbooked(PlaneChecker):
    """What really runs on a node fits on it."""

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        host = self.plane.hosts.get(name)
        if host is None:
            return
        requests = [host.journal[run].launch.request for run in host.processes]
        for used, total in zip(map(sum, zip(*requests, strict=True)), host.totals, strict=False):
            if used > total:
                raise BrokenError(f"{name} runs tasks that ask for {used} of its {total}")


class OffersAreAnswered(PlaneChecker):
    """No offer outlives its time. Looked at when a master was woken: what is due has been done by
    then, also by one that was suspended."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self._made: dict[tuple[str, int, int], float] = {}

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        master = self.plane.master_at(name)
        if master is None:
            return
        now, life = driver.clock(name), driver.life(name)
        for number in master.resource_manager.offers:
            made_s = self._made.setdefault((name, life, number), now)
            is_late = now > made_s + self.plane.settings.rules.timeout_s + LATE_S
            if is_late and isinstance(event, Wake):
                raise BrokenError(f"offer {number} of {name} is neither answered nor rescinded")


class WorkIsDone(PlaneChecker):
    """Nobody kills what a framework runs. In the end all work is done, and nothing is held or on
    offer for it."""

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        if isinstance(event, StatusUpdate) and event.status in (Status.KILLED, Status.REVOKED):
            raise BrokenError(f"{event.task} was {event.status}, which nobody asked for")

    def end(self, driver: VirtualDriver) -> None:
        for framework in self.plane.frameworks.values():
            for each in framework.written.pieces.values():
                if not each.is_done:
                    raise BrokenError(f"{each.piece.name} was not done: {each}")
        master = self.plane.master
        assert master is not None
        held = [
            key for key in master.resource_manager.ledger.tasks if key[0] in self.plane.frameworks
        ]
        if held or master.resource_manager.offers:
            raise BrokenError(f"still held: {held}, offered: {master.resource_manager.offers}")


class SharesConverge(PlaneChecker):
    """Two frameworks of equal weight with work that never ends hold the same, on average."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self._names = [n for n, party in plane.frameworks.items() if party.by_offers]
        self._held = dict.fromkeys(self._names, 0)
        self._looks = 0
        plane.driver.at(SHARES_S, self._look)

    def _look(self) -> None:
        self._looks += 1
        if self.plane.master is not None:
            for framework, _ in self.plane.master.resource_manager.ledger.tasks:
                if framework in self._held:
                    self._held[framework] += 1
        if self.plane.driver.now < SHARES_S + SHARES_FOR_S:
            self.plane.driver.at(self.plane.driver.now + 1.0, self._look)

    def end(self, driver: VirtualDriver) -> None:
        held = [count / self._looks for count in self._held.values()]
        if held and (min(held) == 0 or max(held) - min(held) > APART):
            means = dict(zip(self._held, held, strict=True))
            raise BrokenError(f"shares did not converge: {means} tasks on average")


CHECKERS = (
    *CENTRAL_CHECKERS,
    OneLeaderActs,
    NoNodeIsOverbooked,
    OffersAreAnswered,
    WorkIsDone,
    SharesConverge,
)
