"""`murmur up`: one process that starts a master and its node agents, starts again what dies, and
ends them all."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.client.requests import ApiClient
from murmuration.runtime.folder import (
    UP,
    UP_LOCK,
    check_folder,
    is_cluster,
    list_nodes,
    open_private,
    remove_made,
    write_private,
)
from murmuration.runtime.locks import hold, holder
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.node.executor import folder_name
from murmuration.runtime.node.isolation.choose import list_usable
from murmuration.runtime.node.isolation.folder import locked
from murmuration.runtime.node.journal import Journal
from murmuration.runtime.node.watchdog import AGENT_LOCK, end_watchdog
from murmuration.runtime.options import AgentOptions, MasterOptions

LOCK = UP_LOCK
#: A master on a busy host needs a while: it compiles and imports before it listens.
READY_S = 180.0
END_S = 20.0
RESTART_S = 0.2
RESTART_MAX_S = 2.0


class Parts(msgspec.Struct):
    """What `murmur up` starts."""

    master: MasterOptions
    agents: list[AgentOptions]


class Child:
    """One part: started again when it dies, later each time it dies at once."""

    def __init__(self, name: str, folder: Path, module: str, options: msgspec.Struct) -> None:
        self.name, self._folder = name, folder
        self._command = [sys.executable, "-m", module, msgspec.json.encode(options).decode()]
        self._process: subprocess.Popen[bytes] | None = None
        self._delay = RESTART_S
        self._started = self._next = 0.0

    def start(self) -> None:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        with open(self._folder / f"{self.name}.log", "ab", opener=open_private) as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self._started = time.monotonic()

    def look(self) -> str:
        """Start it again if it has died; the error it ended with if it cannot start."""
        assert self._process is not None
        code = self._process.poll()
        now = time.monotonic()
        if code is None:
            return ""
        if not self._next:
            self._delay = (
                RESTART_S
                if now - self._started > RESTART_MAX_S
                else min(2 * self._delay, RESTART_MAX_S)
            )
            self._next = now + self._delay
        if now >= self._next:
            self._next = 0.0
            self.start()
        return self.last_error() if code == 2 else ""

    def last_error(self) -> str:
        text = (self._folder / f"{self.name}.log").read_text(errors="replace")
        errors = [line for line in text.splitlines() if line.startswith("murmur: ")]
        return errors[-1].removeprefix("murmur: ") if errors else ""

    def end(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self, until: float) -> bool:
        assert self._process is not None
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True


class Supervisor:
    """Holds the folder's lock for as long as the cluster is up."""

    def __init__(self, parts: Parts) -> None:
        self.folder = Path(parts.master.folder)
        directory = FolderDirectory(self.folder)
        directory.create()
        self._lock = hold(self.folder / LOCK, "a cluster")
        directory.clear()
        write_private(self.folder / UP, msgspec.json.encode(parts).decode())
        self.agents = [
            Child(a.name, self.folder, "murmuration.runtime.node.process", a) for a in parts.agents
        ]
        self.master = Child(
            "master", self.folder, "murmuration.runtime.master.process", parts.master
        )
        self._names = {node.name for agent in parts.agents for node in agent.emulated}
        self._names |= {agent.name for agent in parts.agents if not agent.emulated}
        self._stop = False

    def start(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request_stop)
        for child in (self.master, *self.agents):
            child.start()

    def _request_stop(self, number: int, frame: object) -> None:
        self._stop = True

    def await_ready(self) -> str:
        """Until every node agent has joined; the address of the API."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline and not self._stop:
            for child in (self.master, *self.agents):
                error = child.look()
                if error:
                    raise InputError(error)
            with contextlib.suppress(InputError, OSError):
                client = ApiClient(self.folder)
                if self._names <= {
                    node["node"]
                    for node in client.get("nodes")["nodes"]
                    if node["state"] != "unreachable"
                }:
                    return client.url
            time.sleep(0.02)
        raise InputError(
            f"the cluster did not come up within {READY_S:.0f} s; see the logs in {self.folder}"
        )

    def run(self) -> None:
        """Until a signal asks it to stop."""
        while not self._stop:
            time.sleep(0.1)
            for child in (self.master, *self.agents):
                child.look()

    def end(self) -> None:
        """End the master first, so that it does not move tasks from one ending node to the next."""
        for children in ([self.master], self.agents):
            until = time.monotonic() + END_S
            for child in children:
                child.end(signal.SIGTERM)
            for child in children:
                if not child.wait(until):
                    child.end(signal.SIGKILL)
                    child.wait(time.monotonic() + END_S)
        sweep(self.folder)


def sweep(folder: Path) -> None:
    """End whatever parts of a cluster are left in a folder, and all of its tasks; nothing of them
    stays."""
    directory = FolderDirectory(folder)
    pids = [directory.leading_process()]
    nodes = list_nodes(folder)
    pids += [holder(node / AGENT_LOCK) for node in nodes]
    for pid in pids:
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for node in nodes:
        end_watchdog(node)
        _clean_tasks(node)
    directory.clear()


def _clean_tasks(node: Path) -> None:
    unrecorded = {
        folder_name(begun.framework, run) for run, begun in Journal(node / "journal").begun.items()
    }
    isolations = list_usable()
    for task in (node / "tasks").glob("*"):
        # What has ended was cleaned by its agent; what was to start is in the journal.
        if locked(task) or task.name in unrecorded:
            for isolation in isolations:
                isolation.clean(task)


def bring_down(folder: Path, keep: bool) -> bool:
    """End the cluster of a folder, whatever state it is in; False if there was none."""
    if not is_cluster(folder):
        return False
    check_folder(folder)
    pid = holder(folder / LOCK)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 2 * END_S + 10.0
        while holder(folder / LOCK) is not None and time.monotonic() < deadline:
            time.sleep(0.02)
    if holder(folder / LOCK) is not None:
        raise InputError(f"the cluster in {folder} did not end; process {pid} holds it")
    sweep(folder)
    if not keep:
        remove_made(folder)
    return True


def attached(parts: Parts, ready: Callable[[str], None]) -> None:
    """Start a cluster and stay with it until a signal asks to stop."""
    supervisor = Supervisor(parts)
    supervisor.start()
    try:
        ready(supervisor.await_ready())
        supervisor.run()
    finally:
        supervisor.end()


def main(parts: Parts, ready: int) -> None:
    """A detached supervisor: it writes to a pipe that the cluster is ready, or why it is not."""
    pipe = os.fdopen(ready, "w", buffering=1)

    def say(url: str) -> None:
        pipe.write(f"ready {url}\n")
        pipe.close()

    try:
        attached(parts, say)
    except InputError as error:
        if pipe.closed:
            raise
        pipe.write(f"error {error}\n")


def detached(parts: Parts) -> str:
    """Start a supervisor of its own session, and wait until it is ready."""
    FolderDirectory(Path(parts.master.folder)).create()
    read, write = os.pipe()
    path = os.pathsep.join(entry for entry in sys.path if entry)
    command = [
        sys.executable,
        "-m",
        "murmuration.runtime.supervisor",
        str(write),
        msgspec.json.encode(parts).decode(),
    ]
    with open(Path(parts.master.folder) / "up.log", "ab", opener=open_private) as log:
        # The shell ends at once, so that the caller is left with no child process.
        subprocess.run(
            ["sh", "-c", '"$@" &', "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[write],
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": path},
            check=True,
        )
    os.close(write)
    with os.fdopen(read) as pipe:
        word, _, rest = pipe.readline().strip().partition(" ")
    if word != "ready":
        raise InputError(
            rest or f"the cluster did not come up; see the logs in {parts.master.folder}"
        )
    return rest


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[2], type=Parts), int(sys.argv[1]))
