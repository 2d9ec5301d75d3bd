"""`murmur logs`: the output of a task, so far or as it is written."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.live import common as live

FOLLOW_S = 0.2


@click.command()
@click.argument("task")
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the task ends.")
@click.option("--stderr", is_flag=True, help="Print standard error instead of standard output.")
@common.with_options(*live.CLIENT)
def logs(task: str, follow: bool, stderr: bool, folder: Path | None, as_json: bool) -> None:
    """Print the output of a task.

    TASK is a task such as hello.0, or a job that has a single task.
    """
    client = live.client(folder)
    name = task if live.split_task(task)[1] is not None else f"{task}.0"
    at, text, run = 0, "", None
    while True:
        answer = live.ask_again(
            client,
            *("tasks", name, "output"),
            offset=at,
            stream="stderr" if stderr else "stdout",
            patience_s=live.AWAY_S if follow else 0.0,
        )
        if run is not None and answer["run"] != run:
            # A new run writes from the beginning.
            at, run = 0, None
            continue
        run, at = answer["run"] or None, answer["next"]
        text += answer["text"] if as_json else ""
        if not as_json:
            sys.stdout.write(answer["text"])
            sys.stdout.flush()
        if not answer["text"] and (answer["ended"] or not follow):
            break
        if not answer["text"]:
            time.sleep(FOLLOW_S)
    if as_json:
        common.print_json({"task": name, "run": run, "text": text})
