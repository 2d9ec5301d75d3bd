"""What the commands share: their options, the scenario behind them, progress, and where results
go."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from murmuration.base.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from murmuration.experiments.record import RecordedSpec
    from murmuration.experiments.specs import Spec, Study
    from murmuration.reports.terminal import FittingTable

Function = TypeVar("Function", bound=Callable[..., Any])

#: Where options that stand for a setting leave it, among what a command line knows of itself.
SETTINGS = "murmuration.settings"


def _as_setting(key: str) -> Callable[[click.Context, click.Parameter, object], None]:
    """What an option that stands for a key of the scenario does with its value."""

    def keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
        if value is not None:
            context.meta.setdefault(SETTINGS, []).append(f"{key}={value}")

    return keep


SCHEDULER = click.option(
    "-s",
    "--scheduler",
    "--schedulers",
    "scheduler",
    metavar="NAME",
    help="A variant, an architecture or module:Class instead of the scenario's own.",
)
SET = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a key of the scenario, e.g. cluster.nodes=500; may be repeated.",
)
SCHEDULERS = click.option(
    "-s",
    "--schedulers",
    "--scheduler",
    "schedulers",
    metavar="A,B,C",
    default="",
    help="Variants of the scenario, architectures or module:Class.",
)
LOAD = click.option(
    "--load",
    type=click.FloatRange(0, 1000, min_open=True),
    metavar="FACTOR",
    expose_value=False,
    callback=_as_setting("workload.multiply"),
    help="So many times the jobs: 1.2 is 20 % more of the same.",
)
ARRIVALS = click.option(
    "--arrivals",
    type=click.Choice(["recorded", "bootstrap"]),
    expose_value=False,
    callback=_as_setting("workload.arrivals"),
    help="Jobs of a trace as they were, or resampled from them with every seed.",
)
SEED = click.option(
    "--seed", type=click.IntRange(min=0), help="Seed of everything that is drawn at random."
)
DAYS = click.option("--days", type=float, help="Days to simulate.")
OUT = click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for the results (default: one below runs/).",
)
JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on standard output."
)
JOBS = click.option(
    "--jobs",
    "workers",
    type=click.IntRange(min=1, max=1024),
    help="Worker processes (default: one per core).",
)
REPLICAS = click.option(
    "--replicas",
    type=click.IntRange(min=1, max=1000),
    default=1,
    show_default=True,
    help="Runs with consecutive seeds; figures get 95 % confidence intervals.",
)
RESUME = click.option(
    "--resume", is_flag=True, help="Continue with the results that are already in the folder."
)
ON = click.option(
    "--on",
    metavar="WHERE",
    help="Run on Ray: `ray` starts it here, or the address of a Ray cluster.",
)
DETAIL = click.option(
    "--detail",
    is_flag=True,
    help="Write every task and every attempt, for `murmur check`.",
)
#: What every command that makes several runs takes.
MANY_RUNS = (SET, LOAD, ARRIVALS, SEED, DAYS, REPLICAS, JOBS, ON, OUT, RESUME, JSON)


class Changes(NamedTuple):
    """How a command line changes a scenario."""

    settings: Sequence[str] = ()
    days: float | None = None


def with_options(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Several options at once, in the order in which `--help` shows them."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def read_study(name: str, settings: Sequence[str], seed: int | None, days: float | None) -> Study:
    """A preset or a scenario file with the overrides of the command line, read and checked."""
    from murmuration.base.settings import parse_setting
    from murmuration.experiments.specs import read_study

    changes = dict(parse_setting(text) for text in (*settings, *option_settings()))
    if seed is not None:
        changes["seed"] = seed
    if days is not None:
        changes["days"] = days
    return read_study(name, changes)


def option_settings() -> list[str]:
    """The settings that options such as --load stand for."""
    context = click.get_current_context(silent=True)
    return [] if context is None else list(context.meta.get(SETTINGS, ()))


def choose_spec(study: Study, scheduler: str | None) -> Spec:
    """The run of the scenario as it is, or of the scheduler named after `-s`."""
    from murmuration.experiments.specs import variant_specs

    return study.base if scheduler is None else variant_specs(study, [scheduler])[0]


def split_names(text: str) -> list[str]:
    """`a,b,c` as written after `-s`."""
    return [name.strip() for name in text.split(",") if name.strip()]


def results_folder(out: Path | None, as_json: bool, default: str) -> Path | None:
    """Where results go; with `--json` and no folder named, nowhere."""
    if out is None and as_json:
        return None
    from murmuration.base.files import check_folder

    return check_folder(out if out is not None else Path("runs") / default)


def study_folder(
    out: Path | None, as_json: bool, name: str, specs: Sequence[RecordedSpec], how: Changes
) -> Path | None:
    """Where the results of these runs go. Without `--out` results of other runs are never
    replaced: the folder gets another name."""
    from murmuration.experiments import record

    made = record.record_command(shlex.join(["murmur", *sys.argv[1:]]), specs)
    changed = [*how.settings, *option_settings()]
    folder = results_folder(out, as_json, record.name_folder(name, changed, how.days))
    if folder is None:
        return None
    if out is None:
        folder = record.choose_folder(folder, made)
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    record.write_record(folder, made)
    # A command that fails before its first result leaves nothing.
    click.get_current_context().call_on_close(lambda: record.forget(folder, missing))
    return folder


def check_detail(detail: bool, out: Path | None, as_json: bool, on: str | None) -> None:
    """What is written with `--detail` needs a folder, and is written while a run goes on."""
    if detail and out is None and as_json:
        raise InputError("--detail: expected --out DIR for what is written")
    if detail and on is not None:
        raise InputError("--detail: expected without --on; details are written where a run is made")


def cores() -> int:
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def progress(title: str, total: float, unit: str = "runs") -> Iterator[Callable[[float], None]]:
    """A progress bar on standard error; nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns: list[Any] = [
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
    ]
    if total > 1:
        columns += [MofNCompleteColumn(), TextColumn("{task.fields[rate]}")]
    with Progress(
        *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(title, total=total, rate="")

        def update(done: float) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, completed=done, rate=rate(speed, unit))

        yield update


def compile_before(command: str, compile_kernels: Callable[[], object]) -> None:
    """Compile the kernels of a command before its progress begins, if no command has done so
    before; that takes a while at the first use."""
    from murmuration.experiments.execution import warm

    if warm.is_compiled(command):
        return
    from rich.console import Console

    console = Console(stderr=True)
    text = "compiling kernels, once after installation (about a minute) …"
    if console.is_terminal:
        with console.status(text):
            compile_kernels()
    else:
        say(text)
        compile_kernels()
    warm.mark_compiled(command)


def rate(speed: float | None, unit: str) -> str:
    """`3.2 runs/s`, or `40 s/run` where one takes longer; nothing for runs that were there already
    and took no time."""
    if not speed or speed > 100:
        return ""
    return f"{speed:.2g} {unit}/s" if speed >= 1 else f"{1 / speed:.2g} s/{unit.rstrip('s')}"


class Timer:
    """How long a command takes, from here on."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def timing(self) -> dict[str, float]:
        """The key `timing` of a document."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"wall_s": wall, "cpu_s": cpu}


def print_json(document: object) -> None:
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")


def print_json_line(document: object) -> None:
    """One document of several, each on a line of its own."""
    import msgspec

    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    sys.stdout.flush()


def print_table(table: Table | FittingTable) -> None:
    """A rich table on standard output, as wide as it needs when that is no terminal."""
    from rich.console import Console

    console = Console()
    (console if console.is_terminal else Console(width=200)).print(table)


def print_sentences(sentences: Sequence[str]) -> None:
    """Sentences on standard output, wrapped to the terminal; what goes on is indented."""
    import shutil
    import textwrap

    width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100
    for sentence in sentences:
        print(textwrap.fill(sentence, width, subsequent_indent="  ", break_on_hyphens=False))


def say(text: str) -> None:
    """Tell a person something that is no result; a terminal gets it in lines of whole words."""
    print(fold(text) if sys.stderr.isatty() else text, file=sys.stderr)


def fold(text: str) -> str:
    """A sentence in lines as wide as the terminal. Paths and commands stay whole."""
    import shutil
    import textwrap

    width = shutil.get_terminal_size().columns
    return textwrap.fill(
        text, width, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
    )


def say_report(folder: Path | None) -> None:
    """Where the report is, if there is one."""
    if folder is not None:
        say(f"report: {folder / 'report.html'}")


def parse_axes(texts: Sequence[str]) -> dict[str, list[Any]]:
    """`key=1,2,3` as written after `--vary`, several times for a grid."""
    from murmuration.base.settings import parse_value

    axes: dict[str, list[Any]] = {}
    for text in texts:
        key, separator, values = text.partition("=")
        if (
            not separator
            or not key.strip()
            or not all(value.strip() for value in values.split(","))
        ):
            raise InputError(
                "--vary: expected KEY=VALUE,VALUE,… such as "
                f"scheduler.conflict=resource,machine, got {text!r}"
            )
        if key.strip() in axes:
            raise InputError(f"--vary: expected each key once, got {key.strip()} twice")
        # A value given twice is one run, not two replicas.
        distinct = {repr(value): value for value in map(parse_value, values.split(","))}
        axes[key.strip()] = list(distinct.values())
    return axes
