"""Where the published traces lie, and small helpers to write files by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str, str | bytes], Path]

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of published traces, which is no part of the project."""
    if not DATA.is_dir():
        pytest.skip("the published traces are not here")
    return DATA


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file by hand."""

    def put(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return put
