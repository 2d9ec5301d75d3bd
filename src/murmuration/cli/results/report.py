"""`murmur report`: one report over runs that were made before."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@common.with_options(common.OUT, common.JSON)
def report(runs: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Compare runs that are there already.

    RUN is the folder of a run, or of a comparison or sweep that holds several. Runs of one
    scheduler with different seeds are combined. Nothing is simulated.

    \b
    Examples:
      murmur simulate omega-a -s offers --days 0.05 --out a
      murmur simulate omega-a -s shared-state --days 0.05 --out b
      murmur report a b
    """
    from murmuration.cli.studies import print_summaries
    from murmuration.experiments.pages.write import write_comparison
    from murmuration.experiments.python.stored import read_runs
    from murmuration.experiments.statistics import combine_by_label

    stored = read_runs(runs)
    specs = [run.spec for run in stored.runs]
    folder = common.study_folder(out, as_json, "report", specs, common.Changes())
    summaries = [run.summary for run in stored.runs]
    combined = combine_by_label(summaries)
    comparable = summaries if stored.same_jobs else []
    if folder is not None:
        write_comparison(folder, stored.name, specs, combined, comparable)
    for note in stored.notes:
        common.say(f"note: {note}")
    print_summaries(combined, comparable, folder, as_json)
