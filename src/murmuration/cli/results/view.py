"""`murmur view`: the web page of a live cluster, or of runs that were made before."""

from __future__ import annotations

import tarfile
from pathlib import Path

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.live import common as live
from murmuration.runtime.folder import STORE


@click.command()
@click.argument("places", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN|PLAN|DUMP...]")
@live.DIR
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the page of runs.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the page of runs to a file instead of serving it.",
)
@common.with_options(common.JSON)
def view(
    places: tuple[Path, ...], folder: Path | None, port: int, out: Path | None, as_json: bool
) -> None:
    """Look at a cluster or at runs in a browser.

    Without a name it prints a link to the page of the live cluster, which works once, within ten
    minutes. RUN is the folder of a run, a comparison, a sweep or a reproduction; several runs are
    drawn side by side on one time axis. PLAN is the folder of a plan. DUMP is a file of murmur
    dump, or the folder or store.db of a cluster that is down: its pages as they were at the end.
    Pages are served on this host until Ctrl-C.

    \b
    Examples:
      murmur simulate omega-a --days 0.02 --out a
      murmur view a --out a.html
    """
    if not places:
        from murmuration.cli.live.up import page_link

        _print_link(page_link(folder), as_json)
        return
    if len(places) == 1 and is_recorded_cluster(places[0]):
        if out is not None:
            raise InputError(
                f"{places[0]}: the pages of a cluster are served, not written to --out"
            )
        from murmuration.experiments.recordings.cluster_page import serve_recorded

        serve_recorded(places[0], port, lambda url: _print_link(url, as_json))
        return
    from murmuration.experiments.pages.view import read_page

    page = read_page(places)
    if out is not None:
        from murmuration.base import files
        from murmuration.reports.page import render

        files.write_text(out, page if isinstance(page, str) else render(page))
        common.say(f"page: {out}")
        return
    from murmuration.cli.results.serve import serve_page

    serve_page(page, port, lambda url: _print_link(url, as_json))


def is_recorded_cluster(place: Path) -> bool:
    """Whether this is a file of `murmur dump`, the folder of a cluster or its store."""
    if place.is_dir():
        return (place / STORE).is_file()
    return place.is_file() and (place.name == STORE or tarfile.is_tarfile(place))


def _print_link(link: str, as_json: bool) -> None:
    if as_json:
        common.print_json({"link": link})
    else:
        click.echo(link)
