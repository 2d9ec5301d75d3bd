"""`murmur simulate`: one run, with a progress bar, a summary, a report and its results as
Parquet."""

from __future__ import annotations

import hashlib
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from murmuration.base.errors import InputError
from murmuration.cli import common


@click.command()
@click.argument("scenario", required=False)
@click.option(
    "-s",
    "--scheduler",
    metavar="NAME",
    help="A variant, an architecture or module:Class instead of the scenario's own.",
)
@common.with_options(
    common.SET, common.SEED, common.DAYS, common.REPLICAS, common.JOBS, common.OUT, common.JSON
)
@click.option(
    "--stop-after",
    type=float,
    metavar="DAYS",
    help="Stop there and keep a snapshot; --resume goes on.",
)
@common.RESUME
@click.option("--check", is_flag=True, help="Check the invariants of the world all along (slower).")
@click.option(
    "--replay",
    type=click.Path(path_type=Path),
    metavar="LOG",
    help="Replay the log of a live cluster (its folder or store.db) and compare the decisions.",
)
@click.option(
    "--faults",
    type=click.IntRange(min=0),
    metavar="N",
    help="Drive it through the live master and node agents in virtual time, with N crashes and "
    "cuts.",
)
@click.option(
    "--live", is_flag=True, help="Drive the scenario at real speed: a live master, emulated nodes."
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    help="Times real speed, with --live.",
)
def simulate(
    scenario: str | None,
    scheduler: str | None,
    settings: tuple[str, ...],
    seed: int | None,
    days: float | None,
    replicas: int,
    workers: int | None,
    out: Path | None,
    as_json: bool,
    stop_after: float | None,
    resume: bool,
    check: bool,
    replay: Path | None,
    live: bool,
    faults: int | None,
    speed: float,
) -> None:
    """One run of SCENARIO: a preset (omega-a, omega-b, omega-c) or a TOML file."""
    from murmuration.experiments import runs
    from murmuration.simulation.scenarios import scenario as sc

    if replay is not None:
        _replay(replay, as_json)
        return
    if scenario is None:
        raise click.MissingParameter(param_hint="SCENARIO", param_type="argument")
    _check_use(stop_after, resume, replicas, check, out is None and as_json)
    tables = common.scenario_tables(scenario, settings, seed, days)
    if scheduler is not None:
        spec = runs.variant_specs(tables, [scheduler])[0]
    else:
        base = {key: value for key, value in tables.items() if key != "variant"}
        spec = runs.Spec(sc.check(base, scenario).scheduler.kind, base)
    if live:
        _live(spec.tables, speed, as_json)
        return
    if faults is not None:
        _faults(spec.tables, faults, as_json)
        return
    checked = sc.check(spec.tables, scenario)
    folder = common.results_folder(
        out, as_json, f"{checked.name}-{spec.label.replace(':', '.')}-seed{checked.seed}"
    )
    if replicas > 1:
        _replicas(runs.replicated([spec], replicas), folder, workers, resume, as_json)
        return
    one = runs.Spec(spec.label, spec.tables, None if folder is None else str(folder))
    summary = _run(one, stop_after, resume, check)
    if summary is not None:
        _show(summary, folder, as_json)


def _replay(path: Path, as_json: bool) -> None:
    """Replay a log; exit with 1 if other decisions come out."""
    from murmuration.experiments.live import replay_log

    found = replay_log(path)
    document = {
        "events": found.events,
        "decisions": found.decisions,
        "facts": found.facts,
        "same": found.same,
        "agrees": found.agrees,
        "difference": None if found.difference is None else [str(v) for v in found.difference],
    }
    if as_json:
        common.print_json(document)
    else:
        again = f"{found.same:,} of {found.facts:,} facts came out again"
        click.echo(f"{found.events:,} events, {found.decisions:,} decisions: {again}")
        if found.difference is not None:
            number, there, came = found.difference
            click.echo(f"first difference at {number}: the log has {there}, the replay {came}")
    if not found.agrees:
        sys.exit(1)


def _live(tables: Mapping[str, Any], speed: float, as_json: bool) -> None:
    from murmuration.experiments.live import drive

    found = drive(tables, speed, common.say)
    if as_json:
        common.print_json(found)
        return
    click.echo(
        f"{found['decisions']:,} decisions live, {found['same_as_simulated']:,} of them as "
        "simulated; the log replays "
        f"{'the same' if found['replay_agrees'] else 'differently'}"
    )


def _faults(tables: Mapping[str, Any], count: int, as_json: bool) -> None:
    """Exit with 1 if a task ran twice at a time, a job was lost or a process was left."""
    from murmuration.experiments.live import with_faults

    found = with_faults(tables, count)
    if as_json:
        common.print_json(found)
    else:
        jobs = ", ".join(f"{number:,} {state}" for state, number in found["jobs"].items())
        faults = ", ".join(f"{number:,} × {what}" for what, number in found["faults"].items())
        click.echo(f"faults: {faults or 'none'}")
        click.echo(f"{found['jobs_submitted']:,} jobs submitted: {jobs}")
        click.echo(
            f"{found['tasks_run']:,} tasks ran, {found['runs_repeated']:,} runs were repeated, "
            f"{found['tasks_run_twice']:,} ran twice at a time; {found['processes_left']:,} "
            "processes left"
        )
    if (
        found["tasks_run_twice"]
        or found["processes_left"]
        or found["jobs"] != {"finished": found["jobs_submitted"]}
    ):
        sys.exit(1)


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
    specs: list[Any], folder: Path | None, workers: int | None, resume: bool, as_json: bool
) -> None:
    from murmuration.cli.compare import run_with_progress, show
    from murmuration.experiments import runs

    if folder is not None:
        specs = runs.in_folders(specs, folder)
    summaries = run_with_progress("simulating", specs, workers, None, resume)
    show(str(specs[0].tables.get("name", "scenario")), summaries, specs, folder, as_json)


def _run(spec: Any, stop_after: float | None, resume: bool, check: bool) -> dict[str, Any] | None:
    """Run to the horizon, or to a stop that leaves a snapshot behind."""
    from murmuration.experiments import runs
    from murmuration.simulation.engine import run as engine
    from murmuration.simulation.results import invariants, snapshots
    from murmuration.simulation.results import summary as results
    from murmuration.simulation.scenarios import scenario as sc

    there = runs.finished(spec) if resume else None
    if there is not None:
        return there
    wall, cpu = time.perf_counter(), time.process_time()
    run = engine.prepare(sc.check(spec.tables, str(spec.tables.get("name", "scenario"))))
    _tell_hopeless(run)
    snapshot = None if spec.folder is None else Path(spec.folder) / snapshots.SNAPSHOT
    if resume and snapshot is not None and snapshot.exists():
        snapshots.load_run(snapshot, run, _digest(spec))
    watch: Callable[[], None] = (lambda: invariants.check(run)) if check else (lambda: None)
    until = float("inf") if stop_after is None else stop_after * 86_400.0
    ended, interrupted = _advance(run, until, watch, keep=snapshot is not None)
    if not ended:
        _keep(spec, run)
        if interrupted:
            raise KeyboardInterrupt
        return None
    summary = results.summary(run, spec.label)
    summary["timing"] = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    if spec.folder is not None:
        runs.write_run(Path(spec.folder), spec, summary, runs.result_tables(run))
    return summary


def _digest(spec: Any) -> str:
    """What a snapshot must be of to be gone on with."""
    return hashlib.blake2b(repr(spec.tables).encode(), digest_size=8).hexdigest()


def _keep(spec: Any, run: Any) -> None:
    """Leave a snapshot to go on from."""
    from murmuration.experiments import runs
    from murmuration.simulation.results import snapshots

    folder = Path(spec.folder)
    runs.begin_folder(folder, spec)
    snapshots.save_run(folder / snapshots.SNAPSHOT, run, _digest(spec))
    common.say(f"stopped at day {run.now_s / 86_400:.4g}; the same command with --resume goes on")


class _StopError(Exception):
    """Ctrl-C was pressed, and the world is whole."""


def _advance(run: Any, until: float, watch: Callable[[], None], keep: bool) -> tuple[bool, bool]:
    """Advance behind a progress bar; says whether the horizon was reached, and whether Ctrl-C was
    pressed.

    To be kept, a run stops between two of its pieces, where the world is whole; a second Ctrl-C
    ends it at once.
    """
    from murmuration.simulation.engine import run as engine

    pressed: list[int] = []

    def press(number: int, frame: Any) -> None:
        if pressed or not keep:
            raise KeyboardInterrupt
        pressed.append(number)

    with common.progress("simulating", 1.0) as update:

        def tell(share: float) -> None:
            watch()
            update(share)
            if pressed:
                raise _StopError

        before = signal.signal(signal.SIGINT, press)
        try:
            return engine.finish(run, tell, until), False
        except _StopError:
            return False, True
        finally:
            signal.signal(signal.SIGINT, before)


def _tell_hopeless(run: Any) -> None:
    if run.setup.hopeless:
        row, reason = next(iter(run.setup.hopeless.items()))
        count, jobs = len(run.setup.hopeless), run.setup.jobs
        common.say(
            f"{count} of {len(jobs)} jobs can never run; the first, {jobs.job_id[row]}: "
            f"{reason.reason}"
        )


def _show(summary: dict[str, Any], folder: Path | None, as_json: bool) -> None:
    from murmuration.base import files
    from murmuration.cli.compare import terminal_table
    from murmuration.experiments import pages
    from murmuration.reports.page import render

    if folder is not None:
        series = pages.read_series(folder)
        page = pages.single(str(summary["scenario"]), summary, series, pages.facts_of(summary))
        files.write_text(folder / "report.html", render(page))
    if as_json:
        common.print_json(summary)
        return
    common.print_table(terminal_table([summary]))
    cluster, timing = summary["cluster"], summary["timing"]
    used = ", ".join(f"{name} {share:.1%}" for name, share in cluster["required"].items())
    common.say(
        f"required: {used}; {summary['events']:,} events in {timing['cpu_s']:.2f} CPU s "
        f"({summary['path']})"
    )
    if "migrations_per_min" in summary["cluster"]:
        common.say(_nodes_and_moves(summary["cluster"]))
    if folder is not None:
        common.say(f"report: {folder / 'report.html'}")


def _nodes_and_moves(cluster: dict[str, Any]) -> str:
    """How the nodes are filled, and what was moved for it."""
    types = ", ".join(
        f"{name.upper() if len(name) < 4 else name} {count / cluster['nodes_mean']:.2%}"
        for name, count in cluster["allocation_types"].items()
    )
    gigabytes = cluster["migrated_mb_per_min"] / 1000.0
    return (
        f"nodes: {types}; {cluster['migrations_per_min']:.1f} migrations and {gigabytes:.1f} "
        "GB moved per minute"
    )
