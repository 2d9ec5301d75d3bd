"""`murmur status`: the cluster at a glance."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.live import common as live


@click.command()
@common.with_options(*live.CLIENT)
def status(folder: Path | None, as_json: bool) -> None:
    """Show the cluster's nodes, and the states of its jobs and tasks."""
    cluster = live.client(folder).get("status")
    if as_json:
        common.print_json(cluster)
        return
    click.echo(
        f"{cluster['api']}, up {live.duration(cluster['uptime_s'])}; {cluster['scheduler']} "
        f"scheduling, {cluster['placement']}"
    )
    for what in ("jobs", "tasks"):
        counts = ", ".join(f"{count} {state}" for state, count in cluster[what].items())
        click.echo(f"{what}: {counts or 'none'}")
    for row in cluster["frameworks"]:
        if row["framework"] != "jobs":
            click.echo(
                f"scheduler {row['framework']}: {row['tasks']} tasks, {row['offers']} offers"
            )
    if cluster["trouble"]:
        click.echo(f"trouble: {cluster['trouble']}")
    live.print_rows(live.NODE_HEADERS, [live.node_cells(row) for row in cluster["nodes"]])
