"""What a person sees on a terminal of 80 columns: whole words and whole numbers."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from tests.cli.conftest import SMALL

COLUMNS = 80
MURMUR = "from murmuration.cli import main; main()"
#: What moves the cursor or sets a colour.
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_a_terminal(folder: Path, *arguments: str) -> list[str]:
    """The lines that a command leaves on the screen."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    process = subprocess.Popen(
        [sys.executable, "-c", MURMUR, *arguments],
        cwd=folder,
        env=plain | {"TERM": "xterm"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    parts = []
    # Reading fails when nobody has the terminal open any more.
    while part := _read(screen):
        parts.append(part)
    os.close(screen)
    assert process.wait() == 0, b"".join(parts).decode()
    text = CONTROL.sub("", b"".join(parts).decode()).replace("\r\n", "\n")
    return [line.rpartition("\r")[2].rstrip() for line in text.split("\n")]


def _read(screen: int) -> bytes:
    try:
        return os.read(screen, 1 << 16)
    except OSError:
        return b""


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "small.toml", "--out", "run"),
        ("sweep", "small.toml", "--jobs", "1", "--vary", "workload.batch.task_duration_s=60,900"),
        ("compact", "small.toml", "--jobs", "1", "--step", "0.4"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_line_is_wider_than_the_terminal(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    lines = on_a_terminal(tmp_path, *arguments)
    assert [line for line in lines if len(line) > COLUMNS] == []
    assert not any("…" in line for line in lines), "no number or name is cut"
    assert any(line.startswith("report: ") for line in lines)


def test_why_fits_too_and_kinds_of_nodes_have_names(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    told = " ".join(on_a_terminal(tmp_path, "simulate", "small.toml", "--out", "run"))
    assert "super-tight" in told and "STA" not in told
    lines = on_a_terminal(tmp_path, "why", "--in", "run", "service-3")
    assert any(line.startswith("chosen: ") for line in lines)
    assert [line for line in lines if len(line) > COLUMNS] == []
