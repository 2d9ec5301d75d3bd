"""`murmur compact` and `murmur grow`: how few nodes carry a workload, and how much more load the
nodes carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.cli import common

if TYPE_CHECKING:
    from murmuration.experiments.capacity import CapacityQuestion, Walk
    from murmuration.experiments.execution.workers import Workers
    from murmuration.experiments.runs import Summary
    from murmuration.experiments.specs import Spec, Study

LIMIT = click.option(
    "--limit",
    type=float,
    default=0.005,
    show_default=True,
    metavar="SHARE",
    help="The mean share of nodes that may be overloaded.",
)
WAITING = click.option(
    "--waiting",
    type=float,
    default=0.01,
    show_default=True,
    metavar="SHARE",
    help="The share of jobs that may be left waiting beyond those at 100 %.",
)
OPTIONS = (
    LIMIT,
    WAITING,
    common.SET,
    common.LOAD,
    common.ARRIVALS,
    common.SEED,
    common.DAYS,
    common.REPLICAS,
    common.JOBS,
    common.ON,
    common.OUT,
    common.RESUME,
    common.JSON,
)


@dataclass(frozen=True)
class How:
    """How the runs are made and shown."""

    replicas: int
    workers: int | None
    on: str | None
    out: Path | None
    resume: bool
    as_json: bool
    changes: common.Changes


@click.command()
@click.argument("scenario")
@common.SCHEDULERS
@click.option(
    "--step",
    type=float,
    default=0.01,
    show_default=True,
    metavar="SHARE",
    help="The share of the nodes that is removed at each step.",
)
@common.with_options(*OPTIONS)
def compact(
    scenario: str,
    schedulers: str,
    step: float,
    limit: float,
    waiting: float,
    settings: tuple[str, ...],
    seed: int | None,
    days: float | None,
    replicas: int,
    workers: int | None,
    on: str | None,
    out: Path | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Find the fewest nodes that carry a workload.

    SCENARIO (a preset, a TOML file or an export of a cluster) is simulated on fewer and fewer of
    its nodes. Nodes are removed in a random order that depends on the seed alone. The search ends
    when two sizes in a row fail: too many nodes overloaded, or jobs left waiting.
    """
    from murmuration.experiments.capacity import CapacityQuestion

    study = common.read_study(scenario, settings, seed, days)
    question = CapacityQuestion("compact", step, limit, waiting)
    answer(
        question,
        study,
        schedulers,
        How(replicas, workers, on, out, resume, as_json, common.Changes(settings, days)),
    )


@click.command()
@click.argument("scenario")
@common.SCHEDULERS
@click.option(
    "--step",
    type=float,
    default=0.02,
    show_default=True,
    metavar="SHARE",
    help="How much the load grows at each step.",
)
@common.with_options(*OPTIONS)
def grow(
    scenario: str,
    schedulers: str,
    step: float,
    limit: float,
    waiting: float,
    settings: tuple[str, ...],
    seed: int | None,
    days: float | None,
    replicas: int,
    workers: int | None,
    on: str | None,
    out: Path | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Find how much more load the nodes carry.

    SCENARIO (a preset, a TOML file or an export of a cluster) is simulated with more and more of
    its jobs doubled. Which jobs are doubled depends on a hash of their ids. The search ends when
    two sizes in a row fail: too many nodes overloaded, or jobs left waiting.
    """
    from murmuration.experiments.capacity import CapacityQuestion

    study = common.read_study(scenario, settings, seed, days)
    question = CapacityQuestion("grow", step, limit, waiting)
    answer(
        question,
        study,
        schedulers,
        How(replicas, workers, on, out, resume, as_json, common.Changes(settings, days)),
    )


def answer(question: CapacityQuestion, study: Study, schedulers: str, how: How) -> None:
    """Search with each scheduler, and show the result."""
    from murmuration.cli.studies import compile_kernels
    from murmuration.experiments.capacity import check
    from murmuration.experiments.execution.workers import Workers
    from murmuration.experiments.pages.write import write_walks
    from murmuration.experiments.specs import replicate_seeds, variant_specs

    check(question)
    names = common.split_names(schedulers)
    specs = replicate_seeds(variant_specs(study, names) if names else [study.base], how.replicas)
    name = f"{study.name}-{question.kind}"
    folder = common.study_folder(how.out, how.as_json, name, specs, how.changes)
    if how.on is None:
        compile_kernels(specs, how.workers)
    walks: list[Walk] = []
    with Workers(how.workers or common.cores()) as workers:
        for spec in specs:
            walks.append(_walk(spec, question, how, folder, workers, walks))
    if folder is not None:
        write_walks(folder, study.name, question, walks)
    _print(question, walks, folder, how.as_json)


def _walk(
    spec: Spec,
    question: CapacityQuestion,
    how: How,
    folder: Path | None,
    workers: Workers,
    before: Sequence[Walk],
) -> Walk:
    """The search with one scheduler, behind a line that says how far it is: nobody knows where it
    ends. When the command is stopped, its steps and those of the walks before are shown."""
    from rich.console import Console

    from murmuration.experiments import capacity, parallel

    so_far: list[Walk] = []
    with Console(stderr=True).status(f"{spec.label}: 100 %") as status:

        def done(index: int, summary: Summary) -> None:
            status.update(f"{summary['scheduler']} %: done")

        def run_all(specs: Sequence[Spec]) -> list[Summary]:
            return parallel.run_all(specs, workers, how.on, how.resume, done)

        try:
            walk = capacity.walk(spec, question, run_all, workers.count, folder, so_far.append)
            return replace(walk, is_replica=how.replicas > 1)
        except KeyboardInterrupt as error:
            stop = error
    _print_finished([*before, *so_far[-1:]])
    raise stop


def _print_finished(walks: Sequence[Walk]) -> None:
    from murmuration.experiments.pages.capacity import table
    from murmuration.reports.terminal import comparison_table

    if walks:
        common.print_table(comparison_table(*table(walks)))
    count = sum(len(walk.steps) for walk in walks)
    common.say(f"sizes finished: {count}; --resume goes on from there")


def _print(
    question: CapacityQuestion, walks: Sequence[Walk], folder: Path | None, as_json: bool
) -> None:
    from murmuration.experiments import capacity
    from murmuration.experiments.pages.capacity import table
    from murmuration.reports.terminal import comparison_table

    if as_json:
        common.print_json(capacity.document(question, walks))
        return
    common.print_table(comparison_table(*table(walks)))
    for walk in walks:
        print(capacity.answer(question, walk))
    for sentence in capacity.answer_all(question, walks):
        print(sentence)
    common.say_report(folder)
