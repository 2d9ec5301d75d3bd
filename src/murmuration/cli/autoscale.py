"""`murmur autoscale`: capacity against demand, under one scaler or several on the same requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.cli import common

if TYPE_CHECKING:
    from murmuration.experiments.autoscale import AutoscaleSpec
    from murmuration.experiments.runs import Summary
    from murmuration.reports.terminal import FittingTable


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
@common.with_options(
    common.SEED,
    common.DAYS,
    common.REPLICAS,
    common.JOBS,
    common.ON,
    common.OUT,
    common.RESUME,
    common.JSON,
)
@click.option(
    "--detail",
    is_flag=True,
    help="Write every request and every node, for `murmur check`.",
)
def autoscale(
    scenario: str,
    scalers: str | None,
    settings: tuple[str, ...],
    seed: int | None,
    days: float | None,
    replicas: int,
    workers: int | None,
    on: str | None,
    out: Path | None,
    resume: bool,
    as_json: bool,
    detail: bool,
) -> None:
    """Simulate nodes that are added and removed with the demand.

    SCENARIO is the preset depas, or a TOML file with [autoscaler] and [requests].

    \b
    Examples:
      murmur autoscale depas --days 0.02
      murmur autoscale depas --days 0.02 -s depas,threshold --replicas 5
    """
    from murmuration.base.settings import parse_setting
    from murmuration.experiments import autoscale as runs_of
    from murmuration.experiments.pages.write import write_scalers
    from murmuration.experiments.statistics import combine_by_label

    common.check_detail(detail, out, as_json, on)
    changes = dict(parse_setting(text) for text in settings)
    if seed is not None:
        changes["seed"] = seed
    if days is not None:
        changes["seconds"] = days * 86_400.0
    kinds = None if scalers is None else common.split_names(scalers)
    specs = runs_of.read_specs(scenario, changes, kinds, replicas)
    how = common.Changes(settings, days)
    folder = common.study_folder(out, as_json, _name(specs), specs[::replicas], how)
    if folder is not None:
        specs = [replace(spec, detail=detail) for spec in runs_of.assign_folders(specs, folder)]
    runs = _run(specs, workers, on, resume)
    summaries = combine_by_label(runs, "autoscaler")
    if folder is not None:
        write_scalers(folder, specs, summaries, runs)
    _print(summaries, runs, folder, as_json)


def _name(specs: Sequence[AutoscaleSpec]) -> str:
    """A scenario without a name is called after what it is."""
    name = specs[0].tables.get("name", "autoscale")
    scalers = "-".join(dict.fromkeys(spec.label for spec in specs))
    return f"{name}-{scalers}-seed{specs[0].scenario.seed}"


def _run(
    specs: Sequence[AutoscaleSpec], workers: int | None, on: str | None, resume: bool
) -> list[Summary]:
    """All runs: a single one behind a bar of its simulated time, several behind one that counts
    them."""
    from murmuration.cli.studies import watch_runs
    from murmuration.experiments import autoscale as runs_of
    from murmuration.experiments import parallel

    if on is None:
        common.compile_before("autoscale", runs_of.compile_kernels)
    if len(specs) == 1 and on is None:
        stored = runs_of.read_stored(specs[0]) if resume else None
        with common.progress(specs[0].label, 1.0) as update:
            return [stored or runs_of.execute(specs[0], update)]
    count = workers or common.cores()
    return watch_runs(
        "scaling",
        len(specs),
        lambda done: parallel.run_kind(runs_of.AUTOSCALING, specs, count, on, resume, done),
        _table,
    )


def _table(runs: Sequence[Summary]) -> FittingTable:
    from murmuration.experiments.pages.autoscale import tabulate
    from murmuration.experiments.statistics import combine_by_label
    from murmuration.reports.terminal import comparison_table

    return comparison_table(*tabulate(combine_by_label(runs, "autoscaler")))


def _print(
    summaries: Sequence[Summary], runs: Sequence[Summary], folder: Path | None, as_json: bool
) -> None:
    from murmuration.experiments.pages.autoscale import judge, seed_range

    if as_json:
        verdict = judge(runs)
        document = {"runs": summaries, "verdict": verdict} if verdict else {"runs": summaries}
        common.print_json(summaries[0] if len(summaries) == 1 else document)
        return
    common.print_table(_table(runs))
    if verdict := judge(runs):
        print()
        common.print_sentences(verdict)
    seconds = sum(run["timing"]["cpu_s"] for run in runs)
    seed = summaries[0]["seed"]
    common.say(
        f"{runs[0]['requests']['arrived']:,} requests, seed {seed_range(seed)}; {len(runs)} "
        f"{'run' if len(runs) == 1 else 'runs'} in {seconds:.2f} CPU s"
    )
    common.say_report(folder)
