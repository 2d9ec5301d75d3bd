"""`murmur plan`: a better allocation for a real cluster, and the ordered moves to get there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from murmuration.base.errors import InputError
from murmuration.cli import common

if TYPE_CHECKING:
    from murmuration.planning.plan import Options, Plan

Document = dict[str, Any]
PATH = click.Path(path_type=Path)


@click.command()
@click.argument("snapshot", type=PATH)
@click.option(
    "--place",
    type=PATH,
    metavar="FILE",
    help="Place the pods of this file, moving as few others as possible.",
)
@click.option(
    "--remove",
    multiple=True,
    metavar="NODE",
    help="Plan as if this node were removed; may be given several times.",
)
@click.option(
    "--any",
    "any_one",
    type=click.Choice(["node", "zone"]),
    help="Make no plan, but say whether everything still fits if any one of them fails.",
)
@click.option(
    "--add",
    multiple=True,
    metavar="TYPE=COUNT",
    help="Plan with nodes added: an instance type such as m5.large, or a copy of a node.",
)
@click.option(
    "--usage",
    type=PATH,
    metavar="FILE",
    help="What kubectl top pods -A prints, or the metrics API's JSON: pods that request nothing "
    "weigh what they use.",
)
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    metavar="NAME[=WEIGHT]",
    help="What to minimise; may be given several times. module:function for your own.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=MAX",
    help="An upper limit for an objective, e.g. moves=20.",
)
@click.option("--power-off", is_flag=True, help="Assume that a node without tasks is switched off.")
@click.option(
    "--evaluations",
    type=click.IntRange(1),
    help="Placements the search evaluates (default: by the size of the cluster).",
)
@click.option(
    "--population",
    type=click.IntRange(8, 2000),
    default=92,
    show_default=True,
    help="Placements the search keeps.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=125.0,
    show_default=True,
    metavar="MB/S",
    help="Speed of a migration when the moves are rehearsed.",
)
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="Stop the search after this time."
)
@click.option(
    "--pymoo",
    is_flag=True,
    help="Show the result of pymoo's NSGA-III from the same start beside it.",
)
@click.option(
    "--assignment",
    type=PATH,
    metavar="FILE",
    help="The assignment that belongs to SNAPSHOT, a ROADEF/EURO 2012 model.",
)
@common.with_options(common.SEED, common.OUT, common.JSON)
def plan(
    snapshot: Path,
    place: Path | None,
    remove: tuple[str, ...],
    any_one: str | None,
    add: tuple[str, ...],
    usage: Path | None,
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
    """Plan a better allocation for a real cluster.

    SNAPSHOT is what kubectl get nodes,pods,pdb -A -o json (or yaml) writes, or - for standard
    input; a TOML file of ours; or a folder of an Alibaba trace. The plan is an ordered list of
    moves; nothing is carried out.
    """
    if assignment is not None:
        folder = common.results_folder(out, as_json, f"plan-{snapshot.stem}")
        _reassign(
            snapshot, assignment, folder, seconds, evaluations, 1 if seed is None else seed, as_json
        )
        return
    from murmuration.assignment.objectives import parse_limit, parse_objective
    from murmuration.base.loading import look_beside
    from murmuration.planning.plan import Options

    look_beside(snapshot)
    options = Options(
        objectives=tuple(parse_objective(text) for text in objectives),
        limits=tuple(parse_limit(text) for text in limits),
        power_off=power_off,
        only_place=place is not None or bool(remove),
        population=population,
        evaluations=evaluations,
        seconds=float("inf") if seconds is None else seconds,
        seed=1 if seed is None else seed,
        rate=rate,
        pymoo=pymoo,
    )
    if len({objective.name for objective in options.objectives}) < len(options.objectives):
        raise InputError("--objective: expected each objective once")
    folder = common.results_folder(
        out, as_json, f"plan-{snapshot.name.partition('.')[0].strip('-') or 'cluster'}"
    )
    question = PlanQuestion(snapshot, place, remove, add, usage)
    if any_one is not None:
        _fail_any(question, any_one, options.seed, as_json)
        return
    _plan(question, options, folder, as_json)


@dataclass(frozen=True)
class PlanQuestion:
    """The cluster to plan for, and what is to be changed in it first."""

    snapshot: Path
    place: Path | None
    remove: tuple[str, ...]
    add: tuple[str, ...]
    usage: Path | None = None


def _reassign(
    model: Path,
    assignment: Path,
    folder: Path | None,
    seconds: float | None,
    evaluations: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """A challenge instance: bounded by seconds, or by evaluations, and then one seed gives one
    result."""
    from murmuration.planning import reassignment

    timer = common.Timer()
    result = reassignment.plan(
        model,
        assignment,
        seconds=60.0 if seconds is None else seconds,
        seed=seed,
        out=folder,
        evaluations=evaluations,
    )
    if as_json:
        named = {"model": str(model), "assignment": str(assignment), "seed": seed}
        common.print_json({**named, **reassignment.document(result), "timing": timer.timing()})
        return
    saved = 1.0 - result.cost_after / result.cost_before if result.cost_before else 0.0
    moved = f"{result.moves} of {result.tasks} tasks move"
    common.say(f"cost {result.cost_before:,} → {result.cost_after:,} (−{saved:.1%}); {moved}")
    if folder is not None:
        common.say(f"assignment: {folder / reassignment.ASSIGNMENT}")


def _fail_any(question: PlanQuestion, any_one: str, seed: int, as_json: bool) -> None:
    """Whether everything still fits if any one node or zone fails; exit code 1 if not."""
    from murmuration.planning.changes import remove_nodes
    from murmuration.planning.failures import describe_failures, failure_sentences, try_failures
    from murmuration.planning.snapshots.opening import open_snapshot

    problem = open_snapshot(question.snapshot, question.place, question.add)
    if question.remove:
        problem = remove_nodes(problem, question.remove).problem
    failures = try_failures(problem, any_one, seed)
    answer = describe_failures(failures, any_one)
    if as_json:
        common.print_json({"snapshot": str(question.snapshot), **answer})
    else:
        for sentence in failure_sentences(failures, any_one):
            common.say(sentence)
    if not answer["everything_fits"]:
        raise SystemExit(1)


def _plan(question: PlanQuestion, options: Options, folder: Path | None, as_json: bool) -> None:
    from murmuration.planning.changes import remove_nodes
    from murmuration.planning.document import document
    from murmuration.planning.plan import make_plan
    from murmuration.planning.snapshots.opening import open_snapshot

    timer = common.Timer()
    problem = open_snapshot(question.snapshot, question.place, question.add, question.usage)
    extra: dict[str, Any] = {}
    if question.remove:
        removed = remove_nodes(problem, question.remove)
        problem = removed.problem
        options = replace(options, displaced=removed.displaced)
        extra["removed"] = list(question.remove)
        extra["stranded"] = [
            {"task": task, "reason": reason} for task, reason in removed.stranded.items()
        ]
        extra["displaced"] = [
            {"task": problem.tasks[t], "from": node} for t, node in removed.displaced.items()
        ]
    with common.progress("planning", 1.0) as update:
        made = make_plan(problem, options, update)
    answer = document(made, str(question.snapshot), extra)
    answer["timing"] = timer.timing()
    if folder is not None:
        _write(made, answer, folder)
    if as_json:
        common.print_json(answer)
        return
    _print(made, answer, folder)


def _write(made: Plan, answer: Document, folder: Path) -> None:
    from murmuration.base import files
    from murmuration.planning.page import page
    from murmuration.planning.script import can_be_scripted, script
    from murmuration.reports.page import render

    files.ready_folder(folder)
    files.write_json(
        folder / "plan.json", {key: value for key, value in answer.items() if key != "timing"}
    )
    if can_be_scripted(made):
        files.write_text(folder / "moves.sh", script(made, f"moves for {answer['snapshot']}"))
        (folder / "moves.sh").chmod(0o755)
    files.write_text(folder / "report.html", render(page(made, answer)))


def _print(made: Plan, answer: Document, folder: Path | None) -> None:
    from murmuration.planning.document import (
        explain_kept,
        gain_sentence,
        rehearsal_sentence,
        table,
    )
    from murmuration.planning.script import can_be_scripted, script_notes
    from murmuration.reports.terminal import comparison_table

    common.print_table(comparison_table(*table(made, ("kubernetes", "pymoo"))))
    for note in answer["notes"]:
        common.say(f"note: {note}")
    for entry in answer.get("stranded", []):
        common.say(f"stranded: {entry['task']}: {entry['reason']}")
    for entry in answer["unplaced"][:10]:
        common.say(f"no node for {entry['task']}: {entry['reason']}")
    if answer["impossible"]:
        common.say(
            f"impossible: {len(answer['impossible'])} moves wait for each other and no third node "
            "has room"
        )
    common.say(summary(answer))
    for sentence in [*gain_sentence(answer).splitlines(), *explain_kept(answer)]:
        common.say(sentence)
    if answer["moves"]:
        common.say(rehearsal_sentence(made.rehearsal))
    if folder is not None:
        for note in script_notes(made):
            common.say(f"note: {note}")
        moves = f"moves: {folder / 'moves.sh'}; " if can_be_scripted(made) else ""
        common.say(f"{moves}report: {folder / 'report.html'}")


def summary(answer: Document) -> str:
    """One line: how many tasks move, and what limits that number."""
    waves = max((move["wave"] for move in answer["moves"]), default=0)
    placed = sum(move["kind"] == "place" for move in answer["moves"])
    bound = answer["fewest_moves_bound"]
    fewest = "; no plan has fewer" if bound is not None and bound == answer["moved"] else ""
    return (
        f"{answer['moved']} of {answer['placed_before']} tasks move{fewest}, {placed} are placed, "
        f"{len(answer['unplaced'])} "
        f"find no node; {len(answer['moves'])} steps in {waves} waves; {answer['label']}"
    )
