"""`murmur exec`: run a command beside a task, in its isolation."""

from __future__ import annotations

import os
import sys
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.live import common as live

if TYPE_CHECKING:
    from murmuration.runtime.client.requests import ApiClient

#: The size of the terminal, once for each change; nothing in between.
NextSize = Callable[[], dict[str, int]]
#: Seconds that an answer may wait for output: where somebody types, what was typed waits as long.
WAIT_S, TYPING_WAIT_S = 5.0, 0.1
PIECE = 2**16
#: The exit code of a command whose time was over, as of `timeout`.
TIMEOUT_CODE = 124


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("task")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
@click.option("-i", "--stdin", "takes_input", is_flag=True, help="Pass standard input on to it.")
@click.option(
    "-t",
    "--tty",
    "on_terminal",
    is_flag=True,
    help="Give it a terminal: all keys go to it, Ctrl-C too.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True, max=86_400),
    default=3600.0,
    show_default=True,
    help="Seconds after which it is killed; the exit code is 124 then.",
)
@common.with_options(*live.CLIENT)
def exec(
    task: str,
    command: tuple[str, ...],
    takes_input: bool,
    on_terminal: bool,
    timeout_s: float,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Run a command beside a running task.

    It runs as the task does: in its container, as its user, with its environment and under its
    limits. TASK is a task such as web.0; `--` comes before a command with options. Its output and
    its exit code are those of murmur.
    """
    from murmuration.workload.job_spec import split_task

    if split_task(task)[1] is None:
        raise InputError(f"TASK: expected a task such as {task}.0, got {task!r}")
    if on_terminal and (as_json or not sys.stdin.isatty()):
        raise InputError("--tty: expected a terminal on standard input, and no --json")
    client = live.client(folder)
    takes_input |= on_terminal
    order: live.Row = {"command": list(command), "timeout_s": timeout_s, "input": takes_input}
    with _raw_terminal() if on_terminal else nullcontext(dict) as next_size:
        order |= next_size()
        session = client.post("tasks", task, "exec", body=order)["session"]
        pieces = _read_input() if takes_input else None
        outcome = _converse(client, task, session, pieces, as_json, next_size)
    if as_json:
        common.print_json(outcome)
    if outcome["reason"]:
        common.say(f"{task}: the command was killed, {outcome['reason']}")
        sys.exit(TIMEOUT_CODE)
    sys.exit(outcome["code"])


@contextmanager
def _raw_terminal() -> Iterator[NextSize]:
    """Have this terminal pass every key on as it is, and put it back at the end; yields what says
    its size whenever that has changed."""
    import signal
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before, is_new = termios.tcgetattr(keyboard), threading.Event()
    is_new.set()
    handler = signal.signal(signal.SIGWINCH, lambda *_: is_new.set())

    def next_size() -> dict[str, int]:
        if not is_new.is_set():
            return {}
        is_new.clear()
        columns, rows = os.get_terminal_size(keyboard)
        return {"rows": rows, "columns": columns} if rows and columns else {}

    tty.setraw(keyboard, termios.TCSADRAIN)  # what was typed meanwhile is kept
    try:
        yield next_size
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, handler)


def _converse(
    client: ApiClient,
    task: str,
    session: str,
    pieces: SimpleQueue[bytes] | None,
    as_json: bool,
    next_size: NextSize,
) -> live.Row:
    """Pass input and output on until the command has ended; how it did."""
    pending, is_last = b"", pieces is None
    texts = {"stdout": b"", "stderr": b""}
    while True:
        if not pending and pieces is not None and not is_last:
            pending, is_last = _next_input(pieces)
        body: live.Row = {"data": b64encode(pending).decode(), "is_last": is_last}
        wait_s = WAIT_S if is_last and not pending else TYPING_WAIT_S
        body |= {"wait_s": wait_s, **next_size()}
        answer = client.post("tasks", task, "exec", session, body=body)
        pending = pending[answer["taken"] :]
        for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            data = b64decode(answer[name])
            if as_json:
                texts[name] += data
            elif data:
                stream.buffer.write(data)
                stream.flush()
        if answer["code"] is not None:
            shown = {name: text.decode("utf-8", "replace") for name, text in texts.items()}
            code, reason = answer["code"], answer["reason"]
            return {"task": task, "code": code, "reason": reason, **(shown if as_json else {})}


def _read_input() -> SimpleQueue[bytes]:
    """Standard input in pieces, read beside what else goes on; the last one is empty."""
    pieces: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        data = b"?"
        while data:
            data = os.read(sys.stdin.fileno(), PIECE)
            pieces.put(data)

    threading.Thread(target=read, daemon=True).start()
    return pieces


def _next_input(pieces: SimpleQueue[bytes]) -> tuple[bytes, bool]:
    """What was typed meanwhile, and whether that is the end."""
    data = b""
    while len(data) < PIECE:
        try:
            piece = pieces.get_nowait()
        except Empty:
            break
        if not piece:
            return data, True
        data += piece
    return data, False
