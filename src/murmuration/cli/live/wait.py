"""`murmur wait`: until a job has ended; its exit code is the command's."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.live import common as live

ASK_S = 20.0
#: The exit code when the time is up, as timeout(1) has it.
TIMEOUT_CODE = 124


@click.command()
@click.argument("job")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0), help="Maximum seconds to wait."
)
@common.with_options(*live.CLIENT)
def wait(job: str, timeout_s: float | None, folder: Path | None, as_json: bool) -> None:
    """Wait until a job has ended, and return its exit code.

    The exit code is 124 when the time is up.
    """
    status = wait_for(live.client(folder), job, timeout_s)
    if as_json:
        common.print_json(status)
    else:
        reason = f": {status['reason']}" if status["reason"] else ""
        common.say(f"{job} {status['state']}{reason}")
    sys.exit(TIMEOUT_CODE if status["code"] is None else status["code"])


def wait_for(client: Any, job: str, timeout_s: float | None = None) -> dict[str, Any]:
    """Ask until the job has ended or the time is up; a master that is starting again is waited
    for."""
    from murmuration.runtime.client.requests import AnswerError

    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    away_since: float | None = None
    while True:
        left = ASK_S if deadline is None else min(ASK_S, max(0.0, deadline - time.monotonic()))
        try:
            status: dict[str, Any] = client.again().get("jobs", job, wait_s=left)
            away_since = None
            if status["ended"] or (deadline is not None and time.monotonic() >= deadline):
                return status
        except AnswerError:
            raise
        except InputError:
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since > ASK_S:
                raise
            time.sleep(0.1)
