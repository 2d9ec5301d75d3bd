"""`murmur events`: the log of a live cluster."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from murmuration.cli import common
from murmuration.cli.live import common as live

PAGE = 1000
#: What only a program wants to know of a fact.
HIDDEN = ("spec", "rollout", "serial", "first_run", "duration_s")


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Keep printing as events happen.")
@click.option(
    "--index",
    type=click.IntRange(min=0),
    default=0,
    help="Start after this index, e.g. the last one seen.",
)
@common.with_options(*live.CLIENT)
def events(follow: bool, index: int, folder: Path | None, as_json: bool) -> None:
    """Print the cluster's log, oldest events first."""
    client = live.client(folder)
    if follow:
        for row in live.follow(client, index):
            _print(row, as_json)
        return
    rows: list[Any] = []
    while page := client.get("events", index=index):
        index = page[-1]["index"]
        rows += page
        if len(page) < PAGE:
            break
    if as_json:
        common.print_json(rows)
        return
    for row in rows:
        _print(row, False)


def _print(row: dict[str, Any], as_json: bool) -> None:
    import msgspec

    if as_json:
        sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
        sys.stdout.flush()
        return
    fact = {key: value for key, value in row["fact"].items() if key not in HIDDEN}
    rollout = row["fact"].get("rollout") or {}
    fact |= {key: rollout[key] for key in ("version", "phase", "reason") if key in rollout}
    at = time.strftime("%H:%M:%S", time.localtime(row["at_s"]))
    words = " ".join(f"{key}={value}" for key, value in fact.items() if value not in ("", None))
    sys.stdout.write(f"{row['index']:>7}  {at}  {row['kind']:<16}{words}\n")
    sys.stdout.flush()
