"""Runs by the dozen: which ones, on which processes, and what of them is already there."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from murmuration.base import files
from murmuration.base.errors import InputError, did_you_mean
from murmuration.placement.registry import is_own
from murmuration.schedulers.architecture import KINDS
from murmuration.simulation.results import snapshots
from murmuration.simulation.scenarios import scenario as sc

Summary = dict[str, Any]
Tables = dict[str, dict[str, Any] | str]
Done = Callable[[int, Summary], None]


@dataclass(frozen=True)
class Spec:
    """One run: its label, its whole scenario, and the folder for its results (None: only the
    summary is wanted)."""

    label: str
    tables: Mapping[str, Any]
    folder: str | None = None
    #: What a sweep varied, by key.
    vary: Mapping[str, Any] | None = None


def simulate(
    scenario: str | Mapping[str, Any],
    changes: Mapping[str, Any] | None = None,
    scheduler: str | None = None,
) -> Summary:
    """Run a preset, a TOML file or a scenario given as tables, with dotted keys changed; returns
    its summary.

    `scheduler` is a variant of the scenario, an architecture, or `module:Class`.
    """
    tables = sc.load(scenario) if isinstance(scenario, str) else scenario
    base = sc.override(tables, changes or {})
    if scheduler is not None:
        return execute(variant_specs(base, [scheduler])[0])
    plain = {key: value for key, value in base.items() if key != "variant"}
    return execute(Spec(sc.check(plain).scheduler.kind, plain))


def variant_specs(tables: Mapping[str, Any], names: Sequence[str]) -> list[Spec]:
    """One run for each named scheduler: a variant of the scenario, an architecture, or the user's
    own by module path.

    Without names: the scenario as it is and all its variants, or every architecture if it has none.
    """
    variants = sc.variants(tables)
    base = {key: value for key, value in tables.items() if key != "variant"}
    chosen = list(dict.fromkeys(names)) or list(variants) or list(KINDS)
    specs = [Spec(name, sc.override(base, _changes(name, variants))) for name in chosen]
    if not names and variants and all(spec.tables != base for spec in specs):
        specs.insert(0, Spec(str(base.get("scheduler", {}).get("kind", "monolithic")), base))
    return specs


def _changes(name: str, variants: Mapping[str, Any]) -> Mapping[str, Any]:
    if name in variants:
        return dict(variants[name])
    if name in KINDS or is_own(name):
        return {"scheduler.kind": name}
    raise InputError(
        f"unknown scheduler {name!r}; {did_you_mean(name, [*variants, *KINDS])} (or module:Class)"
    )


def grid_specs(tables: Mapping[str, Any], axes: Mapping[str, Sequence[Any]]) -> list[Spec]:
    """One run for each combination of values, labelled by the last part of each key unless two are
    the same."""
    base = {key: value for key, value in tables.items() if key != "variant"}
    last = [key.rsplit(".", 1)[-1] for key in axes]
    names = last if len(set(last)) == len(last) else list(axes)
    specs = []
    for values in itertools.product(*axes.values()):
        changes = dict(zip(axes, values, strict=True))
        label = ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
        specs.append(
            Spec(label or str(base.get("name", "run")), sc.override(base, changes), vary=changes)
        )
    return specs


def replicated(specs: Sequence[Spec], replicas: int) -> list[Spec]:
    """Each run with as many seeds, one after the other from its own."""
    if not 1 <= replicas <= 1000:
        raise InputError(f"--replicas: expected a number from 1 to 1000, got {replicas}")
    return [
        replace(
            spec, tables=sc.override(spec.tables, {"seed": int(spec.tables.get("seed", 1)) + k})
        )
        for spec in specs
        for k in range(replicas)
    ]


def in_folders(specs: Sequence[Spec], root: Path) -> list[Spec]:
    """Give each run a folder of its own below `root`, named by its label and seed."""
    placed: list[Spec] = []
    used: set[str] = set()
    for spec in specs:
        safe = (
            "".join(c if c.isalnum() or c in "-_.=" else "_" for c in spec.label).strip(".")
            or "run"
        )
        name = f"{safe}-seed{spec.tables.get('seed', 1)}"
        if name in used:
            name = f"{name}-{len(used)}"
        used.add(name)
        placed.append(replace(spec, folder=str(root / name)))
    return placed


def compute(
    spec: Spec, progress: Callable[[float], None] = lambda share: None
) -> tuple[Summary, Tables]:
    """Run one: its summary, with its times under `timing`, and the tables it leaves if it has a
    folder."""
    from murmuration.simulation.engine import run as engine
    from murmuration.simulation.results import summary as results

    wall, cpu = time.perf_counter(), time.process_time()
    run = engine.prepare(sc.check(spec.tables, str(spec.tables.get("name", "scenario"))))
    engine.finish(run, progress)
    summary = results.summary(run, spec.label)
    timing = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    return {
        **summary,
        **_varied(spec),
        "timing": timing,
    }, {} if spec.folder is None else result_tables(run)


def execute(spec: Spec, progress: Callable[[float], None] = lambda share: None) -> Summary:
    """Run one, and write its results if it has a folder."""
    summary, tables = compute(spec, progress)
    if spec.folder is not None:
        write_run(Path(spec.folder), spec, summary, tables)
    return summary


def _varied(spec: Spec) -> Summary:
    return {} if spec.vary is None else {"vary": dict(spec.vary)}


def result_tables(run: Any) -> Tables:
    """The tables of a run and its log, by the name of their file."""
    from murmuration.simulation.results import outputs
    from murmuration.simulation.results import summary as results

    return {
        snapshots.JOBS: results.job_table(run),
        snapshots.SERIES: results.series(run),
        **outputs.outputs(run),
    }


def write_run(folder: Path, spec: Spec, summary: Summary, tables: Tables) -> None:
    """The results of a run; the summary last, so that its presence says that the folder is
    complete."""
    begin_folder(folder, spec)
    for name, table in tables.items():
        if isinstance(table, str):
            files.write_text(folder / name, table)
        else:
            files.write_table(folder / name, table)
    files.write_json(folder / snapshots.TIMING, summary["timing"])
    files.write_json(
        folder / snapshots.SUMMARY,
        {k: v for k, v in summary.items() if k not in ("vary", "timing")},
    )
    (folder / snapshots.SNAPSHOT).unlink(missing_ok=True)


def begin_folder(folder: Path, spec: Spec) -> None:
    """A folder that says what is run in it, and no longer that it is complete."""
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


def stored_spec(folder: Path) -> dict[str, Any]:
    """What was run in a folder."""
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


def finished(spec: Spec) -> Summary | None:
    """The summary of a run that is already there, if it is of the same scenario."""
    if spec.folder is None or not (Path(spec.folder) / snapshots.SUMMARY).exists():
        return None
    if stored_spec(Path(spec.folder)) != {"label": spec.label, "tables": dict(spec.tables)}:
        return None
    summary: Summary = files.read_json(Path(spec.folder) / snapshots.SUMMARY)
    return {
        **summary,
        **_varied(spec),
        "timing": files.read_json(Path(spec.folder) / snapshots.TIMING),
    }


def run_all(
    specs: Sequence[Spec],
    workers: int,
    on: str | None = None,
    resume: bool = False,
    done: Done = lambda i, s: None,
) -> list[Summary]:
    """Run them all, here or elsewhere; the answers are in the order of the specs whatever order
    they finish in."""
    answers: dict[int, Summary] = {}
    for index, spec in enumerate(specs):
        found = finished(spec) if resume else None
        if found is not None:
            answers[index] = found
            done(index, found)
    todo = [(index, spec) for index, spec in enumerate(specs) if index not in answers]
    for index, summary in _elsewhere(todo, workers, on):
        answers[index] = summary
        done(index, summary)
    return [answers[index] for index in range(len(specs))]


def _elsewhere(
    todo: Sequence[tuple[int, Spec]], workers: int, on: str | None
) -> Iterator[tuple[int, Summary]]:
    if on is not None:
        yield from _on_ray(todo, on)
    elif workers <= 1 or len(todo) <= 1:
        for index, spec in todo:
            yield index, execute(spec)
    else:
        yield from _on_processes(todo, min(workers, len(todo)))


def _on_processes(todo: Sequence[tuple[int, Spec]], workers: int) -> Iterator[tuple[int, Summary]]:
    """Fresh processes (not forks: libraries with threads do not survive one), each kept for many
    runs.

    No more runs are handed out than there are processes: after Ctrl-C only those under way are
    waited for.
    """
    import multiprocessing
    from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

    pool = ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), initializer=_quiet
    )
    left, under_way = iter(_mixed(todo)), dict[Future[Summary], int]()

    def hand_out(count: int) -> None:
        for index, spec in itertools.islice(left, count):
            under_way[pool.submit(execute, spec)] = index

    try:
        hand_out(workers)
        while under_way:
            ended, _ = wait(under_way, return_when=FIRST_COMPLETED)
            hand_out(len(ended))
            for future in ended:
                yield under_way.pop(future), future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _mixed(todo: Sequence[tuple[int, Spec]]) -> list[tuple[int, Spec]]:
    """One run of each architecture first, so that kernels not compiled yet are compiled side by
    side."""
    seen: set[bool] = set()
    first: list[tuple[int, Spec]] = []
    rest: list[tuple[int, Spec]] = []
    for index, spec in todo:
        offers = spec.tables.get("scheduler", {}).get("kind") == "offers"
        (rest if offers in seen else first).append((index, spec))
        seen.add(offers)
    return first + rest


def _quiet() -> None:
    """A worker leaves Ctrl-C to the process that started it."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _on_ray(todo: Sequence[tuple[int, Spec]], address: str) -> Iterator[tuple[int, Summary]]:
    """The same runs as Ray tasks: on the cluster at this address, or on one started here for
    `ray`."""
    try:
        import ray
    except ImportError as error:
        raise InputError(
            "--on ray: Ray is not installed; install the extra: pip install 'murmuration[ray]'"
        ) from error
    if not ray.is_initialized():
        ray.init(
            address=None if address == "ray" else address,
            log_to_driver=False,
            include_dashboard=False,
        )
    # The results come back to be written here: a worker's own disk may be anywhere.
    remote, specs = ray.remote(compute), dict(todo)
    waiting = {remote.remote(spec): index for index, spec in todo}
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1)
        index, (summary, tables) = waiting.pop(ready[0]), ray.get(ready[0])
        folder = specs[index].folder
        if folder is not None:
            write_run(Path(folder), specs[index], summary, tables)
        yield index, summary
