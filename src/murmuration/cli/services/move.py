"""`murmur move`: run a task on another node."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.live import common as live


@click.command()
@click.argument("task")
@click.option("--dry-run", is_flag=True, help="Say where it would go; move nothing.")
@common.with_options(*live.CLIENT)
def move(task: str, dry_run: bool, folder: Path | None, as_json: bool) -> None:
    """Run a task on another node.

    TASK, e.g. web.0, is told to stop and is run again where the master would place it now, but not
    where it is. A task of a terminating job starts from the beginning.
    """
    client = live.client(folder)
    forecast = client.post("tasks", task, "move", dry_run=1)
    if not dry_run:
        answer = client.post("tasks", task, "move")
    if as_json:
        common.print_json(forecast if dry_run else answer)
        return
    place = f"from {forecast['origin']} to {forecast['target']}"
    if not forecast["target"]:
        click.echo(f"{task}: no other node than {forecast['origin']} has room")
    else:
        click.echo(f"{task} would go {place}" if dry_run else f"{task} is moved {place}")
