"""`murmur simulate`: one run, with a progress bar, a summary, a report and its results as
Parquet."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from murmuration.base.errors import InputError
from murmuration.cli import common

if TYPE_CHECKING:
    from murmuration.experiments.runs import Summary
    from murmuration.experiments.specs import Spec

DAY_S = 86_400.0


@click.command()
@click.argument("scenario")
@common.SCHEDULER
@common.with_options(*(option for option in common.MANY_RUNS if option is not common.RESUME))
@click.option(
    "--stop-after",
    type=float,
    metavar="DAYS",
    help="Stop after so many simulated days and keep a snapshot for --resume.",
)
@common.RESUME
@click.option("--check", is_flag=True, help="Check the simulator's invariants as it runs (slower).")
@common.DETAIL
def simulate(
    scenario: str,
    scheduler: str | None,
    settings: tuple[str, ...],
    seed: int | None,
    days: float | None,
    replicas: int,
    workers: int | None,
    on: str | None,
    out: Path | None,
    as_json: bool,
    stop_after: float | None,
    resume: bool,
    check: bool,
    detail: bool,
) -> None:
    """Simulate a scenario with one scheduler.

    SCENARIO is a preset (`murmur list presets`), a TOML file, or a trace or export of a cluster
    (docs/traces.md). The run leaves a report, its figures as JSON and its tables as Parquet in a
    folder.

    \b
    Examples:
      murmur simulate omega-a -s shared-state --days 0.1
      murmur simulate omega-a --days 0.1 --set cluster.nodes=9000
    """
    from dataclasses import replace

    from murmuration.cli.studies import compile_kernels, say_estimates
    from murmuration.experiments.pages.write import write_single
    from murmuration.experiments.runs import Control, complete

    _check_use(stop_after, resume, replicas, check, out is None and as_json)
    common.check_detail(detail, out, as_json, on)
    spec = common.choose_spec(common.read_study(scenario, settings, seed, days), scheduler)
    spec = replace(spec, detail=detail)
    label, checked = spec.label.replace(":", "."), spec.scenario
    name = f"{checked.name}-{label}-seed{checked.seed}"
    folder = common.study_folder(out, as_json, name, [spec], common.Changes(settings, days))
    if on is not None and replicas == 1:
        raise InputError("--on: expected with --replicas; a single run is made here")
    if replicas > 1:
        _replicas(spec, replicas, folder, (workers, on), resume, as_json)
        return
    compile_kernels([spec], workers)
    if not resume:
        say_estimates([spec])
    with common.progress("simulating", 1.0) as update:
        control = Control(
            progress=update,
            say=common.say,
            resume=resume,
            until_s=math.inf if stop_after is None else stop_after * DAY_S,
            check=check,
            interruptible=True,
        )
        spec = replace(spec, folder=None if folder is None else str(folder))
        outcome = complete(spec, control)
    if outcome is None:
        return
    if folder is not None:
        write_single(folder, outcome)
    _print(outcome.summary, folder, as_json)


def _check_use(
    stop_after: float | None, resume: bool, replicas: int, check: bool, nowhere: bool
) -> None:
    """Options that do not go together, before anything is done."""
    if stop_after is not None and not stop_after >= 0.0:
        raise InputError(f"--stop-after: expected a number of days from 0, got {stop_after:g}")
    if (stop_after is not None or resume) and nowhere:
        raise InputError("--stop-after and --resume: expected --out DIR for what is kept")
    if replicas > 1 and (stop_after is not None or check):
        raise InputError(
            "--replicas: expected neither --stop-after nor --check, which are for a single run"
        )


def _replicas(
    spec: Spec,
    replicas: int,
    folder: Path | None,
    where: tuple[int | None, str | None],
    resume: bool,
    as_json: bool,
) -> None:
    from murmuration.cli.studies import print_summaries, run_with_progress
    from murmuration.experiments.pages.write import write_comparison
    from murmuration.experiments.specs import assign_folders, replicate_seeds
    from murmuration.experiments.statistics import combine_by_label

    specs = replicate_seeds([spec], replicas)
    if folder is not None:
        specs = assign_folders(specs, folder, spec.detail)
    runs = run_with_progress("simulating", specs, *where, resume)
    summaries = combine_by_label(runs)
    if folder is not None:
        write_comparison(folder, spec.scenario.name, specs, summaries, runs)
    print_summaries(summaries, runs, folder, as_json)


def _print(summary: Summary, folder: Path | None, as_json: bool) -> None:
    from murmuration.cli.studies import headline, say_notes, terminal_table
    from murmuration.reports.formats import percent

    if as_json:
        common.print_json(summary)
        return
    print(headline([summary]))
    common.print_table(terminal_table([summary]))
    cluster, timing = summary["cluster"], summary["timing"]
    used = ", ".join(f"{name} {percent(share)}" for name, share in cluster["required"].items())
    common.say(
        f"required: {used}; {summary['events']:,} events in {timing['cpu_s']:.2f} CPU s "
        f"({summary['path']})"
    )
    if "migrations_per_min" in cluster:
        common.say(_nodes_and_moves(cluster))
    for sentence in _losses_and_costs(cluster):
        common.say(sentence)
    say_notes(summary)
    common.say_report(folder)


def _losses_and_costs(cluster: dict[str, Any]) -> list[str]:
    """What failures and preemption cost, and money and energy, where the scenario has them."""
    sentences = []
    if "tasks_lost" in cluster:
        sentences.append(
            f"lost with nodes: {cluster['tasks_lost']:,} tasks, {cluster['cpu_h_lost']:,.1f} CPU "
            "hours of work"
        )
    if "jobs_preempted" in cluster:
        sentences.append(
            f"preempted: {cluster['jobs_preempted']:,} times, {cluster['cpu_h_preempted']:,.1f} "
            "CPU hours of work lost"
        )
    if "energy_kwh" in cluster:
        sentences.append(
            f"energy: {cluster['energy_kwh']:,.1f} kWh, {cluster['power_mean_w']:,.0f} W on "
            f"average; cost: {cluster['cost']:,.2f}"
        )
    return sentences


def _nodes_and_moves(cluster: dict[str, Any]) -> str:
    """How the nodes are filled, and what was moved for it."""
    from murmuration.experiments.pages.parts import kind_label
    from murmuration.reports.formats import percent

    types = ", ".join(
        f"{kind_label(name)} {percent(count / cluster['nodes_mean'])}"
        for name, count in cluster["allocation_types"].items()
        if count
    )
    if not cluster["migrations_per_min"]:
        return f"nodes: {types}"
    gigabytes = cluster["migrated_mb_per_min"] / 1000.0
    return (
        f"nodes: {types}; {cluster['migrations_per_min']:.1f} migrations and {gigabytes:.1f} "
        "GB moved per minute"
    )
