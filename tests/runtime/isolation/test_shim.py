"""The shim's few lines, under every shell at hand, and what is read from them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.isolation.conftest import LIMIT_S

from murmuration.runtime.node.isolation import shim
from murmuration.runtime.node.isolation.shim import ShimState

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> list[str]:
    words = SHELLS[request.param]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    return words


def run(shell: list[str], place: Path, *command: str) -> tuple[ShimState, str, str]:
    """What the shim said, and what was written to both outputs."""
    state = place.parent / "state"
    words = [*shell, *shim.arguments("a", str(place), None, list(command))[1:]]
    with state.open("wb") as file:
        opener = ["sh", "-c", 'exec 3>&0 0</dev/null; exec "$@"', "sh", *words]
        done = subprocess.run(
            opener, stdin=file, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
    assert done.returncode in (0, 1, 127)
    return shim.read(state.read_text()), done.stdout, done.stderr


@pytest.mark.parametrize("code", [0, 1, 126, 127, 128, 255])
def test_codes_are_noted(shell: list[str], tmp_path: Path, code: int) -> None:
    said, _, err = run(shell, tmp_path, "sh", "-c", f"exit {code}")
    assert said.code == code and said.signal is None and said.pid and err == ""


@pytest.mark.parametrize("number", [1, 2, 3, 9, 11, 13, 15])
def test_signals_are_noted_and_the_shell_does_not_speak(
    shell: list[str], tmp_path: Path, number: int
) -> None:
    script = (
        f"import os, signal; signal.signal({number}, 0) if {number} != 9 else 0; "
        f"os.kill(os.getpid(), {number})"
    )
    said, out, err = run(shell, tmp_path, sys.executable, "-S", "-c", script)
    assert said.signal == number and (out, err) == ("", "")


def test_a_signal_to_the_whole_group_leaves_the_shim(shell: list[str], tmp_path: Path) -> None:
    words = ["setsid", *shell]
    said, _, _ = run(words, tmp_path, "sh", "-c", "trap 'exit 4' TERM; kill -TERM 0; sleep 10")
    assert said.code == 4


def test_output_is_the_commands(shell: list[str], tmp_path: Path) -> None:
    said, out, err = run(shell, tmp_path, "sh", "-c", "echo to out; echo to err >&2; echo x >&3")
    assert out == "to out\n" and err.startswith("to err\n") and said.code not in (0, None), (
        "3 is closed"
    )


def test_what_is_not_there_is_said(shell: list[str], tmp_path: Path) -> None:
    assert run(shell, tmp_path, "nonesuch")[0] == ShimState(
        failed="command nonesuch: not found, or not a program"
    )
    assert run(shell, tmp_path, str(tmp_path))[0].failed
    assert run(shell, tmp_path / "absent", "true")[0].failed == f"cannot enter {tmp_path}/absent"


def test_a_search_of_the_path_changes_nothing_for_the_command(
    shell: list[str], tmp_path: Path
) -> None:
    said, out, _ = run(
        shell, tmp_path, "sh", "-c", "set -- a:b *; echo $1 $#; set -o | grep -c 'noglob.*off'"
    )
    assert said.code == 0 and out.splitlines()[0].startswith("a:b ") and out.splitlines()[1] == "1"


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert isinstance(shim.read(text), ShimState)


@given(st.integers(1, 4_194_304), st.integers(0, 255), st.integers(0, 40))
def test_a_line_counts_once_it_is_whole(pid: int, code: int, room: int) -> None:
    whole = f"pid {pid}\nexit {code}\n"
    for end in range(len(whole) + 1):
        said = shim.read(whole[:end] + "\0" * room)
        assert said.code == (code if end == len(whole) else None)
        assert said.pid == (pid if end >= whole.index("\n") + 1 else None)
