"""Input files: unpacked by what they hold, whatever they are called; refused in one sentence."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.base.errors import InputError
from murmuration.workload.formats.source import HEAD_BYTES, find_beside, load

TEXT = b"a,b\n1,2\n"


@pytest.mark.parametrize("name", ["data.csv", "data.gz", "data.xz", "data"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_the_content_decides_and_not_the_name(tmp_path: Path, name: str, pack: object) -> None:
    assert callable(pack)
    (tmp_path / name).write_bytes(pack(TEXT))
    source = load(tmp_path / name)
    assert source.data == TEXT and source.path == tmp_path / name and not source.is_parquet


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_every_truncation_is_refused(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    packed = pack(TEXT * 50)
    for length in range(7, len(packed)):
        (tmp_path / "cut").write_bytes(packed[:length])
        with pytest.raises(InputError, match="cut: the compressed file is truncated or damaged"):
            load(tmp_path / "cut")


def test_what_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "blank").write_bytes(b" \n\t")
    (tmp_path / "table.parquet").write_bytes(TEXT)
    for name, sentence in (
        ("missing", "missing: no such file"),
        ("blank", "blank: the file is empty"),
        (".", "expected a file, this is a folder"),
        ("table.parquet", "expected a Parquet file, its first bytes are not those of one"),
        ("a\0b", "cannot be read"),
    ):
        with pytest.raises(InputError, match=sentence):
            load(tmp_path / name)


@given(st.lists(st.text(alphabet=" \tab,é", max_size=5), max_size=12), st.integers(1, 8))
def test_the_head_is_the_first_lines_that_say_something(lines: list[str], count: int) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "f"
        path.write_text("\n".join([*lines, "end"]), encoding="utf-8")
        wanted = [line for line in [*lines, "end"] if line.strip()][:count]
        assert load(path).head(count) == wanted


def test_the_head_looks_at_the_beginning_only(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * (HEAD_BYTES + 10) + b"\nlater\n")
    assert load(tmp_path / "f").head() == ["x" * HEAD_BYTES]
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfname\n")
    assert load(tmp_path / "f").head() == ["name"], "a byte-order mark is no part of a name"


def test_the_file_beside_another(tmp_path: Path) -> None:
    for name in ("usage.csv", "a-vms.csv", "b-vms.csv"):
        (tmp_path / name).write_text("")
    (tmp_path / "0-vms").mkdir()
    assert find_beside(tmp_path / "usage.csv", "vms") == tmp_path / "a-vms.csv"
    assert find_beside(tmp_path / "a-vms.csv", "vms") == tmp_path / "b-vms.csv"
    assert find_beside(tmp_path / "usage.csv", "nothing") is None
    assert find_beside(tmp_path / "no" / "such" / "file", "vms") is None
