"""`murmur top`: what nodes and tasks use beside what they asked for, again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.cli import common
from murmuration.cli.live import common as live

if TYPE_CHECKING:
    from murmuration.runtime.client.requests import ApiClient

TASKS = 20
NODE_HEADERS = ("node", "state", "tasks", "cpu used/requested", "of", "memory used/requested", "of")
TASK_HEADERS = ("task", "node", "cpu used/requested", "memory used/requested", "ran", "reason")
#: How tasks can be sorted; what is used most comes first, names from the beginning.
ORDERS: dict[str, Callable[[live.Row], tuple[object, ...]]] = {
    "cpu": lambda row: (-(row["cpu"] or 0.0), row["task"]),
    "memory": lambda row: (-(row["memory"] or 0), row["task"]),
    "age": lambda row: (-row["age_s"], row["task"]),
    "task": lambda row: (row["task"],),
    "node": lambda row: (row["node"], row["task"]),
}


@click.command()
@live.EVERY
@click.option(
    "--once", is_flag=True, help="Print once and exit, as always when the output is no terminal."
)
@click.option(
    "--sort",
    type=click.Choice(list(ORDERS)),
    default="cpu",
    show_default=True,
    help="What tasks are sorted by.",
)
@click.option(
    "-n",
    "--tasks",
    "limit",
    type=click.IntRange(min=0),
    default=TASKS,
    show_default=True,
    help="Tasks to show.",
)
@common.with_options(*live.CLIENT)
def top(
    every_s: float, once: bool, sort: str, limit: int, folder: Path | None, as_json: bool
) -> None:
    """Show what nodes and tasks use, until Ctrl-C.

    CPUs and memory are those measured last, beside what was asked for.
    """
    client = live.client(folder)
    once |= as_json or not sys.stdout.isatty()
    while True:
        look = live.ask_patiently(lambda: _look(client.again()), 0.0 if once else live.AWAY_S)
        nodes, tasks = look[0], sorted(look[1], key=ORDERS[sort])
        if as_json:
            common.print_json({"nodes": nodes, "tasks": tasks[:limit]})
            return
        live.begin_page(not once, is_first=True)
        live.print_rows(NODE_HEADERS, [_node_cells(row) for row in nodes])
        click.echo()
        live.print_rows(TASK_HEADERS, [_task_cells(row) for row in tasks[:limit]])
        if len(tasks) > limit:
            common.say(f"{len(tasks) - limit} more tasks; -n {len(tasks)} shows them all")
        if once:
            return
        time.sleep(every_s)


def _look(client: ApiClient) -> tuple[list[live.Row], list[live.Row]]:
    return client.get("nodes")["nodes"], client.get("tasks", active=1)["tasks"]


def _node_cells(row: live.Row) -> list[str]:
    used, required, total = row["used"], row["required"], row["total"]
    return [
        row["node"],
        row["state"],
        str(row["tasks"]),
        live.share(used.get("cpu"), required["cpu"], _cpus),
        _cpus(total["cpu"]),
        live.share(used.get("memory"), required["memory"], live.size),
        live.size(total["memory"]),
    ]


def _task_cells(row: live.Row) -> list[str]:
    return [
        row["task"],
        row["node"],
        live.share(row["cpu"], row["request"]["cpu"], _cpus),
        live.share(row["memory"], row["request"]["memory"], live.size),
        live.duration(row["age_s"]),
        row["reason"],
    ]


def _cpus(amount: float | None) -> str:
    return "" if amount is None else f"{amount:.3g}"
