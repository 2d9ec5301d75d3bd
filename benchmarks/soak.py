"""Random faults under load on a real cluster, for as long as one likes.

`python benchmarks/soak.py --seconds 3600` starts a cluster of its own in a temporary folder and
submits jobs whose outcome is known: some end well, some fail, some are gangs, some are killed, and
services stay. Meanwhile it kills, ends and suspends masters, node agents, watchdogs and the
supervisor at random, and drains nodes.

Every task is its own witness. It holds a lock of its own name for as long as one of its processes
lives, so that a second run of it that begins meanwhile sees that, however short it is; and it
writes a line when it has come to its end. What must hold:

- every job has the outcome that its tasks' codes give it, and every task of it came to its end;
- a kill that was answered for is carried out; services run to the end;
- no task ever ran twice at once;
- in the end nothing is in use on any node, and all nodes are up;
- memory, descriptors and the store stay bounded;
- after `down` no process and no file is left.

What it survived is printed; the exit code is 1 if it did not.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from murmuration.base.errors import InputError
from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import AnswerError, ApiClient
from murmuration.runtime.folder import MASTER_LOCK, NODES, UP_LOCK
from murmuration.runtime.locks import holder
from murmuration.runtime.node.watchdog import AGENT_LOCK, WATCHDOG_LOCK
from murmuration.runtime.options import AgentOptions, MasterOptions

CPU, AGENTS, LEASE_S, WAIT_S = 1_000_000, 3, 10.0, 600.0
CODES = (0, 0, 0, 3, 7)
KILLED_CODE = 143
PARTS = ("master", "agent", "agent", "watchdog", "both", "supervisor")
KINDS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
#: What a part may take at most, whatever happened before: MiB of memory, and descriptors.
MEMORY_MAX, DESCRIPTORS_MAX, FOLDER_MAX = 400, 300, 1024
SAMPLE_S, REPORT_S = 5.0, 300.0
TASK = """
exec 9>>"$WITNESS/$MURMUR_TASK.lock"
flock -n 9 || echo "$MURMUR_TASK.$MURMUR_RUN on $MURMUR_NODE at $(date +%T)" >> "$WITNESS/twice"
sleep "$LASTS" || exit 99
echo "$MURMUR_TASK" >> "$WITNESS/done"
exit "$CODE"
"""


class Expected(NamedTuple):
    """How a job must end: one of these codes; and if it was not killed, all its tasks come to
    their end."""

    codes: tuple[int, ...]
    tasks: int


class Soak:
    """One cluster, what was asked of it, and what was done to it."""

    def __init__(self, place: Path, seed: int) -> None:
        self.folder, self.witness = place / "cluster", place / "witness"
        self.witness.mkdir()
        self.rng = random.Random(seed)
        self.expected: dict[str, Expected] = {}
        self.services: dict[str, int] = {}
        self.faults: Counter[str] = Counter()
        self.peaks: Counter[str] = Counter()
        #: Every signal and its time, to explain what should not have been.
        self.story: list[str] = []
        #: Nodes whose agents are suspended: their watchdogs are left alone. Both failing at once is
        #: the one case in which tasks may run twice.
        self.frozen: set[str] = set()
        self.names = [f"node-{k + 1}" for k in range(AGENTS)]
        agents = [
            AgentOptions(
                folder=str(self.folder),
                name=name,
                resources={"cpu": 8 * CPU, "memory": 2**33},
                isolation="process",
            )
            for name in self.names
        ]
        master = MasterOptions(
            folder=str(self.folder), agent_timeout_s=LEASE_S, isolation="process"
        )
        self.parts = supervisor.Parts(master, agents)
        supervisor.start_detached(self.parts)

    # What clients do.

    def ask(self, method: str, *path: str, **fields: Any) -> Any:
        """Ask until there is an answer; a master that was killed comes back."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return getattr(ApiClient(self.folder), method)(*path, **fields)
            except AnswerError as error:
                if error.status < 500 or time.monotonic() > deadline:
                    raise
            except (InputError, OSError):
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def _post(self, name: str, **fields: Any) -> None:
        environment = {"WITNESS": str(self.witness), "CODE": "0", **fields.pop("environment")}
        body = {"name": name, "command": ["sh", "-c", TASK], "environment": environment, **fields}
        body["resources"] = {"cpu": 0.1, "memory": "16Mi"}
        try:
            self.ask("post", "jobs", body=body)
        except AnswerError as error:
            # It was taken, and the master killed before it could say so.
            if error.status != 409:
                raise

    def submit(self) -> None:
        name, code = f"job-{len(self.expected)}", self.rng.choice(CODES)
        tasks, lasts = self.rng.randint(1, 6), self.rng.choice(("0.1", "1", "5", "15"))
        environment = {"CODE": str(code), "LASTS": lasts}
        self._post(name, environment=environment, count=tasks, gang=self.rng.random() < 0.2)
        if self.rng.random() < 0.15:
            one = self.rng.random() < 0.5
            self.ask("delete", *(("tasks", f"{name}.0") if one else ("jobs", name)))
            self.expected[name] = Expected((KILLED_CODE, code), 0)
            self.faults["a kill by a client"] += 1
        else:
            self.expected[name] = Expected((code,), tasks)

    def serve(self, name: str, tasks: int) -> None:
        self._post(name, environment={"LASTS": "1000000"}, count=tasks, kind="service")
        self.services[name] = tasks

    def drain(self) -> None:
        node, now = self.rng.choice(self.names), self.rng.random() < 0.5
        try:
            self.ask("post", "nodes", node, "drain", body={"on": True, "now": now})
        except AnswerError:
            return  # it is lost just now
        self.faults["a drain"] += 1
        time.sleep(self.rng.uniform(0.0, 5.0))
        self.open(node)

    def open(self, node: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            try:
                return self.ask("post", "nodes", node, "drain", body={"on": False})
            except AnswerError:
                time.sleep(0.5)  # a node that is lost cannot be named until it is back
        raise SystemExit(f"{node} did not come back")

    # What goes wrong.

    def break_something(self) -> None:
        name = self.rng.choice(self.names)
        node = self.folder / NODES / name
        part = self.rng.choice(PARTS)
        if part == "supervisor":
            self._replace_supervisor()
        elif part == "master":
            self._strike("a master", name, self.folder / MASTER_LOCK)
        elif part == "agent":
            self._strike("an agent", name, node / AGENT_LOCK)
        elif name not in self.frozen:
            what = "a watchdog" if part == "watchdog" else "an agent and its watchdog"
            self._signal(what, signal.SIGKILL, node / WATCHDOG_LOCK)
            if part == "both":
                self._signal("", signal.SIGKILL, node / AGENT_LOCK)

    def _strike(self, part: str, name: str, lock: Path) -> None:
        key, kind = name if part == "an agent" else part, self.rng.choice(KINDS)
        if kind is not signal.SIGSTOP:
            self._signal(part, kind, lock)
        elif holder(self.folder / NODES / name / WATCHDOG_LOCK) is not None:
            pid = self._signal(part, kind, lock)
            self.frozen.add(key)
            seconds = self.rng.uniform(0.5, 2.5 * LEASE_S)
            threading.Timer(seconds, self._thaw, (key, lock, pid)).start()

    def _signal(self, part: str, kind: signal.Signals, lock: Path) -> int | None:
        pid = holder(lock)
        if pid is not None:
            try:
                os.kill(pid, kind)
            except ProcessLookupError:
                return None
            self.story.append(
                f"{time.strftime('%T')} {kind.name} of {lock.parent.name} {lock.name}"
            )
            if part:
                self.faults[f"{kind.name} of {part}"] += 1
        return pid

    def _thaw(self, key: str, lock: Path, pid: int | None) -> None:
        # Whoever hangs for long is killed by the supervisor, and its number may be another's.
        if pid is not None and holder(lock) == pid:
            os.kill(pid, signal.SIGCONT)
            self.story.append(f"{time.strftime('%T')} SIGCONT of {lock.parent.name} {lock.name}")
        self.frozen.discard(key)

    def _replace_supervisor(self) -> None:
        """It dies, and somebody types `murmur up` again."""
        if not self.frozen and self._signal(
            "the supervisor", signal.SIGKILL, self.folder / UP_LOCK
        ):
            while holder(self.folder / UP_LOCK) is not None:
                time.sleep(0.02)
            supervisor.start_detached(self.parts)

    # What it takes.

    def sample(self) -> None:
        """The most that each kind of part has taken of memory and descriptors, and the folder."""
        nodes = [self.folder / NODES / name for name in self.names]
        parts = {
            "master": [self.folder / MASTER_LOCK],
            "agent": [node / AGENT_LOCK for node in nodes],
            "watchdog": [node / WATCHDOG_LOCK for node in nodes],
            "supervisor": [self.folder / UP_LOCK],
        }
        for part, locks in parts.items():
            for pid in filter(None, map(holder, locks)):
                memory, descriptors = measure(pid)
                self._raise(f"MiB of a {part}", memory)
                self._raise(f"descriptors of a {part}", descriptors)
        stores = self.folder.glob("store.db*")
        self._raise("MiB of the store", sum(map(file_bytes, stores)) >> 20)
        every = (Path(at) / name for at, _, names in os.walk(self.folder) for name in names)
        self._raise("MiB of the folder", sum(map(file_bytes, every)) >> 20)

    def _raise(self, what: str, amount: int) -> None:
        self.peaks[what] = max(self.peaks[what], amount)

    def too_much(self) -> list[str]:
        limits = {"MiB of the": FOLDER_MAX, "MiB of a": MEMORY_MAX, "descriptors": DESCRIPTORS_MAX}
        return [
            f"{amount} {what}"
            for what, amount in self.peaks.items()
            if amount > next(limits[start] for start in limits if what.startswith(start))
        ]

    # What must hold.

    def wrong(self) -> list[str]:
        """The jobs that did not end as they should, and tasks that never came to their end."""
        wrong = []
        for name, (codes, _) in self.expected.items():
            deadline = time.monotonic() + WAIT_S
            while not (job := self.ask("get", "jobs", name, wait_s=5))["ended"]:
                if time.monotonic() > deadline:
                    break
            if job["code"] not in codes:
                wrong.append(f"{name}: expected {codes}, got {job['code']} ({job['reason']})")
        ends = Counter(self._lines("done"))
        for name, (_, tasks) in self.expected.items():
            wrong += [f"{name}.{k} never ended" for k in range(tasks) if not ends[f"{name}.{k}"]]
        return wrong

    def wrong_services(self) -> list[str]:
        """Services that do not come to run in full; then they are killed."""
        wrong = []
        for name, tasks in self.services.items():
            if not self._await(lambda name=name, tasks=tasks: self._running(name) == tasks):
                wrong.append(f"{name}: {self._running(name)} of {tasks} run")
            self.ask("delete", "jobs", name)
            self.expected[name] = Expected((KILLED_CODE,), 0)
        return wrong

    def _running(self, job: str) -> int:
        tasks = self.ask("get", "tasks", job=job)["tasks"]
        return sum(task["state"] == "running" for task in tasks)

    def in_use(self) -> list[str]:
        """What is in use, or away, when everything has ended."""
        self._await(lambda: not self._in_use())
        return self._in_use()

    def _in_use(self) -> list[str]:
        rows = {row["node"]: row for row in self.ask("get", "nodes")["nodes"]}
        missing = [f"{name} is away" for name in self.names if name not in rows]
        return missing + [
            f"{name} is {row['state']} with {row['tasks']} tasks, {row['required']}"
            for name, row in rows.items()
            if row["state"] != "up" or row["tasks"] or any(row["required"].values())
        ]

    def _await(self, is_so: Any) -> bool:
        deadline = time.monotonic() + WAIT_S
        while not is_so():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    def _lines(self, name: str) -> list[str]:
        path = self.witness / name
        return path.read_text().splitlines() if path.exists() else []

    @property
    def twice(self) -> list[str]:
        return self._lines("twice")

    @property
    def repeated(self) -> int:
        """Ends beyond the first of a task: its node was lost, or cut off as it ended."""
        return sum(times - 1 for times in Counter(self._lines("done")).values())


def measure(pid: int) -> tuple[int, int]:
    """MiB of memory and the descriptors of a process; none of one that has just ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") >> 20, len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0, 0


def file_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def strays(folder: Path) -> list[str]:
    """The processes that still have to do with a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in text:
                found.append(f"process {entry.name}")
    return found


def trouble(soak: Soak, seconds: float) -> None:
    """Load and faults for so long."""
    began = sampled = reported = time.monotonic()
    for k in range(3):
        soak.serve(f"service-{k}", 2)
    while (now := time.monotonic()) < began + seconds:
        soak.submit()
        if soak.rng.random() < 0.4:
            soak.break_something()
        if soak.rng.random() < 0.03:
            soak.drain()
        if now > sampled + SAMPLE_S:
            sampled = now
            soak.sample()
        if now > reported + REPORT_S:
            reported = now
            faults = soak.faults.total()
            print(f"{now - began:.0f} s: {len(soak.expected)} jobs, {faults} faults", flush=True)
        time.sleep(soak.rng.uniform(0.0, 1.0))
    while soak.frozen:
        time.sleep(0.1)


def run(seconds: float, seed: int) -> int:
    with tempfile.TemporaryDirectory() as place:
        soak = Soak(Path(place), seed)
        verdict: dict[str, list[str]] = {}
        try:
            trouble(soak, seconds)
            for node in soak.names:
                soak.open(node)
            verdict["services that do not run"] = soak.wrong_services()
            verdict["jobs that ended otherwise"] = soak.wrong()
            verdict["in use in the end"] = soak.in_use()
            soak.sample()
        finally:
            supervisor.bring_down(soak.folder, keep=False)
        verdict["twice at once"] = soak.twice
        verdict["beyond its bound"] = soak.too_much()
        left = sorted(path.name for path in soak.folder.iterdir()) if soak.folder.exists() else []
        verdict["left after down"] = left + strays(soak.folder)
        repeated = soak.repeated
    for kind, times in sorted(soak.faults.items()):
        print(f"{times:>5} × {kind}")
    tasks = sum(expected.tasks for expected in soak.expected.values())
    print(f"{len(soak.expected)} jobs, {tasks} tasks that must end; {repeated} ended once more")
    print("at most " + ", ".join(f"{amount} {what}" for what, amount in soak.peaks.items()))
    for what, cases in verdict.items():
        print(f"{what}: {', '.join(cases) or 'none'}")
    if any(verdict.values()):
        print("\n".join(["what was done:", *soak.story]))
    return 1 if any(verdict.values()) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    sys.exit(run(arguments.seconds, arguments.seed))
