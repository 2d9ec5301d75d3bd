"""`murmur autoscale`: capacity against demand, under one scaler or several on the same requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from murmuration.cli import common


@click.command()
@click.argument("scenario")
@click.option(
    "-s",
    "--scalers",
    metavar="A,B",
    help="depas, threshold, oracle: several run on the same requests.",
)
@common.with_options(common.SET, common.SEED, common.OUT, common.JSON)
def autoscale(
    scenario: str,
    scalers: str | None,
    settings: tuple[str, ...],
    seed: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Capacity against demand in SCENARIO: the preset depas or a TOML file with [autoscaler] and
    [requests]."""
    from murmuration.experiments import autoscale as runs

    tables = _tables(scenario, settings, seed)
    kinds = _kinds(tables, scalers, scenario)
    folder = common.results_folder(
        out,
        as_json,
        f"{tables.get('name', 'autoscale')}-{'-'.join(kinds)}-seed{tables.get('seed', 1)}",
    )
    outcomes = [_run(runs, tables, kind, len(kinds) > 1, folder, scenario) for kind in kinds]
    if folder is not None:
        _write_report(folder, runs.page(outcomes))
    _show(runs, outcomes, folder, as_json)


def _tables(name: str, settings: Sequence[str], seed: int | None) -> dict[str, Any]:
    """The scenario with the overrides of the command line; files it names are read before anything
    is written."""
    from murmuration.simulation.autoscale.scenario import check, type_schedule, workload
    from murmuration.simulation.scenarios import scenario as sc

    changes = dict(sc.parse_setting(text) for text in settings)
    if seed is not None:
        changes["seed"] = seed
    tables = sc.override(sc.load(name), changes)
    checked = check(tables, name)
    workload(checked, name)
    type_schedule(checked.autoscaler, name)
    return tables


def _kinds(tables: dict[str, Any], scalers: str | None, source: str) -> list[str]:
    from murmuration.base.errors import unknown
    from murmuration.simulation.autoscale.scenario import check
    from murmuration.simulation.autoscale.world import KINDS

    if scalers is None:
        return [check(tables, source).autoscaler.kind]
    kinds = list(dict.fromkeys(name.strip() for name in scalers.split(",")))
    for name in kinds:
        if name not in KINDS:
            raise unknown("autoscaler", name, KINDS)
    return kinds


def _run(
    runs: Any, tables: dict[str, Any], kind: str, several: bool, folder: Path | None, source: str
) -> Any:
    from murmuration.base.files import ready_folder
    from murmuration.simulation.scenarios import scenario as sc

    mine = sc.override(tables, {"autoscaler.kind": kind})
    place = ready_folder(folder / kind) if folder is not None and several else folder
    with common.progress(kind, 1.0) as update:
        return runs.execute(mine, place, source, update)


def _write_report(folder: Path, page: Any) -> None:
    from murmuration.base import files
    from murmuration.reports.page import render

    files.write_text(folder / "report.html", render(page))


def _show(runs: Any, outcomes: Sequence[Any], folder: Path | None, as_json: bool) -> None:
    from murmuration.reports.terminal import comparison_table

    summaries = [outcome.summary for outcome in outcomes]
    if as_json:
        common.print_json(summaries[0] if len(summaries) == 1 else {"runs": summaries})
        return
    common.print_table(comparison_table(*runs.overview(summaries)))
    spent = sum(summary["timing"]["cpu_s"] for summary in summaries)
    common.say(
        f"{summaries[0]['requests']['arrived']:,} requests, {len(summaries)} run(s) in "
        f"{spent:.2f} CPU s"
    )
    if folder is not None:
        common.say(f"report: {folder / 'report.html'}")
