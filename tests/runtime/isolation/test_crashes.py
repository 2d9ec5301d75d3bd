"""A node agent, or anything on the way to a task, is killed at any step: nothing runs twice,
nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.runtime.isolation.conftest import LIMIT_S, House, until

from murmuration.runtime.node.isolation import Exit, Handle, StartFailed, container, processes
from murmuration.runtime.node.isolation import folder as files

#: An agent that ends itself by SIGKILL before or after one function of the launch.
AGENT = """
import importlib, os, signal, sys
from pathlib import Path
from murmuration.runtime.node import isolation
name, folder, when, module, function = sys.argv[1:]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

if module:
    place = importlib.import_module(module)
    for part in function.split(".")[:-1]:
        place = getattr(place, part)
    real = getattr(place, function.split(".")[-1])
    last = lambda *a, **k: (real(*a, **k), die())
    setattr(place, function.split(".")[-1], die if when == "before" else last)
command = ["sh", "-c", "echo ran >> ran; sleep 300"]
limits = isolation.RunLimits(0.5, 2**27)
isolation.choose(name).start(isolation.RunSpec("a", command, {}, limits, Path(folder)))
die()
"""
HERE = "murmuration.runtime.node.isolation"
#: The steps of a launch, in order; from the spawn on the task will run.
STEPS = {
    "process": [
        ("before", f"{HERE}.folder", "_open"),
        ("after", f"{HERE}.folder", "_open"),
        ("before", "os", "posix_fallocate"),
        ("after", "os", "posix_fallocate"),
        ("before", f"{HERE}.plain", "spawn"),
        ("after", f"{HERE}.plain", "spawn"),
        ("before", f"{HERE}.plain", "weigh"),
        ("", "", ""),
    ],
    "runc": [
        ("before", "os", "posix_fallocate"),
        ("after", "os", "posix_fallocate"),
        ("before", f"{HERE}.bundle", "configuration"),
        ("after", f"{HERE}.bundle", "write"),
        ("before", f"{HERE}.container", "spawn"),
        ("after", f"{HERE}.container", "spawn"),
        ("after", f"{HERE}.container", "launch"),
        ("before", f"{HERE}.container", "Container._find_container"),
        ("", "", ""),
    ],
}
CASES = [(name, k) for name, steps in STEPS.items() for k in range(len(steps))]


def runs(name: str, step: tuple[str, str, str]) -> bool:
    """Whether a launch that was cut off at this step goes on without its agent."""
    steps = STEPS[name]
    return steps.index(step) >= steps.index(
        ("after", f"{HERE}.{'plain' if name == 'process' else 'container'}", "spawn")
    )


def agent(name: str, folder: Path, step: tuple[str, str, str]) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", AGENT, name, str(folder), *step]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(words, env=environment, stderr=subprocess.PIPE)


def times_run(folder: Path) -> int:
    ran = folder / "work/ran"
    return ran.read_text().count("ran") if ran.exists() else 0


@pytest.mark.parametrize(("home", "k"), CASES, indirect=["home"])
def test_an_agent_killed_at_any_step_of_a_launch(home: House, k: int) -> None:
    name = home.isolation.name
    step = STEPS[name][k]
    folder = home.spec("a").folder
    with agent(name, folder, step) as crashed:
        code = crashed.wait(LIMIT_S)
        assert code == -signal.SIGKILL, crashed.stderr.read() if crashed.stderr else ""
    found = home.isolation.recover(folder)
    if runs(name, step):
        assert found is not None and home.isolation.poll(found) is None
        until(lambda: times_run(folder) == 1)
        home.handles.append(found)
        home.isolation.kill(found, 10.0)
        assert home.wait(found).reason == "killed"
    else:
        assert found is None and times_run(folder) == 0
        home.isolation.clean(folder)
        assert home.run("a", "exit 3")[0] == Exit(3, None), "the next agent can start it"
    assert times_run(folder) <= 1


@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.02, 0.03, 0.04, 0.055, 0.07])
@pytest.mark.parametrize("agent_too", [False, True])
def test_a_launch_cut_off_anywhere(runc: House, delay_s: float, agent_too: bool) -> None:
    """The chain of mount, runc and its helpers is killed with -9, alone or with its agent."""
    folder = runc.spec("a").folder
    if agent_too:
        with agent("runc", folder, ("", "", "")) as crashed:
            cut_off(folder, delay_s)
            crashed.kill()
    else:
        outcome: list[Handle | StartFailed] = []
        thread = threading.Thread(target=lambda: outcome.append(start(runc)))
        thread.start()
        cut_off(folder, delay_s)
        thread.join()
        (answer,) = outcome
        if isinstance(answer, StartFailed):
            assert not files.is_locked(folder) and times_run(folder) <= 1
            return
    found = runc.isolation.recover(folder)
    runc.isolation.clean(folder)
    assert not files.is_locked(folder)
    if found is not None:
        runc.handles.append(found)
    if found is None:
        assert times_run(folder) == 0


def start(house: House) -> Handle | StartFailed:
    try:
        return house.shell("a", "echo ran >> ran; sleep 300")
    except StartFailed as failed:
        return failed


def cut_off(folder: Path, delay_s: float) -> None:
    until(lambda: bool(container.launchers(folder)) or files.state(folder).pid is not None)
    time.sleep(delay_s)
    processes.send(container.launchers(folder), signal.SIGKILL)


def test_a_task_goes_on_while_no_agent_is_there_and_its_end_is_known(home: House) -> None:
    folder = home.spec("a").folder
    with agent(home.isolation.name, folder, ("", "", "")) as crashed:
        crashed.wait(LIMIT_S)
    found = home.isolation.recover(folder)
    assert found is not None
    home.handles.append(found)
    until(lambda: bool(sleepers(found)))
    processes.send(sleepers(found), signal.SIGUSR1)  # not by us: the task's own affair
    assert home.wait(found) == Exit(None, signal.SIGUSR1, "")
    again = home.isolation.recover(folder)
    assert again is not None and again.ended == Exit(None, signal.SIGUSR1, "")


def sleepers(handle: Handle) -> list[int]:
    return [
        pid
        for pid in processes.trees([handle.pid])
        if processes.command_line(pid).startswith(b"sleep\0")
    ]


#: With a disk of 64 KB: a task that is started before it fills up keeps its exit code; one after is
#: refused.
FULL = """
import sys, time
from pathlib import Path
from murmuration.runtime.node.isolation import *
disk = Path(sys.argv[1])
first, second = disk / "first", disk / "second"
first.mkdir(); second.mkdir()
plain = choose("process")
fill = ["sh", "-c", "cat /dev/zero > big; touch full; sleep 0.2; exit 9"]
spec = lambda folder: RunSpec("a", fill, {}, RunLimits(), folder)
handle = plain.start(spec(first))
while not (first / "work/full").exists():
    time.sleep(0.01)
try:
    plain.start(spec(second))
except StartFailed as failed:
    print(failed)
while plain.poll(handle) is None:
    time.sleep(0.01)
print(handle.ended.code)
"""


def test_a_full_disk(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root mounts a small disk")
    (tmp_path / "disk").mkdir()
    script = 'mount -t tmpfs -o size=64k none "$1/disk" && exec "$2" -c "$3" "$1/disk"'
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    words += [str(tmp_path), sys.executable, FULL]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    shown = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    refused, code = shown.stdout.splitlines()
    assert refused.endswith("No space left on device") and code == "9"
