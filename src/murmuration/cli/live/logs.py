"""`murmur logs`: what a task has written, and what it writes."""

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
@click.option("-f", "--follow", is_flag=True, help="Go on until the task ends.")
@click.option("--stderr", is_flag=True, help="Standard error instead of standard output.")
@common.with_options(*live.CLIENT)
def logs(task: str, follow: bool, stderr: bool, folder: Path | None, as_json: bool) -> None:
    """What TASK (e.g. hello.0; a job of one task goes by its name) has written."""
    client = live.client(folder)
    name = task if live.split_task(task)[1] is not None else f"{task}.0"
    at, text, run = 0, "", None
    while True:
        found = client.get(
            "tasks", name, "output", offset=at, stream="stderr" if stderr else "stdout"
        )
        if run is not None and found["run"] != run:
            # A new run writes from the beginning.
            at, run = 0, None
            continue
        run, at = found["run"] or None, found["next"]
        text += found["text"] if as_json else ""
        if not as_json:
            sys.stdout.write(found["text"])
            sys.stdout.flush()
        if not found["text"] and (found["ended"] or not follow):
            break
        if not found["text"]:
            time.sleep(FOLLOW_S)
    if as_json:
        common.print_json({"task": name, "run": run, "text": text})
