"""Tables that are written while a run goes on, so that no more than a part is ever in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from murmuration.base import files
from murmuration.base.arrays import Table

#: Takes some rows of a file, by its name.
Write = Callable[[str, Table], None]


class PartFiles:
    """Writes the rows of each file in parts below a hidden folder, and joins them at the end, so
    that a run that stops can go on."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder, self.names, self.parts = folder, names, folder / ".detail"

    def clear(self) -> None:
        for path in self.parts.glob("*.parquet"):
            path.unlink()
        for name in self.names:
            (self.folder / name).unlink(missing_ok=True)

    def write(self, name: str, table: Table) -> None:
        at = len(list(self.parts.glob(f"*-{name}")))
        files.write_table(self.parts / f"{at:06d}-{name}", table)

    def join(self) -> None:
        import polars as pl

        for name in self.names:
            if any(self.parts.glob(f"*-{name}")):
                rows = pl.scan_parquet(self.parts / f"*-{name}")
                files.replace_file(self.folder / name, rows.sink_parquet)
        for path in self.parts.glob("*.parquet"):
            path.unlink()
        if self.parts.exists():
            self.parts.rmdir()
