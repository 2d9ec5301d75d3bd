"""`murmur down`: end a cluster and leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.live import common as live


@click.command()
@live.DIR
@click.option(
    "--keep", is_flag=True, help="Keep the folder: the store, the logs and the files of tasks."
)
@common.JSON
def down(folder: Path | None, keep: bool, as_json: bool) -> None:
    """Stop the cluster and its tasks, and remove its folder."""
    from murmuration.runtime.folder import find_folder
    from murmuration.runtime.supervisor import bring_down

    place = find_folder(folder)
    if not bring_down(place, keep):
        raise InputError(f"{place}: no cluster is here")
    if as_json:
        common.print_json({"dir": str(place), "kept": keep})
    else:
        common.say(f"the cluster in {place} has ended")
