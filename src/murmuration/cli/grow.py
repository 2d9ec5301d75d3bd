"""`murmur grow`: how much more load the nodes of a cluster carry."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.compact import ASKED, LIMIT, SCHEDULERS, WAITING, ask


@click.command()
@click.argument("scenario")
@SCHEDULERS
@click.option(
    "--step",
    type=float,
    default=0.02,
    show_default=True,
    metavar="SHARE",
    help="How much the load grows each time.",
)
@common.with_options(LIMIT, WAITING, *ASKED)
def grow(
    scenario: str,
    schedulers: str,
    step: float,
    limit: float,
    waiting: float,
    settings: tuple[str, ...],
    seed: int | None,
    days: float | None,
    workers: int | None,
    out: Path | None,
    resume: bool,
    as_json: bool,
) -> None:
    """How much more load the nodes carry: SCENARIO (a preset or a TOML file) with ever more of its
    jobs doubled.

    Which jobs are doubled depends on a hash of their ids. The walk ends when two sizes in a row
    fail: too many nodes overloaded, or jobs left waiting.
    """
    from murmuration.experiments.capacity import Question

    tables = common.scenario_tables(scenario, settings, seed, days)
    ask(
        Question("grow", step, limit, waiting),
        scenario,
        tables,
        schedulers,
        workers,
        out,
        resume,
        as_json,
    )
