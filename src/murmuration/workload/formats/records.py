"""Records of a text: where each begins, how many fields it has and on which line it stands.

Located in whole-array steps before the fields are split, so that a wrong number of fields, a stray
quote or a byte that is no text is named by its line, whatever the parser behind would have made of
it.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from murmuration.base.arrays import Flags, Integers
from murmuration.base.errors import InputError
from murmuration.workload.formats.source import SourceFile

NEWLINE, RETURN, QUOTE = ord("\n"), ord("\r"), ord('"')

Positions = Integers
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Records:
    """Start, length (with the line end), number of separators and line of each record of a text."""

    path: Path
    buffer: Bytes
    starts: Positions
    lengths: Positions
    separators: Positions
    lines: Positions

    def select(self, rows: Flags) -> Records:
        columns = {
            name: getattr(self, name)[rows] for name in ("starts", "lengths", "separators", "lines")
        }
        return replace(self, **columns)

    def header(self, separator: str) -> list[str]:
        """The column names on the first record."""
        if len(self.starts) == 0:
            raise InputError(f"{self.path}: the file is empty")
        where = f"{self.path} line {self.lines[0]}"
        text = self.buffer[self.starts[0] :][: self.lengths[0]].tobytes().decode()
        try:
            names = [name.strip() for name in next(csv.reader([text.strip()], delimiter=separator))]
        except csv.Error:
            raise InputError(f"{where}: expected a header of column names") from None
        if len(set(names)) < len(names):
            twice = next(name for k, name in enumerate(names) if name in names[:k])
            raise InputError(f"{where}: column {twice!r} is there twice")
        return names

    def rest(self) -> Records:
        """All but the first."""
        return self.select(np.arange(len(self.starts)) > 0)

    def check(self, fields: int) -> None:
        """Refuse the first record with another number of fields."""
        bad = self.separators + 1 != fields
        if bad.any():
            row = int(bad.argmax())
            got = self.separators[row] + 1
            raise InputError(
                f"{self.path} line {self.lines[row]}: expected {fields} fields, got {got}"
            )

    def body(self) -> bytes:
        """The text of these records alone."""
        begin, end = (
            (self.starts[0], self.starts[-1] + self.lengths[-1]) if len(self.starts) else (0, 0)
        )
        if self.lengths.sum() == end - begin:
            return self.buffer[begin:end].tobytes()
        steps = np.zeros(len(self.buffer) + 1, dtype=np.int8)
        steps[self.starts] = 1
        steps[self.starts + self.lengths] -= 1
        inside = np.cumsum(steps[:-1], dtype=np.int8)
        return self.buffer[inside.view(np.bool_)].tobytes()


def scan(source: SourceFile, separator: str, quoted: bool, comment: str) -> Records:
    """Find the records; line ends and separators between quotes do not count, blank lines and
    comments are left out."""
    data = _text(source)
    buffer = np.frombuffer(data, dtype=np.uint8)
    outside = (
        _outside_quotes(source.path, buffer, ord(separator)) if quoted and b'"' in data else None
    )
    breaks = np.flatnonzero(buffer == NEWLINE)
    ends = breaks if outside is None else breaks[outside[breaks]]
    if len(ends) == 0 or ends[-1] != len(buffer) - 1:
        ends = np.append(ends, len(buffer) - 1)
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1] + 1))
    parts = np.flatnonzero(buffer == ord(separator))
    parts = parts if outside is None else parts[outside[parts]]
    separators = np.diff(np.searchsorted(parts, ends, side="right"), prepend=0)
    lines = np.searchsorted(breaks, starts) + 1
    first, lengths = buffer[starts], ends - starts + 1
    dropped = ((first == NEWLINE) | (first == RETURN)) & (lengths <= 2)
    if comment:
        dropped |= first == ord(comment)
    return Records(source.path, buffer, starts, lengths, separators, lines).select(~dropped)


def _text(source: SourceFile) -> bytes:
    """Refuse what is no UTF-8 text, and drop the mark some editors put in front."""
    data = source.data.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in data:
        raise InputError(
            f"{source.path}: expected text or a Parquet job list or node table, this is a "
            "binary file"
        )
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise InputError(
                f"{source.path} line {line}: expected UTF-8 text, got other bytes"
            ) from None
    return data


def _outside_quotes(path: Path, buffer: Bytes, separator: int) -> Flags:
    """Which bytes lie outside quotes; a quote that neither opens nor closes a field is refused."""
    marks = buffer == QUOTE
    quotes = np.flatnonzero(marks)
    edges = np.array([NEWLINE, RETURN, separator, QUOTE], dtype=np.uint8)
    opens, closes = quotes[::2], quotes[1::2]
    before = buffer[np.maximum(opens - 1, 0)]
    after = buffer[np.minimum(closes + 1, len(buffer) - 1)]
    stray = np.concatenate(
        (opens[~np.isin(before, edges)], closes[~np.isin(after, edges)], quotes[len(closes) * 2 :])
    )
    if len(stray):
        line = int(np.count_nonzero(buffer[: stray.min()] == NEWLINE)) + 1
        raise InputError(f"{path} line {line}: expected quotes only around a whole field")
    outside: Flags = np.cumsum(marks, dtype=np.uint8) % 2 == 0
    return outside
