"""The answers of `murmur plan`: ask the planner, write what there is to write, and print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from murmuration.base.words import count_of
from murmuration.cli import common
from murmuration.cli.plan.question import PlanQuestion

if TYPE_CHECKING:
    from murmuration.planning.plan import Plan

Document = dict[str, Any]


def reassign(question: PlanQuestion) -> None:
    """A challenge instance: bounded by seconds, or by evaluations, and then one seed gives one
    result."""
    from murmuration.planning import reassignment
    from murmuration.reports.formats import format_change

    assert question.assignment is not None, "only with an assignment"
    stem = question.snapshot.stem
    folder = common.results_folder(question.out, question.as_json, f"plan-{stem}")
    bounds = (question.seconds, question.cpu_seconds, question.evaluations)
    unbounded = all(bound is None for bound in bounds)
    timer = common.Timer()
    result = reassignment.plan(
        question.snapshot,
        question.assignment,
        seconds=60.0 if unbounded else question.seconds,
        cpu_seconds=question.cpu_seconds,
        seed=question.seed_number,
        out=folder,
        evaluations=question.evaluations,
    )
    if question.as_json:
        named = {
            "model": str(question.snapshot),
            "assignment": str(question.assignment),
            "seed": question.seed_number,
        }
        common.print_json({**named, **reassignment.document(result), "timing": timer.timing()})
        return
    saved = 1.0 - result.cost_after / result.cost_before if result.cost_before else 0.0
    moved = f"{result.moves:,} of {count_of(result.tasks, 'task')} move"
    change = format_change(-saved)
    common.say(f"cost {result.cost_before:,} → {result.cost_after:,} ({change}); {moved}")
    common.say(f"no assignment costs less than {result.cost_bound:,}")
    if folder is not None:
        common.say(f"assignment: {folder / reassignment.ASSIGNMENT}")


def fail_any(question: PlanQuestion) -> None:
    """Whether everything still fits if any one node or zone fails; exit code 1 if not."""
    from murmuration.planning.changes import remove_nodes
    from murmuration.planning.failures import describe_failures, failure_sentences, try_failures

    assert question.any_one is not None, "only if a failure is asked about"
    problem = question.open()
    if question.remove:
        problem = remove_nodes(problem, question.remove).problem
    deadline = question.deadline()
    failures = try_failures(problem, question.any_one, question.seed_number, deadline.left)
    answer = describe_failures(failures, question.any_one)
    _tell(question, answer, failure_sentences(failures, question.any_one))
    if not answer["everything_fits"]:
        raise SystemExit(1)


def rank(question: PlanQuestion) -> None:
    """Which node is the best to drain."""
    from murmuration.planning.drains import describe_drains, drain_sentences, rank_drains

    problem = question.open()
    drains = rank_drains(problem, question.seed_number, question.deadline().left)
    _tell(question, describe_drains(drains), drain_sentences(drains))


def mix(question: PlanQuestion) -> None:
    """The cheapest mix of node types for what runs."""
    from murmuration.planning.mix import candidates, cheapest_mix, describe_mix, mix_sentences

    present = question.open()
    additions = candidates(present, question.catalogue)
    extended = question.open_with(additions)
    stopped = question.deadline().is_over
    answer = cheapest_mix(present, extended, additions, question.seed_number, stopped)
    _tell(question, describe_mix(answer), mix_sentences(answer))


def _tell(question: PlanQuestion, answer: Document, sentences: Sequence[str]) -> None:
    """Print an answer that is no plan, for a program or for a person."""
    if question.as_json:
        common.print_json({"snapshot": str(question.snapshot), **answer})
        return
    for sentence in sentences:
        common.say(sentence)


def make(question: PlanQuestion) -> None:
    """A plan, and what belongs to it."""
    timer, folder = common.Timer(), question.folder()
    with common.progress("planning", 1.0) as update:
        made, answer = compute(question, update)
    answer["timing"] = timer.timing()
    if folder is not None:
        _write(made, answer, folder)
    if question.as_json:
        common.print_json(answer)
        return
    _print(made, answer, folder)


def compute(
    question: PlanQuestion, update: Callable[[float], object] = lambda share: None
) -> tuple[Plan, Document]:
    """The plan a question asks for, and what `plan.json` says of it."""
    from murmuration.planning.changes import remove_nodes
    from murmuration.planning.document import document
    from murmuration.planning.plan import make_plan

    problem = question.open()
    options = question.options(question.deadline())
    extra: Document = {"question": question.words()}
    if question.remove:
        removed = remove_nodes(problem, question.remove)
        problem = removed.problem
        options = replace(options, displaced=removed.displaced)
        extra["removed"] = removed.nodes
        extra["stranded"] = [
            {"task": task, "reason": reason} for task, reason in removed.stranded.items()
        ]
        extra["displaced"] = [
            {"task": problem.tasks[t], "from": node} for t, node in removed.displaced.items()
        ]
    made = make_plan(problem, options, update)
    return made, document(made, str(question.snapshot), extra)


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
    else:
        # That of an earlier plan would carry out another one.
        (folder / "moves.sh").unlink(missing_ok=True)
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
    steps = f"{count_of(len(answer['moves']), 'step')} in {count_of(waves, 'wave')}"
    return (
        f"{answer['moved']:,} of {count_of(answer['placed_before'], 'task')} move{fewest}, "
        f"{count_of(placed, '', 'are')} placed, {count_of(len(answer['unplaced']), '', 'find')} no "
        f"node; {steps}; {answer['label']}"
    )
