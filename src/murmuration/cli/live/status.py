"""`murmur status`: the cluster at a glance."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.base.documents import Document
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
    for words, nodes in _alike(cluster["nodes"]).items():
        click.echo(f"{', '.join(nodes)}: {words}")


def _alike(rows: list[Document]) -> dict[str, list[str]]:
    """What nodes have besides CPU and memory: attributes that constraints can test, and resources;
    nodes that have the same stand together."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        # Every node has its own name as an attribute.
        own = {key: value for key, value in row["attributes"].items() if value != row["node"]}
        words = [f"{key} = {value}" for key, value in own.items()]
        for name, total in row["total"].items():
            if name not in ("cpu", "memory"):
                words.append(f"{row['required'].get(name, 0.0):.4g}/{total:.4g} {name}")
        groups.setdefault(", ".join(words), []).append(row["node"])
    return {words: nodes for words, nodes in groups.items() if words}
