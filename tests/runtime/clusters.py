"""A real cluster on this host for a test: started on free ports, looked at, broken, and always
ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import ApiClient
from murmuration.runtime.folder import MASTER_LOCK, NODES
from murmuration.runtime.locks import holder
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.node.watchdog import AGENT_LOCK
from murmuration.runtime.options import AgentOptions, MasterOptions

CPU = 1_000_000
#: How long a test waits for what must come before it fails; it passes as soon as it came.
WAIT_S = 200.0


def until(what: Callable[[], Any], seconds: float = WAIT_S) -> Any:
    """Ask until the answer is true; a cluster that is just coming back is asked again."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = what()
        except Exception:
            if time.monotonic() > deadline:
                raise
            found = None
        if found:
            return found
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def marked(folder: Path) -> list[int]:
    """The processes that have to do with a folder, by their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if os.fsencode(folder) in text and state != "Z":
                found.append(int(entry.name))
    return found


class LiveCluster:
    """Nodes `n1`, `n2` … with two CPUs each."""

    def __init__(self, folder: Path, agents: int = 2, **options: Any) -> None:
        self.folder = folder
        timeout_s = options.pop("agent_timeout_s", 60.0)
        agent = dict(options.pop("agent", {}))
        attributes = agent.pop("attributes", {})
        isolation = options.pop("isolation", "process")
        master = MasterOptions(
            folder=str(folder), agent_timeout_s=timeout_s, isolation=isolation, **options
        )
        nodes = [
            AgentOptions(
                folder=str(folder),
                name=f"n{k + 1}",
                resources={"cpu": 2 * CPU, "memory": 2**31},
                attributes={"host": f"h{k + 1}", "rank": float(k + 1), **attributes},
                isolation=isolation,
                **agent,
            )
            for k in range(agents)
        ]
        self.parts = supervisor.Parts(master, nodes)
        self.url = supervisor.start_detached(self.parts)

    @property
    def client(self) -> ApiClient:
        return ApiClient(self.folder)

    @property
    def token(self) -> str:
        return FolderDirectory(self.folder).credentials().token

    def submit(self, name: str, *command: str, **fields: Any) -> Any:
        fields.setdefault("resources", {"cpu": 0.2, "memory": "16Mi"})
        return self.client.post("jobs", body={"name": name, "command": list(command), **fields})

    def wait(self, job: str, seconds: float = WAIT_S) -> Any:
        def ended() -> Any:
            found = self.client.get("jobs", job, wait_s=2)
            return found if found["ended"] else None

        return until(ended, seconds)

    def tasks(self, job: str) -> list[Any]:
        return list(self.client.get("tasks", job=job)["tasks"])

    def master_jobs(self) -> set[str]:
        return {row["job"] for row in self.client.get("jobs")["jobs"]}

    def running(self, job: str, count: int) -> list[Any]:
        def found() -> list[Any] | None:
            rows = [row for row in self.tasks(job) if row["state"] == "running"]
            return rows if len(rows) == count else None

        return list(until(found))

    def output(self, task: str) -> str:
        return str(self.client.get("tasks", task, "output")["text"])

    def facts(self, kind: str) -> list[Any]:
        rows = self.client.get("events")
        return [row["fact"] for row in rows if row["kind"] == kind]

    def pid(self, part: str) -> int:
        lock = (
            self.folder / MASTER_LOCK
            if part == "master"
            else self.folder / NODES / part / AGENT_LOCK
        )
        return int(until(lambda: holder(lock)))

    def kill(self, part: str, number: int = signal.SIGKILL) -> int:
        """Send a part a signal; its number, to see that another one takes its place."""
        pid = self.pid(part)
        os.kill(pid, number)
        return pid

    def reborn(self, part: str, before: int) -> None:
        until(lambda: self.pid(part) != before)
        if part == "master":
            until(lambda: self.client.get("status"))
        names = {agent.name for agent in self.parts.agents}
        until(
            lambda: (
                {n["node"] for n in self.client.get("nodes")["nodes"] if n["state"] == "up"}
                == names
            )
        )


@contextmanager
def live_cluster(folder: Path, agents: int = 2, **options: Any) -> Iterator[LiveCluster]:
    """A cluster that is brought down, and has left no process behind."""
    try:
        yield LiveCluster(folder, agents, **options)
    finally:
        supervisor.bring_down(folder, keep=True)
        until(lambda: not marked(folder))
