"""`replay`, `rehearse` and `faults` were flags of `simulate`: the old way works, and says the new
one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import SMALL, Murmur

from murmuration.cli.aliases import rewrite

#: A few short jobs, some of which must go to the one node of their zone.
ZONES = """
name = "zones"
days = 0.001

[[cluster.group]]
count = 2
cpu = 4
memory = "8G"
attributes = { zone = "a" }

[[cluster.group]]
count = 1
cpu = 4
memory = "8G"
attributes = { zone = "b" }

[workload.w]
arrivals_per_s = 0.2
task_duration_s = 2
task_cpu = 1
task_memory = "1G"
constraints = ["zone = b"]
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x.toml --days 1", "simulate x.toml --days 1"),
        ("--replay LOG --json", "replay LOG --json"),
        ("x.toml --out DIR --replay=LOG --seed 3", "replay LOG"),
        ("--replay", "replay"),
        ("x.toml --live --speed 10 -s offers", "rehearse x.toml --speed 10 -s offers"),
        ("--live x.toml --out DIR --jobs=2 --check --json", "rehearse x.toml --json"),
        ("x.toml --faults 7 --set a.b=1 --speed 2", "faults x.toml --set a.b=1 --count=7"),
        ("--faults=7 x.toml --replicas 1 --resume", "faults x.toml --count=7"),
    ],
)
def test_old_flags_name_the_new_command(
    old: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rewrite(old.split()) == new.split()
    command = new.split()[0]
    told = capsys.readouterr().err
    assert (f"is now murmur {command} " in told) == (command != "simulate")


def test_faults_as_a_flag_and_as_a_command_are_the_same(murmur: Murmur, tmp_path: Path) -> None:
    (tmp_path / "zones.toml").write_text(ZONES)
    old = murmur("simulate", "zones.toml", "--faults", "3", "--json")
    new = murmur("faults", "zones.toml", "--count", "3", "--json")
    assert old.out == new.out and old.code == new.code == 0
    assert old.err == "murmur: simulate --faults N is now murmur faults SCENARIO --count N\n"
    outcome = json.loads(new.out)
    assert sum(outcome["faults"].values()) == 3
    # A job whose constraint no node meets would wait for ever: the nodes keep their attributes.
    assert outcome["jobs"] == {"finished": outcome["jobs_submitted"]} and outcome["tasks_run"] > 0


def test_faults_that_lose_a_job_name_the_command_that_repeats_them(
    murmur: Murmur, tmp_path: Path
) -> None:
    (tmp_path / "zones.toml").write_text(ZONES.replace('"zone = b"', '"zone = c"'))
    answer = murmur("faults", "zones.toml", "--count", "0", "--seed", "4")
    assert answer.code == 1
    assert answer.err.rstrip().endswith("repeat with: murmur faults zones.toml --count 0 --seed 4")


def test_a_log_that_is_not_there_is_refused_by_both(murmur: Murmur) -> None:
    new, old = murmur("replay", "nothing"), murmur("simulate", "--replay", "nothing")
    assert new.code == old.code == 2 and new.err in old.err
    assert "is now murmur replay LOG" in old.err and "is now" not in new.err


def test_the_old_flags_are_not_in_the_help(murmur: Murmur) -> None:
    shown = murmur("simulate", "--help").out
    assert not any(flag in shown for flag in ("--replay", "--live", "--faults", "--speed"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("faults", "--count", "3"), "--count"),
        (("faults", "small.toml", "--protocol", "negotiation"), "--protocol"),
        (("faults", "small.toml", "--schedules", "3"), "--schedules"),
        (("rehearse", "small.toml", "--speed", "0"), "--speed"),
        (("rehearse",), "SCENARIO"),
        (("simulate",), "SCENARIO"),
    ],
)
def test_options_that_do_not_go_together(
    murmur: Murmur, arguments: tuple[str, ...], words: str
) -> None:
    answer = murmur(*arguments)
    assert answer.code == 2 and words in answer.err and answer.out == ""


def test_a_scenario_with_nodes_in_use_is_not_rehearsed(murmur: Murmur, tmp_path: Path) -> None:
    (tmp_path / "used.toml").write_text(SMALL.replace("nodes = 30", "nodes = 30\nprefill = 0.5"))
    for command in (("rehearse", "used.toml"), ("faults", "used.toml")):
        answer = murmur(*command)
        assert answer.code == 2 and "cluster.prefill=0" in answer.err
