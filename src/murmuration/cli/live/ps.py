"""`murmur ps`: jobs, or the tasks of one, with the reason for what they do."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.cli import common
from murmuration.cli.live import common as live

if TYPE_CHECKING:
    from murmuration.runtime.client.requests import ApiClient

#: Rows a person is shown; `--json` has them all.
ROWS = 1000
#: Ended jobs that are shown unless all are asked for.
ENDED = 20
#: What changes by itself and is no news.
AGES = ("age_s", "cpu_s", "cpu", "memory")


@click.command()
@click.argument("job", required=False)
@click.option("--tasks", is_flag=True, help="List the tasks of all jobs.")
@click.option("-a", "--all", "ended_too", is_flag=True, help="List ended jobs too, however old.")
@click.option("-w", "--watch", is_flag=True, help="List again whenever something changed.")
@live.EVERY
@common.with_options(*live.CLIENT)
def ps(
    job: str | None,
    tasks: bool,
    ended_too: bool,
    watch: bool,
    every_s: float,
    folder: Path | None,
    as_json: bool,
) -> None:
    """List jobs, or the tasks of JOB."""
    first = live.client(folder)

    def list_rows() -> live.Row:
        # Looked up each time: while somebody watches, another master may take over elsewhere.
        client = first.again()
        if job is not None or tasks:
            return _list_tasks(client, job, as_json)
        return _list_jobs(client, ended_too or as_json)

    answer = list_rows()
    _print(answer, as_json, is_first=True, watch=watch)
    before = _news(answer)
    while watch:
        time.sleep(every_s)
        answer = live.ask_patiently(list_rows, live.AWAY_S)
        # On a terminal ages go on; elsewhere only news are printed.
        if (news := _news(answer)) != before or (sys.stdout.isatty() and not as_json):
            before = news
            _print(answer, as_json, is_first=False, watch=True)


def _list_tasks(client: ApiClient, job: str | None, as_json: bool) -> live.Row:
    limit = {} if as_json else {"limit": ROWS}
    answer: live.Row = client.get("tasks", **({"job": job} if job else {}), **limit)
    return answer


def _list_jobs(client: ApiClient, ended_too: bool) -> live.Row:
    answer: live.Row = client.get("jobs")
    if not ended_too:
        rows = answer["jobs"]
        ended = [row for row in rows if row["ended_s"]]
        answer["jobs"] = [row for row in rows if row["ended_s"] is None] + ended[-ENDED:]
    return answer


def _news(answer: live.Row) -> list[live.Row]:
    """What a listing says that is not only older."""
    rows = answer["tasks"] if "tasks" in answer else answer["jobs"]
    return [{key: value for key, value in row.items() if key not in AGES} for row in rows]


def _print(answer: live.Row, as_json: bool, is_first: bool, watch: bool) -> None:
    if as_json:
        (common.print_json_line if watch else common.print_json)(answer)
        return
    cells: Callable[[live.Row], list[str]]
    is_tasks = "tasks" in answer
    rows = answer["tasks"] if is_tasks else answer["jobs"]
    cells = live.task_cells if is_tasks else live.job_cells
    headers = live.TASK_HEADERS if is_tasks else live.JOB_HEADERS
    live.begin_page(watch, is_first)
    live.print_rows(headers, [cells(row) for row in rows[:ROWS]])
    more = answer.get("total", len(rows)) - ROWS
    if more > 0:
        common.say(f"{more} more; --json has them all")
    sys.stdout.flush()
