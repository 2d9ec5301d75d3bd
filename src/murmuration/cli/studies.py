"""What the commands that run scenarios share: many runs behind one progress bar, and the tables
that are printed of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from murmuration.cli import common

if TYPE_CHECKING:
    from murmuration.experiments.runs import Summary
    from murmuration.experiments.specs import Spec
    from murmuration.reports.terminal import FittingTable


def run_with_progress(
    title: str, specs: list[Spec], workers: int | None, on: str | None, resume: bool
) -> list[Summary]:
    """Run the specs behind a progress bar that counts runs; kernels are compiled before, behind
    another."""
    from murmuration.experiments import parallel

    workers = workers or common.cores()
    if on is None:
        compile_kernels(specs, workers)
    with common.progress(title, len(specs)) as update:
        finished: dict[int, Summary] = {}

        def done(index: int, summary: Summary) -> None:
            finished[index] = summary
            update(len(finished))

        try:
            return parallel.run_all(specs, workers, on, resume, done)
        except KeyboardInterrupt as error:
            stop = error
    _print_finished([finished[index] for index in sorted(finished)], len(specs))
    raise stop


def compile_kernels(specs: Sequence[Spec], workers: int | None = None) -> None:
    """Compile what these runs call and no command has compiled before."""
    from murmuration.experiments.execution import warm

    missing = warm.missing_kernels(specs)
    if missing:
        with common.progress("compiling", len(missing), "kernels") as update:
            warm.compile_all(missing, workers or common.cores(), update)


def _print_finished(summaries: list[Summary], count: int) -> None:
    """What there is when a command is stopped."""
    from murmuration.experiments.statistics import combine_by_label

    if summaries:
        common.print_table(terminal_table(combine_by_label(summaries)))
    common.say(f"{len(summaries)} of {count} runs are finished; --resume goes on from there")


def print_summaries(
    summaries: list[Summary], runs: list[Summary], folder: Path | None, as_json: bool
) -> None:
    """Several summaries as tables with a verdict, or as one document. `runs` are the same before
    replicas were combined."""
    from murmuration.experiments.pages.verdict import judge

    verdict = judge(runs)
    if as_json:
        common.print_json({"runs": summaries, "verdict": verdict})
        return
    from murmuration.experiments.unplaced import warnings

    print(headline(summaries))
    common.print_table(terminal_table(summaries))
    print()
    common.print_table(cluster_table(summaries))
    if verdict:
        print()
        common.print_sentences(verdict)
    for warning in warnings(summaries):
        common.say(f"warning: {warning}")
    say_notes(summaries[0])
    common.say_report(folder)


def say_notes(summary: Summary) -> None:
    """What was left out of a trace, the end of it above all."""
    for note in summary.get("notes", ()):
        if note.startswith("left out"):
            common.say(f"note: {note}")


#: The figures of each workload: what the column is called, the key, and whether it is a share.
WORKLOAD_COLUMNS = (
    ("jobs", "jobs_submitted", False),
    ("not started", "jobs_not_started", False),
    ("wait s", "wait_s_mean", False),
    ("p50", "wait_s_p50", False),
    ("p95", "wait_s_p95", False),
    ("p99", "wait_s_p99", False),
    ("placed s", "wait_full_s_mean", False),
    ("slowdown", "slowdown_mean", False),
    ("busy", "busy_fraction", True),
    ("conflicts", "conflict_fraction", False),
    ("turnaround s", "turnaround_s_mean", False),
    ("attempts", "attempts_mean", False),
    ("wasted", "busy_wasted_fraction", True),
    ("first try s", "wait_first_attempt_s_mean", False),
)
#: On a narrow terminal these go before any that stands to their left.
SPARE = ("first try s", "wasted", "attempts", "turnaround s", "p50", "p99", "placed s")


def headline(summaries: Sequence[Summary]) -> str:
    """What all runs have in common: `10,000 nodes, 7 days, batch 127,963 jobs, seed 1`."""
    from murmuration.experiments.pages.parts import facts_of

    facts = dict(facts_of(summaries[0]))
    parts = [f"{facts['nodes']} nodes"] if _are_equal(summaries, "cluster", "nodes_mean") else []
    parts.append(f"{facts['days']} days")
    for name, workload in summaries[0]["workloads"].items():
        if _are_equal(summaries, "workloads", name, "jobs_submitted"):
            parts.append(f"{_cell(workload['jobs_submitted']):,} {name} jobs")
    return ", ".join([*parts, f"seed {facts['seed']}"])


def _are_equal(summaries: Sequence[Summary], *path: str) -> bool:
    """Whether a figure is a single number and the same in all runs."""
    figures = []
    for figure in summaries:
        for key in path:
            figure = figure[key]
        figures.append(figure)
    return all(figure == figures[0] for figure in figures) and not isinstance(figures[0], dict)


def terminal_table(summaries: list[Summary]) -> FittingTable:
    """One row per scheduler and workload; without what the headline says already, and without
    columns of zeros."""
    from murmuration.reports.terminal import comparison_table

    workloads = [
        (summary["scheduler"] if index == 0 else "", name, workload)
        for summary in summaries
        for index, (name, workload) in enumerate(summary["workloads"].items())
    ]
    columns = [column for column in WORKLOAD_COLUMNS if _says_something(summaries, column[1])]
    rows = [
        [label, _named(name, workload), *(_cell(workload[key], share) for _, key, share in columns)]
        for label, name, workload in workloads
    ]
    titles = [title for title, _, _ in columns]
    return comparison_table(["scheduler", "workload", *titles], rows, drop_first=SPARE)


def _says_something(summaries: Sequence[Summary], key: str) -> bool:
    """Whether a column tells schedulers apart: equal numbers of jobs stand in the headline, and a
    column of zeros in none."""
    names = list(summaries[0]["workloads"])
    if key == "jobs_submitted":
        return not all(_are_equal(summaries, "workloads", name, key) for name in names)
    from murmuration.experiments.statistics import middle

    return any(middle(s["workloads"][name].get(key)) for s in summaries for name in names)


def _named(name: str, workload: dict[str, Any]) -> str:
    """A workload's name, marked if its queue only grows, so that its waits mean little."""
    return f"{name} (saturated)" if workload["saturated"] else name


def cluster_table(summaries: list[Summary]) -> FittingTable:
    """One row per scheduler: what its placement made of the cluster."""
    from murmuration.reports.terminal import comparison_table

    columns = ["scheduler", "nodes in use", "CPU", "memory", "fragmentation", "imbalance"]
    columns += ["migrations/min", "makespan s", "CPU s"]
    return comparison_table(columns, [_cluster_cells(summary) for summary in summaries])


def _cluster_cells(summary: Summary) -> list[object]:
    cluster = summary["cluster"]
    return [
        summary["scheduler"],
        _cell(cluster["nodes_in_use_mean"]),
        *(_cell(cluster["required"].get(name), share=True) for name in ("cpu", "memory")),
        _cell(cluster["fragmentation_mean"], share=True),
        _cell(cluster["imbalance_mean"], share=True),
        _cell(cluster["migrations_per_min"]),
        _cell(summary["makespan_s"]),
        _cell(summary.get("timing", {}).get("cpu_s")),
    ]


def _cell(figure: Any, share: bool = False) -> object:
    """A figure; the mean of replicas with half the width of its 95 % interval."""
    from murmuration.experiments.statistics import middle
    from murmuration.reports.terminal import human, percent

    mean = middle(figure)
    if not isinstance(figure, dict) or figure.get("low") is None or figure["high"] == figure["low"]:
        return percent(mean) if share else _whole(mean)
    half = (figure["high"] - figure["low"]) / 2
    if share:
        return f"{100 * mean:.1f}\u00a0±\u00a0{100 * half:.1f}\u00a0%"
    return f"{human(mean)}\u00a0±\u00a0{human(float(f'{half:.2g}'))}"


def _whole(value: object) -> object:
    """A count that is a mean of equal counts is shown as a count."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
