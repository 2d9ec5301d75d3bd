"""`murmur rollback`: give a service the specification it had before."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.live import common as live


@click.command()
@click.argument("job")
@common.with_options(*live.CLIENT)
def rollback(job: str, folder: Path | None, as_json: bool) -> None:
    """Undo the last change of a service.

    Its tasks are replaced one after the other, as murmur run of a changed service does; twice is
    where it was.
    """
    answer = live.client(folder).post("jobs", job, "rollback")
    if as_json:
        common.print_json(answer)
    else:
        click.echo(f"{job}: goes back to version {answer['version']}")
