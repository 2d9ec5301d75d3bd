"""What a part or a task writes is bounded: logs are cut, and output without end is ended."""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from murmuration.runtime.logs import rotate_log
from murmuration.runtime.net.sockets import log_accept_errors
from murmuration.runtime.node import executor as executors
from murmuration.runtime.node.executor import Executor
from murmuration.runtime.node.isolation import choose, processes
from murmuration.schedulers.agent import Message
from murmuration.schedulers.central.messages import JOBS, Launch, Order
from murmuration.schedulers.central.node_agent import Exited, Start


@pytest.fixture
def adopts_no_more() -> Iterator[None]:
    """An isolation makes this process the parent of orphans; other tests have their own idea."""
    yield
    ctypes.CDLL(None).prctl(processes.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def test_a_log_is_cut_and_its_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "master.log"
    writer = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(writer, b"old\n" * 10)
    assert not rotate_log(path, 40)
    os.write(writer, b"new\n")
    assert rotate_log(path, 40)
    os.write(writer, b"next\n")
    os.close(writer)
    assert path.read_bytes() == b"next\n"
    assert (tmp_path / "master.log.1").read_bytes() == b"old\n" * 9 + b"new\n"


def test_a_log_is_not_cut_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x" * 100)
    (tmp_path / "master.log").symlink_to(tmp_path / "precious")
    assert not rotate_log(tmp_path / "master.log", 10)
    assert (tmp_path / "precious").read_text() == "x" * 100


@pytest.mark.usefixtures("adopts_no_more")
def test_output_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "OUTPUT_MAX", 2**16)
    events: list[Message] = []

    async def story() -> None:
        executor = Executor(tmp_path / "tasks", choose("process"), set, events.append)
        order = Order(("sh", "-c", "head -c 1000000 /dev/zero; exec sleep 600"))
        executor.start(Start(Launch(1, JOBS, "a.0.1", (0, 0), order), float("inf")))
        while not any(isinstance(event, Exited) for event in events):
            executor.poll()
            await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(story(), 200))
    (ended,) = [event for event in events if isinstance(event, Exited)]
    assert ended.reason == "too much output"


@pytest.mark.usefixtures("adopts_no_more")
def test_a_pipe_in_place_of_output_is_no_output(tmp_path: Path) -> None:
    """A plain task can put one there; who opened it would wait for a writer for ever."""
    executor = Executor(tmp_path / "tasks", choose("process"), set, lambda _: None)
    (tmp_path / "tasks/a.0.1").mkdir()
    os.mkfifo(tmp_path / "tasks/a.0.1/stdout")
    assert executor.read("a.0.1", "stdout", 0, 100).error == "no output of a.0.1 is kept"


def test_a_flood_of_connections_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    log_accept_errors(loop)
    for _ in range(1000):
        message = "socket.accept() out of system resource"
        loop.call_exception_handler({"message": message, "exception": OSError(24, "too many")})
    lines = [record for record in caplog.records if "connections" in record.getMessage()]
    assert len(lines) == 1 and lines[0].exc_info is None
    loop.call_exception_handler({"message": "another one", "exception": OSError(5, "broken")})
    assert "another one" in caplog.text
    loop.close()
