"""`murmur kill`: end a job, or one task of it."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.live import common as live


@click.command()
@click.argument("job")
@common.with_options(*live.CLIENT)
def kill(job: str, folder: Path | None, as_json: bool) -> None:
    """Kill a job, or one task of it.

    JOB is a job, or a task such as hello.0 or, of an array, hello[0]; a service restarts the task.
    """
    from murmuration.workload.job_spec import split_task

    client = live.client(folder)
    answer = client.delete("jobs" if split_task(job)[1] is None else "tasks", job)
    if as_json:
        common.print_json(answer)
    else:
        click.echo(f"{job} is being killed")
