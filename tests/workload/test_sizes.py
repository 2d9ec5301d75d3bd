"""Natural units to exact amounts and back: against fractions, which do not round."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.workload.formats.sizes import (
    CPU_MAX,
    SIZE_MAX,
    amounts,
    check_suffix,
    size_columns,
    write_frame,
)

MILLIONTHS = st.integers(0, 10**9)


@given(st.lists(st.tuples(MILLIONTHS, st.integers(0, 2**50), MILLIONTHS), min_size=1, max_size=5))
def test_whole_millionths_and_bytes_are_exact_and_come_back(
    rows: list[tuple[int, int, int]],
) -> None:
    cpu, memory, gpu = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    exact = amounts(cpu / 1e6, memory, gpu / 1e6)
    assert exact.tolist() == [list(row) for row in rows]
    natural = size_columns(Resources(("cpu", "memory", "gpu")), exact)
    for k, (name, unit) in enumerate((("cpu", 10**6), ("memory", 10**9), ("gpu", 10**6))):
        wanted = [float(Fraction(row[k], unit)) for row in rows]
        assert natural[name].tolist() == wanted, name


def test_what_is_too_large_is_refused() -> None:
    one = np.ones(1)
    assert amounts(one * CPU_MAX, one * SIZE_MAX).max() == SIZE_MAX
    for cpu, memory in ((CPU_MAX * 1.01, 1.0), (1.0, SIZE_MAX * 1.01), (np.nan, 1.0)):
        with pytest.raises(InputError, match="expected sizes of up to"):
            amounts(one * cpu, one * memory)


def test_a_file_is_written_as_its_suffix_says(tmp_path: Path) -> None:
    import polars as pl

    frame = pl.DataFrame({"a": [1, 2]})
    write_frame(frame, check_suffix(tmp_path / "t.CSV"))
    write_frame(frame, check_suffix(tmp_path / "t.parquet"))
    assert (tmp_path / "t.CSV").read_text() == "a\n1\n2\n"
    assert (tmp_path / "t.parquet").read_bytes()[:4] == b"PAR1"
    with pytest.raises(InputError, match=r"expected a name that ends in \.csv or \.parquet"):
        check_suffix("t.txt")
