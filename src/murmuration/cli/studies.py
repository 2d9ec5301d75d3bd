"""What the commands that run scenarios share: many runs behind one progress bar, and the tables
that are printed of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from murmuration.cli import common

if TYPE_CHECKING:
    from murmuration.experiments.parallel import Done
    from murmuration.experiments.runs import Summary
    from murmuration.experiments.specs import Spec
    from murmuration.reports.terminal import FittingTable


def run_with_progress(
    title: str, specs: list[Spec], workers: int | None, on: str | None, resume: bool
) -> list[Summary]:
    """Run the specs behind a progress bar that counts runs; kernels are compiled before, behind
    another."""
    from murmuration.experiments import parallel
    from murmuration.experiments.statistics import combine_by_label

    workers = workers or common.cores()
    if on is None:
        compile_kernels(specs, workers)
    if not resume:
        say_estimates(specs)

    def run(done: Done) -> list[Summary]:
        return parallel.run_all(specs, workers, on, resume, done)

    return watch_runs(title, len(specs), run, lambda done: terminal_table(combine_by_label(done)))


def watch_runs(
    title: str,
    count: int,
    run: Callable[[Done], list[Summary]],
    tabulate: Callable[[list[Summary]], FittingTable],
) -> list[Summary]:
    """Runs behind a bar that counts them. When the command is stopped, what is finished is
    shown."""
    with common.progress(title, count) as update:
        finished: dict[int, Summary] = {}

        def done(index: int, summary: Summary) -> None:
            finished[index] = summary
            update(len(finished))

        try:
            return run(done)
        except KeyboardInterrupt as error:
            stop = error
    if finished:
        common.print_table(tabulate([finished[index] for index in sorted(finished)]))
    common.say(f"{len(finished)} of {count} runs are finished; --resume goes on from there")
    raise stop


def say_estimates(specs: Sequence[Spec]) -> None:
    """Say what takes long before it begins."""
    from murmuration.experiments.execution.estimate import estimate_sentences

    for sentence in estimate_sentences(specs):
        common.say(sentence)


def compile_kernels(specs: Sequence[Spec], workers: int | None = None) -> None:
    """Compile what these runs call and no command has compiled before."""
    from murmuration.experiments.execution import warm

    missing = warm.missing_kernels(specs)
    if missing:
        with common.progress("compiling", len(missing), "kernels") as update:
            warm.compile_all(missing, workers or common.cores(), update)


def print_summaries(
    summaries: list[Summary], runs: list[Summary], folder: Path | None, as_json: bool
) -> None:
    """Several summaries as tables with a verdict, or as one document. `runs` are the same before
    replicas were combined."""
    from murmuration.experiments.pages.verdict import judge
    from murmuration.experiments.unplaced import warnings

    verdict, remarks = judge(runs), warnings(summaries)
    if as_json:
        common.print_json({"runs": summaries, "verdict": verdict, "warnings": remarks})
        return
    print(headline(summaries))
    common.print_table(terminal_table(summaries))
    print()
    common.print_table(cluster_table(summaries))
    if verdict:
        print()
        common.print_sentences(verdict)
    for warning in remarks:
        common.say(f"warning: {warning}")
    say_notes(summaries[0])
    common.say_report(folder)


def say_notes(summary: Summary) -> None:
    """What was left out of a trace, the end of it above all."""
    for note in summary.get("notes", ()):
        if note.startswith("left out"):
            common.say(f"note: {note}")


#: On a narrow terminal these go before any that stands to their left.
SPARE = ("first try s", "wasted", "attempts", "turnaround s", "p50", "p99", "placed s")


def headline(summaries: Sequence[Summary]) -> str:
    """What all runs have in common: `10,000 nodes, 7 days, batch 127,963 jobs, seed 1`."""
    from murmuration.experiments.pages.columns import are_equal, cell
    from murmuration.experiments.pages.parts import facts_of

    facts = dict(facts_of(summaries[0]))
    parts = [f"{facts['nodes']} nodes"] if are_equal(summaries, "cluster", "nodes_mean") else []
    parts.append(f"{facts['days']} day{'' if facts['days'] == '1' else 's'}")
    for name, workload in summaries[0]["workloads"].items():
        if are_equal(summaries, "workloads", name, "jobs_submitted"):
            parts.append(f"{cell(workload['jobs_submitted']):,} {name} jobs")
    return ", ".join([*parts, f"seed {facts['seed']}"])


def terminal_table(summaries: list[Summary]) -> FittingTable:
    """One row per scheduler and workload; without what the headline says already, and without
    columns of zeros."""
    from murmuration.experiments.pages.columns import telling_columns, workload_rows
    from murmuration.reports.terminal import comparison_table

    columns = telling_columns(summaries)
    titles = ["scheduler", "workload", *(column.title for column in columns)]
    return comparison_table(titles, workload_rows(summaries, columns), drop_first=SPARE)


def cluster_table(summaries: list[Summary]) -> FittingTable:
    """One row per scheduler: what its placement made of the cluster."""
    from murmuration.experiments.pages.comparison import EXTRA_COLUMNS
    from murmuration.reports.terminal import comparison_table

    titles = ["scheduler", "nodes in use", "CPU", "memory", "fragmentation", "imbalance"]
    titles += ["migrations/min", "makespan s", "CPU s", *EXTRA_COLUMNS.values()]
    rows = [_cluster_cells(summary, [*EXTRA_COLUMNS]) for summary in summaries]
    shown = [k for k in range(len(titles)) if any(row[k] for row in rows)]
    return comparison_table([titles[k] for k in shown], [[row[k] for k in shown] for row in rows])


def _cluster_cells(summary: Summary, extra: list[str]) -> list[object]:
    from murmuration.experiments.pages.columns import cell

    cluster = summary["cluster"]
    return [
        summary["scheduler"],
        cell(cluster["nodes_in_use_mean"]),
        *(cell(cluster["required"].get(name), share=True) for name in ("cpu", "memory")),
        cell(cluster["fragmentation_mean"], share=True),
        cell(cluster["imbalance_mean"], share=True),
        cell(cluster["migrations_per_min"]),
        cell(summary["makespan_s"]),
        cell(summary.get("timing", {}).get("cpu_s")),
        *(cell(cluster.get(name)) for name in extra),
    ]
