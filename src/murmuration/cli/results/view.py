"""`murmur view`: the web page of a live cluster."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.live import common as live


@click.command()
@live.DIR
@common.with_options(common.JSON)
def view(folder: Path | None, as_json: bool) -> None:
    """Print a link to the web page of the cluster.

    It works once, within ten minutes; the browser then stays signed in.
    """
    from murmuration.cli.live.up import page_link

    link = page_link(folder)
    if as_json:
        common.print_json({"link": link})
    else:
        click.echo(link)
