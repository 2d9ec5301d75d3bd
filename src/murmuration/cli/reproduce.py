"""`murmur reproduce`: a table or figure of a paper, with the value in the paper, the value measured
here, and the verdict."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from murmuration.base.errors import InputError, unknown
from murmuration.cli import common

if TYPE_CHECKING:
    from murmuration.experiments.result import Reproduction, ReproductionSettings


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="List the experiments.")
@click.option("--all", "everything", is_flag=True, help="Every experiment, on one page.")
@common.RESUME
@click.option("--quick", is_flag=True, help="A shorter, coarser version that takes seconds.")
@common.with_options(common.DAYS, common.SEED, common.JOBS, common.ON, common.OUT, common.JSON)
def reproduce(
    name: str | None,
    listing: bool,
    everything: bool,
    resume: bool,
    quick: bool,
    days: float | None,
    seed: int | None,
    workers: int | None,
    on: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Reproduce a table or figure of a paper.

    Prints what the paper says, what is measured here, and whether the claim holds.

    \b
    Examples:
      murmur reproduce --list
      murmur reproduce swarm-model --quick
      murmur reproduce --all --out results --resume

    With --all each experiment has a folder of its own below --out; --resume takes the results that
    are there, however they were run, and runs the others. One that needs data which is not there is
    skipped; the page says which and why. --on makes the runs elsewhere: data that they read must be
    on those hosts, too. One that fails does not stop the others; the command then
    ends with code 1.
    """
    from murmuration.experiments.catalogue import EXPERIMENTS
    from murmuration.experiments.result import ReproductionSettings

    if listing:
        _list(as_json)
        return
    if days is not None and not 0 < days <= 3650:
        raise InputError(f"--days: expected a number above 0 up to 3650, got {days:g}")
    settings = ReproductionSettings(
        1 if seed is None else seed, days, quick, workers or common.cores(), on
    )
    if everything:
        if name is not None or as_json:
            raise InputError("--all: expected neither a name nor --json")
        folder = common.results_folder(out, False, "reproductions")
        _run_all(folder, resume, settings)
        return
    if name is None:
        raise InputError(f"reproduce: expected a name; known: {', '.join(EXPERIMENTS)}")
    if name not in EXPERIMENTS:
        raise unknown("experiment", name, EXPERIMENTS)
    folder = common.results_folder(out, as_json, name)
    if resume and folder is not None and (folder / "rows.json").exists():
        _show_stored(folder, as_json)
        return
    _run(name, folder, settings, as_json)


def _run_all(folder: Path | None, resume: bool, settings: ReproductionSettings) -> None:
    from murmuration.base import files
    from murmuration.experiments.catalogue import EXPERIMENTS
    from murmuration.experiments.pages.reproductions import reproductions_page, to_markdown
    from murmuration.reports.page import render

    assert folder is not None, "without --json there is a folder"
    skipped: dict[str, str] = {}
    failed: dict[str, str] = {}
    for name in EXPERIMENTS:
        if resume and (folder / name / "rows.json").exists():
            continue
        try:
            _run(name, folder / name, settings, False)
        except InputError as error:
            skipped[name] = str(error)
            common.say(f"{name}: skipped: {error}")
        except Exception as error:  # the others are worth having all the same
            failed[name] = f"failed: {type(error).__name__}: {error}"
            common.say(f"{name}: {failed[name]}")
        except KeyboardInterrupt:
            count = sum((folder / each / "rows.json").exists() for each in EXPERIMENTS)
            common.say(f"experiments finished: {count}; --resume goes on from there")
            raise
    paths = [folder / name / "rows.json" for name in EXPERIMENTS]
    documents = [files.read_json(path) for path in paths if path.exists()]
    missing = skipped | failed
    files.write_text(folder / "index.html", render(reproductions_page(documents, missing)))
    files.write_text(folder / "index.md", to_markdown(documents, missing))
    common.say(f"every claim: {folder / 'index.html'}")
    if failed:
        raise click.exceptions.Exit(1)


def _show_stored(folder: Path, as_json: bool) -> None:
    """What an earlier command has measured, however it was run."""
    from murmuration.base import files
    from murmuration.reports.terminal import verdict_table

    document = files.read_json(folder / "rows.json")
    if as_json:
        common.print_json(document)
        return
    common.print_table(verdict_table(document["rows"], document["title"]))
    common.say_report(folder)


def _list(as_json: bool) -> None:
    from murmuration.cli.start.names import LISTS, list_experiments

    columns, rows = LISTS["experiments"][0], list_experiments()
    if as_json:
        keys = ("name", "title", "paper")
        common.print_json({"experiments": [dict(zip(keys, row, strict=True)) for row in rows]})
        return
    print_by_paper(columns[:2], rows)


def print_by_paper(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """The experiments below the full title of their paper."""
    from murmuration.reports.terminal import comparison_table

    for paper in dict.fromkeys(row[2] for row in rows):
        common.print_sentences([paper])
        theirs = [row[:2] for row in rows if row[2] == paper]
        common.print_table(comparison_table(columns, theirs))
        print()


def _run(name: str, folder: Path | None, settings: ReproductionSettings, as_json: bool) -> None:
    from murmuration.experiments.catalogue import EXPERIMENTS
    from murmuration.experiments.pages.reproductions import annotate

    started = time.perf_counter()
    with common.progress(name, 1.0) as update:
        shown = replace(settings, progress=lambda text, share: update(share))
        result = EXPERIMENTS[name].load()(shown)
    seconds = time.perf_counter() - started
    document: dict[str, Any] = {
        "experiment": name,
        "title": result.title,
        "seed": settings.seed,
        "days": settings.days,
        "quick": settings.quick,
        "seconds": seconds,
        "rows": [annotate(name, row.document()) for row in result.rows],
        "notes": list(result.notes),
    }
    if folder is not None:
        _write(folder, result, document)
    if as_json:
        common.print_json(document)
        return
    from murmuration.reports.terminal import verdict_table

    common.print_table(verdict_table(document["rows"], result.title))
    for note in result.notes:
        common.say(f"note: {note}")
    common.say(
        f"{seconds:.1f} s; report: {folder / 'report.html'}" if folder else f"{seconds:.1f} s"
    )


def _write(folder: Path, result: Reproduction, document: dict[str, Any]) -> None:
    from murmuration.base import files
    from murmuration.experiments.pages.parts import FOOTER
    from murmuration.experiments.papers.claims import find_paper
    from murmuration.reports.page import Page, Section, render, verdict_table

    table = verdict_table(
        document["rows"], "What the paper says, what was measured here, and whether the claim holds"
    )
    verdicts = [row["holds"] for row in document["rows"] if row["holds"] is not None]
    headline = f"{sum(map(bool, verdicts))} of {len(verdicts)} claims hold." if verdicts else ""
    footer = f"{FOOTER} Made by: {shlex.join(['murmur', *sys.argv[1:]])}"
    sections = (
        Section("Verdict", text="\n\n".join((headline, *result.notes)), tables=(table,)),
        Section("Figures", figures=result.figures),
    )
    page = Page(result.title, find_paper(result.experiment), (), sections, footer)
    files.write_text(folder / "report.html", render(page))
    files.write_json(folder / "rows.json", {k: v for k, v in document.items() if k != "seconds"})
