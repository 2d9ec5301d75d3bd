"""`murmur faults`: a protocol under random fault schedules; what must never happen is looked for at
every step."""

from __future__ import annotations

import sys
from typing import Any

import click

from murmuration.cli import common

PROTOCOLS = ("negotiation",)


@click.command()
@click.option("--protocol", type=click.Choice(PROTOCOLS), default=PROTOCOLS[0], show_default=True)
@click.option(
    "--schedules",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="How many to run.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Of the first; then the next.",
)
@common.JSON
def faults(protocol: str, schedules: int, seed: int, as_json: bool) -> None:
    """Run a small cell through random loss, delay, duplication, partitions and crashes.

    Checked at every step: no task runs twice, none is without an owner, resources add up. In the
    end every task runs on exactly one node. A failure prints the command that repeats it, and the
    exit code is 1.
    """
    from murmuration.simulation.messages.negotiation import BrokenError
    from murmuration.simulation.messages.negotiation_faults import run_schedule

    runs: list[dict[str, Any]] = []
    failures: list[str] = []
    with common.progress(protocol, schedules) as update:
        for n in range(schedules):
            try:
                runs.append(run_schedule(seed + n))
            except BrokenError as error:
                failures.append(str(error))
            update(n + 1)
    _report(protocol, schedules, seed, runs, failures, as_json)
    if failures:
        sys.exit(1)


def _report(
    protocol: str,
    schedules: int,
    seed: int,
    runs: list[dict[str, Any]],
    failures: list[str],
    as_json: bool,
) -> None:
    totals = {
        key: sum(run[key] for run in runs) for key in (runs[0] if runs else {}) if key != "seed"
    }
    if as_json:
        document = {
            "protocol": protocol,
            "schedules": schedules,
            "seed": seed,
            "failures": failures,
            "totals": totals,
        }
        common.print_json(document)
        return
    passed = schedules - len(failures)
    click.echo(
        f"{protocol}: {passed:,} of {schedules:,} fault schedules passed (seeds {seed} to "
        f"{seed + schedules - 1})"
    )
    for key, value in totals.items():
        click.echo(f"  {value:>12,}  {key.replace('_', ' ')}")
    for failure in failures:
        click.echo(f"failed: {failure}")
