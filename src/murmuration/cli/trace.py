"""`murmur trace`: what a trace contains, and any trace as a job list or node table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from murmuration.base.errors import InputError
from murmuration.cli import common

if TYPE_CHECKING:
    from pathlib import Path

    from murmuration.reports.terminal import FittingTable
    from murmuration.workload.jobs import JobList
    from murmuration.workload.trace import TraceOptions

MIX_SHOWN = 12


def _reading(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say what a trace leaves open."""
    options = (
        click.option(
            "--seed",
            type=click.IntRange(min=0),
            default=1,
            show_default=True,
            help="Seed of the values that are drawn.",
        ),
        click.option(
            "--shapes",
            metavar="FILE",
            help="Another trace: draw numbers of tasks and sizes that FILE lacks from its jobs.",
        ),
        click.option(
            "--duration",
            metavar="SECONDS",
            type=float,
            help="Duration of a task where the trace gives none.",
        ),
        click.option(
            "--block",
            metavar="BYTES",
            default="64M",
            show_default=True,
            help="Input of one map task, for traces of MapReduce jobs.",
        ),
        click.option(
            "--task-cpu",
            metavar="CPUS",
            default="1",
            show_default=True,
            help="CPU of a task where the trace gives none.",
        ),
        click.option(
            "--task-memory",
            metavar="BYTES",
            default="1G",
            show_default=True,
            help="Memory of a task where the trace gives none.",
        ),
        click.option(
            "--initial",
            is_flag=True,
            help="Keep the jobs that were running before the trace began.",
        ),
        click.option("--usage", metavar="FILE", help="A table of the jobs' usage."),
        click.option(
            "--strict",
            is_flag=True,
            help="Stop at the first invalid row instead of leaving it out.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _options(
    seed: int,
    shapes: str | None,
    duration: float | None,
    block: str,
    task_cpu: str,
    task_memory: str,
    initial: bool,
    usage: str | None,
    strict: bool,
) -> TraceOptions:
    import numpy as np

    from murmuration.base.resources import parse_quantity
    from murmuration.workload.trace import TraceOptions

    if duration is not None and not 0 <= duration < float("inf"):
        raise InputError(
            f"--duration: expected a number of seconds that is not negative, got {duration:g}"
        )
    block_bytes = parse_quantity(block, "--block")
    if block_bytes < 1:
        raise InputError(f"--block: expected at least one byte, got {block!r}")
    return TraceOptions(
        task_cpu=parse_quantity(task_cpu, "--task-cpu"),
        task_memory=parse_quantity(task_memory, "--task-memory"),
        duration_s=duration,
        block_bytes=block_bytes,
        initial=initial,
        shapes=None if shapes is None else _jobs_of(shapes),
        rng=np.random.default_rng(seed),
        usage=usage,
        strict=strict,
    )


def _jobs_of(path: str) -> JobList:
    from murmuration.workload.detect import open_trace

    jobs = open_trace(path).jobs
    if jobs is None:
        raise InputError(f"{path}: expected a trace with jobs to draw shapes from")
    return jobs


@click.group()
def trace() -> None:
    """Inspect traces, and convert them to job lists."""


@trace.command()
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@_reading
def info(file: str, as_json: bool, **reading: Any) -> None:
    """Describe the jobs, nodes and usage in FILE."""
    from murmuration.workload.describe import describe
    from murmuration.workload.detect import open_trace

    described = describe(open_trace(file, _options(**reading)))
    if as_json:
        click.echo(json.dumps({"file": file, **described}, indent=2))
    else:
        _show(file, described)


@trace.command()
@click.argument("file")
@click.argument("out")
@_reading
def convert(file: str, out: str, **reading: Any) -> None:
    """Convert FILE to a job list or node table.

    OUT is a .csv or .parquet file.
    """
    from murmuration.workload.detect import open_trace
    from murmuration.workload.formats.job_lists import write_jobs
    from murmuration.workload.formats.sizes import check_suffix
    from murmuration.workload.nodes import write_nodes

    check_suffix(out)
    opened = open_trace(file, _options(**reading))
    if opened.jobs is not None:
        usage = write_jobs(opened.jobs, out)
        wrote = f"{len(opened.jobs):,} jobs" + _describe_usage(usage)
    elif opened.nodes is not None:
        write_nodes(opened.nodes, out)
        wrote = f"{len(opened.nodes):,} nodes"
    else:
        raise InputError(f"{file}: expected jobs or nodes to convert, this is an {opened.kind}")
    click.echo(f"{out}: {wrote} from {opened.kind}", err=True)
    for line in (*opened.assumptions, *(f"left out: {reason}" for reason in opened.skipped)):
        click.echo(f"  {line}", err=True)


@trace.command()
@click.argument("scenario")
@click.argument("out")
@common.with_options(
    common.SET, common.LOAD, common.ARRIVALS, common.SEED, common.DAYS, common.JSON
)
def generate(
    scenario: str,
    out: str,
    settings: tuple[str, ...],
    seed: int | None,
    days: float | None,
    as_json: bool,
) -> None:
    """Generate the jobs of a scenario as a job list.

    SCENARIO is a preset or a TOML file, OUT a .csv or .parquet file. `--set workload.trace=OUT`
    replays the list with any scheduler.

    \b
    Example:
      murmur trace generate omega-a jobs.parquet --days 0.1
    """
    from murmuration.simulation.scenarios import inputs
    from murmuration.simulation.scenarios import scenario as sc
    from murmuration.workload.formats.job_lists import write_jobs
    from murmuration.workload.formats.sizes import check_suffix

    check_suffix(out)
    checked = common.read_study(scenario, settings, seed, days).base.scenario
    jobs = inputs.make_jobs(checked, inputs.make_nodes(checked.cluster).resources)
    used = write_jobs(jobs, out)
    if as_json:
        document = {"file": out, "jobs": len(jobs), "tasks": int(jobs.tasks.sum())}
        usage_file = None if used is None else str(used)
        where = {"scenario": checked.name, "seed": checked.seed, "usage": usage_file}
        common.print_json({**document, **where, "left_out": ["picky"] * sc.is_picky(checked)})
        return
    usage = _describe_usage(used)
    common.say(
        f"{out}: {len(jobs):,} jobs{usage}, {jobs.tasks.sum():,} tasks of {checked.name}, seed "
        f"{checked.seed}"
    )
    if sc.is_picky(checked):
        common.say(
            "  left out: picky, which is drawn when the jobs are run and not part of a job list"
        )


def _describe_usage(path: Path | None) -> str:
    return "" if path is None else f" (what they use in {path}: workload.usage)"


def _show(file: str, described: dict[str, Any]) -> None:
    """The description for people."""
    from rich.console import Console

    console = Console()

    def say(line: str, style: str = "") -> None:
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)

    say(f"{file}: {described['kind']}, {described['rows']:,} rows", style="bold")
    if jobs := described["jobs"]:
        span = f"submitted from {jobs['first_submit_s']:,.0f} s to {jobs['last_submit_s']:,.0f} s"
        say(f"{jobs['jobs']:,} jobs, {jobs['tasks']:,} tasks, {span}")
        console.print(_workload_table(described["workloads"]))
    if usage := described["usage"]:
        means = ", ".join(f"{usage['mean'][name]:.0%} of {_label(name)}" for name in usage["mean"])
        points = (
            f"{usage['curves']:,} curves of {usage['points']:,} points, "
            f"{_figure(usage['step_s'])} s apart"
        )
        say(f"{usage['jobs']:,} jobs use on average {means} of what they request: {points}")
    if jobs and jobs["recorded"]:
        say(f"{jobs['recorded']:,} jobs with the node they ran on")
    if nodes := described["nodes"]:
        say(f"{nodes['nodes']:,} nodes: {_sizes(nodes['total'])}")
        console.print(_mix_table(nodes["mix"]))
    if events := described["events"]:
        counts = ", ".join(f"{events[name]:,} {name}" for name in ("add", "remove", "update"))
        say(f"changes of {events['nodes']:,} nodes up to {events['last_s']:,.0f} s: {counts}")
    for name, tables in described["tables"].items():
        means = ", ".join(
            f"{field} {_figure(table['mean'])} ({table['values']:,})"
            for field, table in tables.items()
        )
        say(f"{name}: mean {means}")
    for line in (
        *described["assumptions"],
        *(f"left out: {reason}" for reason in described["skipped"]),
    ):
        say(f"- {line}")


def _workload_table(workloads: dict[str, Any]) -> FittingTable:
    from murmuration.reports.terminal import comparison_table

    titles = ("workload", "jobs", "tasks", "size of a task", "gap s", "tasks a job", "duration s")
    rows = [
        [
            name,
            row["jobs"],
            row["tasks"],
            _sizes(row["size_mean"]),
            *(_figure(row[key]) for key in ("gap_s_mean", "tasks_mean")),
            _duration(row["duration_s_mean"]),
        ]
        for name, row in workloads.items()
    ]
    return comparison_table(titles, rows)


def _duration(seconds: float) -> str:
    from murmuration.workload.exports.rows import ENDLESS_S

    return "without end" if seconds >= ENDLESS_S else _figure(seconds)


def _mix_table(mix: list[dict[str, Any]]) -> FittingTable:
    from murmuration.reports.terminal import comparison_table

    rows: list[list[object]] = [
        [_sizes({name: value for name, value in row.items() if name != "nodes"}), row["nodes"]]
        for row in mix[:MIX_SHOWN]
    ]
    if len(mix) > MIX_SHOWN:
        rows.append(["others", sum(row["nodes"] for row in mix[MIX_SHOWN:])])
    return comparison_table(("size of a node", "nodes"), rows)


def _sizes(sizes: dict[str, float]) -> str:
    return ", ".join(f"{_figure(value)} {_label(name)}" for name, value in sizes.items())


def _label(name: str) -> str:
    return {"cpu": "CPU", "mem_gb": "GB"}.get(name, name)


def _figure(value: float | None) -> str:
    """Four digits of small figures, whole ones of large."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
