"""One run: simulated to its horizon, or to a stop that can be resumed, and its files.

Everything that runs a scenario comes through `compute`: the command, worker processes, Ray and the
reproductions. `Control` says how a run is watched and stopped.
"""

from __future__ import annotations

import hashlib
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from murmuration.base import files
from murmuration.base.errors import InputError
from murmuration.experiments.specs import Spec, Tables, make_study, variant_specs
from murmuration.simulation.results import snapshots
from murmuration.simulation.scenarios import scenario as sc

if TYPE_CHECKING:
    from murmuration.simulation.engine.run import Run
    from murmuration.simulation.results.parts import PartFiles

Summary = dict[str, Any]
#: The columns of a table, or the text of a log, by the name of its file.
ResultTables = dict[str, dict[str, Any] | str]
DAY_S = 86_400.0


def ignore(value: object) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Control:
    """How a run is watched and stopped."""

    #: Told the share of the run that is done, after each of its pieces.
    progress: Callable[[float], None] = ignore
    #: Told what a person should know.
    say: Callable[[str], None] = ignore
    #: Go on with what is in the folder: the results if they are there, else a snapshot.
    resume: bool = False
    #: Stop there, and leave a snapshot.
    until_s: float = math.inf
    #: Check the invariants of the world after each piece.
    check: bool = False
    #: Stop at Ctrl-C: between two pieces with a snapshot if there is a folder, else at once. For
    #: the main thread only.
    interruptible: bool = False


@dataclass(frozen=True)
class RunOutcome:
    """The summary of a run, with its times under `timing`, and its tables if it has a folder and
    was run just now."""

    summary: Summary
    tables: ResultTables


def simulate(
    scenario: str | Tables, changes: Tables | None = None, scheduler: str | None = None
) -> Summary:
    """Run a preset, a TOML file or a scenario given as tables, with dotted keys changed; returns
    its summary.

    `scheduler` is a variant of the scenario, an architecture, or `module:Class`.
    """
    tables = sc.load(scenario) if isinstance(scenario, str) else scenario
    study = make_study(sc.override(tables, changes or {}))
    return execute(study.base if scheduler is None else variant_specs(study, [scheduler])[0])


def execute(spec: Spec) -> Summary:
    """Run one from start to end, and write its results if it has a folder."""
    outcome = complete(spec)
    assert outcome is not None, "nothing stops it"
    return outcome.summary


def complete(spec: Spec, control: Control | None = None) -> RunOutcome | None:
    """Run one, or take the results that are in its folder, and write the results; None if the run
    was stopped before its end."""
    control = control or Control()
    stored = read_stored_summary(spec) if control.resume else None
    if stored is not None:
        return RunOutcome(stored, {})
    outcome = compute(spec, control)
    if outcome is not None and spec.folder is not None:
        write_run(Path(spec.folder), spec, outcome)
    return outcome


def compute(spec: Spec, control: Control | None = None) -> RunOutcome | None:
    """Run one without writing its results; None if it was stopped before its end and has left a
    snapshot."""
    from murmuration.simulation.engine import run as engine
    from murmuration.simulation.results import summary as results

    control = control or Control()
    wall, cpu = time.perf_counter(), time.process_time()
    run = engine.prepare(spec.scenario, spec.detail)
    _report_infeasible(run, control)
    resumed = control.resume and _load_snapshot(spec, run)
    parts = _record_detail(spec, run, resumed)
    if not _advance(spec, run, control):
        return None
    summary = results.summary(run, spec.label) | _run_varied(spec)
    summary["timing"] = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    if parts is not None and run.detail is not None:
        run.detail.close(run.world)
        parts.join()
    return RunOutcome(summary, {} if spec.folder is None else result_tables(run))


def _record_detail(spec: Spec, run: Run, resumed: bool) -> PartFiles | None:
    """Let the tasks and attempts of a run be written to its folder, if that is wanted."""
    if not spec.detail:
        return None
    assert spec.folder is not None, "what is recorded has a folder to go to"
    from murmuration.simulation.results.detail import FILES, DetailLog
    from murmuration.simulation.results.parts import PartFiles

    parts = PartFiles(Path(spec.folder), FILES)
    if not resumed:
        parts.clear()
    run.detail = DetailLog(run.setup, parts.write)
    return parts


class _StopError(Exception):
    """Ctrl-C was pressed, and the run is between two pieces."""


def _advance(spec: Spec, run: Run, control: Control) -> bool:
    """Advance to the horizon (True), or to a stop after which there is a snapshot (False)."""
    from murmuration.simulation.engine import run as engine
    from murmuration.simulation.results import invariants

    with _interrupts(control.interruptible, spec.folder is not None) as pressed:

        def piece_done(share: float) -> None:
            if control.check:
                invariants.check(run)
            control.progress(share)
            if pressed:
                raise _StopError

        try:
            ended = engine.finish(run, piece_done, control.until_s)
        except _StopError:
            ended = False
    if not ended:
        _save_snapshot(spec, run, control)
    if pressed and not ended:
        signal.raise_signal(pressed[0])
    return ended


@contextmanager
def _interrupts(wanted: bool, keep: bool) -> Iterator[list[int]]:
    """Collect Ctrl-C or SIGTERM instead of acting on it, so that a run that is to be kept stops
    where its world is consistent. The second one ends the run at once."""
    pressed: list[int] = []
    if not wanted or not keep:
        yield pressed
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def press(number: int, frame: object) -> None:
        if pressed:
            restore()
            signal.raise_signal(number)
        pressed.append(number)

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, press)
    try:
        yield pressed
    finally:
        restore()


def _report_infeasible(run: Run, control: Control) -> None:
    if run.setup.infeasible:
        row, reason = next(iter(run.setup.infeasible.items()))
        count, jobs = len(run.setup.infeasible), run.setup.jobs
        control.say(
            f"{count} of {len(jobs)} jobs can never run; the first, {jobs.job_id[row]}: "
            f"{reason.reason}"
        )


def _run_varied(spec: Spec) -> Summary:
    return {} if spec.vary is None else {"vary": dict(spec.vary)}


def result_tables(run: Run) -> ResultTables:
    """The tables of a run and its log, by the name of their file."""
    from murmuration.simulation.results import outputs
    from murmuration.simulation.results import summary as results

    return {
        snapshots.JOBS: results.job_table(run),
        snapshots.SERIES: results.series(run),
        **outputs.outputs(run),
    }


def _digest(spec: Spec) -> str:
    """Names the scenario of a snapshot, so that a run is resumed only from one of its own."""
    recorded = "+detail" if spec.detail else ""
    return hashlib.blake2b(repr(spec.tables).encode(), digest_size=8).hexdigest() + recorded


def _save_snapshot(spec: Spec, run: Run, control: Control) -> None:
    assert spec.folder is not None, "a run without a folder is not stopped"
    folder = Path(spec.folder)
    begin_folder(folder, spec)
    snapshots.save_run(folder / snapshots.SNAPSHOT, run, _digest(spec))
    control.say(f"stopped at day {run.now_s / DAY_S:.4g}; the same command with --resume goes on")


def _load_snapshot(spec: Spec, run: Run) -> bool:
    """Go on where a snapshot left the run, if there is one."""
    path = None if spec.folder is None else Path(spec.folder) / snapshots.SNAPSHOT
    if path is None or not path.exists():
        return False
    snapshots.load_run(path, run, _digest(spec))
    return True


def write_run(folder: Path, spec: Spec, outcome: RunOutcome) -> None:
    """Write the results of a run; the summary last, so that its presence says that the folder is
    complete."""
    begin_folder(folder, spec)
    for name, table in outcome.tables.items():
        if isinstance(table, str):
            files.write_text(folder / name, table)
        else:
            files.write_table(folder / name, table)
    files.write_json(folder / snapshots.TIMING, outcome.summary["timing"])
    files.write_json(
        folder / snapshots.SUMMARY,
        {k: v for k, v in outcome.summary.items() if k not in ("vary", "timing")},
    )
    (folder / snapshots.SNAPSHOT).unlink(missing_ok=True)


def begin_folder(folder: Path, spec: Spec) -> None:
    """Make a folder say what is run in it, and no longer that it is complete."""
    files.ready_folder(folder)
    for name in (
        snapshots.SUMMARY,
        snapshots.TICKS,
        snapshots.USAGE,
        snapshots.DECISIONS,
        snapshots.ERRORS,
    ):
        (folder / name).unlink(missing_ok=True)
    files.write_json(folder / snapshots.SCENARIO, {"label": spec.label, "tables": spec.tables})


def read_stored_tables(folder: Path) -> Mapping[str, Any]:
    """The label and the scenario's tables of the run in a folder."""
    below = sorted(path.parent for path in folder.glob(f"*/{snapshots.SCENARIO}"))
    if below and not (folder / snapshots.SCENARIO).exists():
        raise InputError(
            f"{folder}: expected the folder of one run, such as {below[0]}, this one holds "
            f"{len(below)}"
        )
    stored = files.read_json(folder / snapshots.SCENARIO)
    if not isinstance(stored, dict) or not isinstance(stored.get("tables"), dict):
        raise InputError(f"{folder / snapshots.SCENARIO}: expected the label and tables of a run")
    return stored


def read_stored_scenario(folder: Path) -> sc.Scenario:
    """The scenario of the run in a folder."""
    return sc.check(read_stored_tables(folder)["tables"], str(folder / snapshots.SCENARIO))


def read_stored_summary(spec: Spec) -> Summary | None:
    """The summary of a run that is in its folder already, if it is of the same scenario."""
    if spec.folder is None or not (Path(spec.folder) / snapshots.SUMMARY).exists():
        return None
    from murmuration.simulation.results.detail import FILES

    folder = Path(spec.folder)
    if spec.detail and not all((folder / name).exists() for name in FILES):
        return None
    if read_stored_tables(folder) != {"label": spec.label, "tables": dict(spec.tables)}:
        return None
    summary: Summary = files.read_json(folder / snapshots.SUMMARY)
    # Figures of another version mean something else; the run is made again.
    if summary.get("version") != snapshots.SUMMARY_VERSION:
        return None
    return {**summary, **_run_varied(spec), "timing": files.read_json(folder / snapshots.TIMING)}
