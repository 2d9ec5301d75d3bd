"""`murmur faults`: what it prints, and what it says when a protocol breaks."""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import Murmur
from tests.experiments.plane_mutants import MUTANTS


def test_schedules_pass(murmur: Murmur) -> None:
    answer = murmur(
        "faults", "--protocol", "negotiation", "--schedules", "3", "--seed", "5", "--json"
    )
    assert answer.code == 0
    document = json.loads(answer.out)
    assert document["failures"] == [] and document["schedules"] == 3 and document["seed"] == 5
    assert document["totals"]["migrations"] > 0
    assert (
        "3 of 3 fault schedules passed (seeds 5 to 7)"
        in murmur("faults", "--schedules", "3", "--seed", "5").out
    )


def test_a_failure_names_the_command_that_repeats_it(
    murmur: Murmur, monkeypatch: pytest.MonkeyPatch
) -> None:
    from murmuration.schedulers.negotiation.giver import Giver

    monkeypatch.setattr(Giver, "_on_taken_over", lambda self, answer: None)
    answer = murmur("faults", "--schedules", "2", "--seed", "1", "--jobs", "1")
    assert answer.code == 1
    assert (
        "0 of 2" in answer.out
        and "repeat with: murmur faults --protocol negotiation --schedules 1 --seed 2" in answer.out
    )


def test_figures_do_not_depend_on_the_number_of_workers(murmur: Murmur) -> None:
    schedules = ("faults", "--protocol", "central", "--schedules", "3", "--json")
    alone, together = (murmur(*schedules, "--jobs", jobs) for jobs in ("1", "2"))
    assert alone.code == together.code == 0 and alone.out == together.out


def test_a_scenario_is_one_run(murmur: Murmur) -> None:
    answer = murmur("faults", "small.toml", "--jobs", "2")
    assert answer.code == 2 and "--jobs: expected without a SCENARIO" in answer.err


def test_an_unknown_protocol_is_refused(murmur: Murmur) -> None:
    answer = murmur("faults", "--protocol", "gossip")
    assert answer.code == 2 and "negotiation" in answer.err


def test_a_failure_of_several_masters_names_its_command(
    murmur: Murmur, monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTANTS["placements_are_forgotten"](monkeypatch.setattr)
    words = ("faults", "--protocol", "central", "--masters", "3", "--schedules", "1", "--seed", "1")
    answer = murmur(*words, "--jobs", "1")
    assert answer.code == 1 and f"repeat with: murmur {' '.join(words)}" in answer.out


def test_several_masters(murmur: Murmur) -> None:
    answer = murmur(
        "faults", "--protocol", "central", "--masters", "2", "--schedules", "2", "--json"
    )
    document = json.loads(answer.out)
    assert answer.code == 0 and document["masters"] == 2 and document["failures"] == []
    assert document["totals"]["masters_elected"] >= 2
    refused = murmur("faults", "--protocol", "swarm", "--masters", "3")
    assert refused.code == 2 and "--protocol central" in refused.err
