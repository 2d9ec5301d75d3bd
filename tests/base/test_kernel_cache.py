"""The kernel cache: a change of anything that is compiled makes a new folder, a change of anything
else does not, and processes and copies of one version share what they compile."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.caching import IndexDataCacheFile

import murmuration
from murmuration.base import kernel_cache

PACKAGE = Path(murmuration.__file__).parent


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package that may be changed."""
    shutil.copytree(PACKAGE, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(kernel_cache, "PACKAGE", tmp_path / "copy")
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
    before = kernel_cache.kernel_folder()
    path = copy / changed
    path.write_text(path.read_text() + "\nCHANGED = 1\n")
    assert (kernel_cache.kernel_folder() != before) is matters


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
    before = kernel_cache.source_digest()
    (copy / "cluster" / "tables.py").write_text("CHANGED_TABLE, OTHER = 3, 4\n")
    assert kernel_cache.source_digest() != before


def test_the_folder_lies_where_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MURMUR_CACHE", raising=False)
    assert kernel_cache.kernel_folder().parent == tmp_path / "cache" / "murmuration"
    monkeypatch.setenv("MURMUR_CACHE", str(tmp_path / "mine"))
    assert kernel_cache.kernel_folder().parent == tmp_path / "mine"


WRITERS = 6
ENTRIES = 40


def _open_entries(folder: Path) -> IndexDataCacheFile:
    return IndexDataCacheFile(str(folder), "kernel", source_stamp=0)


def _save_entries(folder: Path, writer: int) -> None:
    entries = _open_entries(folder)
    for entry in range(ENTRIES):
        entries.save((writer, entry), ("machine code of", writer, entry))


def test_processes_that_compile_at_the_same_time_keep_all_entries(tmp_path: Path) -> None:
    import murmuration.base.jit  # noqa: F401  (prepares Numba)

    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_save_entries, args=(tmp_path, k)) for k in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * WRITERS
    keys = [(writer, entry) for writer in range(WRITERS) for entry in range(ENTRIES)]
    entries = _open_entries(tmp_path)
    assert [entries.load(key) for key in keys] == [("machine code of", *key) for key in keys]


#: Calls a kernel; prints what it answers and how often its machine code came from the cache.
CALL = """
import numpy as np
from murmuration.placement.kernels import feasible

room, request = np.array([[3], [1], [5]]), np.array([2])
answer, hits = feasible(room, np.ones(3, np.bool_), request), feasible.stats.cache_hits
print(answer.tolist(), sum(hits.values()))
"""


def _call_kernel(copy: Path, cache: Path) -> str:
    """What the call prints in a process that imports this copy of the package."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
    environment |= {"PYTHONPATH": str(copy), "MURMUR_CACHE": str(cache)}
    command = [sys.executable, "-c", CALL]
    return subprocess.run(command, env=environment, stdout=-1, text=True, check=True).stdout


def test_copies_of_one_version_share_what_they_compile(tmp_path: Path) -> None:
    """And a copy in which a kernel was changed never meets the machine code of the others."""
    copies = [tmp_path / name for name in ("one", "same", "changed")]
    for copy in copies:
        ignored = shutil.ignore_patterns("__pycache__", "static")
        shutil.copytree(PACKAGE, copy / "murmuration", ignore=ignored)
    kernels = copies[2] / "murmuration" / "placement" / "kernels.py"
    text = kernels.read_text()
    assert "rows[count] = i" in text
    kernels.write_text(text.replace("rows[count] = i", "rows[count] = i + 10"))
    answers = [_call_kernel(copy, tmp_path / "cache") for copy in copies]
    assert answers == ["[0, 2] 0\n", "[0, 2] 1\n", "[10, 12] 0\n"]
