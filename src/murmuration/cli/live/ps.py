"""`murmur ps`: jobs, or the tasks of one, with the reason for what they do."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.live import common as live

#: Rows a person is shown; `--json` has them all.
ROWS = 1000


@click.command()
@click.argument("job", required=False)
@click.option("--tasks", is_flag=True, help="The tasks of all jobs.")
@click.option("-a", "--all", "ended_too", is_flag=True, help="Ended jobs too, however long ago.")
@common.with_options(*live.CLIENT)
def ps(job: str | None, tasks: bool, ended_too: bool, folder: Path | None, as_json: bool) -> None:
    """The jobs of the cluster; with JOB (or --tasks) its tasks."""
    client = live.client(folder)
    headers: tuple[str, ...]
    if job is not None or tasks:
        limit = {} if as_json else {"limit": ROWS}
        found = client.get("tasks", **({"job": job} if job else {}), **limit)
        rows, cells, headers = found["tasks"], live.task_cells, live.TASK_HEADERS
    else:
        found = client.get("jobs")
        rows, cells, headers = found["jobs"], live.job_cells, live.JOB_HEADERS
        if not ended_too:
            rows = [row for row in rows if row["ended_s"] is None] + [
                row for row in rows if row["ended_s"]
            ][-20:]
    if as_json:
        common.print_json(found)
        return
    live.print_rows(headers, [cells(row) for row in rows[:ROWS]])
    more = found.get("total", len(rows)) - ROWS
    if more > 0:
        common.say(f"{more} more; --json has them all")
