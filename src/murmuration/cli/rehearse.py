"""`murmur rehearse`: a scenario on a real master at real speed, with emulated nodes."""

from __future__ import annotations

import click

from murmuration.cli import common


@click.command()
@click.argument("scenario")
@common.SCHEDULER
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Times real speed: at 60 a simulated hour takes a minute.",
)
@common.with_options(common.SET, common.SEED, common.DAYS, common.JSON)
def rehearse(
    scenario: str,
    scheduler: str | None,
    speed: float,
    settings: tuple[str, ...],
    seed: int | None,
    days: float | None,
    as_json: bool,
) -> None:
    """Run a scenario on a live master with emulated nodes.

    SCENARIO is a preset or a TOML file. Its jobs are submitted in real time to a master on this
    host, whose nodes only pretend to run tasks. The decisions are compared with those of the same
    master in virtual time, and with a replay of its log.
    """
    from murmuration.experiments.live import drive

    spec = common.choose_spec(common.read_study(scenario, settings, seed, days), scheduler)
    comparison = drive(spec.scenario, speed, common.say)
    if as_json:
        common.print_json(comparison)
        return
    click.echo(
        f"{comparison['decisions']:,} decisions live, {comparison['same_as_simulated']:,} of them "
        "as simulated; the log replays "
        f"{'the same' if comparison['replay_agrees'] else 'differently'}"
    )
