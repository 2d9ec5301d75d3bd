"""`murmur drain`: take a node out of use, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from murmuration.base.errors import InputError
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
@click.option("--dry-run", is_flag=True, help="Say what would become of its tasks.")
@click.option("--undo", is_flag=True, help="Let the node take new tasks again.")
@common.with_options(*live.CLIENT)
def drain(
    node: str, everything: bool, dry_run: bool, undo: bool, folder: Path | None, as_json: bool
) -> None:
    """Take a node out of use.

    NODE gets no new tasks; services move elsewhere, and terminating tasks may finish.
    """
    body = {"on": not undo, "now": everything}
    if dry_run and undo:
        raise InputError("--dry-run: --undo changes nothing that runs")
    asked = {"dry_run": 1} if dry_run else {}
    answer = live.client(folder).post("nodes", node, "drain", body=body, **asked)
    if as_json:
        common.print_json(answer)
    elif dry_run:
        rows = [[row["task"], row["kind"], _fate(row, answer["at_s"])] for row in answer["tasks"]]
        live.print_rows(("TASK", "KIND", "WHAT BECOMES OF IT"), rows)
    else:
        live.print_rows(live.NODE_HEADERS, [live.node_cells(row) for row in answer["nodes"]])


def _fate(row: dict[str, Any], now: float) -> str:
    if row["fate"] == "moves":
        return f"goes to {row['target']}"
    if row["fate"] == "waits":
        return "waits: no other node has room"
    ends = row["ends_by_s"]
    return "stays until it ends" + ("" if ends is None else f", at most {ends - now:.0f} s")
