"""`murmur simulate`: one run, with a progress bar, a summary, a report and its results as Parquet."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from murmuration.cli import common


@click.command()
@click.argument("scenario")
@click.option(
    "-s", "--scheduler", metavar="NAME",
    help="A variant, an architecture or module:Class instead of the scenario's own.",
)  # fmt: skip
@common.with_options(common.SET, common.SEED, common.DAYS, common.REPLICAS, common.JOBS, common.OUT, common.JSON)
@click.option("--stop-after", type=float, metavar="DAYS", help="Stop there and keep a snapshot; --resume goes on.")
@common.RESUME
@click.option("--check", is_flag=True, help="Check the invariants of the world all along (slower).")
def simulate(
    scenario: str, scheduler: str | None, settings: tuple[str, ...], seed: int | None, days: float | None,
    replicas: int, workers: int | None, out: Path | None, as_json: bool, stop_after: float | None, resume: bool,
    check: bool,
) -> None:  # fmt: skip
    """One run of SCENARIO: a preset (omega-a, omega-b, omega-c) or a TOML file."""
    from murmuration.experiments import runs
    from murmuration.simulation import scenario as sc

    tables = common.scenario_tables(scenario, settings, seed, days)
    if scheduler is not None:
        spec = runs.variant_specs(tables, [scheduler])[0]
    else:
        base = {key: value for key, value in tables.items() if key != "variant"}
        spec = runs.Spec(sc.check(base, scenario).scheduler.kind, base)
    checked = sc.check(spec.tables, scenario)
    folder = common.results_folder(out, as_json, f"{checked.name}-{spec.label.replace(':', '.')}-seed{checked.seed}")
    if replicas > 1:
        _replicas(runs.replicated([spec], replicas), folder, workers, resume, as_json)
        return
    one = runs.Spec(spec.label, spec.tables, None if folder is None else str(folder))
    summary = _run(one, stop_after, resume, check)
    if summary is not None:
        _show(summary, folder, as_json)


def _replicas(specs: list[Any], folder: Path | None, workers: int | None, resume: bool, as_json: bool) -> None:
    from murmuration.cli.compare import run_with_progress, show
    from murmuration.experiments import runs

    if folder is not None:
        specs = runs.in_folders(specs, folder)
    summaries = run_with_progress("simulating", specs, workers, None, resume)
    show(str(specs[0].tables.get("name", "scenario")), summaries, specs, folder, as_json)


def _run(spec: Any, stop_after: float | None, resume: bool, check: bool) -> dict[str, Any] | None:
    """Run to the horizon, or to a stop that leaves a snapshot behind."""
    from murmuration.cluster.errors import InputError
    from murmuration.experiments import runs
    from murmuration.simulation import engine, files, invariants, results
    from murmuration.simulation import scenario as sc

    if (stop_after is not None or resume) and spec.folder is None:
        raise InputError("--stop-after and --resume: expected --out DIR for the snapshot")
    wall, cpu = time.perf_counter(), time.process_time()
    run = engine.prepare(sc.check(spec.tables))
    _tell_hopeless(run)
    snapshot = None if spec.folder is None else Path(spec.folder) / files.SNAPSHOT
    label = hashlib.blake2b(repr(spec.tables).encode(), digest_size=8).hexdigest()
    if resume and snapshot is not None and snapshot.exists():
        run.world = files.load_world(snapshot, label)
    until = float("inf") if stop_after is None else stop_after * 86_400.0
    watch: Callable[[], None] = (lambda: invariants.check(run)) if check else (lambda: None)
    ended = _advance(run, until, watch)
    if not ended:
        assert snapshot is not None
        files.write_json(snapshot.parent / files.SCENARIO, {"label": spec.label, "tables": spec.tables})
        files.save_world(snapshot, run.world, label)
        common.say(f"stopped at day {run.now_s / 86_400:.4g}; the same command with --resume goes on")
        return None
    summary = results.summary(run, spec.label)
    timing = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    if spec.folder is not None:
        runs.write_run(Path(spec.folder), spec, run, summary, timing)
    return {**summary, "timing": timing}


def _advance(run: Any, until: float, watch: Callable[[], None]) -> bool:
    """Advance behind a progress bar; Ctrl-C stops like `--stop-after`."""
    from murmuration.simulation import engine

    with common.progress("simulating", 1.0) as update:

        def tell(share: float) -> None:
            watch()
            update(share)

        try:
            return engine.finish(run, tell, until)
        except KeyboardInterrupt:
            return False


def _tell_hopeless(run: Any) -> None:
    if run.setup.hopeless:
        row, reason = next(iter(run.setup.hopeless.items()))
        count, jobs = len(run.setup.hopeless), run.setup.jobs
        common.say(f"{count} of {len(jobs)} jobs can never run; the first, {jobs.job_id[row]}: {reason.reason}")


def _show(summary: dict[str, Any], folder: Path | None, as_json: bool) -> None:
    from murmuration.cli.compare import terminal_table
    from murmuration.experiments import pages
    from murmuration.reports.page import render
    from murmuration.simulation import files

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
    common.say(f"required: {used}; {summary['events']:,} events in {timing['cpu_s']:.2f} CPU s ({summary['path']})")
    if folder is not None:
        common.say(f"report: {folder / 'report.html'}")
