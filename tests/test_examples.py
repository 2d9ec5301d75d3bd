"""The examples run as they are, and print what the docs say they print."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.with_suffix(".out").exists())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_prints_what_was_recorded(script: Path) -> None:
    run = subprocess.run(
        [sys.executable, script.name], cwd=EXAMPLES, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == script.with_suffix(".out").read_text()


def test_there_are_examples() -> None:
    assert SCRIPTS
