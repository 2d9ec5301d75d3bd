"""`murmur top`: nodes and the busiest tasks, again and again."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from murmuration.cli import common
from murmuration.cli.live import common as live

TASKS = 20
HEADERS = ("task", "node", "cpu", "memory", "ran", "reason")


@click.command()
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Seconds between two updates.",
)
@click.option(
    "--once", is_flag=True, help="Print once and exit, as always when the output is no terminal."
)
@common.with_options(*live.CLIENT)
def top(every_s: float, once: bool, folder: Path | None, as_json: bool) -> None:
    """Show nodes and the busiest tasks until Ctrl-C."""
    client = live.client(folder)
    before: dict[str, tuple[float, float]] = {}
    while True:
        nodes = client.get("nodes")["nodes"]
        tasks = _busiest(client.get("tasks", active=1)["tasks"], before)
        if as_json:
            common.print_json({"nodes": nodes, "tasks": tasks})
            return
        if sys.stdout.isatty() and not once:
            sys.stdout.write("\x1b[H\x1b[2J")
        live.print_rows(live.NODE_HEADERS, [live.node_cells(row) for row in nodes])
        click.echo()
        live.print_rows(HEADERS, [_cells(row) for row in tasks])
        if once or not sys.stdout.isatty():
            return
        time.sleep(every_s)


def _busiest(
    rows: list[dict[str, Any]], before: dict[str, tuple[float, float]]
) -> list[dict[str, Any]]:
    """The tasks that use most CPU; a rate needs two looks, so at first it is the mean since the
    start."""
    now = time.monotonic()
    for row in rows:
        used, age = row["cpu_s"] or 0.0, max(row["age_s"], 0.1)
        then, counted = before.get(row["task"], (now - age, 0.0))
        row["cpu"] = max(0.0, used - counted) / max(now - then, 0.1)
        if used != counted:
            before[row["task"]] = (now, used)
    return sorted(rows, key=lambda row: -row["cpu"])[:TASKS]


def _cells(row: dict[str, Any]) -> list[str]:
    lasted = live.duration(row["age_s"])
    return [
        row["task"],
        row["node"],
        f"{row['cpu']:.2f}",
        live.size(row["memory"]),
        lasted,
        row["reason"],
    ]
