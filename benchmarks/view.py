"""How long it takes until somebody sees a run: from `murmur view RUN` to the page in a browser.

    python benchmarks/view.py RUN [--repeat 3]
    murmur simulate omega-a --days 14.5 -s monolithic-multi --out RUN     (10 million tasks)

RUN is the folder of a run. The command is started anew each time; the browser is running already.
CPU seconds are those of the command and of all of the browser's processes together: what a machine
that does nothing else would take, and what a page that opens in three seconds has to stay below.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dashboard import cpu_seconds, tree

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MURMUR = "from murmuration.cli import main; main()"


class Opened(NamedTuple):
    """Seconds until the link is printed, until the last plot is drawn, seconds of the processor
    that this took, and the page's bytes."""

    linked_s: float
    drawn_s: float
    cpu_s: float
    size: int


def open_run(browser: Browser, run: Path) -> Opened:
    begin, before_s = time.perf_counter(), cpu_seconds(tree(os.getpid()))
    command = [sys.executable, "-c", MURMUR, "view", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as viewing:
        try:
            assert viewing.stdout is not None
            link = viewing.stdout.readline().strip()
            linked_s = time.perf_counter() - begin
            page = browser.new_page(viewport={"width": 1360, "height": 900})
            page.goto(link)
            page.locator("figure canvas").last.wait_for()
            drawn_s = time.perf_counter() - begin
            cpu_s = cpu_seconds(tree(os.getpid())) - before_s
            size = len(page.content())
            page.close()
        finally:
            viewing.kill()
    return Opened(linked_s, drawn_s, cpu_s, size)


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    workloads = json.loads((given.run / "summary.json").read_text())["workloads"]
    tasks = sum(each["tasks_placed"] for each in workloads.values())
    with sync_playwright() as play:
        path = shutil.which("chromium")
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        times = [open_run(browser, given.run) for _ in range(given.repeat)]
        browser.close()
    linked, drawn, cpu = (statistics.median(each[k] for each in times) for k in range(3))
    print(f"{tasks:,} tasks, load {os.getloadavg()[0]:.1f}")
    print(f"link after {linked:.2f} s, page drawn after {drawn:.2f} s (median of {len(times)})")
    print(f"largest {max(each.drawn_s for each in times):.2f} s, CPU {cpu:.2f} s")
    print(f"{times[0].size / 1e6:.2f} MB of page")


if __name__ == "__main__":
    main()
