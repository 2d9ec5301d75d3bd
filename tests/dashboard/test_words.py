"""The page has a word and a colour for everything that a master can say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from murmuration.runtime.master.front.nodes import STATES
from murmuration.schedulers.central import explain
from murmuration.schedulers.central.jobs import MOVABLE, CentralTaskState
from murmuration.schedulers.central.messages import Fact

FRONT = Path(__file__).resolve().parents[2] / "front" / "src"
WORDS = json.loads((FRONT / "app" / "words.json").read_text())
THEME = (FRONT / "shared" / "theme.css").read_text()
TIERS = {
    explain.POLICY,
    explain.CONSTRAINT,
    explain.QUOTA,
    explain.RESOURCES,
    explain.QUEUE,
    explain.PREEMPTION,
    explain.DEPENDENCY,
}
SAID = {
    "tasks": {str(state) for state in CentralTaskState},
    "nodes": set(STATES),
    "facts": {fact.__name__ for fact in get_args(Fact)},
    "tiers": TIERS,
}


@pytest.mark.parametrize("what", SAID)
def test_the_page_knows_what_a_master_says_and_nothing_else(what: str) -> None:
    assert WORDS[what].keys() == SAID[what]


def test_every_fact_has_a_word_that_is_no_name_of_a_class() -> None:
    words = [known["word"] for known in WORDS["facts"].values()]
    assert len(set(words)) == len(words)
    assert all(word == word.lower() for word in words)


def test_every_task_state_has_a_colour_of_its_own_in_both_themes() -> None:
    colours = [known["colour"] for known in WORDS["tasks"].values()]
    for palette in re.findall(r"color-scheme: .*?\}", THEME, re.DOTALL):
        values = dict(re.findall(r"(--[\w-]+): (#\w+)", palette))
        assert len({values[colour] for colour in colours}) == len(colours)


def test_every_kind_of_pill_is_drawn() -> None:
    kinds = {known["kind"] for known_ones in WORDS.values() for known in known_ones.values()}
    assert {f".pill.{kind} " for kind in kinds - {""}} <= set(re.findall(r"\.pill\.\w+ ", THEME))


def test_what_the_page_offers_to_move_is_what_a_master_moves() -> None:
    text = (FRONT / "app" / "words.ts").read_text()
    (found,) = re.findall(r"MOVABLE = (\[.*\])", text)
    assert set(json.loads(found)) == set(MOVABLE)
