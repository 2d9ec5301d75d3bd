"""`murmur drain`: take a node out of use, and back."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.live import common as live


@click.command()
@click.argument("node")
@click.option(
    "--now",
    "everything",
    is_flag=True,
    help="Move terminating tasks too: they begin again elsewhere.",
)
@click.option("--undo", is_flag=True, help="Take new tasks again.")
@common.with_options(*live.CLIENT)
def drain(node: str, everything: bool, undo: bool, folder: Path | None, as_json: bool) -> None:
    """No new tasks on NODE; services move elsewhere, terminating tasks may finish."""
    found = live.client(folder).post(
        "nodes", node, "drain", body={"on": not undo, "now": everything}
    )
    if as_json:
        common.print_json(found)
    else:
        live.print_rows(live.NODE_HEADERS, [live.node_cells(row) for row in found["nodes"]])
