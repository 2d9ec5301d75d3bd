"""Questions to what has happened. `murmur why`: one decision, of a live cluster or of a run, and
`murmur check`: whether a run's figures are what its tasks and attempts add up to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    help="Which attempt at the job of a run (default: the first).",
)
@common.with_options(*live.CLIENT)
def why(
    job: str, run: Path | None, attempt: int | None, folder: Path | None, as_json: bool
) -> None:
    """Explain why a job waits, or why it runs where it does.

    Shows the nodes that were considered, those that were ruled out and why, the scores, and what
    would unblock the job. JOB is a job of the live cluster, or of a simulated run with --in.
    """
    if run is not None:
        document = _explain_simulated(job, run, attempt or 1)
    elif attempt is not None:
        raise InputError("--attempt: expected with --in RUN; a live cluster tells of now")
    else:
        document = _live(job, folder)
    if as_json:
        common.print_json(document)
    elif run is not None:
        print_decision(document, attempt or 1)
    else:
        _print_live(document)


def _live(job: str, folder: Path | None) -> Any:
    try:
        client = live.client(folder)
    except InputError as error:
        raise InputError(f"{error}; or name a simulated run with --in RUN") from error
    return client.get("jobs", live.split_task(job)[0], "why")


def _explain_simulated(job: str, run: Path, attempt: int) -> dict[str, Any]:
    import msgspec

    from murmuration.experiments.runs import read_stored_scenario
    from murmuration.simulation.engine.run import prepare
    from murmuration.simulation.results.explain import explain

    explanation = explain(prepare(read_stored_scenario(run)), job, attempt)
    verdict = explanation.verdict
    document: dict[str, Any] = msgspec.to_builtins(explanation)
    document["verdict_kind"] = None if verdict is None else type(verdict).__name__.lower()
    return document


def _print_live(answer: dict[str, Any]) -> None:
    tasks = ", ".join(f"{count} {state}" for state, count in answer["tasks"].items())
    click.echo(f"{answer['job']} is {answer['state']} ({tasks})")
    if answer["reason"]:
        click.echo(f"{answer['tier']}: {answer['reason']}" if answer["tier"] else answer["reason"])
    if answer["position"]:
        ahead = f", behind {', '.join(answer['ahead'])}" if answer["ahead"] else ""
        click.echo(
            f"position {answer['position']} in the queue{ahead}; wakes when {answer['wakes_on']}"
        )
    for reason, count in answer["closed"].items():
        click.echo(f"  {count:>8,}  {reason}")
    if answer["decision"] is not None:
        print_decision(answer["decision"])


def print_decision(decision: dict[str, Any], attempt: int = 0) -> None:
    """A decision as text."""
    head = f"{decision['job']} ({decision['workload']})"
    if attempt:
        head += f", attempt {attempt} at {decision['at_s']:,.3f} s"
    click.echo(f"{head}: {decision['tasks']} tasks of {decision['request']}")
    click.echo(
        f"{decision['considered']:,} nodes considered, {decision['feasible']:,} could take a task"
    )
    for reason, count in decision["filtered"].items():
        click.echo(f"  {count:>8,}  {reason}")
    for note in decision.get("notes", ()):
        click.echo(note)
    if decision["best"]:
        rows = [
            [c["node"], c["free"], "–" if c["score"] is None else f"{c['score']:.4g}"]
            for c in decision["best"]
        ]
        live.print_rows(("best nodes", "free", "score"), rows)
    if decision["chosen"]:
        few = ", ".join(
            f"{node}" + (f" ×{count}" if count > 1 else "")
            for node, count in decision["chosen"][:12]
        )
        more = f" and {len(decision['chosen']) - 12} more" if len(decision["chosen"]) > 12 else ""
        click.echo(f"placed {decision['placed']} of {decision['tasks']}: {few}{more}")
    if decision["verdict"] is not None:
        word = "waits" if "wakes_on" in decision["verdict"] else "never"
        click.echo(f"{word}: {decision['verdict']['reason']}")
    for hint in decision["unblock"]:
        click.echo(f"  would help: {hint}")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@common.JSON
def check(runs: tuple[Path, ...], as_json: bool) -> None:
    """Check the figures of recorded runs.

    RUN is the folder of a run made with --detail. Every figure of its summary that single tasks and
    attempts say is added up again, by code that shares nothing with the simulator, and compared;
    and no node may be given more than it has, no task be in two places, nor get lost.

    \b
    Example:
      murmur simulate omega-a --days 0.1 --detail --out run
      murmur check run
    """
    from murmuration.experiments.audit.check import check_run
    from murmuration.experiments.runs import read_stored_scenario

    audits = [check_run(run, read_stored_scenario(run)) for run in runs]
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
