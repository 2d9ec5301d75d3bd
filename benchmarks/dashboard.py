"""What the web page costs with 100,000 nodes that change every second: the master and the browser.

    python benchmarks/dashboard.py [--nodes 100000] [--seconds 20]

A master with so many emulated nodes serves the page; in each second a fifth of them is measured and
a thousand facts are noted. Its CPU time is taken with nobody watching and with a browser on the
cluster page; the difference is what the page costs. The peer is what a page would have to ask for
without it: the listing of all nodes. The browser is headless Chromium without a GPU, all of its
processes counted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from murmuration.runtime.master.front.overview import Overview
    from murmuration.runtime.master.usage import UsageMeter
    from murmuration.runtime.store.log import FactLog

TICKS = os.sysconf("SC_CLK_TCK")
MEASURED, FACTS = 0.2, 1000


def emulate(nodes: int, folder: str) -> None:
    """The server: a master's state, read model and API without agents."""
    from murmuration.runtime.master import settings as st
    from murmuration.runtime.master.access import find_by_digest
    from murmuration.runtime.master.api import Api, Orders, make_app
    from murmuration.runtime.master.front.overview import Overview
    from murmuration.runtime.master.front.routes import FrontApi
    from murmuration.runtime.master.reading import ReadModel
    from murmuration.runtime.master.usage import UsageMeter
    from murmuration.runtime.net.callers import OWNER, Doorkeeper
    from murmuration.runtime.net.http import HttpServer
    from murmuration.runtime.net.sessions import Sessions
    from murmuration.runtime.options import MasterOptions
    from murmuration.runtime.store.log import FactLog
    from murmuration.schedulers.central.master import CentralMaster
    from murmuration.schedulers.central.messages import AgentJoined

    options = MasterOptions(folder=folder)
    settings, *_ = st.live_settings(options)
    master, facts, meter = CentralMaster(settings, 1), FactLog(), UsageMeter()
    total = {"cpu": 8_000_000, "memory": 2**35}
    for k in range(nodes):
        master.handle(AgentJoined(f"node-{k}", f"id-{k}", 1, total), 1.0)
    reading = ReadModel(master, facts, meter, time.time, options)
    overview = Overview(master, facts, meter, time.time)
    sessions = Sessions("secret", lambda name, begun_s: True)
    front = FrontApi(master, overview, sessions)

    async def nothing(*_: object) -> object:
        raise AssertionError("nobody asks for this here")

    async def run() -> None:
        api = Api(master, reading, Orders(*[nothing] * 5), time.time)  # type: ignore[arg-type]
        keeper = Doorkeeper("secret", find_by_digest(master, time.time), sessions.identify)
        server = HttpServer(make_app(api, front, keeper), keeper)
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(server.make_protocol, "127.0.0.1", 0)
        front.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        begin = time.process_time()
        reading.nodes()
        listing_s = time.process_time() - begin
        second_s = cost_of_second(overview, meter, facts, nodes)
        code = sessions.issue(OWNER)
        print(f"{front.url}/#/enter/{code} {listing_s:.4f} {second_s:.4f}", flush=True)
        await asyncio.gather(overview.run(), churn(meter, facts, nodes))

    asyncio.run(run())


def cost_of_second(overview: Overview, meter: UsageMeter, facts: FactLog, nodes: int) -> float:
    """CPU seconds of one snapshot and one picture, the mean of ten that follow changes."""
    overview.tick()
    spent = 0.0
    for _ in range(10):
        change(meter, facts, nodes)
        begin = time.process_time()
        msgspec.json.encode(overview.tick())
        overview.columns.picture("required", "")
        spent += time.process_time() - begin
    return spent / 10


async def churn(meter: UsageMeter, facts: FactLog, nodes: int) -> None:
    """Measurements and facts of one second after the other."""
    while True:
        change(meter, facts, nodes)
        await asyncio.sleep(1.0)


def change(meter: UsageMeter, facts: FactLog, nodes: int) -> None:
    import random

    from murmuration.runtime.store.interface import Entry
    from murmuration.schedulers.central.messages import TaskStarted

    for _ in range(int(MEASURED * nodes)):
        name = f"node-{random.randrange(nodes)}"
        meter.nodes.set(name, 8 * random.random(), 2**35 * random.random())
    entries = []
    for k in range(FACTS):
        facts.index += 1
        started = TaskStarted("job", k, 1, f"node-{random.randrange(nodes)}")
        entries.append(Entry(facts.index, time.time(), "fact", started))
    facts.publish(entries)


def cpu_seconds(pids: set[int]) -> float:
    total = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / TICKS
    return total


def tree(root: int) -> set[int]:
    """A process and all below it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def share_of_core(pids: set[int], seconds: float) -> float:
    before = cpu_seconds(pids)
    time.sleep(seconds)
    return (cpu_seconds(pids) - before) / seconds


def measure(nodes: int, seconds: float) -> None:
    with TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--serve", folder, "--nodes", str(nodes)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            link, listing, second = server.stdout.readline().split()
            alone = share_of_core({server.pid}, seconds)
            watched, browser, first_ms, sizes = watch(server.pid, link, seconds)
        finally:
            server.kill()
            server.wait()
    print(f"{nodes:,} nodes, {MEASURED:.0%} measured and {FACTS:,} facts each second")
    print(f"master, nobody watching   {alone:8.2%} of a core")
    print(f"master, page open         {watched:8.2%}; the page costs {watched - alone:.2%}")
    print(f"snapshot and picture of a second, measured alone: {float(second):.2%} of a core")
    ratio = float(listing) / float(second)
    print(f"listing of all nodes each second instead: {float(listing):.2%}, {ratio:.0f} times that")
    print(f"browser, all processes    {browser:8.2%} of a core")
    print(f"first paint {first_ms:.0f} ms; script {sizes / 1000:.1f} kB as sent")


def watch(server: int, link: str, seconds: float) -> tuple[float, float, float, float]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        path = shutil.which("chromium")
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        page.goto(link)
        page.get_by_role("application").wait_for()
        page.wait_for_timeout(3000)
        first_ms = page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        size = page.evaluate(
            "performance.getEntriesByType('resource').filter((r) => r.name.endsWith('.js'))"
            ".reduce((sum, r) => sum + r.encodedBodySize, 0)"
        )
        chromium = {pid for pid in tree(os.getpid()) if _is_chromium(pid)}
        before_server, before = cpu_seconds({server}), cpu_seconds(chromium)
        time.sleep(seconds)
        watched = (cpu_seconds({server}) - before_server) / seconds
        used = (cpu_seconds(chromium) - before) / seconds
        if shot := os.environ.get("SHOT"):
            page.screenshot(path=shot)
        browser.close()
    return watched, used, float(first_ms), float(size)


def _is_chromium(pid: int) -> bool:
    try:
        return b"chromium" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        emulate(given.nodes, given.serve)
    else:
        measure(given.nodes, given.seconds)
