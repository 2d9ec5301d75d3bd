"""A reader's checkout, and the commands that a page tells a reader to type."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from murmuration.base.kernel_cache import user_cache

ROOT = Path(__file__).resolve().parents[2]
#: A limit for a command that hangs; a slow machine and a cold kernel cache stay below it.
LIMIT_S = 1800


def blocks(text: str) -> list[list[str]]:
    """The commands of each block that has no language, comments left out."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    return [
        [command for line in body.splitlines() for command in split(line)]
        for language, body in fenced
        if not language
    ]


def split(line: str) -> list[str]:
    """The commands of a line, as they are typed once the package is installed."""
    parts = line.partition(" #")[0].split("&&")
    return [re.sub(r"^\./murmur\b", "murmur", part.strip()) for part in parts if part.strip()]


def in_text(text: str) -> list[str]:
    """The commands between backquotes outside blocks."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    quoted = re.findall(r"`((?:murmur|kubectl) [^`]+)`", plain)
    return list(dict.fromkeys(quoted))


def live(commands: list[str]) -> bool:
    return any(command.startswith("murmur up") for command in commands)


class Checkout:
    """A folder with the examples and the policy that a page shows, and the command on the path."""

    def __init__(self, folder: Path, page: str) -> None:
        self.folder = folder / "murmuration"
        self.folder.mkdir()
        (self.folder / "examples").symlink_to(ROOT / "examples")
        for policy in re.findall(r"^```python\n# mine\.py\n(.*?)^```", page, re.M | re.S):
            (self.folder / "mine.py").write_text(policy)
        command = folder / "bin" / "murmur"
        command.parent.mkdir()
        code = shlex.quote("from murmuration.cli import main; main()")
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {code} "$@"\n')
        command.chmod(0o755)
        home = folder / "home"
        # Where the shells have their settings.
        (home / ".config" / "fish").mkdir(parents=True)
        self.environment = {
            **{key: value for key, value in os.environ.items() if key != "MURMUR_DIR"},
            "HOME": str(home),
            "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
            # Kernels that are compiled already are used; where they lie depends on the home.
            "MURMUR_CACHE": str(user_cache()),
        }

    def run(self, command: str) -> str:
        answer = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert answer.returncode == 0, f"{command}\n{answer.stdout}{answer.stderr}"
        return answer.stdout
