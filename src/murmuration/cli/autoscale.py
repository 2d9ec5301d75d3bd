"""`murmur autoscale`: capacity against demand, under one scaler or several on the same requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.cli import common

if TYPE_CHECKING:
    from murmuration.experiments.autoscale import AutoscaleOutcome


@click.command()
@click.argument("scenario")
@click.option(
    "-s",
    "--scalers",
    "--schedulers",
    "scalers",
    metavar="A,B",
    help="Of depas, threshold and oracle; several run on the same requests.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a key of the scenario, e.g. autoscaler.threshold=0.7; may be repeated.",
)
@common.with_options(common.SEED, common.DAYS, common.OUT, common.JSON)
def autoscale(
    scenario: str,
    scalers: str | None,
    settings: tuple[str, ...],
    seed: int | None,
    days: float | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Simulate nodes that are added and removed with the demand.

    SCENARIO is the preset depas, or a TOML file with [autoscaler] and [requests].
    """
    from murmuration.experiments.autoscale import execute_all, read_specs
    from murmuration.experiments.pages.autoscale import draw_page
    from murmuration.experiments.pages.write import write_report
    from murmuration.simulation.scenarios.scenario import parse_setting

    changes = dict(parse_setting(text) for text in settings)
    if seed is not None:
        changes["seed"] = seed
    if days is not None:
        changes["seconds"] = days * 86_400.0
    kinds = None if scalers is None else [name.strip() for name in scalers.split(",")]
    specs = read_specs(scenario, changes, kinds)
    first = specs[0].scenario
    names = "-".join(spec.scenario.autoscaler.kind for spec in specs)
    # A scenario without a name is called after what it is.
    name = specs[0].tables.get("name", "autoscale")
    folder = common.results_folder(out, as_json, f"{name}-{names}-seed{first.seed}")
    with common.compiling("autoscale"):
        outcomes = execute_all(specs, folder, lambda kind: common.progress(kind, 1.0))
    if folder is not None:
        write_report(folder, draw_page(outcomes))
    _print(outcomes, folder, as_json)


def _print(outcomes: Sequence[AutoscaleOutcome], folder: Path | None, as_json: bool) -> None:
    from murmuration.experiments.pages.autoscale import tabulate
    from murmuration.reports.terminal import comparison_table

    summaries = [outcome.summary for outcome in outcomes]
    if as_json:
        common.print_json(summaries[0] if len(summaries) == 1 else {"runs": summaries})
        return
    common.print_table(comparison_table(*tabulate(summaries)))
    seconds = sum(summary["timing"]["cpu_s"] for summary in summaries)
    common.say(
        f"{summaries[0]['requests']['arrived']:,} requests, {len(summaries)} run(s) in "
        f"{seconds:.2f} CPU s"
    )
    common.say_report(folder)
