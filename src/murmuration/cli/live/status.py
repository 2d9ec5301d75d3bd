"""`murmur status`: the cluster at a glance."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.live import common as live


@click.command()
@common.with_options(*live.CLIENT)
def status(folder: Path | None, as_json: bool) -> None:
    """The cluster: its nodes, how many jobs and tasks are in which state, and what is wrong."""
    found = live.client(folder).get("status")
    if as_json:
        common.print_json(found)
        return
    click.echo(
        f"{found['api']}, up {live.duration(found['uptime_s'])}; {found['scheduler']} "
        f"scheduling, {found['placement']}"
    )
    for what in ("jobs", "tasks"):
        counts = ", ".join(f"{count} {state}" for state, count in found[what].items())
        click.echo(f"{what}: {counts or 'none'}")
    for row in found["frameworks"]:
        if row["framework"] != "jobs":
            click.echo(
                f"scheduler {row['framework']}: {row['tasks']} tasks, {row['offers']} offers"
            )
    if found["trouble"]:
        click.echo(f"trouble: {found['trouble']}")
    live.print_rows(live.NODE_HEADERS, [live.node_cells(row) for row in found["nodes"]])
