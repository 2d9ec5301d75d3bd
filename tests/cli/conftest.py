"""The command as a user meets it: arguments in; exit code, standard output and standard error
out."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from murmuration.cli import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


Murmur = Callable[..., Answer]

SMALL = """
name = "small"
seed = 3
days = 0.02

[cluster]
nodes = 30
cpu = 4
memory = "8G"

[workload.batch]
arrivals_per_s = 0.05
tasks_per_job = 5
task_duration_s = 60
task_cpu = 1
task_memory = "1G"

[workload.service]
arrivals_per_s = 0.01
tasks_per_job = 3
task_duration_s = 300
task_cpu = "500m"
task_memory = "2Gi"
production = true

[scheduler]
kind = "shared-state"
decision.service = { job_time_s = 1.0 }

[variant.machine]
"scheduler.conflict" = "machine"
"""


@pytest.fixture
def murmur(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Murmur:
    """Run the command in an empty folder that has the scenario `small.toml`. It runs in the tests'
    own process, which keeps its signal handlers: one that ignored SIGTERM would hand that on to
    every process it starts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    (tmp_path / "small.toml").write_text(SMALL)

    def run(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["murmur", *arguments])
        capsys.readouterr()
        handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        caught = capsys.readouterr()
        return Answer(code, caught.out, caught.err)

    return run
