"""`murmur quota`: how much each user may have at once."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.live import common as live

#: People say both.
_SAME = {"cpus": "cpu"}


@click.group()
def quota() -> None:
    """Bound what the jobs of a user may have at once.

    What is over a quota waits; a job that could never start under it is refused.
    """


@quota.command(name="set")
@click.argument("user")
@click.argument("limits", nargs=-1, required=True, metavar="LIMIT=AMOUNT...")
@common.with_options(*live.CLIENT)
def set_quota(user: str, limits: tuple[str, ...], folder: Path | None, as_json: bool) -> None:
    """Set limits of USER, such as jobs=10 cpu=8 memory=16Gi priority=5.

    Limits that are not named stay as they are. A limit of a resource counts what running tasks ask
    for; jobs are those that run; priority is the highest that may be asked for.
    """
    given: dict[str, str] = {}
    for limit in limits:
        name, equals, amount = limit.partition("=")
        if not equals or not amount:
            raise InputError(f"expected limits such as jobs=10 or memory=16Gi, got {limit!r}")
        given[_SAME.get(name, name)] = amount
    answer = live.client(folder).put("quotas", user, body=given)
    if as_json:
        common.print_json(answer)
    else:
        _print([answer])


@quota.command()
@click.argument("user")
@common.with_options(*live.CLIENT)
def remove(user: str, folder: Path | None, as_json: bool) -> None:
    """Let USER have as much as there is."""
    answer = live.client(folder).delete("quotas", user)
    if as_json:
        common.print_json(answer)
    else:
        common.say(f"{user} has no quota")


@quota.command(name="list")
@common.with_options(*live.CLIENT)
def list_quotas(folder: Path | None, as_json: bool) -> None:
    """Show what each user may have and has; without the role of an operator, only your own."""
    rows = live.client(folder).get("quotas")
    if as_json:
        common.print_json(rows)
    else:
        _print(rows)


def _print(rows: list[live.Row]) -> None:
    cells = []
    for row in rows:
        for what, limit in row["limits"].items():
            show = live.size if what == "memory" else "{:g}".format
            used = "" if what == "priority" else show(row["used"].get(what, 0))
            cells.append([row["user"], what, used, show(limit)])
    live.print_rows(("user", "what", "used", "limit"), cells)
