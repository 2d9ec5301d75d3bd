"""`murmur dump`: one file with what a bug report needs, and without secrets."""

from __future__ import annotations

import io
import platform
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.base.errors import InputError
from murmuration.base.version import __version__
from murmuration.cli import common
from murmuration.cli.live import common as live

if TYPE_CHECKING:
    from murmuration.runtime.client.requests import ApiClient
    from murmuration.runtime.store.interface import Entry

#: What is asked of the master, and under which name it is kept.
ASKED = ("status", "jobs", "nodes", "tasks", "quotas")
#: Bytes of the end of each log.
LOG_TAIL = 2**20
SECRET = re.compile(r"murmur-[A-Za-z0-9_-]{20,}|(?i:bearer)\s+\S+")


@click.command()
@click.option(
    "-o",
    "--out",
    "to",
    type=click.Path(path_type=Path),
    required=True,
    help="The file to make, e.g. dump.tar.gz.",
)
@common.with_options(*live.CLIENT)
def dump(to: Path, folder: Path | None, as_json: bool) -> None:
    """Collect what a bug report needs in one file, without secrets.

    It has the cluster's log, how it stands, and the ends of the logs of parts on this host. Tokens,
    keys, environments and arguments of jobs are not in it. The commands replay and view open it.
    """
    if to.exists():
        raise InputError(f"{to}: expected a file that is not there yet")
    client = live.client(folder)
    with tempfile.TemporaryDirectory() as made:
        store = Path(made) / "store.db"
        lines = _write_store(client, store)
        files = {"store.db": store.read_bytes(), **dict(_list_files(client))}
        whole = Path(made) / "dump.tar.gz"
        with tarfile.open(whole, "w:gz") as archive:
            for name, data in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        to.write_bytes(whole.read_bytes())
    if as_json:
        common.print_json({"file": str(to), "lines": lines, "files": sorted(files)})
    else:
        common.say(f"{to} has {lines} lines of the log; murmur replay {to} opens it")


def _write_store(client: ApiClient, path: Path) -> int:
    """A store with the log of the cluster, as the master gives it out."""
    from murmuration.runtime.store.sqlite import SqliteStore

    store, count = SqliteStore(path), 0
    try:
        for page in _list_pages(client):
            store.write(page)
            count += len(page)
    finally:
        store.close()
    return count


def _list_pages(client: ApiClient) -> Iterator[list[Entry]]:
    import base64

    from murmuration.runtime.store.interface import Entry
    from murmuration.runtime.store.lines import decode_value

    index = 0
    while rows := client.get("log", index=index):
        index = rows[-1]["number"]
        yield [
            Entry(
                row["number"],
                row["at_s"],
                row["side"],
                decode_value(row["kind"], base64.b64decode(row["body"])),
            )
            for row in rows
        ]


def _list_files(client: ApiClient) -> Iterator[tuple[str, bytes]]:
    import msgspec

    about = {
        "murmuration": __version__,
        "python": sys.version,
        "platform": platform.platform(),
        "machine": platform.machine(),
    }
    yield "about.json", msgspec.json.encode(about)
    for name in ASKED:
        yield f"{name}.json", msgspec.json.encode(client.get(name))
    token = client.token
    for path in sorted(client.folder.glob("*.log")) + sorted(client.folder.glob("*.log.1")):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_TAIL))
            text = file.read().decode("utf-8", "replace")
        if token:
            text = text.replace(token, "…")
        yield f"logs/{path.name}", SECRET.sub("…", text).encode()
