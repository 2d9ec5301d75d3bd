"""`murmur compare`: several schedulers or variants on the same workload, one table, one report."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common


@click.command()
@click.argument("scenario")
@common.SCHEDULERS
@common.with_options(*common.MANY_RUNS, common.DETAIL)
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
    detail: bool,
) -> None:
    """Compare several schedulers on the same jobs.

    SCENARIO is a preset (`murmur list presets`), a TOML file, or a trace or export of a cluster
    (docs/traces.md). Without -s: the scenario as it is and its variants, or every architecture
    that takes seconds if it has none.

    \b
    Examples:
      murmur compare omega-a --days 0.1 -s offers,shared-state
      murmur compare omega-a --days 0.05 --load 1.2 -s offers,shared-state
    """
    from murmuration.cli.studies import print_summaries, run_with_progress
    from murmuration.experiments.pages.write import write_comparison
    from murmuration.experiments.specs import SLOW, assign_folders, replicate_seeds, variant_specs
    from murmuration.experiments.statistics import combine_by_label

    common.check_detail(detail, out, as_json, on)
    study = common.read_study(scenario, settings, seed, days)
    specs = variant_specs(study, common.split_names(schedulers))
    if not schedulers and not study.variants:
        common.say(
            f"not run: {', '.join(SLOW)}, which take minutes on large clusters; -s adds them"
        )
    changes = common.Changes(settings, days)
    folder = common.study_folder(out, as_json, f"{study.name}-compare", specs, changes)
    specs = replicate_seeds(specs, replicas)
    if folder is not None:
        specs = assign_folders(specs, folder, detail)
    runs = run_with_progress("comparing", specs, workers, on, resume)
    summaries = combine_by_label(runs)
    if folder is not None:
        write_comparison(folder, study.name, specs, summaries, runs)
    print_summaries(summaries, runs, folder, as_json)
