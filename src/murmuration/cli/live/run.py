"""`murmur run`: submit a job, or see where its tasks would go."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.live import common as live

if TYPE_CHECKING:
    from murmuration.workload.job_spec import JobSpec


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--dry-run", is_flag=True, help="Only show where each task would go, and why not elsewhere."
)
@click.option("--name", help="Name of the job (default: the one in the file).")
@click.option(
    "--array",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="So many tasks, NAME[0] to NAME[N-1], each told its number in MURMUR_INDEX.",
)
@click.option(
    "--after", multiple=True, metavar="JOB", help="Run when JOB has ended well; may be repeated."
)
@click.option(
    "--after-any",
    multiple=True,
    metavar="JOB",
    help="Run when JOB has ended in any way; may be repeated.",
)
@click.option(
    "--wait",
    "wait_for_it",
    is_flag=True,
    help="Wait until the job has ended, and return its exit code.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    help="With --wait: maximum seconds to wait; the exit code is 124 then.",
)
@common.with_options(*live.CLIENT)
def run(
    file: Path,
    dry_run: bool,
    name: str | None,
    array: int | None,
    after: tuple[str, ...],
    after_any: tuple[str, ...],
    wait_for_it: bool,
    timeout_s: float | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Submit a job to the cluster.

    FILE is a TOML file with one job, or several in [[jobs]], or a Python file that defines `job` or
    `jobs`.
    """
    from murmuration.workload.formats.job_files import read_jobs

    if timeout_s is not None and not wait_for_it:
        raise InputError("--timeout: expected with --wait")
    specs = [_add_after(spec, after, after_any) for spec in read_jobs(file)]
    given = {"name": name, "array": array}
    changes = {key: value for key, value in given.items() if value is not None}
    if changes:
        if len(specs) > 1:
            raise InputError(f"--{min(changes)}: expected a file with one job, got {len(specs)}")
        specs = [_change_job(specs[0], changes)]
    client = live.client(folder)
    answers = [_submit(client, spec, file, dry_run) for spec in specs]
    if as_json:
        common.print_json(answers[0] if len(answers) == 1 else answers)
    else:
        for answer in answers:
            (_print_trial if dry_run else _print_submitted)(answer)
    if wait_for_it and not dry_run:
        from murmuration.cli.live.wait import TIMEOUT_CODE, wait_for

        codes = [wait_for(client, spec.name, timeout_s)["code"] for spec in specs]
        sys.exit(max(TIMEOUT_CODE if code is None else code for code in codes))
    if dry_run and any(answer["unplaced"] for answer in answers):
        sys.exit(1)


def _add_after(spec: JobSpec, after: tuple[str, ...], after_any: tuple[str, ...]) -> JobSpec:
    import msgspec

    return msgspec.structs.replace(
        spec, after=[*spec.after, *after], after_any=[*spec.after_any, *after_any]
    )


def _change_job(spec: JobSpec, changes: dict[str, str | int]) -> JobSpec:
    """A job with other values of some fields, checked like one that was read."""
    import msgspec

    from murmuration.workload.job_spec import job_from_tables

    tables = {**msgspec.to_builtins(spec), **changes}
    if "array" in changes:
        tables["count"] = 1
    return job_from_tables(tables)


def _submit(client: Any, spec: JobSpec, file: Path, dry_run: bool) -> Any:
    from murmuration.runtime.client.requests import AnswerError
    from murmuration.workload.formats.job_files import line_of

    try:
        return client.post("jobs", body=spec, **({"dry_run": 1} if dry_run else {}))
    except AnswerError as error:
        line = line_of(file.read_text(), error.field) if error.field and file.suffix != ".py" else 0
        where = f"{file}, line {line}" if line else str(file)
        raise InputError(f"{where}: {error}") from error


def _print_submitted(answer: dict[str, Any]) -> None:
    tasks = answer["tasks"]
    what = f"changed to version {answer['version']}" if answer["version"] else "submitted"
    click.echo(f"{answer['job']}: {tasks} task{'s' if tasks > 1 else ''} {what}")


def _print_trial(answer: dict[str, Any]) -> None:
    from murmuration.cli.results.stories import print_decision

    if answer["placed"]:
        live.print_rows(("task", "node"), [list(pair) for pair in answer["placed"]])
    print_decision(answer["decision"])
    click.echo(answer["note"])
