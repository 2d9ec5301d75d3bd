"""`murmur kube snapshot`: the whole cluster as it was at one moment, for `murmur plan`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.kube.access import CONTEXT, KUBECONFIG, with_client


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("-"),
    metavar="FILE",
    help="Where it goes; - for standard output (default).",
)
@common.with_options(KUBECONFIG, CONTEXT)
def snapshot(output: Path, kubeconfig: Path | None, context: str | None) -> None:
    """Write nodes, pods, budgets, volumes and what else a plan looks at, all of one moment."""
    import msgspec

    from murmuration.base.files import write_text
    from murmuration.kubernetes.api.snapshot import read_cluster

    read = with_client(kubeconfig, context, read_cluster)
    text = msgspec.json.format(msgspec.json.encode(read.document()), indent=1).decode() + "\n"
    if str(output) == "-":
        sys.stdout.write(text)
    else:
        write_text(output, text)
        common.say(f"{output}: {len(read.items)} objects at version {read.version}")
    for note in read.notes:
        common.say(f"note: {note}")
