"""Keep the rows of reproductions that were run, and write the page of all claims in the docs.

    python scripts/reproductions.py results/reproductions …

Takes the `rows.json` of every folder below those named (a folder of `murmur reproduce --all`, or of
single experiments), keeps them as `docs/reproductions/NAME.json`, and writes
`docs/reproductions.md`. Without folders it writes the page again from what is kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

from murmuration.base import files
from murmuration.experiments.catalogue import EXPERIMENTS
from murmuration.experiments.pages.reproductions import annotate, to_markdown

DOCS = Path(__file__).parents[1] / "docs"
KEPT = DOCS / "reproductions"


def keep(path: Path) -> None:
    """A saved reproduction, each of its rows with what it stands for today."""
    document = files.read_json(path)
    name = document["experiment"]
    if name in EXPERIMENTS:
        rows = [annotate(name, row) for row in document["rows"]]
        files.write_json(KEPT / f"{name}.json", {**document, "rows": rows})


def main(folders: list[str]) -> None:
    paths = [path for folder in folders for path in sorted(Path(folder).rglob("rows.json"))]
    for path in [*paths, *([] if paths else sorted(KEPT.glob("*.json")))]:
        keep(path)
    documents = [files.read_json(path) for path in sorted(KEPT.glob("*.json"))]
    files.write_text(DOCS / "reproductions.md", to_markdown(documents))
    print(f"{len(documents)} of {len(EXPERIMENTS)} experiments: {DOCS / 'reproductions.md'}")


if __name__ == "__main__":
    main(sys.argv[1:])
