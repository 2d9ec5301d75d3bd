"""The table of phases: complete, safe, used to the last entry, and drawn in the docs."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import get_args

import pytest

from murmuration.schedulers.agent import Message
from murmuration.schedulers.negotiation import giver, phases
from murmuration.schedulers.negotiation import messages as m
from murmuration.schedulers.negotiation.phases import NEXT_PHASES, NegotiationPhase, may_lead
from murmuration.simulation.messages.negotiation.faults import run_schedule

ROOT = Path(__file__).parents[3]
NONE, HAND_OVER = NegotiationPhase.NONE, NegotiationPhase.HAND_OVER


def test_all_that_a_giver_hears_leads_somewhere_and_nothing_else_does() -> None:
    heard = {message for _, message in NEXT_PHASES}
    assert set(get_args(m.ToGiver)) <= heard
    assert heard <= set(get_args(m.ToNode)) | set(get_args(m.ToEntry))


def reachable(
    start: NegotiationPhase, steps: set[tuple[NegotiationPhase, NegotiationPhase]]
) -> set[NegotiationPhase]:
    known = {start}
    while True:
        more = {after for before, after in steps if before in known} - known
        if not more:
            return known
        known |= more


def test_every_phase_can_be_reached_and_left() -> None:
    steps = {(phase, to) for (phase, _), phases in NEXT_PHASES.items() for to in phases}
    assert reachable(NONE, steps) == set(NegotiationPhase)
    assert reachable(NONE, {(to, phase) for phase, to in steps}) == set(NegotiationPhase)


def test_only_the_target_or_its_end_ends_a_hand_over() -> None:
    """The proof that a task never runs twice rests on this: no clock and no third party."""
    leaving = {message for phase, message in NEXT_PHASES if phase is HAND_OVER}
    assert leaving == {m.TakenOver, m.NotTaken, m.NodeGone}
    assert [phase for phase, message in NEXT_PHASES if message is m.TakenOver] == [HAND_OVER]


def test_an_agent_that_goes_another_way_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {key: to for key, to in NEXT_PHASES.items() if key != (HAND_OVER, m.TakenOver)}
    monkeypatch.setattr(phases, "NEXT_PHASES", table)
    with pytest.raises(AssertionError, match="TakenOver led from HAND_OVER to NONE"):
        run_schedule(1)


def test_every_entry_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under faults agents go all ways of the table, so none of its entries is idle."""
    ways: set[tuple[NegotiationPhase, type[Message]]] = set()

    def note(phase: NegotiationPhase, message: type[Message], to: NegotiationPhase) -> bool:
        if phase is not to:
            ways.add((phase, message))
        return may_lead(phase, message, to)

    monkeypatch.setattr(giver, "may_lead", note)
    for seed in range(1, 200):
        run_schedule(seed)
        if ways == set(NEXT_PHASES):
            break
    assert ways == set(NEXT_PHASES)


def test_the_docs_show_the_table() -> None:
    diagram = runpy.run_path(str(ROOT / "scripts" / "draw_phases.py"))["draw_diagram"]()
    assert f"```mermaid\n{diagram}\n```" in (ROOT / "docs" / "negotiation.md").read_text()
