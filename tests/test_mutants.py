"""Mutants of `scripts/mutants` fit the code they break: each changes text that is there once."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "path", sorted((ROOT / "scripts" / "mutants").glob("*.toml")), ids=lambda path: path.stem
)
def test_every_mutant_can_be_made(path: Path) -> None:
    stale = [
        f"{file['path']}: {mutant['name']}"
        for file in tomllib.loads(path.read_text())["files"]
        for mutant in file["mutants"]
        if (ROOT / file["path"]).read_text().count(mutant["before"]) != 1
    ]
    assert not stale, "\n".join(stale)
