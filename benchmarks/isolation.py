"""What isolation costs and what it buys: overhead of a CPU-bound task, latency beside a hog, CPU
time per start.

    python benchmarks/isolation.py [--rounds 5] [--only overhead,latency,starts]

Every figure is beside the bare command in the same run, rounds interleaved, medians shown. Targets:
a CPU-bound task in a container costs less than 4 % more CPU than the bare command; a small HTTP
server beside 32 spinning processes answers about 30 % slower with limits (the Mesos chapter's
figure; 550 % without). The client that measures runs at real-time priority where it may, so that
its own waiting is not counted as the server's.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import resource
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from murmuration.runtime.node.isolation import (
    Handle,
    Isolation,
    RunLimits,
    RunSpec,
    choose,
    container,
    network,
)

MB = 2**20
#: The real one: a virtual environment may lie in /tmp, and a container has its own.
#: One that is not in somebody's home, where no container finds it.
PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") or sys.executable
HOGS = 32
#: Counts for about a second, and says how much CPU time the counting took.
COUNT = (
    "import time; t = time.process_time(); sum(i * i for i in range({})); "
    "print(time.process_time() - t)"
)
STEPS = 6_000_000
#: Answers each request after about two milliseconds of work, and says where it listens.
SERVER = """
import hashlib, http.server
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True
    def do_GET(self):
        body = hashlib.pbkdf2_hmac("sha256", b"a", b"b", 4000).hex().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
HOG = (
    f"i=0; while [ $i -lt {HOGS - 1} ]; do (while :; do :; done) & i=$((i+1)); done; while :; "
    "do :; done"
)
REQUESTS = 100
WARM = 10


class Bare:
    """The peer: commands with nothing around them, in the session of this benchmark."""

    name = "bare"

    def __init__(self, base: Path) -> None:
        self.base = base

    @contextlib.contextmanager
    def running(self, task: str, command: list[str], limits: RunLimits) -> Iterator[Path]:
        out = self.base / f"{task}.bare"
        with out.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, process_group=0)
        try:
            yield out
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def finished(self, task: str, command: list[str], limits: RunLimits) -> Path:
        out = self.base / f"{task}.bare"
        with out.open("wb") as file:
            subprocess.run(command, stdout=file, check=True)
        return out


class Isolated:
    """Commands as tasks of one isolation."""

    def __init__(self, isolation: Isolation, base: Path) -> None:
        self.isolation, self.base, self.name = isolation, base, isolation.name
        self._count = 0

    def start(self, task: str, command: list[str], limits: RunLimits, host: bool) -> Handle:
        self._count += 1
        folder = self.base / f"{self.name}-{task}-{self._count}"
        folder.mkdir()
        environment = dict(os.environ)
        spec = RunSpec(task, command, environment, limits, folder, host_network=host)
        return self.isolation.start(spec)

    @contextlib.contextmanager
    def running(self, task: str, command: list[str], limits: RunLimits) -> Iterator[Path]:
        # In the host's network, as the others: what is measured is the share of the CPU.
        handle = self.start(task, command, limits, host=True)
        try:
            yield handle.folder / "stdout"
        finally:
            self.isolation.clean(handle.folder)
            handle.close()

    def finished(self, task: str, command: list[str], limits: RunLimits) -> Path:
        handle = self.start(task, command, limits, host=False)
        while self.isolation.poll(handle) is None:
            select.select([handle], [], [], 1.0)
        self.isolation.clean(handle.folder)
        handle.close()
        assert handle.ended is not None and handle.ended.code == 0, handle.ended
        return handle.folder / "stdout"


Way = Bare | Isolated


def overhead(ways: list[Way], rounds: int) -> None:
    """CPU seconds of the same counting, as the counting itself sees them."""
    seconds_of: dict[str, list[float]] = {way.name: [] for way in ways}
    command = [PYTHON, "-c", COUNT.format(STEPS)]
    for _ in range(rounds):
        for way in ways:
            out = way.finished("count", command, RunLimits(cpu=2.0, memory=256 * MB, pids=64))
            seconds_of[way.name].append(float(out.read_text()))
    peer = statistics.median(seconds_of["bare"])
    print(
        f"\nCPU-bound task, {rounds} "
        f"rounds{'':<10}{'CPU s':>9}{'least':>9}{'× bare':>9}{'target':>9}"
    )
    for name, seconds in seconds_of.items():
        target = "" if name == "bare" else "1.04"
        middle = statistics.median(seconds)
        print(f"  {name:<31}{middle:>9.3f}{min(seconds):>9.3f}{middle / peer:>9.3f}{target:>9}")


def latency(ways: list[Way], rounds: int) -> None:
    """Mean time of a request to a server alone and beside a hog, both run the same way."""
    alone: dict[str, list[float]] = {way.name: [] for way in ways}
    beside: dict[str, list[float]] = {way.name: [] for way in ways}
    server, hog = [PYTHON, "-c", SERVER], ["sh", "-c", HOG]
    for _ in range(rounds):
        for way in ways:
            with way.running("server", server, RunLimits(cpu=1.0, memory=256 * MB)) as out:
                alone[way.name].append(request_time(out))
                with way.running("hog", hog, RunLimits(cpu=0.5, memory=256 * MB)):
                    time.sleep(0.3)
                    beside[way.name].append(request_time(out))
    print(
        f"\nHTTP server beside {HOGS} spinning "
        f"processes{'alone ms':>12}{'beside ms':>11}{'more':>9}{'paper':>9}"
    )
    for name in alone:
        before, after = statistics.median(alone[name]), statistics.median(beside[name])
        paper = {"bare": "+550 %", "runc": "+30 %"}.get(name, "")
        print(
            f"  {name:<38}{before * 1e3:>12.2f}{after * 1e3:>11.2f}"
            f"{after / before - 1:>+9.0%}{paper:>9}"
        )


def request_time(out: Path) -> float:
    """Mean seconds per request over one connection to the server that says its port in `out`."""
    while not out.read_text().endswith("\n"):
        time.sleep(0.005)
    connection = http.client.HTTPConnection("127.0.0.1", int(out.read_text()), timeout=60)
    with ahead_of_others():
        for k in range(WARM + REQUESTS):
            if k == WARM:
                started = time.perf_counter()
            connection.request("GET", "/")
            connection.getresponse().read()
        lasted = time.perf_counter() - started
    connection.close()
    return lasted / REQUESTS


@contextlib.contextmanager
def ahead_of_others() -> Iterator[None]:
    """Real-time priority for this process, if it may."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def starts(ways: list[Way], rounds: int) -> None:
    """CPU and wall time to start `true`, see it end and clean up, in the agent and in all it
    starts."""
    counts = {"bare": 40, "process": 40, "runc": 5}
    used: dict[str, list[tuple[float, float]]] = {way.name: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            count = counts[way.name]
            cpu, wall = cost(
                lambda way=way: way.finished("true", ["true"], RunLimits(1.0, 64 * MB, 8)), count
            )  # type: ignore[misc]
            used[way.name].append((cpu, wall))
    peer = statistics.median(cpu for cpu, _ in used["bare"])
    print(f"\nOne start of `true` {'':<15}{'CPU ms':>9}{'wall ms':>9}{'× bare':>9}")
    for name, figures in used.items():
        cpu, wall = (statistics.median(column) for column in zip(*figures, strict=True))
        print(f"  {name:<33}{cpu * 1e3:>9.2f}{wall * 1e3:>9.2f}{cpu / peer:>9.2f}")


def cost(action: Callable[[], object], count: int) -> tuple[float, float]:
    """CPU and wall seconds of one action; all it started has been waited for."""
    before, started = cpu_time(), time.perf_counter()
    for _ in range(count):
        action()
    return (cpu_time() - before) / count, (time.perf_counter() - started) / count


def cpu_time() -> float:
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in both)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="overhead,latency,starts")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        ways: list[Way] = [Bare(base), Isolated(choose("process"), base)]
        if reason := container.missing():
            print(f"no containers: {reason}")
        else:
            ways.append(Isolated(choose("runc"), base))
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        for study in (overhead, latency, starts):
            if study.__name__ in options.only.split(","):
                study(ways, options.rounds)
        network.remove(base)


if __name__ == "__main__":
    main()
