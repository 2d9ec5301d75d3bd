"""Random faults under load on a real cluster, for as long as one likes.

`python benchmarks/soak.py --seconds 3600` starts a cluster of its own in a temporary folder,
submits jobs whose exit codes are known, and kills, ends or suspends masters, node agents and
watchdogs at random. In the end every job must have its code, no task may have been seen twice at
once, and nothing may be left. What it survived is printed; the exit code is 1 if it did not.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from murmuration.base.errors import InputError
from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import AnswerError, ApiClient
from murmuration.runtime.folder import MASTER_LOCK, NODES
from murmuration.runtime.locks import holder
from murmuration.runtime.node.watchdog import AGENT_LOCK, WATCHDOG_LOCK
from murmuration.runtime.options import AgentOptions, MasterOptions

CPU, AGENTS, LEASE_S, WAIT_S = 1_000_000, 3, 10.0, 600.0
CODES = (0, 0, 0, 3, 7)


class Soak:
    """One cluster, what was asked of it, and what was done to it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(seed)
        self.expected: dict[str, int] = {}
        self.faults: Counter[str] = Counter()
        self.twice: list[str] = []
        agents = [
            AgentOptions(
                folder=str(folder),
                name=f"node-{k + 1}",
                resources={"cpu": 8 * CPU, "memory": 2**33},
                isolation="process",
            )
            for k in range(AGENTS)
        ]
        master = MasterOptions(folder=str(folder), agent_timeout_s=LEASE_S, isolation="process")
        supervisor.detached(supervisor.Parts(master, agents))

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

    def submit(self) -> None:
        name, code = f"job-{len(self.expected)}", self.rng.choice(CODES)
        lasts = self.rng.choice(("0.1", "1", "5"))
        body = {
            "name": name,
            "command": ["sh", "-c", f"sleep {lasts}; exit {code}"],
            "count": self.rng.randint(1, 6),
            "resources": {"cpu": 0.1, "memory": "8Mi"},
        }
        self.expected[name] = code
        try:
            self.ask("post", "jobs", body=body)
        except AnswerError as error:
            # It was taken, and the master killed before it could say so.
            if error.status != 409:
                raise

    def break_something(self) -> None:
        node = self.folder / NODES / f"node-{self.rng.randint(1, AGENTS)}"
        locks = {"agent": node / AGENT_LOCK, "watchdog": node / WATCHDOG_LOCK}
        part, lock = self.rng.choice([("master", self.folder / MASTER_LOCK), *locks.items()])
        kind = self.rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP))
        pid = holder(lock)
        if pid is None or (part == "watchdog" and kind is not signal.SIGKILL):
            return
        os.kill(pid, kind)
        self.faults[f"{kind.name} of a {part}"] += 1
        if kind is signal.SIGSTOP:
            time.sleep(self.rng.uniform(0.5, 1.5 * LEASE_S))
            if holder(lock) == pid:
                os.kill(pid, signal.SIGCONT)

    def look(self) -> None:
        """Whether two runs of one task are there now, by the folders they run in."""
        tasks: dict[str, set[str]] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for word in words:
                if word.startswith(b"MURMUR_FOLDER=" + os.fsencode(self.folder)):
                    run = os.path.basename(os.fsdecode(word))
                    tasks.setdefault(run.rpartition(".")[0], set()).add(run)
        self.twice += [f"{sorted(runs)}" for runs in tasks.values() if len(runs) > 1]

    def wrong(self) -> list[str]:
        """The jobs that did not end as they should."""
        found = []
        for name, code in self.expected.items():
            deadline = time.monotonic() + WAIT_S
            while not (job := self.ask("get", "jobs", name, wait_s=5))["ended"]:
                if time.monotonic() > deadline:
                    break
            if job["code"] != code:
                found.append(f"{name}: expected {code}, got {job['code']} ({job['reason']})")
        return found


def run(seconds: float, seed: int) -> int:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "cluster"
        soak = Soak(folder, seed)
        try:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                soak.submit()
                if soak.rng.random() < 0.4:
                    soak.break_something()
                soak.look()
                time.sleep(soak.rng.uniform(0.0, 1.0))
            wrong = soak.wrong()
        finally:
            supervisor.bring_down(folder, keep=False)
        left = [] if not folder.exists() else sorted(path.name for path in folder.iterdir())
    for kind, times in sorted(soak.faults.items()):
        print(f"{times:>5} × {kind}")
    print(f"{len(soak.expected)} jobs; wrong: {wrong}; twice at once: {soak.twice}; left: {left}")
    return 1 if wrong or soak.twice or left else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    sys.exit(run(arguments.seconds, arguments.seed))
