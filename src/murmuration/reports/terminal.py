"""The same tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from murmuration.reports.formats import MISSING, clean, human, looks_numeric, percent

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["comparison_table", "human", "percent", "verdict_table"]


def comparison_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = ""
) -> Table:
    """A table with numbers on the right of their columns and text on the left."""
    table = _empty(title)
    for index, column in enumerate(columns):
        cells = [row[index] for row in rows if row[index] is not None]
        numeric = bool(cells) and all(looks_numeric(cell) for cell in cells)
        table.add_column(_plain(column), justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(_plain(human(cell)) for cell in row))
    return table


def verdict_table(rows: Iterable[Mapping[str, object]], title: str = "") -> Table:
    """Claims and findings: rows have quantity, paper, measured, low, high and holds; ✓ is green, ✗
    is red."""
    table = _empty(title)
    table.add_column("quantity")
    for column in ("paper", "measured", "low", "high"):
        table.add_column(column, justify="right")
    table.add_column("holds", justify="center")
    for row in rows:
        cells = (
            _plain(human(row.get(name)))
            for name in ("quantity", "paper", "measured", "low", "high")
        )
        table.add_row(*cells, _mark(row.get("holds")))
    return table


def _empty(title: str) -> Table:
    from rich import box
    from rich.table import Table

    return Table(title=_plain(title) if title else None, box=box.SIMPLE_HEAD, title_justify="left")


def _plain(text: str) -> str:
    """Square brackets are markup to the table; names may hold them and must come out as they
    are."""
    from rich.markup import escape

    return escape(clean(text))


def _mark(holds: object) -> str:
    if holds is None:
        return MISSING
    return "[bold green]✓[/]" if holds else "[bold red]✗[/]"
