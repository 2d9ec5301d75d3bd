"""Questions to what has happened. `murmur why`: one decision, of a live cluster or of a run, and
`murmur check`: whether a run's figures are what its tasks and attempts add up to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.live import common as live

if TYPE_CHECKING:
    from murmuration.experiments.audit.check import RunAudit


@click.command()
@click.argument("job")
@click.option(
    "--in", "run", type=click.Path(path_type=Path), metavar="RUN", help="Folder of a simulated run."
)
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    help="Which attempt at the job of a run (default: the last).",
)
@common.with_options(*live.CLIENT)
def why(
    job: str, run: Path | None, attempt: int | None, folder: Path | None, as_json: bool
) -> None:
    """Explain why a job waits, or why it runs where it does.

    Shows the nodes that were considered, those that were ruled out and why, the scores, how a node
    was chosen, every attempt, and what became of the job since. JOB is a job of the live cluster,
    or of a simulated run with --in.
    """
    from murmuration.cli.results import stories

    if run is not None:
        document = stories.simulated(job, run, attempt)
    elif attempt is not None:
        raise InputError("--attempt: expected with --in RUN; a live cluster tells of all attempts")
    else:
        document = stories.live_story(job, folder)
    if as_json:
        common.print_json(document)
    elif run is not None:
        stories.print_simulated(document)
    else:
        stories.print_live(document)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@common.JSON
def check(runs: tuple[Path, ...], as_json: bool) -> None:
    """Check the figures of recorded runs.

    RUN is the folder of a run made with --detail, of `simulate`, `compare`, `sweep` or `autoscale`.
    Every figure of its summary that single tasks and attempts (requests and nodes) say is added up
    again, by code that shares nothing with the simulator, and compared. No node may be given more
    than it has, and no task or request may be in two places or get lost.

    \b
    Example:
      murmur simulate omega-a --days 0.1 --detail --out run
      murmur check run
    """
    from murmuration.experiments.audit.check import check_folder

    audits = [check_folder(run) for run in runs]
    if as_json:
        common.print_json([_audit_document(audit) for audit in audits])
    else:
        for audit in audits:
            _print_audit(audit)
    if not all(audit.holds for audit in audits):
        raise SystemExit(1)


def _audit_document(audit: RunAudit) -> dict[str, object]:
    return {
        "run": str(audit.folder),
        "holds": audit.holds,
        "agreed": list(audit.agreed),
        "different": {key: list(pair) for key, pair in audit.different.items()},
        "unknown": list(audit.unknown),
        "broken": list(audit.broken),
        "notes": list(audit.notes),
    }


def _print_audit(audit: RunAudit) -> None:
    common.say(
        f"{audit.folder}: {len(audit.agreed)} figures agree, {len(audit.different)} differ, "
        f"{len(audit.broken)} rules are broken"
    )
    for key, (stored, again) in audit.different.items():
        common.say(f"  {key}: {stored} in the summary, {again} by its tasks and attempts")
    for sentence in (*audit.broken, *audit.notes):
        common.say(f"  {sentence}")
    if audit.unknown:
        common.say(f"  not known from tasks and attempts: {', '.join(audit.unknown)}")
