"""`murmur plot`: a figure for a paper, of runs that were made before."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Where it goes; .pdf, .svg or .png.",
)
@click.option(
    "--figure",
    metavar="NAME",
    help="waits, cdf, sweep, cpu, memory, tasks, fragmentation, power or capacity (default: by "
    "what the runs are).",
)
@click.option(
    "--width",
    type=click.Choice(["column", "page"]),
    default="column",
    show_default=True,
    help="Of a column of a two-column page (3.33 in), or of the page (7 in).",
)
def plot(runs: tuple[Path, ...], output: Path, figure: str | None, width: str) -> None:
    """Draw a figure for a paper.

    RUN is the folder of a run, of a comparison or of a sweep. Runs with different seeds are one
    curve with its 95 % interval. Needs matplotlib (the extra plot).

    \b
    Examples:
      murmur compare omega-a --days 0.02 -s offers,shared-state --replicas 3 --out study
      murmur plot study -o waits.pdf
      murmur plot study -o load.svg --figure cpu --width page
    """
    from murmuration.experiments.figures.choose import choose_figure
    from murmuration.experiments.figures.draw import check_output, write_figure

    check_output(output)
    write_figure(choose_figure(runs, figure), output, width)
    common.say(f"figure: {output}")
