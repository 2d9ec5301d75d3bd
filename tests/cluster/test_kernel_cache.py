"""The kernel cache: a change of anything that is compiled makes a new folder, a change of anything
else does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import murmuration
from murmuration.base import jit

PACKAGE = Path(murmuration.__file__).parent


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package that may be changed."""
    shutil.copytree(PACKAGE, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "copy" / "cluster" / "jit.py"))
    return tmp_path / "copy"


@pytest.mark.parametrize(
    ("changed", "matters"),
    [
        ("placement/kernels.py", True),  # holds kernels
        ("cluster/transactions.py", True),  # its functions are compiled as they are
        ("base/random.py", True),
        ("placement/plain.py", True),  # a constant of first fit
        ("simulation/engine/world.py", True),  # constants, imported in a list of several lines too
        ("cli/why.py", False),
        ("reports/page.py", False),
    ],
)
def test_what_is_compiled_names_the_folder(copy: Path, changed: str, matters: bool) -> None:
    before = jit.cache_folder()
    path = copy / changed
    path.write_text(path.read_text() + "\nCHANGED = 1\n")
    assert (jit.cache_folder() != before) is matters


@pytest.mark.parametrize(
    "names", ["CHANGED_TABLE", "(\n    CHANGED_TABLE,\n    OTHER,\n)", "CHANGED_TABLE as TABLE"]
)
def test_however_a_kernel_imports_it(copy: Path, names: str) -> None:
    (copy / "cluster" / "tables.py").write_text("CHANGED_TABLE, OTHER = 1, 2\n")
    kernel = (
        f"from murmuration.cluster.tables import {names}\n\n\n@helper\ndef one() -> int:\n  "
        "  return 1\n"
    )
    (copy / "cluster" / "mine.py").write_text(kernel)
    before = jit.source_digest()
    (copy / "cluster" / "tables.py").write_text("CHANGED_TABLE, OTHER = 3, 4\n")
    assert jit.source_digest() != before


def test_the_folder_lies_where_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MURMUR_CACHE", raising=False)
    assert jit.cache_folder().parent == tmp_path / "cache" / "murmuration"
    monkeypatch.setenv("MURMUR_CACHE", str(tmp_path / "mine"))
    assert jit.cache_folder().parent == tmp_path / "mine"
