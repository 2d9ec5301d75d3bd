"""`murmur sweep`: a grid of runs on local processes or on a Ray cluster."""

from __future__ import annotations

from dataclasses import replace
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
    help="A key of the scenario and its values; give it several times for a grid.",
)
@common.SCHEDULER
@common.with_options(*common.MANY_RUNS, common.DETAIL)
def sweep(
    scenario: str,
    axes: tuple[str, ...],
    scheduler: str | None,
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
    """Simulate a scenario once for each combination of values.

    SCENARIO is a preset (`murmur list presets`), a TOML file, or a trace or export of a cluster.
    After Ctrl-C the finished runs are kept, and --resume makes the rest.

    \b
    Example:
      murmur sweep omega-a --days 0.1 --vary scheduler.decision.service.job_time_s=1,10
    """
    from murmuration.cli.studies import print_summaries, run_with_progress
    from murmuration.experiments.pages.write import write_sweep
    from murmuration.experiments.specs import assign_folders, grid_specs, replicate_seeds
    from murmuration.experiments.statistics import combine_by_label

    common.check_detail(detail, out, as_json, on)
    study = common.read_study(scenario, settings, seed, days)
    study = replace(study, base=common.choose_spec(study, scheduler))
    grid = common.parse_axes(axes)
    if not grid:
        raise InputError(
            "sweep: expected at least one --vary KEY=A,B,… such as --vary "
            "scheduler.decision.service.job_time_s=1,10"
        )
    specs = grid_specs(study, grid)
    changes = common.Changes(settings, days)
    folder = common.study_folder(out, as_json, f"{study.name}-sweep", specs, changes)
    specs = replicate_seeds(specs, replicas)
    if folder is not None:
        specs = assign_folders(specs, folder, detail)
    runs = run_with_progress("sweeping", specs, workers, on, resume)
    summaries = combine_by_label(runs)
    if folder is not None:
        write_sweep(folder, study.name, grid, summaries)
    print_summaries(summaries, runs, folder, as_json)
