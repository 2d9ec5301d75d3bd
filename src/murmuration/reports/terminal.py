"""The same tables on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len

from murmuration.reports.formats import MISSING, clean, human, looks_numeric, percent

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table

__all__ = ["FittingTable", "comparison_table", "human", "percent", "verdict_table"]

#: Blanks between two columns.
GAP = 2


def comparison_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    title: str = "",
    drop_first: Sequence[str] = (),
) -> FittingTable:
    """A table with numbers on the right of their columns and text on the left.

    On a narrow terminal the columns of `drop_first` go first, in that order, then those furthest
    to the right.
    """
    return FittingTable(tuple(columns), tuple(tuple(row) for row in rows), title, tuple(drop_first))


@dataclass(frozen=True)
class FittingTable:
    """A table that leaves out whole columns where the terminal is too narrow for all of them.

    A figure that is cut short is a wrong figure, so no cell of numbers is ever shortened or
    wrapped: a column is shown as it is or not at all, and the line below the table names those
    that are missing. The first column, which says what a row is about, always stays.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    title: str = ""
    drop_first: tuple[str, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        widths = [self._width(index, options.max_width) for index in range(len(self.columns))]
        shown = list(range(len(self.columns)))
        while len(shown) > 1 and _total(widths, shown) > options.max_width:
            shown.remove(self._least_important(shown))
        self._widen(widths, shown, options.max_width)
        yield self._table(shown, widths)

    def _widen(self, widths: list[int], shown: Sequence[int], room: int) -> None:
        """Give what is left of the terminal to text and headings that had to be wrapped."""
        for index in shown:
            spare = room - _total(widths, shown)
            wanted = self._wanted_width(index) - widths[index]
            widths[index] += max(min(spare, wanted), 0)

    def _table(self, shown: Sequence[int], widths: Sequence[int]) -> Table:
        table = _empty(self.title)
        for index in shown:
            justify: Literal["left", "right"] = "right" if self._is_numeric(index) else "left"
            table.add_column(_plain(self.columns[index]), justify=justify, width=widths[index])
        for row in self.rows:
            table.add_row(*(_plain(_wrap(human(row[index]), widths[index])) for index in shown))
        missing = [name for index, name in enumerate(self.columns) if index not in shown]
        if missing:
            table.caption = _plain(f"no room for: {', '.join(missing)}")
            table.caption_justify = "left"
        return table

    def _is_numeric(self, index: int) -> bool:
        cells = [row[index] for row in self.rows if row[index] is not None]
        return bool(cells) and all(looks_numeric(cell) for cell in cells)

    def _width(self, index: int, room: int) -> int:
        """As wide as the widest number or word of the heading; names may take a third of the
        terminal before they are wrapped."""
        cells = self._natural_width(index)
        if not self._is_numeric(index):
            cells = min(cells, max(room // 3, 12))
        return max(cells, *(cell_len(word) for word in clean(self.columns[index]).split()), 1)

    def _natural_width(self, index: int) -> int:
        return max((cell_len(clean(human(row[index]))) for row in self.rows), default=1)

    def _wanted_width(self, index: int) -> int:
        return max(self._natural_width(index), cell_len(clean(self.columns[index])))

    def _least_important(self, shown: Sequence[int]) -> int:
        for name in self.drop_first:
            if name in self.columns and self.columns.index(name) in shown:
                return self.columns.index(name)
        return shown[-1]


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[index] + GAP for index in shown) - GAP


def _wrap(text: str, width: int) -> str:
    """A long name over several lines, broken at its hyphens."""
    return "\n".join(textwrap.wrap(text, width) or [""]) if cell_len(text) > width else text


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

    return Table(
        title=_plain(title) if title else None,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        pad_edge=False,
        show_edge=False,
        padding=(0, GAP - 1, 0, 0),
    )


def _plain(text: str) -> str:
    """Square brackets are markup to the table; names may hold them and must come out as they
    are."""
    from rich.markup import escape

    return escape(clean(text))


def _mark(holds: object) -> str:
    if holds is None:
        return MISSING
    return "[bold green]✓[/]" if holds else "[bold red]✗[/]"
