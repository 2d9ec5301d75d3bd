"""`murmur token`: let people in with a role, and send them away again."""

from __future__ import annotations

import time
from pathlib import Path

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.live import common as live
from murmuration.runtime.options import CERTIFICATE_DAYS, DAYS_MAX


@click.group()
def token() -> None:
    """Issue, list and revoke the tokens of a cluster's users.

    The token in the cluster's own folder is its owner's and stays good.
    """


@token.command()
@click.argument("name")
@click.option(
    "--role",
    default="submitter",
    show_default=True,
    help="viewer (reads), submitter (has jobs of its own) or operator (everything).",
)
@click.option("--user", default="", help="Whose jobs are submitted with it (default: NAME).")
@click.option(
    "--days",
    type=click.IntRange(1, DAYS_MAX),
    default=CERTIFICATE_DAYS,
    show_default=True,
    help="How long it is good.",
)
@click.option(
    "--out", "to", type=click.Path(path_type=Path), help="Write it to a new file, mode 600."
)
@common.with_options(*live.CLIENT)
def issue(
    name: str,
    role: str,
    user: str,
    days: int,
    to: Path | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Issue the token NAME. It is shown once, and kept nowhere."""
    from murmuration.runtime.folder import write_private

    if to is not None and to.exists():
        raise InputError(f"{to}: expected a file that is not there yet")
    order = {"name": name, "role": role, "user": user, "days": days}
    issued = live.client(folder).post("tokens", body=order)
    if to is not None:
        write_private(to, issued["token"] + "\n")
        issued["token"] = str(to)
    if as_json:
        common.print_json(issued)
        return
    click.echo(issued["token"] if to is None else f"{to} has the token of {issued['user']}")
    common.say(
        f"{name} lets {issued['user']} in as {role} until {_day(issued['ends_s'])}; use it with "
        "--token-file FILE or MURMUR_TOKEN_FILE"
    )


@token.command()
@click.argument("name")
@common.with_options(*live.CLIENT)
def revoke(name: str, folder: Path | None, as_json: bool) -> None:
    """Revoke the token NAME at once; jobs of its user go on."""
    revoked = live.client(folder).delete("tokens", name)
    if as_json:
        common.print_json(revoked)
    else:
        common.say(f"{name} is revoked")


@token.command(name="list")
@common.with_options(*live.CLIENT)
def list_tokens(folder: Path | None, as_json: bool) -> None:
    """Show the tokens that were issued and not revoked."""
    rows = live.client(folder).get("tokens")
    if as_json:
        common.print_json(rows)
        return
    cells = [
        [row["name"], row["role"], row["user"], row["state"], _day(row["ends_s"])] for row in rows
    ]
    live.print_rows(("name", "role", "user", "state", "until"), cells)


def _day(moment: float | None) -> str:
    return "it is revoked" if moment is None else time.strftime("%Y-%m-%d", time.localtime(moment))
