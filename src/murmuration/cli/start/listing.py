"""`murmur list`: everything that has a name."""

from __future__ import annotations

import click

from murmuration.cli import common

KINDS = ("presets", "schedulers", "placements", "objectives", "experiments", "keys")


@click.command("list")
@click.argument("kind", required=False, type=click.Choice(KINDS))
@common.JSON
def list_names(kind: str | None, as_json: bool) -> None:
    """List presets, schedulers, placements, objectives, experiments or scenario keys.

    Without an argument: everything but the keys.

    \b
    Examples:
      murmur list presets
      murmur list keys
    """
    from murmuration.cli.reproduce import print_by_paper
    from murmuration.cli.start.names import LISTS
    from murmuration.reports.terminal import comparison_table

    chosen = [name for name in KINDS if name == kind or (kind is None and name != "keys")]
    lists = {name: LISTS[name][1]() for name in chosen}
    if as_json:
        common.print_json(
            {
                name: [dict(zip(LISTS[name][0], row, strict=True)) for row in rows]
                for name, rows in lists.items()
            }
        )
        return
    for name, rows in lists.items():
        if name == "experiments":
            print_by_paper(LISTS[name][0][:2], rows)
            continue
        common.print_table(comparison_table(LISTS[name][0], rows))
        print()
