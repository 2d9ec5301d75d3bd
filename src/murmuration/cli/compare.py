"""`murmur compare`: several schedulers or variants on the same workload, one table, one report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from murmuration.cli import common


@click.command()
@click.argument("scenario")
@click.option(
    "-s",
    "--schedulers",
    metavar="A,B,C",
    default="",
    help="Variants, architectures or module:Class; default: all of the scenario.",
)
@common.with_options(*common.MANY_RUNS)
def compare(
    scenario: str,
    schedulers: str,
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
    """Several schedulers on the same jobs: one table, one report.

    SCENARIO is a preset (omega-a, omega-b, omega-c) or a TOML file.
    """
    from murmuration.experiments import runs
    from murmuration.simulation.scenarios import scenario as sc

    tables = common.scenario_tables(scenario, settings, seed, days)
    names = [name.strip() for name in schedulers.split(",") if name.strip()]
    specs = runs.variant_specs(tables, names)
    for spec in specs:
        sc.check(spec.tables, scenario)
    folder = common.results_folder(out, as_json, f"{tables.get('name', 'scenario')}-compare")
    specs = runs.replicated(specs, replicas)
    if folder is not None:
        specs = runs.in_folders(specs, folder)
    summaries = run_with_progress("comparing", specs, workers, on, resume)
    show(str(tables.get("name", "scenario")), summaries, specs, folder, as_json)


def run_with_progress(
    title: str, specs: list[Any], workers: int | None, on: str | None, resume: bool
) -> list[dict[str, Any]]:
    """Run the specs behind a progress bar that counts runs."""
    from murmuration.experiments import runs

    with common.progress(title, len(specs)) as update:
        finished: list[int] = []

        def done(index: int, summary: dict[str, Any]) -> None:
            finished.append(index)
            update(len(finished))

        try:
            return runs.run_all(specs, workers or common.cores(), on, resume, done)
        except KeyboardInterrupt:
            common.say(
                "stopping: runs under way are finished first, and --resume goes on from there"
            )
            raise


def show(
    name: str, summaries: list[dict[str, Any]], specs: list[Any], folder: Path | None, as_json: bool
) -> None:
    """The table, the report and the summary file of a comparison."""
    from murmuration.base import files
    from murmuration.experiments import pages, statistics
    from murmuration.reports.page import render
    from murmuration.simulation.results import snapshots

    shown = statistics.by_label(summaries)
    if folder is not None:
        first = {spec.label: spec.folder for spec in reversed(specs)}
        series = {spec.label: pages.read_series(first[spec.label]) for spec in specs}
        page = pages.comparison(f"{name}: comparison", shown, series, pages.facts_of(shown[0]))
        files.write_text(folder / "report.html", render(page))
        plain = [{k: v for k, v in summary.items() if k != "timing"} for summary in shown]
        files.write_json(folder / snapshots.SUMMARY, {"runs": plain})
    if as_json:
        common.print_json({"runs": shown})
        return
    common.print_table(terminal_table(shown))
    if folder is not None:
        common.say(f"report: {folder / 'report.html'}")


def terminal_table(summaries: list[dict[str, Any]]) -> Any:
    """One row per scheduler and workload: narrow enough for a terminal."""
    from murmuration.experiments.statistics import middle
    from murmuration.reports.terminal import comparison_table, percent

    columns = ["scheduler", "workload", "jobs", "wait s", "p90 s", "full s"]
    columns += ["attempts", "busy", "wasted", "conflicts", "left"]
    rows: list[list[object]] = []
    for summary in summaries:
        for index, (name, w) in enumerate(summary["workloads"].items()):
            figures = {key: middle(value) for key, value in w.items()}
            left = figures["jobs_queued"] + figures["jobs_abandoned"]
            rows.append(
                [
                    summary["scheduler"] if index == 0 else "",
                    name,
                    figures["jobs_submitted"],
                    figures["wait_s_mean"],
                    figures["wait_s_p90"],
                    figures["wait_full_s_mean"],
                    figures["attempts_mean"],
                    percent(figures["busy_fraction"], 2),
                    percent(figures["busy_wasted_fraction"], 2),
                    figures["conflict_fraction"],
                    f"{left:g} saturated" if w["saturated"] else left,
                ]
            )
    return comparison_table(columns, rows)
