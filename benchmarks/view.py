"""How long it takes until somebody sees a run: from `murmur view RUN` to the page in a browser.

    python benchmarks/view.py RUN [--repeat 3]
    murmur simulate omega-a --days 14.5 -s monolithic-multi --out RUN     (10 million tasks)

RUN is the folder of a run. The command is started anew each time; the browser is running already.
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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MURMUR = "from murmuration.cli import main; main()"


def open_run(browser: Browser, run: Path) -> tuple[float, float, int]:
    """Seconds until the link is printed, until the last plot is drawn, and the page's bytes."""
    begin = time.perf_counter()
    command = [sys.executable, "-c", MURMUR, "view", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as viewing:
        try:
            assert viewing.stdout is not None
            link = viewing.stdout.readline().strip()
            linked = time.perf_counter() - begin
            page = browser.new_page(viewport={"width": 1360, "height": 900})
            page.goto(link)
            page.locator("figure canvas").last.wait_for()
            drawn = time.perf_counter() - begin
            size = len(page.content())
            page.close()
        finally:
            viewing.kill()
    return linked, drawn, size


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
    linked, drawn = (statistics.median(each[k] for each in times) for k in (0, 1))
    print(f"{tasks:,} tasks, load {os.getloadavg()[0]:.1f}")
    print(f"link after {linked:.2f} s, page drawn after {drawn:.2f} s (median of {len(times)})")
    print(f"largest {max(each[1] for each in times):.2f} s; {times[0][2] / 1e6:.2f} MB of page")


if __name__ == "__main__":
    main()
