"""Commands for services and tasks that run, as a user types them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Murmur
from tests.runtime.clusters import LiveCluster, live_cluster, until

from murmuration.cli.live import common as live

LOOP = ("sh", "-c", "echo run $MURMUR_RUN; while :; do sleep 0.1; done")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with live_cluster(tmp_path_factory.mktemp("services")) as made:
        made.submit("web", *LOOP, kind="service", resources={"cpu": 0.5, "memory": "50M"})
        made.running("web", 1)
        yield made


@pytest.fixture
def here(murmur: Murmur, cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> Murmur:
    monkeypatch.setenv("MURMUR_DIR", str(cluster.folder))
    return murmur


def test_exec_gives_output_and_code_of_the_command(here: Murmur) -> None:
    answer = here("exec", "web.0", "--", "sh", "-c", "echo $MURMUR_TASK; echo no >&2; exit 3")
    assert (answer.code, answer.out, answer.err) == (3, "web.0\n", "no\n")
    answer = here("exec", "--json", "web.0", "echo", "-n", "x")
    assert answer.code == 0 and json.loads(answer.out)["stdout"] == "x"
    assert here("exec", "--timeout", "0.2", "web.0", "--", "sleep", "100").code == 124


def test_exec_passes_standard_input_on(
    here: Murmur, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("one\ntwo\n")
    with open(tmp_path / "text") as file:
        monkeypatch.setattr(sys, "stdin", file)
        answer = here("exec", "-i", "web.0", "sort", "-r")
    assert (answer.code, answer.out) == (0, "two\none\n")


def test_scale_there_and_back(here: Murmur, cluster: LiveCluster) -> None:
    assert here("scale", "web", "3").out == "web: 3 tasks from now on\n"
    cluster.running("web", 3)
    assert here("scale", "web", "1").code == 0
    until(lambda: len(cluster.tasks("web")) == 1)
    assert cluster.tasks("web")[0]["task"] == "web.0"


def test_top_shows_what_is_used_beside_what_was_asked_for(
    here: Murmur, cluster: LiveCluster
) -> None:
    until(lambda: cluster.tasks("web")[0]["cpu"] is not None and cluster.tasks("web")[0]["memory"])
    answer = here("top", "--once")
    assert answer.code == 0
    (line,) = [line for line in answer.out.splitlines() if line.startswith("web.0")]
    assert "/0.5 " in line and "/50 MB" in line
    document = json.loads(here("top", "--json", "--sort", "memory").out)
    task = document["tasks"][0]
    assert task["request"] == {"cpu": 0.5, "memory": 50e6} and task["memory"] > 0
    assert "1 more tasks" in here("top", "--once", "-n", "0").err


def test_logs_of_an_earlier_run(here: Murmur, cluster: LiveCluster) -> None:
    cluster.submit("twice", *LOOP, kind="service")
    cluster.running("twice", 1)
    until(lambda: here("logs", "twice.0").out == "run 1\n")
    cluster.client.delete("tasks", "twice.0")
    until(lambda: here("logs", "twice.0").out == "run 2\n")
    assert here("logs", "--previous", "twice.0").out == "run 1\n"
    assert here("logs", "--run", "1", "twice.0").out == "run 1\n"
    cluster.client.delete("jobs", "twice")


def test_ps_watch_prints_what_is_new(
    here: Murmur, cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watched until the job has come and gone: each listing is one line of JSON, and no two in a
    row say the same."""
    begun = threading.Event()
    times = iter(range(10_000))

    def look(ask: object, patience_s: float) -> object:
        if next(times) == 2:
            cluster.submit("short", "sleep", "0.5")
        answer = ask()  # type: ignore[operator]
        if any(row["job"] == "short" and row["ended_s"] for row in answer["jobs"]):
            begun.set()
        elif begun.is_set():
            raise AssertionError("an ended job is listed by --all")
        if begun.is_set() and next(times) > 5:
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(live, "ask_patiently", look)
    answer = here("ps", "--all", "--watch", "--every", "0.1", "--json")
    states = [
        {row["job"]: row["state"] for row in json.loads(line)["jobs"]}
        for line in answer.out.splitlines()
    ]
    assert answer.code == 130
    assert "short" not in states[0] and any("short" in state for state in states)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("exec", "web", "true"), "TASK: expected a task such as web.0, got 'web'"),
        (("exec", "web.9", "true"), "job 'web' has tasks 0 to"),
        (("exec", "web.0"), "Missing argument 'COMMAND...'"),
        (("scale", "web", "0"), "0 is not in the range x>=1"),
        (("scale", "web", "many"), "'many' is not a valid integer"),
        (("scale", "wib", "2"), "no job 'wib'; did you mean 'web'?"),
        (("scale", "web", "1000000"), "expected a number from 1 to 100000, got 1000000"),
        (("logs", "--run", "99", "web.0"), "web.0 has had runs 1 to 1, so there is no run 99"),
        (("logs", "-p", "web.0"), "there is no run 0"),
        (("logs", "-p", "--run", "1", "web.0"), "--previous: expected without --run"),
        (("logs", "-f", "-p", "web.0"), "--follow: expected without --previous and --run"),
    ],
)
def test_bad_input_is_one_sentence(here: Murmur, arguments: tuple[str, ...], sentence: str) -> None:
    answer = here(*arguments)
    assert answer.code == 2 and sentence in answer.err
    assert len(answer.err.splitlines()) == 1


def test_the_history_of_a_job(here: Murmur, cluster: LiveCluster) -> None:
    """The same facts that the whole log has of it, and no others."""
    cluster.submit("of-note", "sh", "-c", "exit 4")
    cluster.submit("aside", "true")
    cluster.wait("of-note")
    cluster.wait("aside")
    whole = json.loads(here("events", "--json").out)
    rows = json.loads(here("events", "--job", "of-note", "--json").out)
    assert rows == [row for row in whole if row["fact"].get("job") == "of-note"]
    kinds = [row["kind"] for row in rows]
    assert kinds[0] == "JobSubmitted" and {"TaskPlaced", "TaskEnded"} <= set(kinds)
    ends = json.loads(here("events", "--job", "of-note", "--kind", "TaskEnded", "--json").out)
    assert [row["fact"]["code"] for row in ends] == [4]
    assert len(here("events", "--job", "of-note", "--last", "2").out.splitlines()) == 2
    assert "n1" in here("events", "--node", "n1", "--last", "1").out
    refused = here("events", "--job", "of-note", "--follow")
    assert refused.code == 2 and "expected without --follow and --index" in refused.err
