"""`murmur sweep`: a grid of runs on local processes or on a Ray cluster."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.base.errors import InputError
from murmuration.cli import common


@click.command()
@click.argument("scenario")
@click.option(
    "--vary",
    "axes",
    multiple=True,
    metavar="KEY=A,B,…",
    help="A key and its values; several make a grid.",
)
@common.with_options(*common.MANY_RUNS)
def sweep(
    scenario: str,
    axes: tuple[str, ...],
    settings: tuple[str, ...],
    seed: int | None,
    days: float | None,
    replicas: int,
    workers: int | None,
    on: str | None,
    out: Path | None,
    resume: bool,
    as_json: bool,
) -> None:
    """A grid of runs, one for each combination of the values given with --vary.

    Ctrl-C keeps the runs that are finished, and --resume goes on from there.
    """
    from murmuration.base import files
    from murmuration.cli.compare import run_with_progress, terminal_table
    from murmuration.experiments import pages, runs, statistics
    from murmuration.reports.page import render
    from murmuration.simulation.results import snapshots
    from murmuration.simulation.scenarios import scenario as sc

    tables = common.scenario_tables(scenario, settings, seed, days)
    grid = common.parse_axes(axes)
    if not grid:
        raise InputError(
            "sweep: expected at least one --vary KEY=A,B,… such as --vary "
            "scheduler.decision.service.job_time_s=1,10"
        )
    specs = runs.grid_specs(tables, grid)
    for spec in specs:
        sc.check(spec.tables, scenario)
    folder = common.results_folder(out, as_json, f"{tables.get('name', 'scenario')}-sweep")
    specs = runs.replicated(specs, replicas)
    if folder is not None:
        specs = runs.in_folders(specs, folder)
    shown = statistics.by_label(run_with_progress("sweeping", specs, workers, on, resume))
    if folder is not None:
        page = pages.sweep(
            f"{tables.get('name', 'scenario')}: sweep", grid, shown, pages.facts_of(shown[0])
        )
        files.write_text(folder / "report.html", render(page))
        files.write_json(
            folder / snapshots.SUMMARY,
            {"runs": [{k: v for k, v in s.items() if k != "timing"} for s in shown]},
        )
    if as_json:
        common.print_json({"runs": shown})
        return
    common.print_table(terminal_table(shown))
    if folder is not None:
        common.say(f"report: {folder / 'report.html'}")
