"""The story of a job: how it was decided, all its attempts, and what became of it since."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from murmuration.base.documents import Document
from murmuration.base.errors import InputError
from murmuration.base.words import count_of
from murmuration.cli import common
from murmuration.cli.live import common as live

#: Lines of a list that are shown; of a longer one the first and the last.
SHOWN = 12


def simulated(job: str, run: Path, attempt: int | None) -> Document:
    """The story of a job of a simulated run."""
    import msgspec

    from murmuration.experiments.runs import read_stored_scenario
    from murmuration.simulation.engine.run import prepare
    from murmuration.simulation.results.explain import explain, list_attempts

    scenario = read_stored_scenario(run)
    story = _stored_job(run, job)
    made = 0 if story is None else int(story["attempts"])
    explanation = explain(prepare(scenario), job, attempt or max(made, 1))
    document: Document = msgspec.to_builtins(explanation)
    verdict = explanation.verdict
    document["verdict_kind"] = None if verdict is None else type(verdict).__name__.lower()
    document["story"] = story
    attempts = list_attempts(prepare(scenario), job, made) if made > 1 else []
    document["attempts"] = msgspec.to_builtins(attempts)
    document["moves"] = _stored_moves(run, job)
    return document


def _stored_job(run: Path, job: str) -> Document | None:
    """What the results of a run say of a job; None if they are not there (yet)."""
    from murmuration.simulation.results import snapshots

    path = run / snapshots.JOBS
    if not path.exists():
        return None
    import polars as pl

    rows = pl.read_parquet(path).filter(pl.col("job_id") == job)
    keys = ("submit_s", "first_attempt_s", "start_s", "scheduled_s", "end_s")
    for row in rows.fill_nan(None).iter_rows(named=True):
        return {key: row[key] for key in (*keys, "attempts", "conflicts", "status")}
    return None


def _stored_moves(run: Path, job: str) -> list[Document] | None:
    """Where the tasks of a job were, if every task was recorded (`--detail`)."""
    from murmuration.simulation.results.detail import TASKS

    if not (run / TASKS).exists():
        return None
    import polars as pl

    stays = pl.read_parquet(run / TASKS).filter(pl.col("job_id") == job).sort("index", "start_s")
    keys = ("index", "node", "start_s", "end_s", "why", "moved_from")
    return [{key: row[key] for key in keys} for row in stays.fill_nan(None).iter_rows(named=True)]


def _tell(sentence: str) -> None:
    """Print a sentence; a terminal gets it in lines of whole words."""
    click.echo(common.fold(sentence) if sys.stdout.isatty() else sentence)


def print_simulated(document: Document) -> None:
    story = document["story"]
    if story is not None:
        _tell(_life(document["job"], story))
    if document["attempts"]:
        rows = [
            [
                str(each["number"]),
                f"{each['at_s']:,.1f}",
                str(each["tasks"]),
                f"{each['nodes_with_room']:,}",
                each["commonest_refusal"],
            ]
            for each in document["attempts"]
        ]
        live.print_rows(("attempt", "at s", "tasks", "nodes with room", "most others"), few(rows))
    print_decision(document, document["attempt"])
    if document["moves"]:
        rows = [
            [
                f"{document['job']}.{stay['index']}",
                stay["node"],
                f"{stay['start_s']:,.1f}",
                "" if stay["end_s"] is None else f"{stay['end_s']:,.1f}",
                stay["why"] + (f", came from {stay['moved_from']}" if stay["moved_from"] else ""),
            ]
            for stay in document["moves"]
        ]
        live.print_rows(("task", "node", "from s", "to s", "then"), few(rows))


def _life(job: str, story: Document) -> str:
    """`service-3: submitted at 81 s, started 10.1 s later after 2 attempts, ended at 310 s`."""
    parts = [f"submitted at {story['submit_s']:,.1f} s"]
    tries = count_of(story["attempts"], "attempt")
    if story["start_s"] is None:
        parts.append(f"not started after {tries} ({story['status']})")
    else:
        waited = story["start_s"] - story["submit_s"]
        parts.append(f"started {waited:,.2f} s later, {tries}")
    if story["conflicts"]:
        parts.append(f"{story['conflicts']} refused as conflicts")
    if story["end_s"] is not None:
        parts.append(f"ended at {story['end_s']:,.1f} s")
    return f"{job}: {', '.join(parts)}"


def few(rows: Sequence[list[str]]) -> list[list[str]]:
    """The first and the last of many rows, with a line that says how many are left out."""
    if len(rows) <= SHOWN:
        return list(rows)
    half = SHOWN // 2
    between = f"{len(rows) - 2 * half:,} more; --json has all"
    gap = ["…", *[""] * (len(rows[0]) - 2), between]
    return [*rows[:half], gap, *rows[-half:]]


def live_story(job: str, folder: Path | None) -> Document:
    """The story of a job of the live cluster: as the master knows it now, and as its log has it."""
    from murmuration.workload.job_spec import split_task

    try:
        client = live.client(folder)
    except InputError as error:
        raise InputError(f"{error}; or name a simulated run with --in RUN") from error
    name, index = split_task(job)
    document: Document = client.get("jobs", name, "why")
    document["task"] = job if index is not None else None
    document |= _history(client.folder, name)
    return document


def _history(folder: Path, job: str) -> Document:
    """What the log says of a job; nothing where the log is not on this host or begins too late."""
    import msgspec

    from murmuration.experiments.execution.history import read_history

    try:
        history = read_history(folder, job)
    except InputError as error:
        return {"history": [], "decisions": [], "history_note": str(error)}
    note = "" if history.agrees else "the log could not be replayed exactly"
    return {
        "history": msgspec.to_builtins(history.lines),
        "decisions": msgspec.to_builtins(history.decisions),
        "attempts": history.attempts,
        "history_note": note,
    }


def print_live(answer: Document) -> None:
    tasks = ", ".join(f"{count:,} {state}" for state, count in answer["tasks"].items())
    _tell(f"{answer['job']} is {answer['state']} ({tasks})")
    if answer["reason"]:
        _tell(f"{answer['tier']}: {answer['reason']}" if answer["tier"] else answer["reason"])
    if answer["position"]:
        ahead = f", behind {', '.join(answer['ahead'])}" if answer["ahead"] else ""
        _tell(f"position {answer['position']} in the queue{ahead}; wakes when {answer['wakes_on']}")
    for reason, count in answer["closed"].items():
        _tell(f"  {count:>8,}  {reason}")
    _print_history(answer)
    if answer["decision"] is not None:
        print_decision(answer["decision"])
    elif placed := [each for each in answer["decisions"] if each["placed"]]:
        _tell(_describe_decision(placed[-1], answer["attempts"]))
        print_decision(placed[-1])


def _describe_decision(decision: Document, attempts: int) -> str:
    at = time.strftime("%H:%M:%S", time.localtime(decision["at_s"]))
    tries = "" if attempts == 1 else f", of {attempts} attempts at the job"
    return f"the last decision, at {at}{tries}:"


def _print_history(answer: Document) -> None:
    mine = answer["task"]
    lines = [
        line for line in answer["history"] if mine is None or line["task"] in (mine, answer["job"])
    ]
    if lines:
        rows = [
            [time.strftime("%H:%M:%S", time.localtime(line["at_s"])), line["task"], line["what"]]
            for line in lines
        ]
        live.print_rows(("at", "task", "what"), few(rows))
    if answer["history_note"]:
        _tell(f"note: {answer['history_note']}")


def print_decision(decision: Document, attempt: int = 0) -> None:
    """A decision as text."""
    head = f"{decision['job']} ({decision['workload']})"
    if attempt:
        head += f", attempt {attempt} at {decision['at_s']:,.3f} s"
    _tell(f"{head}: {count_of(decision['tasks'], 'task')} of {decision['request']}")
    nodes = count_of(decision["considered"], "node")
    _tell(f"{nodes} considered, {decision['feasible']:,} could take a task")
    for reason, count in decision["filtered"].items():
        _tell(f"  {count:>8,}  {reason}")
    for note in decision.get("notes", ()):
        _tell(note)
    if decision.get("how") and decision["chosen"]:
        _tell(f"chosen: {decision['how']}")
    scored = any(node["score"] is not None for node in decision["best"])
    if scored:
        _print_best(decision)
    _print_chosen(decision)
    if decision["verdict"] is not None:
        word = "waits" if "wakes_on" in decision["verdict"] else "never"
        _tell(f"{word}: {decision['verdict']['reason']}")
    for hint in decision["unblock"]:
        _tell(f"  would help: {hint}")


def _print_best(decision: Document) -> None:
    rows = [[c["node"], c["free"], f"{c['score']:.4g}"] for c in decision["best"]]
    live.print_rows(("highest scores", "free", "score"), rows)


def _print_chosen(decision: Document) -> None:
    if not decision["chosen"]:
        return
    _tell(f"placed {decision['placed']:,} of {decision['tasks']:,}:")
    picked = decision.get("picked") or [
        {"node": node, "tasks": count, "free": "", "score": None, "rank": None}
        for node, count in decision["chosen"]
    ]
    rows = [
        [
            each["node"],
            str(each["tasks"]),
            each["free"],
            "–" if each["score"] is None else f"{each['score']:.4g}",
            "–" if each["rank"] is None else f"{each['rank']:,}",
        ]
        for each in picked
    ]
    live.print_rows(("node", "tasks", "free before", "score", "rank"), rows[:SHOWN])
    more = len(decision["chosen"]) - min(len(rows), SHOWN)
    if more > 0:
        _tell(f"and {count_of(more, 'more node')}; --json has all")
