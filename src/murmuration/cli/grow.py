"""`murmur grow`: how much more load the nodes of a cluster carry."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import capacity, common


@click.command()
@click.argument("scenario")
@capacity.SCHEDULERS
@click.option(
    "--step",
    type=float,
    default=0.02,
    show_default=True,
    metavar="SHARE",
    help="How much the load grows at each step.",
)
@common.with_options(*capacity.OPTIONS)
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
    """Find how much more load the nodes carry.

    SCENARIO (a preset or a TOML file) is simulated with more and more of its jobs doubled. Which
    jobs are doubled depends on a hash of their ids. The search ends when two sizes in a row fail:
    too many nodes overloaded, or jobs left waiting.
    """
    from murmuration.experiments.capacity import Question

    study = common.read_study(scenario, settings, seed, days)
    question = Question("grow", step, limit, waiting)
    capacity.answer(question, study, schedulers, capacity.How(workers, out, resume, as_json))
