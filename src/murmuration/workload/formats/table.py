"""Tables: columns as strings first, typed on demand; the first bad value is named by file and line.

Every reader goes through here, so that a malformed row gets the same sentence whatever the format.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from murmuration.base.arrays import Flags, Floats, Integers
from murmuration.base.errors import InputError, did_you_mean
from murmuration.workload.formats.records import scan
from murmuration.workload.formats.source import SourceFile

if TYPE_CHECKING:
    import polars as pl

NAME_MAX = 200
SHOWN_MAX = 60
CONTROL = r"[\x00-\x1f\x7f]"
WHOLE_MAX = 2**63 - 1
#: Above this a float no longer tells neighbouring whole numbers apart.
EXACT_MAX = 2.0**53


@dataclass(frozen=True)
class TraceTable:
    """Named columns of one file; `lines` are the lines its rows stand on, or none where rows have
    no lines."""

    path: Path
    frame: pl.DataFrame
    lines: Integers | None = None

    def __len__(self) -> int:
        return self.frame.height

    @property
    def columns(self) -> list[str]:
        return self.frame.columns

    def select(self, rows: Flags) -> TraceTable:
        """The rows that are marked; they keep their lines."""
        import polars as pl

        lines = np.flatnonzero(rows) + 1 if self.lines is None else self.lines[rows]
        return TraceTable(self.path, self.frame.filter(pl.Series(rows)), lines)

    def where(self, row: int) -> str:
        """The place of a row, as every message names it."""
        return f"{self.path} {self._place(row)}"

    def _place(self, row: int) -> str:
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def need(self, names: Iterable[str], rows: str) -> None:
        """Refuse a table that lacks one of these columns, or that has no rows."""
        for name in names:
            if name not in self.columns:
                hint = did_you_mean(name, self.columns).replace("known:", "it has")
                raise InputError(f"{self.path}: column {name!r} is missing; {hint}")
        if len(self) == 0:
            raise InputError(f"{self.path}: expected at least one row, there are no {rows}")

    def refuse(self, bad: Flags, name: str, expected: str) -> None:
        """Raise for the first row that is bad."""
        if bad.any():
            row = int(bad.argmax())
            raise InputError(
                f"{self.where(row)}: {name}: expected {expected}, got "
                f"{_shorten(self.frame[name][row])}"
            )

    def numbers(
        self, name: str, low: float = 0.0, high: float = np.inf, default: float | None = None
    ) -> Floats:
        """A column of finite numbers within bounds; a default, if there is one, stands for an empty
        field."""
        column = self._column(name)
        values = _real(column)
        bad = ~np.isfinite(values) | (values < low) | (values > high)
        if default is not None:
            empty = _empty(column)
            values[empty] = default
            bad &= ~empty
        self.refuse(bad, name, f"a finite number{_bounds(low, high)}")
        return values

    def measured(self, name: str) -> Floats:
        """A column of numbers as they stand; NaN for a field that holds none."""
        return _real(self._column(name))

    def integers(
        self, name: str, low: int = 0, high: int = WHOLE_MAX, default: int | None = None
    ) -> Integers:
        """A column of whole numbers within bounds; `3.0` is whole, `2.5` is not."""
        column = self._column(name)
        values, bad = _whole(column)
        if default is not None:
            empty = _empty(column)
            values[empty] = default
            bad &= ~empty
        self.refuse(
            bad | (values < low) | (values > high), name, f"a whole number{_bounds(low, high)}"
        )
        return values

    def flags(self, name: str) -> Flags:
        """A column of true/false or 0/1; an empty field is false."""
        import polars as pl

        text = self._column(name).cast(pl.String).str.to_lowercase()
        yes = text.is_in(["true", "1"]).fill_null(False).to_numpy()
        no = text.is_in(["false", "0"]).fill_null(False).to_numpy() | _empty(text)
        self.refuse(~(yes | no), name, "true, false, 0 or 1")
        return yes

    def texts(self, name: str, optional: bool = False, length_max: int = NAME_MAX) -> pl.Series:
        """A column of printable text without nulls; empty only where that has a meaning."""
        import polars as pl

        self._column(name)
        text = self.frame[name].cast(pl.String).fill_null("")
        bad = (text.str.len_chars() > length_max) | text.str.contains(CONTROL)
        if not optional:
            bad |= text.str.strip_chars() == ""
        self.refuse(bad.to_numpy(), name, f"printable text of up to {length_max} characters")
        return text

    def names(self, name: str) -> pl.Series:
        """A column of names, each there once."""
        text = self.texts(name)
        again = ~text.is_first_distinct().to_numpy()
        if again.any():
            row = int(again.argmax())
            first = int((text == text[row]).to_numpy().argmax())
            raise InputError(
                f"{self.where(row)}: {name}: {text[row]!r} is there twice, first on "
                f"{self._place(first)}"
            )
        return text

    def _column(self, name: str) -> pl.Series:
        """A column of text, without the blanks around each field, or of numbers."""
        import polars as pl

        series = self.frame[name]
        if isinstance(series.dtype, pl.Categorical | pl.Enum | pl.Null):
            series = series.cast(pl.String)
        if series.dtype == pl.String:
            return series.str.strip_chars()
        if not (series.dtype.is_numeric() or series.dtype == pl.Boolean):
            raise InputError(
                f"{self.path}: column {name!r}: expected numbers or text, got {series.dtype}"
            )
        return series


@dataclass(frozen=True)
class SplitTable(TraceTable):
    """One table in several files; a row is named by the file it stands in."""

    files: tuple[Path, ...] = ()
    #: For each row the index of its file.
    file: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def select(self, rows: Flags) -> SplitTable:
        chosen = super().select(rows)
        return SplitTable(chosen.path, chosen.frame, chosen.lines, self.files, self.file[rows])

    def where(self, row: int) -> str:
        return f"{self.files[self.file[row]]} {self._place(row)}"


def stack_parts(path: Path, tables: Sequence[TraceTable], columns: Sequence[str]) -> SplitTable:
    """Tables of text, one after the other; a column that one of them lacks is empty there."""
    import polars as pl

    empty = pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    frame = pl.concat([empty, *(table.frame for table in tables)], how="diagonal")
    none = np.empty(0, dtype=np.int64)
    lines = np.concatenate([none, *(table.lines for table in tables if table.lines is not None)])
    file = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    return SplitTable(path, frame, lines, tuple(table.path for table in tables), file)


def _shorten(value: object) -> str:
    """A value in a message, cut where it would drown the sentence."""
    if value is None or value == "":
        return "nothing"
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def _real(column: pl.Series) -> Floats:
    """As floats; what is no number becomes NaN."""
    import polars as pl

    return column.cast(pl.Float64, strict=False).to_numpy().astype(np.float64)


def _whole(column: pl.Series) -> tuple[Integers, Flags]:
    """As integers, and where there is none. Text that is no plain integer (`3.0`, `1e3`) is tried
    as a float."""
    import polars as pl

    if column.dtype.is_float():
        values, bad = np.zeros(len(column), dtype=np.int64), np.ones(len(column), dtype=np.bool_)
    else:
        integers = column.cast(pl.Int64, strict=False)
        values, bad = (
            integers.fill_null(0).to_numpy().astype(np.int64),
            integers.is_null().to_numpy().copy(),
        )
    if bad.any():
        real = _real(column)
        fits = bad & (real == np.rint(real)) & (np.abs(real) < EXACT_MAX)
        values[fits] = real[fits].astype(np.int64)
        bad &= ~fits
    return values, bad


def _empty(column: pl.Series) -> Flags:
    import polars as pl

    empty = column.is_null()
    if column.dtype == pl.String:
        empty = empty | (column == "").fill_null(True)
    return empty.to_numpy()


def _bounds(low: float, high: float) -> str:
    """The bounds in words; those that stand for "any" are left out."""
    if high not in (np.inf, WHOLE_MAX):
        return f" from {low:g} to {high:.15g}"
    if low == 0:
        return " that is not negative"
    return "" if low in (-np.inf, -WHOLE_MAX) else f" of at least {low:g}"


def codes(text: pl.Series) -> tuple[tuple[str, ...], Integers]:
    """The distinct texts in order, and for each row the index of its own."""
    import polars as pl

    distinct = text.unique().sort().to_list()
    return tuple(distinct), text.cast(pl.Enum(distinct)).to_physical().to_numpy().astype(np.int64)


def of_source(source: SourceFile) -> TraceTable:
    """Our own formats: Parquet by its first bytes, otherwise CSV with a header."""
    return parquet(source) if source.is_parquet else parse(source)


def of_columns(
    source: SourceFile, columns: Mapping[str, Sequence[str | None]], lines: Sequence[int]
) -> TraceTable:
    """A table whose fields are separate already (JSON lines)."""
    import polars as pl

    frame = pl.DataFrame(dict(columns), schema=dict.fromkeys(columns, pl.String))
    return TraceTable(source.path, frame, np.array(lines, dtype=np.int64))


def parquet(source: SourceFile) -> TraceTable:
    """Every column of a Parquet file with the type it has."""
    import polars as pl

    try:
        return TraceTable(source.path, pl.read_parquet(io.BytesIO(source.data)))
    # A damaged page can surface as a panic, which is no Exception.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{source.path}: the Parquet file is truncated or damaged ({reason})"
        ) from None


def parse(
    source: SourceFile,
    *,
    names: Sequence[str] | None = None,
    separator: str = ",",
    quoted: bool = True,
    comment: str = "",
) -> TraceTable:
    """Text to columns of strings. Without names the first record is the header."""
    import polars as pl

    records = scan(source, separator, quoted, comment)
    if names is None:
        names = records.header(separator)
        records = records.rest()
    records.check(len(names))
    schema = dict.fromkeys(names, pl.String)
    body = records.body()
    if not body:
        return TraceTable(source.path, pl.DataFrame(schema=schema), records.lines)
    quote = '"' if quoted else None
    frame = pl.read_csv(
        body, has_header=False, schema=schema, separator=separator, quote_char=quote
    )
    return TraceTable(source.path, frame, records.lines)


def tabs_for_blanks(source: SourceFile) -> SourceFile:
    """The same lines with fields parted by single tabs, for formats that part them by any run of
    blanks."""
    tabbed = re.sub(rb"[ \t\r]+", b"\t", source.data)
    return SourceFile(source.path, re.sub(rb"(?m)^\t|\t$", b"", tabbed))
