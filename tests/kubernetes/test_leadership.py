"""Who holds the lease, told as a story of what each candidate reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

from murmuration.schedulers.agent import Do, Effect
from murmuration.schedulers.pods.leadership import Leadership
from murmuration.schedulers.pods.messages import (
    AskForLease,
    LeaseSeen,
    LeaseWritten,
    ReadLease,
    WriteLease,
)

LEASE_S = 15.0


@dataclass
class Lease:
    """The lease as an API server keeps it; every change gives it another version."""

    holder: str = ""
    asked_by: str = ""
    version: int = 1
    transitions: int = 0
    away: bool = False

    def serve(self, candidate: Leadership, effects: list[Effect], now: float) -> None:
        for effect in effects:
            assert isinstance(effect, Do)
            self.serve(candidate, self._answer(candidate, effect.act, now), now)

    def _answer(self, candidate: Leadership, act: object, now: float) -> list[Effect]:
        match act:
            case ReadLease() if self.away:
                return candidate.see(LeaseSeen(readable=False), now)
            case ReadLease():
                seen = LeaseSeen(
                    self.holder, self.transitions, str(self.version), True, asked_by=self.asked_by
                )
                return candidate.see(seen, now)
            case AskForLease():
                self.asked_by, self.version = candidate.identity, self.version + 1
                return []
            case WriteLease(holder, transitions, version):
                if self.away:
                    return candidate.on_written(LeaseWritten("unknown"), now)
                if version != str(self.version):
                    return candidate.on_written(LeaseWritten("refused"), now)
                self.holder, self.transitions, self.asked_by = holder, transitions, ""
                self.version += 1
                return candidate.on_written(LeaseWritten("written", str(self.version)), now)
        raise AssertionError(act)


def run(lease: Lease, candidates: list[Leadership], start: float, seconds: float) -> list[str]:
    """Who led at each tenth of a second; never two."""
    led = []
    for tick in range(int(seconds * 10)):
        now = start + tick / 10
        for candidate in candidates:
            lease.serve(candidate, candidate.wake(now), now)
        leaders = [candidate.identity for candidate in candidates if candidate.leads(now)]
        assert len(leaders) <= 1
        led += leaders
    return led


def test_one_that_takes_over_asks_again_when_it_has_lost_the_lease() -> None:
    lease, scheduler = Lease(), Leadership("scheduler", LEASE_S)
    assert set(run(lease, [scheduler], 0.0, 30.0)) == {"scheduler"}
    apply = Leadership("apply", LEASE_S, takes_over=True)
    assert run(lease, [scheduler, apply], 30.0, 40.0)[-1] == "apply"
    lease.away = True
    assert run(lease, [scheduler, apply], 70.0, 30.0)[-1:] != ["scheduler"]
    lease.away = False
    assert "scheduler" in run(lease, [scheduler], 100.0, 30.0)
    assert run(lease, [scheduler, apply], 130.0, 40.0)[-1] == "apply"


def test_two_that_take_over_do_not_take_turns() -> None:
    lease, first = Lease(), Leadership("first", LEASE_S, takes_over=True)
    assert run(lease, [first], 0.0, 20.0)[-1] == "first"
    second = Leadership("second", LEASE_S, takes_over=True)
    assert run(lease, [first, second], 20.0, 40.0)[-1] == "second"
    assert set(run(lease, [first, second], 60.0, 200.0)) == {"second"}
