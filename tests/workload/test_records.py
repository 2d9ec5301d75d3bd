"""Where records lie in a text: the same as the standard library's reader finds, for any fields."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from murmuration.workload.formats.records import scan
from murmuration.workload.formats.source import SourceFile
from murmuration.workload.formats.table import parse, tabs_for_blanks

FIELDS = st.text('ab ,"\n;é', max_size=5)
ROWS = st.lists(st.lists(FIELDS, min_size=2, max_size=2), min_size=1, max_size=6)


@settings(max_examples=100, deadline=None)
@given(rows=ROWS, end=st.sampled_from(["\n", "\r\n"]), last=st.booleans())
def test_quoted_fields_come_back_with_their_lines(
    rows: list[list[str]], end: str, last: bool
) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(rows)
    data = text.getvalue().encode()
    data = data if last else data.removesuffix(end.encode())
    table = parse(SourceFile(Path("x"), data), names=["a", "b"])
    assert [list(row) for row in table.frame.fill_null("").rows()] == rows
    lines, line = [], 1
    for row in rows:
        lines.append(line)
        line += 1 + sum(field.count("\n") for field in row)
    assert table.lines is not None
    assert table.lines.tolist() == lines


def test_blank_lines_and_comments_keep_the_count() -> None:
    source = tabs_for_blanks(SourceFile(Path("x"), b'; a "comment\n\n  1 \t 2\r\n;\n3    4  \n \n'))
    assert source.data == b'; a "comment'.replace(b" ", b"\t") + b"\n\n1\t2\n;\n3\t4\n\n"
    records = scan(source, "\t", quoted=False, comment=";")
    assert records.lines.tolist() == [3, 5]
    assert records.separators.tolist() == [1, 1]
    assert records.body() == b"1\t2\n3\t4\n"
