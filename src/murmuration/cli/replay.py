"""`murmur replay`: the log of a live cluster again, in virtual time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.base.errors import InputError
from murmuration.cli import common

if TYPE_CHECKING:
    from murmuration.experiments.recordings.replay import AnotherSchedule, RepeatedDecisions
    from murmuration.kubernetes.scheduling.options import SchedulerOptions


@click.command()
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--placement", metavar="NAME", help="Schedule a recorded cluster by this policy.")
@click.option(
    "--of",
    "scheduler",
    metavar="NAME",
    help="Only the pods of this scheduler; others go where they went (default: all that waited).",
)
@click.option("--preempt", is_flag=True, help="With --placement: pods may drive out lower ones.")
@common.with_options(common.SEED, common.JSON)
def replay(
    log: Path,
    placement: str | None,
    scheduler: str | None,
    preempt: bool,
    seed: int | None,
    as_json: bool,
) -> None:
    """Replay the log of a live cluster in the simulator.

    LOG is a cluster's folder, its store.db or a file of murmur dump: its events are given to the
    same master in virtual time, and the decisions are compared; the exit code is 1 if they differ.
    Or LOG is a recording of murmur kube schedule or watch: the decisions of the scheduler that
    wrote it are repeated and compared, or, of an observer's and with options, the recorded pods are
    scheduled again.

    \b
    Example:
      murmur replay ~/.murmur
    """
    from murmuration.kubernetes.recording.log import is_recording

    if not is_recording(log):
        if placement or scheduler or preempt or seed is not None:
            raise InputError(f"{log}: --placement, --of, --preempt and --seed are for recordings")
        replay_store(log, as_json)
    else:
        replay_recording(log, placement, scheduler, preempt, seed, as_json)


def replay_store(log: Path, as_json: bool) -> None:
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


def replay_recording(
    path: Path,
    placement: str | None,
    scheduler: str | None,
    preempt: bool,
    seed: int | None,
    as_json: bool,
) -> None:
    from murmuration.base.loading import look_beside
    from murmuration.experiments.recordings.replay import repeat_decisions, schedule_again
    from murmuration.kubernetes.recording.log import ClusterLog

    look_beside(Path.cwd() / "x")
    log = ClusterLog.open(path)
    asked = placement or scheduler or preempt or seed is not None
    if log.header.scheduler is not None and not asked:
        show_repeated(repeat_decisions(log), as_json)
    else:
        options = other_options(log.header.scheduler, placement, preempt, seed)
        show_schedule(schedule_again(log, options, scheduler), as_json)


def other_options(
    recorded: SchedulerOptions | None, placement: str | None, preempt: bool, seed: int | None
) -> SchedulerOptions:
    """What the recorded scheduler was asked for, if one wrote the recording, but for what is said
    here."""
    import msgspec

    from murmuration.kubernetes.scheduling.options import SchedulerOptions

    base = SchedulerOptions() if recorded is None else recorded
    return msgspec.structs.replace(
        base,
        placement=placement or base.placement,
        preempt=preempt or base.preempt,
        seed=base.seed if seed is None else seed,
    )


def show_repeated(repeated: RepeatedDecisions, as_json: bool) -> None:
    difference = repeated.difference
    if as_json:
        common.print_json(
            {
                "events": repeated.events,
                "decisions": len(repeated.recorded),
                "same": repeated.same,
                "agrees": repeated.agrees,
                "difference": difference,
            }
        )
    else:
        again = f"{repeated.same:,} of {len(repeated.recorded):,} bindings came out again"
        click.echo(f"{repeated.events:,} events: {again}")
        if difference is not None:
            number, recorded, decided = difference
            there = "nothing" if recorded is None else f"{recorded[0]} on {recorded[1]}"
            here = "nothing" if decided is None else f"{decided[0]} on {decided[1]}"
            click.echo(f"first difference at {number}: recorded {there}, replayed {here}")
    if not repeated.agrees:
        sys.exit(1)


def show_schedule(again: AnotherSchedule, as_json: bool) -> None:
    import msgspec

    if as_json:
        common.print_json(msgspec.to_builtins(again))
        return
    from murmuration.reports.terminal import FittingTable

    rows: list[list[object]] = [
        [name, *(figure(getattr(each, key)) for each in (again.recorded, again.replayed))]
        for name, key in (
            ("pods that waited for a node", "pods"),
            ("bound", "bound"),
            ("wait, mean (s)", "wait_mean_s"),
            ("wait, 99th percentile (s)", "wait_p99_s"),
            ("wait, longest (s)", "wait_max_s"),
            ("nodes they use, mean", "nodes_mean"),
            ("nodes they use, most", "nodes_max"),
        )
    ]
    common.print_table(FittingTable(("", "recorded", again.placement), tuple(map(tuple, rows))))
    click.echo(f"{again.same:,} of {again.compared:,} pods went to the same node")


def figure(value: float) -> float | int:
    return value if isinstance(value, int) else round(value, 3)
