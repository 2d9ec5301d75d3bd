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
@click.option("--tasks", is_flag=True, help="List the tasks of all jobs.")
@click.option("-a", "--all", "ended_too", is_flag=True, help="List ended jobs too, however old.")
@common.with_options(*live.CLIENT)
def ps(job: str | None, tasks: bool, ended_too: bool, folder: Path | None, as_json: bool) -> None:
    """List jobs, or the tasks of JOB."""
    client = live.client(folder)
    headers: tuple[str, ...]
    if job is not None or tasks:
        limit = {} if as_json else {"limit": ROWS}
        answer = client.get("tasks", **({"job": job} if job else {}), **limit)
        rows, cells, headers = answer["tasks"], live.task_cells, live.TASK_HEADERS
    else:
        answer = client.get("jobs")
        rows, cells, headers = answer["jobs"], live.job_cells, live.JOB_HEADERS
        if not ended_too:
            rows = [row for row in rows if row["ended_s"] is None] + [
                row for row in rows if row["ended_s"]
            ][-20:]
    if as_json:
        common.print_json(answer)
        return
    live.print_rows(headers, [cells(row) for row in rows[:ROWS]])
    more = answer.get("total", len(rows)) - ROWS
    if more > 0:
        common.say(f"{more} more; --json has them all")
