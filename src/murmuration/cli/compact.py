"""`murmur compact`: how few nodes carry a workload; and what it shares with `murmur grow`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from murmuration.cli import common

SCHEDULERS = click.option(
    "-s",
    "--schedulers",
    metavar="A,B,C",
    default="",
    help="Variants, architectures or module:Class; default: the scenario's own.",
)
LIMIT = click.option(
    "--limit",
    type=float,
    default=0.005,
    show_default=True,
    metavar="SHARE",
    help="The mean share of nodes that may be overloaded.",
)
WAITING = click.option(
    "--waiting",
    type=float,
    default=0.01,
    show_default=True,
    metavar="SHARE",
    help="The share of jobs that may be left waiting beyond those of 100 %.",
)
ASKED = (common.SET, common.SEED, common.DAYS, common.JOBS, common.OUT, common.RESUME, common.JSON)


@click.command()
@click.argument("scenario")
@SCHEDULERS
@click.option(
    "--step",
    type=float,
    default=0.01,
    show_default=True,
    metavar="SHARE",
    help="How many of the nodes go each time.",
)
@common.with_options(LIMIT, WAITING, *ASKED)
def compact(
    scenario: str,
    schedulers: str,
    step: float,
    limit: float,
    waiting: float,
    settings: tuple[str, ...],
    seed: int | None,
    days: float | None,
    workers: int | None,
    out: Path | None,
    resume: bool,
    as_json: bool,
) -> None:
    """How few nodes are enough: SCENARIO (a preset or a TOML file) on ever fewer of its nodes.

    Nodes go in a random order that depends on the seed alone. The walk ends when two sizes in a row
    fail: too many nodes overloaded, or jobs left waiting.
    """
    from murmuration.experiments.capacity import Question

    tables = common.scenario_tables(scenario, settings, seed, days)
    ask(
        Question("compact", step, limit, waiting),
        scenario,
        tables,
        schedulers,
        workers,
        out,
        resume,
        as_json,
    )


def ask(
    question: Any,
    scenario: str,
    tables: dict[str, Any],
    schedulers: str,
    workers: int | None,
    out: Path | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Walk outwards with each scheduler, and show what was found."""
    from murmuration.experiments import capacity, runs
    from murmuration.simulation.scenarios import scenario as sc

    capacity.check(question)
    names = [name.strip() for name in schedulers.split(",") if name.strip()]
    plain = {key: value for key, value in tables.items() if key != "variant"}
    own = [runs.Spec(sc.check(plain, scenario).scheduler.kind, plain)]
    specs = runs.variant_specs(tables, names) if names else own
    for spec in specs:
        sc.check(spec.tables, scenario)
    name = str(tables.get("name", "scenario"))
    folder = common.results_folder(out, as_json, f"{name}-{question.kind}")
    ahead = workers or common.cores()
    walks = [_walk(spec, question, ahead, folder, resume) for spec in specs]
    _show(name, question, walks, folder, as_json)


def _walk(spec: Any, question: Any, ahead: int, folder: Path | None, resume: bool) -> Any:
    """One scheduler's walk, behind a line that says how far it has come: nobody knows where it
    ends."""
    from rich.console import Console

    from murmuration.experiments import capacity, runs

    console = Console(stderr=True)
    with console.status(f"{spec.label}: 100 %") as status:

        def done(index: int, summary: dict[str, Any]) -> None:
            status.update(f"{summary['scheduler']} %: done")

        def run_all(some: Any) -> list[dict[str, Any]]:
            return runs.run_all(some, ahead, None, resume, done)

        return capacity.walk(spec, question, run_all, ahead, folder)


def _show(name: str, question: Any, walks: list[Any], folder: Path | None, as_json: bool) -> None:
    from murmuration.base import files
    from murmuration.experiments import capacity, capacity_page
    from murmuration.reports.page import render
    from murmuration.reports.terminal import comparison_table
    from murmuration.simulation.results import snapshots

    document = capacity.document(question, walks)
    if folder is not None:
        files.write_text(folder / "report.html", render(capacity_page.page(name, question, walks)))
        files.write_json(folder / snapshots.SUMMARY, document)
    if as_json:
        common.print_json(document)
        return
    columns, rows = capacity_page.table(walks)
    common.print_table(comparison_table(columns, rows))
    for walk in walks:
        print(capacity.answer(question, walk))
    if folder is not None:
        common.say(f"report: {folder / 'report.html'}")
