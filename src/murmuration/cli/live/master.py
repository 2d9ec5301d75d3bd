"""`murmur master`: one master in the foreground, for those who start the parts themselves."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.live import common as live


@click.command()
@live.DIR
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the API (default: any free one).",
)
@click.option("-s", "--scheduler", default="monolithic", show_default=True, metavar="NAME")
@click.option("--placement", default="first-fit", show_default=True)
@click.option("--allocator", default="drf", show_default=True)
@click.option(
    "--resource", "extra", multiple=True, metavar="NAME", help="A further resource nodes may have."
)
@click.option(
    "--agent-timeout",
    "agent_timeout_s",
    type=click.FloatRange(0.5, 86_400),
    default=60.0,
    show_default=True,
)
@common.SEED
def master(
    folder: Path | None,
    port: int,
    scheduler: str,
    placement: str,
    allocator: str,
    extra: tuple[str, ...],
    agent_timeout_s: float,
    seed: int | None,
) -> None:
    """Run a master; node agents find it by the folder. Ctrl-C ends it and leaves tasks running."""
    from murmuration.runtime.folder import find_folder
    from murmuration.runtime.master import process as process
    from murmuration.runtime.options import MasterOptions

    process.main(
        MasterOptions(
            folder=str(find_folder(folder)),
            port=port,
            scheduler=scheduler,
            placement=placement,
            allocator=allocator,
            resources=list(extra),
            agent_timeout_s=agent_timeout_s,
            seed=1 if seed is None else seed,
        )
    )
