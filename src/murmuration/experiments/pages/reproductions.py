"""All reproductions on one page, from the rows that single ones have saved: every paper, every
claim, the paper's figure beside ours, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from murmuration.experiments.catalogue import EXPERIMENTS
from murmuration.experiments.pages.parts import FOOTER
from murmuration.experiments.papers.claims import BASES, NUMBER, classify, find_paper
from murmuration.experiments.papers.reasons import explain
from murmuration.experiments.runs import Summary
from murmuration.reports.page import Holds, Page, ReportTable, Section

#: A reproduction as it is saved: its name, title, length, rows and notes.
Document = Summary
COLUMNS = ("claim", "place", "whose", "paper", "here", "tolerance", "holds")
COUNTED = ("holds", "fails", "not judged")


def annotate(experiment: str, row: Document) -> Document:
    """A row with what it stands for."""
    kind = classify(experiment, str(row["quantity"]))
    return {**row, "where": kind.where, "basis": kind.basis, "tolerance": kind.tolerance}


def count_verdicts(documents: Iterable[Document]) -> dict[str, Counter[str]]:
    """How many rows hold, fail and are not judged, by whose quantity they are."""
    counts: dict[str, Counter[str]] = {basis: Counter() for basis in BASES}
    for document in documents:
        for row in document["rows"]:
            counts[annotate(document["experiment"], row)["basis"]][name_verdict(row)] += 1
    return {basis: count for basis, count in counts.items() if count}


def name_verdict(row: Document) -> str:
    return COUNTED[2] if row["holds"] is None else COUNTED[0] if row["holds"] else COUNTED[1]


def reproductions_page(
    documents: Sequence[Document], reasons: Mapping[str, str] = MappingProxyType({})
) -> Page:
    """The page; what was not run is named, with the reason where there is one."""
    known = {document["experiment"]: document for document in documents}
    papers: dict[str, list[Document]] = {}
    for name in EXPERIMENTS:
        if name in known:
            papers.setdefault(find_paper(name), []).append(known[name])
    missing = [name for name in EXPERIMENTS if name not in known]
    text = _name_missing(missing, reasons) if missing else "Every experiment has been run."
    first = Section("What holds", text=text, tables=(_overview(documents), _causes(documents)))
    sections = [_paper_section(paper, group) for paper, group in papers.items()]
    counts = count_verdicts(documents)
    numbers = counts.get("number", Counter())
    judged = numbers["holds"] + numbers["fails"]
    facts = (
        ("numbers of the papers that hold", f"{numbers['holds']} of {judged}"),
        ("all rows", str(sum(sum(count.values()) for count in counts.values()))),
    )
    title = "Five papers, claim by claim"
    return Page(title, "murmur reproduce --all", facts, (first, *sections), FOOTER)


def _name_missing(missing: Sequence[str], reasons: Mapping[str, str]) -> str:
    plain = [name for name in missing if name not in reasons]
    parts = [f"Not run: {', '.join(plain)}."] if plain else []
    parts += [f"Not run: {name}. {reasons[name]}" for name in missing if name in reasons]
    return "\n\n".join(parts)


def _overview(documents: Sequence[Document]) -> ReportTable:
    rows = [
        [BASES[basis], *(count[name] for name in COUNTED)]
        for basis, count in count_verdicts(documents).items()
    ]
    note = "Only the first line says how much of the papers was reproduced; the others are apart."
    return ReportTable("Rows by whose quantity they are", ("", *COUNTED), rows, note)


def count_causes(documents: Iterable[Document]) -> dict[str, Counter[str]]:
    """Numbers of the papers that fail: by cause, how many in each experiment, most first."""
    causes: dict[str, Counter[str]] = {}
    for document in documents:
        name = document["experiment"]
        for row in document["rows"]:
            if row["holds"] is False and annotate(name, row)["basis"] == NUMBER:
                causes.setdefault(explain(name, str(row["quantity"])), Counter())[name] += 1
    return dict(sorted(causes.items(), key=lambda item: -item[1].total()))


def _causes(documents: Sequence[Document]) -> ReportTable:
    rows = [
        [cause, count.total(), ", ".join(f"{name} ({many})" for name, many in count.items())]
        for cause, count in count_causes(documents).items()
    ]
    columns = ("cause", "rows", "where")
    return ReportTable("Why numbers of the papers fail", columns, rows, "")


def _paper_section(paper: str, documents: Sequence[Document]) -> Section:
    notes = [f"{document['experiment']}: {' '.join(document['notes'])}" for document in documents]
    tables = tuple(_claims_table(document) for document in documents)
    return Section(paper, text="\n\n".join(notes), tables=tables)


def describe_length(document: Document) -> str:
    """How long a reproduction was run."""
    days = document.get("days")
    length = "" if days is None else f"{days:g} days"
    if document.get("quick"):
        entry = EXPERIMENTS.get(document["experiment"])
        return ", ".join(filter(None, ["quick form", length, entry.quick if entry else ""]))
    return length or "full length"


def _claims_table(document: Document) -> ReportTable:
    rows = []
    for row in document["rows"]:
        full = annotate(document["experiment"], row)
        rows.append(
            [
                full["quantity"],
                full["where"],
                full["basis"],
                full["paper"],
                full["measured"],
                full["tolerance"],
                Holds(full["holds"]),
            ]
        )
    caption = f"{document['title']} ({document['experiment']}, {describe_length(document)})"
    return ReportTable(caption, COLUMNS, rows, explain_failures(document))


def explain_failures(document: Document) -> str:
    """Why rows of a reproduction fail, the same reason once."""
    reasons: dict[str, list[str]] = {}
    for row in document["rows"]:
        if row["holds"] is False:
            why = explain(document["experiment"], str(row["quantity"]))
            reasons.setdefault(why, []).append(str(row["quantity"]))
    if not reasons:
        return ""
    parts = [f"{why} ({len(names)})" for why, names in reasons.items()]
    return f"Why rows fail, and how many: {' '.join(parts)}"


def to_markdown(
    documents: Sequence[Document], reasons: Mapping[str, str] = MappingProxyType({})
) -> str:
    """The same for the documentation."""
    page = reproductions_page(documents, reasons)
    lines = [f"# {page.title}", "", *_markdown_intro(page)]
    for section in page.sections:
        lines += ["", f"## {section.title}", ""]
        for paragraph in filter(None, section.text.split("\n\n")):
            lines += [paragraph, ""]
        for table in section.tables:
            lines += [f"**{table.caption}**", "", *_markdown_table(table), ""]
            lines += [table.note, ""] if table.note else []
    return "\n".join(lines).rstrip() + "\n"


def _markdown_intro(page: Page) -> list[str]:
    facts = "; ".join(f"{name}: {value}" for name, value in page.facts)
    return [
        f"Written by `{page.subtitle}` from the saved rows of each experiment, failures included.",
        f"{facts}.",
        "",
        "Whose: `number`, the paper's number within a tolerance; `theory`, a formula where the",
        "paper has a curve without numbers; `words`, the paper says it in words and the band is",
        "ours; `sign`, the paper says which way and any difference that way holds; `own`, our own",
        "runs and demands, and what a generator was set to, which say nothing of the paper.",
        "The tolerance says why it is what it is. Where a row rests on runs that left jobs",
        "unplaced it says so and is not judged. A quick form is a part of the cell for a part of",
        "the time, which stands beside it: the whole takes from minutes to hours.",
    ]


def _markdown_table(table: ReportTable) -> list[str]:
    lines = [_markdown_row(table.columns), "|---" * len(table.columns) + "|"]
    return [*lines, *(_markdown_row(row) for row in table.rows)]


def _markdown_row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(_markdown_cell(cell) for cell in cells) + " |"


def _markdown_cell(cell: object) -> str:
    if isinstance(cell, Holds):
        return "—" if cell.value is None else "yes" if cell.value else "**no**"
    if cell is None:
        return ""
    text = f"{cell:.4g}" if isinstance(cell, float) else str(cell)
    return text.replace("|", "\\|")
