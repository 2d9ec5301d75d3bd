"""`murmur up`: one process that starts a master and its node agents, starts again what dies, and
ends them all."""

from __future__ import annotations

import contextlib
import os
import select
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
    MASTER_LOCK,
    NODES,
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
from murmuration.runtime.logs import rotate_log
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.node.executor import folder_name
from murmuration.runtime.node.isolation import network
from murmuration.runtime.node.isolation.choose import list_usable
from murmuration.runtime.node.isolation.folder import is_locked
from murmuration.runtime.node.journal import Journal
from murmuration.runtime.node.watchdog import AGENT_LOCK, LEASE, end_watchdog
from murmuration.runtime.options import AgentOptions, MasterOptions

LOCK = UP_LOCK
#: A master on a busy host needs a while: it compiles and imports before it listens.
READY_S = 180.0
END_S = 20.0
RESTART_S = 0.2
RESTART_MAX_S = 2.0
#: An agent whose loop has not gone round for this long, at least, hangs; seen so often in a row.
HUNG_S, HUNG_LOOKS = 20.0, 50


class Parts(msgspec.Struct):
    """What `murmur up` starts."""

    master: MasterOptions
    agents: list[AgentOptions]


class Adopted:
    """A part that an earlier supervisor has started: what `Popen` would be for it."""

    def __init__(self, pid: int) -> None:
        self._pidfd = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """None while it runs; nobody but its parent learns how it ended."""
        return 0 if select.select([self._pidfd], [], [], 0.0)[0] else None

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def wait(self, timeout: float) -> int:
        if not select.select([self._pidfd], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a part", timeout)
        return 0


class Child:
    """One part: started again when it dies, later each time it dies at once. One that runs already
    is adopted."""

    def __init__(
        self, name: str, folder: Path, module: str, options: msgspec.Struct, lock: Path
    ) -> None:
        self.name, self._folder, self.lock = name, folder, lock
        self._command = [sys.executable, "-m", module, msgspec.json.encode(options).decode()]
        self._process: subprocess.Popen[bytes] | Adopted | None = None
        self._delay = RESTART_S
        self._started = self._next = 0.0

    @property
    def is_adopted(self) -> bool:
        return isinstance(self._process, Adopted)

    def take_up(self) -> None:
        """Adopt what runs, or start it."""
        pid = holder(self.lock)
        try:
            self._process = None if pid is None else Adopted(pid)
        except ProcessLookupError:
            self._process = None
        if self._process is None:
            self.start()

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
        rotate_log(self._folder / f"{self.name}.log")
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


class HungAgent:
    """Ends an agent whose event loop has hung for so long that its lease is over anyway; it is
    started again then.

    A loop that goes round writes to the file of the lease every second. What counts is that the
    file has not changed while the supervisor itself looked on: the times in it may be missing, if
    the agent froze at once, or of another boot, and a host that stood still as a whole is no
    reason to end anything.
    """

    def __init__(self, child: Child, after_s: float) -> None:
        self._child, self._after_s = child, after_s
        self._seen: tuple[int | None, bytes] = (None, b"")
        self._since = 0.0
        self._looks = 0

    def look(self) -> None:
        """Once for each look at the children."""
        seen, now = (holder(self._child.lock), self._read_lease()), time.monotonic()
        if seen[0] is None or seen != self._seen:
            self._seen, self._since, self._looks = seen, now, 0
        elif now - self._since > self._after_s:
            self._looks += 1
        if self._looks >= HUNG_LOOKS:
            self._looks = 0
            self._child.end(signal.SIGKILL)

    def _read_lease(self) -> bytes:
        try:
            return self._child.lock.with_name(LEASE).read_bytes()
        except FileNotFoundError:
            return b""


def _check_same(folder: Path, parts: Parts) -> None:
    """Parts that run on without a supervisor are adopted only as what they are."""
    locks = [folder / MASTER_LOCK, *(folder / NODES).glob(f"*/{AGENT_LOCK}")]
    if not any(holder(lock) is not None for lock in locks):
        return
    try:
        before = msgspec.json.decode((folder / UP).read_bytes(), type=Parts)
    except (OSError, msgspec.DecodeError):
        before = None
    if before != parts:
        raise InputError(
            f"{folder}: parts of a cluster run here that was started with other options; "
            "murmur up with the same ones adopts them, murmur down ends them"
        )


class Supervisor:
    """Holds the folder's lock for as long as the cluster is up."""

    def __init__(self, parts: Parts) -> None:
        self.folder = Path(parts.master.folder)
        directory = FolderDirectory(self.folder)
        directory.create()
        self._lock = hold(self.folder / LOCK, "a cluster")
        _check_same(self.folder, parts)
        if holder(self.folder / MASTER_LOCK) is None:
            directory.clear()
        write_private(self.folder / UP, msgspec.json.encode(parts).decode())
        nodes, module = self.folder / NODES, "murmuration.runtime.node.process"
        self.agents = [
            Child(a.name, self.folder, module, a, nodes / a.name / AGENT_LOCK) for a in parts.agents
        ]
        self.master = Child(
            *("master", self.folder, "murmuration.runtime.master.process", parts.master),
            lock=self.folder / MASTER_LOCK,
        )
        self._hung = [
            HungAgent(child, max(HUNG_S, 2 * parts.master.agent_timeout_s)) for child in self.agents
        ]
        self._names = {node.name for agent in parts.agents for node in agent.emulated}
        self._names |= {agent.name for agent in parts.agents if not agent.emulated}
        self._stop = False

    def start(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request_stop)
        for child in (self.master, *self.agents):
            child.take_up()

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
            rotate_log(self.folder / "up.log")
            for child in (self.master, *self.agents):
                child.look()
            for agent in self._hung:
                agent.look()

    def end_started(self) -> None:
        """End what this supervisor has started; if that was all, everything."""
        adopted = [child for child in (self.master, *self.agents) if child.is_adopted]
        if not adopted:
            self.end()
            return
        for child in {self.master, *self.agents}.difference(adopted):
            child.end(signal.SIGKILL)

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
    # What has ended was cleaned by its agent; what was to start is in the journal.
    tasks = [
        task for task in (node / "tasks").glob("*") if is_locked(task) or task.name in unrecorded
    ]
    for isolation in list_usable() if tasks else ():
        isolation.kill_all(tasks)
        for task in tasks:
            isolation.clean(task)
    network.remove(node / "tasks")


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


def run_attached(parts: Parts, ready: Callable[[str], None]) -> None:
    """Start a cluster and stay with it until a signal asks to stop."""
    supervisor = Supervisor(parts)
    supervisor.start()
    try:
        url = supervisor.await_ready()
    except BaseException:
        # What ran before this supervisor came goes on.
        supervisor.end_started()
        raise
    try:
        ready(url)
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
        run_attached(parts, say)
    except InputError as error:
        if pipe.closed:
            raise
        pipe.write(f"error {error}\n")


def start_detached(parts: Parts) -> str:
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
