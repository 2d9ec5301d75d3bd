"""`murmur events`: the log of a live cluster."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.live import common as live

PAGE = 1000
#: What a master can choose from.
RECENT = 10_000
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
@click.option("--job", default="", help="Only what is about this job: its history.")
@click.option("--node", default="", help="Only what is about this node.")
@click.option("--kind", default="", help="Only kinds that begin so, e.g. Task.")
@click.option(
    "--last", type=click.IntRange(1, RECENT), help="Only so many, the last ones that apply."
)
@common.with_options(*live.CLIENT)
def events(
    follow: bool,
    index: int,
    job: str,
    node: str,
    kind: str,
    last: int | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Print the cluster's log, oldest events first.

    With --job, --node, --kind or --last, of the 10,000 events that happened last.
    """
    is_chosen = bool(job or node or kind or last)
    if is_chosen and (follow or index):
        raise InputError("--job, --node, --kind, --last: expected without --follow and --index")
    client = live.client(folder)
    if is_chosen:
        chosen = {"job": job, "node": node, "kind": kind}
        wanted = {name: value for name, value in chosen.items() if value}
        _print_all(client.get("events", last=last or RECENT, **wanted), as_json)
        return
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
    _print_all(rows, as_json)


def _print_all(rows: list[Any], as_json: bool) -> None:
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
