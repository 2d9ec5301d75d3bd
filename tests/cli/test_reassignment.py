"""`murmur plan MODEL --assignment FILE`: an instance of the challenge, planned from the command
line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Murmur
from tests.planning.reassignment.instances import drawn, written

from murmuration.planning.reassignment.cost import cost
from murmuration.planning.reassignment.model import read_assignment, write_assignment

MODEL, INITIAL = drawn(1, nodes=8, tasks=40, services=10, resources=3)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "model.txt").write_text(written(MODEL))
    write_assignment(tmp_path / "first.txt", INITIAL)
    return [str(tmp_path / "model.txt"), "--assignment", str(tmp_path / "first.txt")]


def test_a_challenge_instance_as_json(murmur: Murmur, files: list[str], tmp_path: Path) -> None:
    answer = murmur("plan", *files, "--seconds", "0.3", "--json", "--out", str(tmp_path / "out"))
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    found = read_assignment(tmp_path / "out" / "assignment.txt", MODEL)
    assert told["cost_before"] == cost(MODEL, INITIAL, INITIAL).total
    assert told["cost_after"] == cost(MODEL, INITIAL, found).total < told["cost_before"]
    assert told["moves"] == (found != INITIAL).sum()
    assert (told["seed"], told["nodes"], told["tasks"]) == (1, 8, 40)


def test_processor_time_bounds_it_too(murmur: Murmur, files: list[str], tmp_path: Path) -> None:
    """Without --seconds, and with more of them than anybody would wait."""
    for more in ((), ("--seconds", "1e9")):
        out = tmp_path / f"out{len(more)}"
        words = ("--cpu-seconds", "0.2", *more, "--json", "--out", str(out))
        answer = murmur("plan", *files, *words)
        assert answer.code == 0, answer.err
        document = json.loads(answer.out)
        better = read_assignment(out / "assignment.txt", MODEL)
        assert document["cost_after"] == cost(MODEL, INITIAL, better).total
        assert document["cost_bound"] <= document["cost_after"] < document["cost_before"]


def test_evaluations_repeat(murmur: Murmur, files: list[str]) -> None:
    first, second = (
        json.loads(murmur("plan", *files, "--evaluations", "2000", "--json").out) for _ in range(2)
    )
    first.pop("timing"), second.pop("timing")
    assert first == second


def test_a_challenge_instance_in_words(murmur: Murmur, files: list[str], tmp_path: Path) -> None:
    answer = murmur("plan", *files, "--evaluations", "2000", "--out", str(tmp_path / "out"))
    assert answer.code == 0, answer.err
    assert "of 40 tasks move" in answer.err + answer.out


def test_a_model_that_is_none(murmur: Murmur, files: list[str], tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text("name = 3")
    answer = murmur("plan", *files, "--seconds", "1", "--out", str(tmp_path / "out"))
    assert answer.code == 2
    assert "line 1, number 1 of the file: expected the number of resources" in answer.err
    assert not (tmp_path / "out").exists()
