"""`murmur compact`: how few nodes carry a workload."""

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
    default=0.01,
    show_default=True,
    metavar="SHARE",
    help="The share of the nodes that is removed at each step.",
)
@common.with_options(*capacity.OPTIONS)
def compact(
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
    """Find the fewest nodes that carry a workload.

    SCENARIO (a preset or a TOML file) is simulated on fewer and fewer of its nodes. Nodes are
    removed in a random order that depends on the seed alone. The search ends when two sizes in a
    row fail: too many nodes overloaded, or jobs left waiting.
    """
    from murmuration.experiments.capacity import Question

    study = common.read_study(scenario, settings, seed, days)
    question = Question("compact", step, limit, waiting)
    capacity.answer(question, study, schedulers, capacity.How(workers, out, resume, as_json))
