"""Build the documentation site: `docs/`, and the reference made from the code.

    pip install '.[site]'
    python scripts/site_builder.py            # writes site/index.html and what belongs to it
    python scripts/site_builder.py --out DIR

The pages of `docs/` are read as they are, here or anywhere. The reference has no source but the
code, so it is written where the site is built and never kept.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import reference

ROOT = Path(__file__).resolve().parents[1]


def prepare(folder: Path) -> None:
    """All pages of the site, and its settings, in a folder."""
    shutil.copytree(ROOT / "docs", folder / "docs")
    # Pages link to examples beside `docs/`; in a site they must lie below it.
    shutil.copytree(ROOT / "examples", folder / "docs" / "examples")
    for page in (folder / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("](../examples/", "](examples/"), encoding="utf-8")
    shutil.copy(ROOT / "zensical.toml", folder)
    shutil.copy(ROOT / "scripts" / "site.css", folder / "docs")
    (folder / "docs" / "reference").mkdir()
    for name, write in reference.PAGES.items():
        (folder / "docs" / "reference" / f"{name}.md").write_text(write(), encoding="utf-8")


def build(out: Path) -> None:
    """The site, as files that any server, or none, can show."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, check=True
        )
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(folder / "site", out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "site")
    build(parser.parse_args().out)
