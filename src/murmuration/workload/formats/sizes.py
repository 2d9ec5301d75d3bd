"""Sizes in files: natural units (CPUs, GB, GPUs) to exact amounts and back, and the file formats
that hold them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from murmuration.base.arrays import Floats
from murmuration.base.errors import InputError
from murmuration.base.files import write_bytes
from murmuration.base.resources import AMOUNT_MAX, MICRO, Amounts, Resources
from murmuration.workload.formats.table import TraceTable

if TYPE_CHECKING:
    import polars as pl

GB = 10**9
MIB = 2**20
SIZE_MAX = AMOUNT_MAX
CPU_MAX = SIZE_MAX / MICRO
SUFFIXES = (".csv", ".parquet")


def amounts(cpu: Floats, memory: Floats, *extra: Floats) -> Amounts:
    """Rows of exact amounts from CPUs, bytes and counts of further resources."""
    scaled = np.rint(np.column_stack([cpu * MICRO, memory, *(column * MICRO for column in extra)]))
    if not scaled.max(initial=0.0) <= SIZE_MAX:
        raise InputError(
            f"expected sizes of up to {CPU_MAX:.0f} CPU and {SIZE_MAX // GB} GB, got a larger one"
        )
    return scaled.astype(np.int64)


def unit(name: str) -> int:
    """Exact amounts per unit of a file's column: memory stands there in GB, all else in whole
    ones."""
    return GB if name == "memory" else MICRO


def read_sizes(table: TraceTable, columns: Mapping[str, str]) -> tuple[Resources, Amounts]:
    """The resources, each read from its column; an empty field of a further resource is zero."""
    resources = Resources(tuple(columns))
    rows = np.empty((len(table), len(resources)), dtype=np.int64)
    for k, (name, column) in enumerate(columns.items()):
        default = None if name in ("cpu", "memory") else 0.0
        natural = table.numbers(column, high=SIZE_MAX // unit(name), default=default)
        rows[:, k] = np.rint(natural * unit(name)).astype(np.int64)
    return resources, rows


def size_columns(resources: Resources, rows: Amounts) -> dict[str, Floats]:
    """For each resource its column in natural units."""
    return {name: rows[:, k] / unit(name) for k, name in enumerate(resources.names)}


def check_suffix(path: str | Path) -> Path:
    """Files are written as their suffix says."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{path}: expected a name that ends in .csv or .parquet, to know how to write it"
        )
    return path


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Columns to a CSV or Parquet file, whole or not at all."""
    buffer = io.BytesIO()
    if path.suffix.lower() == ".parquet":
        frame.write_parquet(buffer)
    else:
        frame.write_csv(buffer)
    write_bytes(path, buffer.getvalue())
