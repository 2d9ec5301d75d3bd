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
    """End JOB, or one task of it such as hello.0 (a service starts it anew)."""
    client = live.client(folder)
    found = client.delete("tasks" if live.split_task(job)[1] is not None else "jobs", job)
    if as_json:
        common.print_json(found)
    else:
        click.echo(f"{job} is being killed")
