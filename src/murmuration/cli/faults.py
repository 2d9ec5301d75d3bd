"""`murmur faults`: a protocol, or a whole scenario on the live master, while hosts crash and
messages are lost."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.simulation.messages import protocols

if TYPE_CHECKING:
    from murmuration.experiments.faults import Figures
    from murmuration.simulation.scenarios.scenario import Scenario

PROTOCOLS = tuple(protocols.PROTOCOLS)
SCHEDULES, COUNT = 100, 100


@click.command()
@click.argument("scenario", required=False)
@click.option(
    "--protocol",
    type=click.Choice(PROTOCOLS),
    help=f"The protocol to run on a small cell (default: {PROTOCOLS[0]}).",
)
@click.option(
    "--masters",
    type=click.IntRange(min=1, max=9),
    metavar="N",
    help="With --protocol central: so many masters on one store, and frameworks (default: one).",
)
@click.option(
    "--schedules",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Fault schedules to run, one seed after the other (default: {SCHEDULES}).",
)
@click.option(
    "--count",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"With SCENARIO: how many crashes and cuts (default: {COUNT}).",
)
@common.SCHEDULER
@common.with_options(
    common.SET, common.LOAD, common.ARRIVALS, common.SEED, common.DAYS, common.JOBS, common.JSON
)
def faults(
    scenario: str | None,
    protocol: str | None,
    masters: int | None,
    schedules: int | None,
    count: int | None,
    scheduler: str | None,
    settings: tuple[str, ...],
    seed: int | None,
    days: float | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Test a protocol or a scenario under crashes and partitions.

    Without SCENARIO: many small cells, each with a random schedule of loss, delay, duplication,
    partitions and crashes. At every step no task may run twice or be without an owner, and
    resources must add up; in the end every task runs on exactly one node.

    With SCENARIO, a preset or a TOML file: its jobs on the live master and its node agents, while
    masters and node agents crash and nodes are cut off. No task may run twice at a time, no job may
    be lost, and no process may be left over.

    With --masters, the whole control plane: masters that lead by a lease, the store in etcd, node
    agents, two frameworks by offers and two schedulers by transactions. At most one master may act,
    no node may be overbooked, every offer must be answered or rescinded, and shares must converge.

    A failure prints the command that repeats it, and the exit code is 1.
    """
    if scenario is None:
        if count is not None or scheduler is not None or settings or days is not None:
            raise InputError(
                "--count, --scheduler, --set and --days: expected with a SCENARIO; a protocol "
                "takes --schedules, --seed and --jobs"
            )
        name = protocol or PROTOCOLS[0]
        if masters is not None and name != "central":
            raise InputError(f"--masters: expected with --protocol central, got {name}")
        first = 1 if seed is None else seed
        count = schedules or SCHEDULES
        _protocol((name, masters), count, first, workers or common.cores(), as_json)
        return
    if (protocol, schedules, masters, workers) != (None, None, None, None):
        raise InputError(
            "--protocol, --masters, --schedules and --jobs: expected without a SCENARIO, which is "
            "one run"
        )
    spec = common.choose_spec(common.read_study(scenario, settings, seed, days), scheduler)
    _scenario(spec.scenario, COUNT if count is None else count, as_json)


def _scenario(scenario: Scenario, count: int, as_json: bool) -> None:
    from murmuration.experiments.faults import has_survived, run_with_faults

    with common.progress("running with faults", 1.0) as update:
        outcome = run_with_faults(scenario, count, update)
    if as_json:
        common.print_json(outcome)
    else:
        _print_scenario(outcome)
    if not has_survived(outcome):
        common.say(f"repeat with: {shlex.join(['murmur', *sys.argv[1:]])}")
        sys.exit(1)


def _print_scenario(outcome: Figures) -> None:
    jobs = ", ".join(f"{number:,} {state}" for state, number in outcome["jobs"].items())
    inflicted = ", ".join(f"{number:,} × {what}" for what, number in outcome["faults"].items())
    click.echo(f"faults: {inflicted or 'none'}")
    click.echo(f"{outcome['jobs_submitted']:,} jobs submitted: {jobs}")
    click.echo(
        f"{outcome['tasks_run']:,} tasks ran, {outcome['runs_repeated']:,} runs were repeated, "
        f"{outcome['tasks_run_twice']:,} ran twice at a time; "
        f"{outcome['processes_left']:,} processes left"
    )


def _protocol(
    what: tuple[str, int | None], schedules: int, seed: int, workers: int, as_json: bool
) -> None:
    from murmuration.experiments.faults import run_schedules

    protocol, masters = what
    with common.progress(protocol, schedules) as update:
        document = run_schedules(protocol, schedules, seed, update, masters, workers)
    if as_json:
        common.print_json(document)
    else:
        _print_protocol(document)
    if document["failures"]:
        sys.exit(1)


def _print_protocol(document: Figures) -> None:
    schedules, seed, failures = document["schedules"], document["seed"], document["failures"]
    click.echo(
        f"{document['protocol']}: {schedules - len(failures):,} of {schedules:,} fault schedules "
        f"passed (seeds {seed} to {seed + schedules - 1})"
    )
    for key, value in document["totals"].items():
        click.echo(f"  {value:>12,}  {key.replace('_', ' ')}")
    for failure in failures:
        click.echo(f"failed: {failure}")
