"""One HTML file per run or comparison: figures, the numbers behind them, and tables, with no
network needed."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from murmuration.reports.charts import draw, table_of
from murmuration.reports.figures import Figure
from murmuration.reports.formats import MISSING, clean, human, looks_numeric
from murmuration.reports.style import asset, page_style

ROWS_MAX = 200
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


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
    """A whole report; `facts` are the few values a reader should see first."""

    title: str
    subtitle: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    sections: tuple[Section, ...] = ()
    footer: str = ""


@dataclass(frozen=True)
class Holds:
    """A table cell that says whether a claim holds; None when it was not tested."""

    value: bool | None


def verdict_table(
    rows: Iterable[Mapping[str, object]], caption: str, note: str = ""
) -> ReportTable:
    """The page's table of claims: rows have quantity, paper, measured, low, high and holds."""
    columns = ("quantity", "paper", "measured", "low", "high")
    cells = [
        [*(row.get(column) for column in columns), Holds(_verdict(row.get("holds")))]
        for row in rows
    ]
    return ReportTable(caption, (*columns, "holds"), cells, note)


def _verdict(value: object) -> bool | None:
    return None if value is None else bool(value)


def render(page: Page) -> str:
    """The text of the HTML file."""
    title = _text(page.title)
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f'<link rel="icon" href="data:,">\n<title>{title}</title>',
            f"<style>\n{page_style()}</style>\n<script>\n{asset('page.js')}</script>\n</head>\n<body>",
            _top(page),
            "<main>",
            *(_section(section, index) for index, section in enumerate(page.sections)),
            f"</main>\n<footer>{_text(page.footer)}</footer>\n</body>\n</html>\n",
        ]
    )


def _text(value: object) -> str:
    return html.escape(clean(value), quote=True)


def _top(page: Page) -> str:
    subtitle = f'<p class="subtitle">{_text(page.subtitle)}</p>' if page.subtitle else ""
    facts = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in page.facts
    )
    button = (
        '<button id="theme" type="button" aria-label="switch between light and dark">◐</button>'
    )
    return (
        '<header><div class="bar"><span class="brand"><i></i><i></i><i></i>Murmuration</span>'
        f"{button}</div>"
        f"<h1>{_text(page.title)}</h1>{subtitle}"
        + (f'<dl class="facts">{facts}</dl>' if facts else "")
        + _contents(page.sections)
        + "</header>"
    )


def _contents(sections: Sequence[Section]) -> str:
    if len(sections) < 3:
        return ""
    links = (
        f'<a href="#part-{index}">{_text(section.title)}</a>'
        for index, section in enumerate(sections, 1)
    )
    return f'<nav aria-label="sections">{"".join(links)}</nav>'


def _section(section: Section, index: int) -> str:
    paragraphs = "".join(
        f"<p>{_text(part.strip())}</p>" for part in section.text.split("\n\n") if part.strip()
    )
    prose = f'<div class="prose">{paragraphs}</div>' if paragraphs else ""
    alone = len(section.figures) == 1
    figures = "\n".join(_figure(figure, alone) for figure in section.figures)
    grid = f'<div class="grid{" alone" if alone else ""}">{figures}</div>' if figures else ""
    tables = "\n".join(f'<div class="card">{_table(table)}</div>' for table in section.tables)
    title = f"<h2>{_text(section.title)}</h2>"
    return f'<section id="part-{index + 1}">{title}{prose}{grid}{tables}</section>'


def _figure(figure: Figure, alone: bool) -> str:
    """The plot drawn for each kind of place, of which one shows: text in a shrunken drawing could
    not be read."""
    sizes = {"full": 1120, "half": 560, "small": 380} if alone else {"half": 560, "small": 380}
    drawings = (
        f'<div class="{size}">{draw(figure, width, embedded=True)}</div>'
        for size, width in sizes.items()
    )
    note = f'<p class="note">{_text(figure.note)}</p>' if figure.note else ""
    return (
        f'<figure class="card"><figcaption>{_text(figure.title)}</figcaption>'
        f'<div class="plot">{"".join(drawings)}</div>'
        f"{note}<details><summary>table behind this "
        f"plot</summary>{_behind(figure)}</details></figure>"
    )


def _behind(figure: Figure) -> str:
    columns, rows = table_of(figure)
    if len(rows) <= ROWS_MAX:
        return _table(ReportTable("", columns, rows))
    last = len(rows) - 1
    shown = [rows[round(index * last / (ROWS_MAX - 1))] for index in range(ROWS_MAX)]
    return _table(
        ReportTable("", columns, shown, f"{ROWS_MAX} of {len(rows):,} rows, evenly spaced.")
    )


def _table(table: ReportTable) -> str:
    right = [_is_numeric(table.rows, column) for column in range(len(table.columns))]
    head = "".join(
        f'<th scope="col"{_side(side)}>{_text(name)}</th>'
        for name, side in zip(table.columns, right, strict=True)
    )
    body = "\n".join(f"<tr>{_row(row, right)}</tr>" for row in table.rows)
    caption = f"<h3>{_text(table.caption)}</h3>" if table.caption else ""
    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    empty = "" if table.rows else '<p class="note">no rows</p>'
    return (
        f'{caption}<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{empty}{note}"
    )


def _is_numeric(rows: Sequence[Sequence[object]], column: int) -> bool:
    cells = [row[column] for row in rows if column < len(row)]
    known = [cell for cell in cells if cell is not None and cell != MISSING]
    return bool(known) and all(looks_numeric(cell) for cell in known)


def _side(right: bool) -> str:
    return ' class="n"' if right else ""


def _row(row: Sequence[object], right: Sequence[bool]) -> str:
    return "".join(
        f"<td{_side(side)}>{_cell(cell)}</td>" for cell, side in zip(row, right, strict=False)
    )


def _cell(cell: object) -> str:
    if not isinstance(cell, Holds):
        return _text(human(cell))
    if cell.value is None:
        return MISSING
    kind, mark, word = ("good", "✓", "holds") if cell.value else ("bad", "✗", "fails")
    return f'<span class="pill {kind}">{mark}<span> {word}</span></span>'
