"""The story of a large job is as short to read as that of a small one."""

from __future__ import annotations

import pytest

from murmuration.cli.results.stories import SHOWN, few, print_live

TASKS = 10_000


def test_a_job_of_many_tasks_is_told_in_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [{"at_s": k, "task": f"big.{k}", "what": "placed on n"} for k in range(TASKS)]
    nodes = [[f"node-{k}", 1] for k in range(TASKS)]
    decision: dict[str, object] = {
        "job": "big",
        "workload": "service",
        "at_s": 0.0,
        "request": "1 CPU",
    }
    decision |= {"tasks": TASKS, "placed": TASKS, "considered": TASKS, "feasible": TASKS}
    decision |= {"filtered": {}, "chosen": nodes, "best": [], "verdict": None, "unblock": []}
    answer: dict[str, object] = {
        "job": "big",
        "state": "running",
        "tasks": {"running": TASKS},
        "reason": "",
    }
    answer |= {"position": 0, "closed": {}, "task": None, "history": lines, "history_note": ""}
    print_live(answer | {"decision": None, "decisions": [decision], "attempts": 1})
    told = capsys.readouterr().out
    assert len(told.splitlines()) < 3 * SHOWN
    assert "10,000 running" in told and f"{TASKS - SHOWN:,} more; --json has all" in told
    # The first and the latest of what happened.
    assert "big.0 " in told and f"big.{TASKS - 1} " in told


def test_what_fits_is_shown_whole() -> None:
    rows = [[str(k), "x"] for k in range(SHOWN)]
    assert few(rows) == rows
    assert few([*rows, ["last", "x"]])[-1] == ["last", "x"]
