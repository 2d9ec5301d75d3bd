"""`murmur why`: one decision of a run, with the nodes it considered, what ruled them out, and what was chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from murmuration.cli import common


@click.command()
@click.argument("job")
@click.option("--in", "folder", required=True, type=click.Path(path_type=Path), metavar="RUN", help="Folder of a run.")
@click.option("--attempt", type=click.IntRange(min=1), default=1, show_default=True, help="Which attempt at the job.")
@common.JSON
def why(job: str, folder: Path, attempt: int, as_json: bool) -> None:
    """One decision about JOB: nodes considered, filtered and why, scores, the choice, and what would unblock it."""
    import msgspec

    from murmuration.experiments.runs import stored_spec
    from murmuration.simulation import engine, explain, files
    from murmuration.simulation import scenario as sc

    run = engine.prepare(sc.check(stored_spec(folder)["tables"], str(folder / files.SCENARIO)))
    found = explain.explain(run, job, attempt)
    if as_json:
        document = msgspec.to_builtins(found)
        document["verdict_kind"] = None if found.verdict is None else type(found.verdict).__name__.lower()
        common.print_json(document)
        return
    _print(found)


def _print(found: Any) -> None:
    from rich.console import Console
    from rich.markup import escape

    from murmuration.cluster.reasons import Never
    from murmuration.reports.terminal import comparison_table

    console = Console(width=None if Console().is_terminal else 120)
    console.print(
        f"[bold]{escape(found.job)}[/] ({escape(found.workload)}), attempt {found.attempt} at {found.at_s:,.3f} s: "
        f"{found.tasks} tasks of {found.request}"
    )
    console.print(f"{found.considered:,} nodes considered, {found.feasible:,} could take a task")
    for reason, count in found.filtered.items():
        console.print(f"  {count:>8,}  {reason}")
    for note in found.notes:
        console.print(note)
    if found.best:
        rows = [[c.node, c.free, c.score] for c in found.best]
        console.print(comparison_table(["best nodes", "free", "score"], rows))
    if found.chosen:
        few = ", ".join(f"{node}" + (f" ×{count}" if count > 1 else "") for node, count in found.chosen[:12])
        more = f" and {len(found.chosen) - 12} more" if len(found.chosen) > 12 else ""
        console.print(f"[green]placed {found.placed} of {found.tasks}[/]: {few}{more}")
    if found.verdict is not None:
        word = "never" if isinstance(found.verdict, Never) else "waits"
        console.print(f"[red]{word}[/]: {found.verdict.reason}")
    for hint in found.unblock:
        console.print(f"  would help: {hint}")
