"""`murmur scale`: have more tasks of a job, or fewer."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.live import common as live


@click.command()
@click.argument("job")
@click.argument("count", type=click.IntRange(min=1))
@common.with_options(*live.CLIENT)
def scale(job: str, count: int, folder: Path | None, as_json: bool) -> None:
    """Have COUNT tasks of a job that runs.

    More tasks are placed as those of a new job are; of fewer, the newest are told to end.
    """
    answer = live.client(folder).post("jobs", job, "scale", body={"count": count})
    if as_json:
        common.print_json(answer)
    else:
        click.echo(f"{job}: {count} task{'s' if count > 1 else ''} from now on")
