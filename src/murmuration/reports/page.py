"""One HTML file per run or comparison: figures, the numbers behind them, and tables, with no
network needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from murmuration.dashboard.embed import embed
from murmuration.reports.document import POINTS_MAX, figure_document, plain
from murmuration.reports.figures import Figure
from murmuration.reports.formats import clean


@dataclass(frozen=True)
class ReportTable:
    """A captioned table; cells are numbers, text, None or `Holds`."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with its text (blank lines part paragraphs), figures and tables."""

    title: str
    text: str = ""
    figures: tuple[Figure, ...] = ()
    tables: tuple[ReportTable, ...] = ()


@dataclass(frozen=True)
class Page:
    """A whole report; `facts` are the few values a reader should see first. A bare one has no head
    and no foot: it is shown within something else."""

    title: str
    subtitle: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()
    footer: str = ""
    is_bare: bool = False


@dataclass(frozen=True)
class Holds:
    """A table cell that says whether a claim holds; None when it was not tested."""

    value: bool | None


def verdict_table(
    rows: Iterable[Mapping[str, object]], caption: str, note: str = ""
) -> ReportTable:
    """The page's table of claims: rows have quantity, paper, measured and holds, and
    maybe low and high."""
    known = list(rows)
    # Ends of intervals have columns where some claim has an interval.
    ends = [end for end in ("low", "high") if any(row.get(end) is not None for row in known)]
    columns = ("quantity", "paper", "measured", *ends)
    cells = [
        [*(row.get(column) for column in columns), Holds(_verdict(row.get("holds")))]
        for row in known
    ]
    return ReportTable(caption, (*columns, "holds"), cells, note)


def _verdict(value: object) -> bool | None:
    return None if value is None else bool(value)


def render(page: Page, points_max: int = POINTS_MAX, is_served: bool = False) -> str:
    """The text of the HTML file: the web page with this report inside, and so many points of each
    line at most. One that is served asks for more of them where a reader zooms."""
    parts = (page.title, page.subtitle, *(f"{name}: {value}" for name, value in page.facts))
    summary = ". ".join(clean(part) for part in parts if part)
    document = page_document(page, points_max) | {"served": is_served}
    return embed(clean(page.title), f"This report needs JavaScript. {summary}", document, is_served)


def page_document(page: Page, points_max: int) -> dict[str, object]:
    """The page as plain values."""
    return {
        "title": clean(page.title),
        "subtitle": clean(page.subtitle),
        "facts": plain(page.facts),
        "sections": [_section(section, points_max) for section in page.sections],
        "footer": clean(page.footer),
        "bare": page.is_bare,
    }


def _section(section: Section, points_max: int) -> dict[str, object]:
    return {
        "title": clean(section.title),
        "text": clean(section.text),
        "figures": [figure_document(figure, points_max) for figure in section.figures],
        "tables": [_table(table) for table in section.tables],
    }


def _table(table: ReportTable) -> dict[str, object]:
    return {
        "caption": clean(table.caption),
        "columns": plain(table.columns),
        "rows": [[_cell(cell) for cell in row] for row in table.rows],
        "note": clean(table.note),
    }


def _cell(cell: object) -> object:
    return {"holds": cell.value} if isinstance(cell, Holds) else plain(cell)
