"""Shells complete commands, options and their values."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from tests.cli.conftest import Murmur

from murmuration.cli import COMPLETE, murmur
from murmuration.experiments.catalogue import EXPERIMENTS


def complete(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """What is offered for the last word."""
    monkeypatch.setenv(COMPLETE, "bash_complete")
    shell = ShellComplete(murmur, {}, "murmur", COMPLETE)
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_values_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "compare" in complete(monkeypatch, "comp")
    assert "omega-a" in complete(monkeypatch, "compare", "ome")
    assert complete(monkeypatch, "simulate", "omega-a", "-s", "offer") == ["offers"]
    several = complete(monkeypatch, "compare", "omega-a", "-s", "offers,shared-state-m")
    assert several == ["offers,shared-state-machine", "offers,shared-state-machine-atomic"]
    assert complete(monkeypatch, "simulate", "omega-a", "--set", "cluster.no") == ["cluster.nodes="]
    placements = complete(monkeypatch, "simulate", "x", "--set", "scheduler.placement=wo")
    assert placements == ["scheduler.placement=worst-fit"]
    assert set(complete(monkeypatch, "reproduce", "masb")) == {
        name for name in EXPERIMENTS if name.startswith("masb")
    }


def test_without_a_cluster_no_job_is_offered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MURMUR_DIR", str(tmp_path / "nothing"))
    assert complete(monkeypatch, "wait", "he") == []
    assert complete(monkeypatch, "drain", "no") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_lines(murmur: Murmur, shell: str) -> None:
    lines = murmur("completion", shell)
    assert lines.code == 0 and COMPLETE in lines.out and "murmur" in lines.out


def test_the_command_answers_a_shell(tmp_path: Path) -> None:
    """As the lines above ask it: by the environment."""
    import os

    answer = subprocess.run(
        [sys.executable, "-c", "from murmuration.cli import main; main()"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            COMPLETE: "bash_complete",
            "COMP_WORDS": "murmur compare omega-",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "plain,omega-a" in answer.stdout.splitlines(), answer.stderr
