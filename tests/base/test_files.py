"""Files are written whole or not at all, and every failure is one sentence."""

from __future__ import annotations

import csv
import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.base import files
from murmuration.base.errors import InputError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_replaces_the_old_one_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "note.txt"
    files.write_text(path, "old")
    files.write_text(path, "new ✓")
    assert path.read_bytes() == "new ✓".encode() and names(path.parent) == ["note.txt"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("old")

    def half(target: Path) -> None:
        target.write_text("ha")
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"note.txt: cannot be written: No space left on device"):
        files.replace_file(path, half)
    assert path.read_text() == "old" and names(tmp_path) == ["note.txt"]


def test_the_target_is_whole_while_it_is_written(tmp_path: Path) -> None:
    """Whoever reads while a writer is at work sees the old file, in the same folder."""
    path = tmp_path / "note.txt"
    path.write_text("old")
    seen = []

    def slow(target: Path) -> None:
        target.write_text("half")
        seen.append((path.read_text(), target.parent == path.parent))
        target.write_text("whole")

    files.replace_file(path, slow)
    assert seen == [("old", True)] and path.read_text() == "whole"


def test_bytes_go_only_into_a_folder_that_is_there(tmp_path: Path) -> None:
    files.write_bytes(tmp_path / "a.bin", b"\0\1")
    assert (tmp_path / "a.bin").read_bytes() == b"\0\1"
    with pytest.raises(InputError, match=r"cannot be written \(no such file or directory\)"):
        files.write_bytes(tmp_path / "missing" / "a.bin", b"")
    with pytest.raises(InputError, match="expected a file to write, this is a folder"):
        files.write_bytes(tmp_path, b"")
    assert names(tmp_path) == ["a.bin"]


def test_a_folder_that_could_be_written_is_not_made(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert files.check_folder(folder) == folder and names(tmp_path) == []
    assert files.ready_folder(folder).is_dir() and names(folder) == []
    (tmp_path / "file").write_text("")
    for refuse in (files.check_folder, files.ready_folder):
        with pytest.raises(InputError, match="cannot be written"):
            refuse(tmp_path / "file" / "below")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_json_is_what_the_standard_library_reads(document: object) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        files.write_json(path, document)
        assert json.loads(path.read_text(encoding="utf-8")) == document == files.read_json(path)
        assert path.read_text(encoding="utf-8").endswith("\n")


def test_json_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        files.read_json(tmp_path / "missing.json")
    (tmp_path / "bad.json").write_bytes(b"{]")
    with pytest.raises(InputError, match=r"bad\.json: expected a JSON file of a run"):
        files.read_json(tmp_path / "bad.json")


def test_a_table_is_read_back_by_others(tmp_path: Path) -> None:
    import polars as pl

    table = {"name": np.array(["a", "ü"]), "count": np.array([1, 2]), "share": np.array([0.5, 1])}
    files.write_table(tmp_path / "t.csv", table)
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["name"], row["count"]) for row in rows] == [("a", "1"), ("ü", "2")]
    files.write_table(tmp_path / "t.parquet", table)
    columns = pl.read_parquet(tmp_path / "t.parquet").to_dict(as_series=False)
    assert columns == {"name": ["a", "ü"], "count": [1, 2], "share": [0.5, 1.0]}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written"):
        files.write_text(tmp_path / "a", "")
