"""`murmur replay`: the log of a live cluster again, in virtual time."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from murmuration.cli import common


@click.command()
@click.argument("log", type=click.Path(path_type=Path))
@common.JSON
def replay(log: Path, as_json: bool) -> None:
    """Replay the log of a live cluster in the simulator.

    LOG is a cluster's folder or its store.db. Its events are given to the same master in virtual
    time, and the decisions are compared; the exit code is 1 if they differ.

    \b
    Example:
      murmur replay ~/.murmur
    """
    from murmuration.experiments.live import replay_log

    replayed = replay_log(log)
    difference = replayed.difference
    if as_json:
        document = {
            "events": replayed.events,
            "decisions": replayed.decisions,
            "facts": replayed.facts,
            "same": replayed.same,
            "agrees": replayed.agrees,
            "difference": None if difference is None else [str(value) for value in difference],
        }
        common.print_json(document)
    else:
        again = f"{replayed.same:,} of {replayed.facts:,} facts came out again"
        click.echo(f"{replayed.events:,} events, {replayed.decisions:,} decisions: {again}")
        if difference is not None:
            number, logged, decided = difference
            click.echo(f"first difference at {number}: the log has {logged}, the replay {decided}")
    if not replayed.agrees:
        sys.exit(1)
