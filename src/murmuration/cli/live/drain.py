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
    help="Move terminating tasks too; they start again elsewhere.",
)
@click.option("--undo", is_flag=True, help="Let the node take new tasks again.")
@common.with_options(*live.CLIENT)
def drain(node: str, everything: bool, undo: bool, folder: Path | None, as_json: bool) -> None:
    """Take a node out of use.

    NODE gets no new tasks; services move elsewhere, and terminating tasks may finish.
    """
    answer = live.client(folder).post(
        "nodes", node, "drain", body={"on": not undo, "now": everything}
    )
    if as_json:
        common.print_json(answer)
    else:
        live.print_rows(live.NODE_HEADERS, [live.node_cells(row) for row in answer["nodes"]])
