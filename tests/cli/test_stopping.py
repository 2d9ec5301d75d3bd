"""A person stops a command at a terminal: it ends at once with one sentence, nothing is left
running, and no impatience makes it show a traceback."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import SMALL
from tests.cli.test_interrupt import MURMUR, SLOW

ROOT = Path(__file__).resolve().parents[2]
#: A limit for a process that hangs; a slow machine and a cold kernel cache stay below it.
LIMIT_S = 900
SLOWLY = ("--set", "scheduler.placement=slow:Slow", "--days", "1")
#: What is stopped, and the title of the bar behind which it works.
COMMANDS = {
    "simulate": (("simulate", "small.toml", *SLOWLY), "simulating"),
    "compare": (
        ("compare", "small.toml", *SLOWLY, "-s", "monolithic,shared-state", "--jobs", "2"),
        "comparing",
    ),
    "sweep": (
        ("sweep", "small.toml", *SLOWLY, "--vary", "cluster.nodes=20,21,22", "--jobs", "2"),
        "sweeping",
    ),
    "compact": (("compact", "small.toml", *SLOWLY, "--jobs", "2"), "100 %"),
    "reproduce": (("reproduce", "sharing", "--jobs", "2"), "sharing"),
    "plan": (
        ("plan", str(ROOT / "examples" / "cluster.toml"), "--evaluations", "50000000"),
        "planning",
    ),
    "autoscale": (("autoscale", "depas", "--days", "300"), "depas"),
}


class Terminal:
    """A command that has a terminal of its own, as in a shell: Ctrl-C reaches its workers too."""

    def __init__(self, folder: Path, arguments: tuple[str, ...]) -> None:
        self.screen, terminal = pty.openpty()
        # Ctrl-C makes a terminal forget what it has not shown yet; here it must not.
        modes = termios.tcgetattr(terminal)
        modes[3] |= termios.NOFLSH
        termios.tcsetattr(terminal, termios.TCSANOW, modes)
        plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", MURMUR, *arguments],
            cwd=folder,
            env=plain | {"TERM": "xterm"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        os.close(terminal)
        self.text = ""

    def read(self) -> None:
        """What has come to the screen within a moment."""
        if select.select([self.screen], [], [], 0.02)[0]:
            try:
                self.text += os.read(self.screen, 1 << 16).decode(errors="replace")
            except OSError:  # nobody has the terminal open any more
                time.sleep(0.02)

    def read_until(self, title: str) -> None:
        while title not in self.text:
            assert self.process.poll() is None, self.text
            self.read()

    def end(self) -> None:
        """Read until it is gone, and what it said last."""
        ends = time.monotonic() + LIMIT_S
        while self.process.poll() is None and time.monotonic() < ends:
            self.read()
        for _ in range(5):
            self.read()


def take_terminal() -> None:
    """Make the terminal the one that controls this process, and hear Ctrl-C whoever started the
    tests."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def session_members(session: int) -> Iterator[str]:
    """The command lines of all processes of a session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, found = stat.read_text().rpartition(")")[2].split()[:4]
            if int(found) == session and state != "Z":
                yield (stat.parent / "cmdline").read_text()
        except OSError:
            continue


@pytest.mark.parametrize("how", ["once", "impatient", "terminated"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_stopped_ends(tmp_path: Path, name: str, how: str) -> None:
    (tmp_path / "small.toml").write_text(SMALL)
    (tmp_path / "slow.py").write_text(SLOW.replace("PAUSE", "0.03"))
    arguments, title = COMMANDS[name]
    terminal = Terminal(tmp_path, arguments)
    process = terminal.process
    try:
        terminal.read_until(title)
        already = len(terminal.text)
        if how == "terminated":
            process.terminate()
        else:
            os.write(terminal.screen, b"\x03")
        while how == "impatient" and process.poll() is None:
            terminal.read()
            os.write(terminal.screen, b"\x03")
        terminal.end()
        assert process.returncode == (143 if how == "terminated" else 130), terminal.text
        while list(session_members(process.pid)):
            time.sleep(0.02)
    finally:
        process.kill()
        os.close(terminal.screen)
    said = terminal.text[already:]
    assert said.count("murmur: stopped") == 1
    assert not re.search("Traceback|Exception|Error", said), said
    assert terminal.text.rfind("\x1b[?25h") >= terminal.text.rfind("\x1b[?25l"), "cursor is hidden"
