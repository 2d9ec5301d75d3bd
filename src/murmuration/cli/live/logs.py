"""`murmur logs`: the output of a task or of all tasks of a job, so far or as it is written."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.live import common as live

if TYPE_CHECKING:
    from murmuration.runtime.client.requests import ApiClient

FOLLOW_S = 0.2


@click.command()
@click.argument("task")
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the task ends.")
@click.option("--stderr", is_flag=True, help="Print standard error instead of standard output.")
@click.option("--health", is_flag=True, help="Print what the last health check that failed wrote.")
@click.option(
    "--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines of each task."
)
@click.option("-p", "--previous", is_flag=True, help="Of the run before the last one.")
@click.option(
    "--run",
    "number",
    type=click.IntRange(min=1),
    metavar="N",
    help="Of the N-th run (MURMUR_RUN), as long as its node keeps it.",
)
@common.with_options(*live.CLIENT)
def logs(
    task: str,
    follow: bool,
    stderr: bool,
    health: bool,
    tail: int | None,
    previous: bool,
    number: int | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Print the output of a task, or of all tasks of a job.

    TASK is a task such as hello.0, or a job; the lines of a job with several tasks begin with the
    name of theirs.
    """
    client = live.client(folder)
    names = _tasks_of(client, task)
    if follow and (len(names) > 1 or tail is not None):
        raise InputError(f"--follow: expected one task such as {names[0]}, without --tail")
    if follow and (previous or number):
        raise InputError("--follow: expected without --previous and --run, whose runs have ended")
    if previous and number:
        raise InputError("--previous: expected without --run")
    if health and (follow or stderr):
        raise InputError("--health: expected without --stderr and --follow")
    stream = "health" if health else "stderr" if stderr else "stdout"
    query: dict[str, object] = {"stream": stream}
    query |= {"back": 1} if previous else {"number": number} if number else {}
    if follow:
        for text, _ in _parts(client, names[0], query, follow=True):
            sys.stdout.write(text)
            sys.stdout.flush()
        return
    outputs = {name: _whole(client, name, query) for name in names}
    if as_json:
        documents = [
            {"task": name, "run": run, "text": text} for name, (text, run) in outputs.items()
        ]
        common.print_json(documents[0] if len(documents) == 1 else documents)
        return
    for name, (text, _) in outputs.items():
        lines = text.splitlines(keepends=True)
        shown = lines if tail is None else lines[max(len(lines) - tail, 0) :]
        prefix = f"{name} | " if len(names) > 1 else ""
        sys.stdout.write("".join(f"{prefix}{line}" for line in shown))


def _tasks_of(client: ApiClient, name: str) -> list[str]:
    """The task that is named, or all tasks of the job that is."""
    from murmuration.workload.job_spec import split_task

    job, index = split_task(name)
    if index is not None:
        return [name]
    tasks = [str(row["task"]) for row in client.get("tasks", job=job)["tasks"]]
    return tasks or [f"{job}.0"]


def _whole(client: ApiClient, name: str, query: dict[str, object]) -> tuple[str, object]:
    """All output so far, and the run it is of."""
    parts = list(_parts(client, name, query, follow=False))
    return "".join(text for text, _ in parts), parts[-1][1]


def _parts(
    client: ApiClient, name: str, query: dict[str, object], follow: bool
) -> Iterator[tuple[str, object]]:
    """The output in pieces, with the run each is of; when following until the task ends."""
    at, run = 0, None
    while True:
        answer = live.ask_again(
            client,
            *("tasks", name, "output"),
            offset=at,
            patience_s=live.AWAY_S if follow else 0.0,
            **query,
        )
        if run is not None and answer["run"] != run:
            # A new run writes from the beginning.
            at, run = 0, None
            continue
        run, at = answer["run"] or None, answer["next"]
        yield answer["text"], run
        if not answer["text"] and (answer["ended"] or not follow):
            return
        if not answer["text"]:
            time.sleep(FOLLOW_S)
