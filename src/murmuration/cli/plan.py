"""`murmur plan`: a better allocation for a real cluster, and the ordered moves to get there."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from murmuration.base.errors import InputError
from murmuration.cli import common

PATH = click.Path(path_type=Path)


@click.command()
@click.argument("snapshot", type=PATH)
@click.option(
    "--place",
    type=PATH,
    metavar="FILE",
    help="Place the pods of this file, with the fewest moves of others.",
)
@click.option(
    "--remove",
    multiple=True,
    metavar="NODE",
    help="What if this node went? Several times for several.",
)
@click.option(
    "--add",
    multiple=True,
    metavar="TYPE=COUNT",
    help="What if these came? As m5.large, or as a node there is.",
)
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    metavar="NAME[=WEIGHT]",
    help="What to make small, several times; module:function for your own.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=MOST",
    help="The most an objective may reach: moves=20.",
)
@click.option("--power-off", is_flag=True, help="A node without tasks draws no power.")
@click.option(
    "--evaluations", type=click.IntRange(1), help="Placements to look at; default: by size."
)
@click.option(
    "--population",
    type=click.IntRange(8, 2000),
    default=92,
    show_default=True,
    help="Placements kept.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=125.0,
    show_default=True,
    metavar="MB/S",
    help="How fast each move copies memory when the moves are rehearsed.",
)
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="Stop the search after this time."
)
@click.option(
    "--pymoo", is_flag=True, help="Show beside it what pymoo's NSGA-III finds from the same start."
)
@click.option(
    "--assignment",
    type=PATH,
    metavar="FILE",
    help="SNAPSHOT is a ROADEF/EURO 2012 model, this its assignment.",
)
@common.with_options(common.SEED, common.OUT, common.JSON)
def plan(
    snapshot: Path,
    place: Path | None,
    remove: tuple[str, ...],
    add: tuple[str, ...],
    objectives: tuple[str, ...],
    limits: tuple[str, ...],
    power_off: bool,
    evaluations: int | None,
    population: int,
    rate: float,
    seconds: float | None,
    pymoo: bool,
    assignment: Path | None,
    seed: int | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """A better allocation for the cluster in SNAPSHOT, and the ordered moves to get there.

    SNAPSHOT is what kubectl get nodes,pods,pdb -A -o json (or yaml) writes, our own TOML, or a
    folder of Alibaba's.
    """
    if assignment is not None:
        _reassign(
            snapshot, assignment, seconds, evaluations, 1 if seed is None else seed, out, as_json
        )
        return
    from murmuration.assignment.objectives import parse_limit, parse_objective
    from murmuration.base.loading import look_beside
    from murmuration.planning.plan import Options

    look_beside(snapshot)
    options = Options(
        tuple(parse_objective(text) for text in objectives),
        tuple(parse_limit(text) for text in limits),
        power_off,
        place is not None or bool(remove),
        population,
        evaluations,
        float("inf") if seconds is None else seconds,
        1 if seed is None else seed,
        rate,
        pymoo=pymoo,
    )
    if len({objective.name for objective in options.objectives}) < len(options.objectives):
        raise InputError("--objective: expected each objective once")
    folder = common.results_folder(
        out, as_json, f"plan-{snapshot.name.partition('.')[0] or 'cluster'}"
    )
    _run(snapshot, place, remove, add, options, folder, as_json)


def _reassign(
    model: Path,
    assignment: Path,
    seconds: float | None,
    evaluations: int | None,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """A challenge instance: bounded by seconds, or by evaluations, and then one seed gives one
    result."""
    from murmuration.planning import reassignment

    wall, spent = time.perf_counter(), time.process_time()
    folder = common.results_folder(out, as_json, f"plan-{model.stem}")
    limit = 60.0 if seconds is None else seconds
    found = reassignment.plan(
        model, assignment, seconds=limit, seed=seed, out=folder, evaluations=evaluations
    )
    told = {
        "model": str(model),
        "assignment": str(assignment),
        "seed": seed,
        **reassignment.document(found),
    }
    told["timing"] = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - spent}
    if as_json:
        common.print_json(told)
        return
    saved = 1.0 - found.cost_after / found.cost_before if found.cost_before else 0.0
    moved = f"{found.moves} of {found.tasks} tasks move"
    common.say(f"cost {found.cost_before:,} → {found.cost_after:,} (−{saved:.1%}); {moved}")
    if folder is not None:
        common.say(f"assignment: {folder / reassignment.ASSIGNMENT}")


def _run(
    snapshot: Path,
    place: Path | None,
    remove: tuple[str, ...],
    add: tuple[str, ...],
    options: Any,
    folder: Path | None,
    as_json: bool,
) -> None:
    from murmuration.planning.changes import without
    from murmuration.planning.document import document
    from murmuration.planning.plan import make_plan
    from murmuration.planning.snapshots.opening import open_snapshot

    wall, spent = time.perf_counter(), time.process_time()
    problem = open_snapshot(snapshot, place, add)
    extra: dict[str, Any] = {}
    if remove:
        removed = without(problem, remove)
        problem = removed.problem
        options = replace(options, displaced=removed.displaced)
        extra["removed"] = list(remove)
        extra["stranded"] = [
            {"task": task, "reason": reason} for task, reason in removed.stranded.items()
        ]
        extra["displaced"] = [
            {"task": problem.tasks[t], "from": node} for t, node in removed.displaced.items()
        ]
    with common.progress("planning", 1.0) as update:
        found = make_plan(problem, options, update)
    told = document(found, str(snapshot), extra)
    told["timing"] = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - spent}
    if folder is not None:
        _write(found, told, folder)
    if as_json:
        common.print_json(told)
        return
    _show(found, told, folder)


def _write(found: Any, told: dict[str, Any], folder: Path) -> None:
    from murmuration.base import files
    from murmuration.planning.page import page
    from murmuration.planning.script import can_be_scripted, script
    from murmuration.reports.page import render

    files.ready_folder(folder)
    files.write_json(
        folder / "plan.json", {key: value for key, value in told.items() if key != "timing"}
    )
    if can_be_scripted(found):
        files.write_text(folder / "moves.sh", script(found, f"moves for {told['snapshot']}"))
        (folder / "moves.sh").chmod(0o755)
    files.write_text(folder / "report.html", render(page(found, told)))


def _show(found: Any, told: dict[str, Any], folder: Path | None) -> None:
    from murmuration.planning.document import rehearsal_sentence, table
    from murmuration.planning.script import can_be_scripted
    from murmuration.reports.terminal import comparison_table

    common.print_table(comparison_table(*table(found, ("kubernetes", "pymoo"))))
    for note in told["notes"]:
        common.say(f"note: {note}")
    for entry in told.get("stranded", []):
        common.say(f"stranded: {entry['task']}: {entry['reason']}")
    for entry in told["unplaced"][:10]:
        common.say(f"no node for {entry['task']}: {entry['reason']}")
    if told["impossible"]:
        common.say(
            f"impossible: {len(told['impossible'])} moves wait for each other and no third node "
            "has room"
        )
    common.say(summary(told))
    if told["moves"]:
        common.say(rehearsal_sentence(found.rehearsal))
    if folder is not None:
        moves = f"moves: {folder / 'moves.sh'}; " if can_be_scripted(found) else ""
        common.say(f"{moves}report: {folder / 'report.html'}")


def summary(told: dict[str, Any]) -> str:
    """One line: how much moves, and what that rests on."""
    waves = max((move["wave"] for move in told["moves"]), default=0)
    placed = sum(move["kind"] == "place" for move in told["moves"])
    bound = told["fewest_moves_bound"]
    fewest = "; no plan has fewer" if bound is not None and bound == told["moved"] else ""
    return (
        f"{told['moved']} of {told['placed_before']} tasks move{fewest}, {placed} are placed, "
        f"{len(told['unplaced'])} "
        f"find no node; {len(told['moves'])} steps in {waves} waves; {told['label']}"
    )
