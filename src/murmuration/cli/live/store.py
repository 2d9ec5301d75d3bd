"""`murmur store`: look at a cluster's store, copy it, and take a copy back."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.live import common as live


@click.group()
def store() -> None:
    """Check, back up or restore the store of a cluster.

    The store has every job and every decision of a cluster; without it, its tasks are nobody's.
    """


@store.command()
@live.DIR
@common.JSON
def check(folder: Path | None, as_json: bool) -> None:
    """Look whether every row is as it was written."""
    from murmuration.runtime.store.sqlite import SqliteStore

    path = _existing(folder)
    opened = SqliteStore(path)
    try:
        lines = opened.check()
    finally:
        opened.close()
    if as_json:
        common.print_json({"store": str(path), "lines": lines})
    else:
        common.say(f"{path} is in order; its log has {lines} lines")


@store.command()
@click.argument("to", type=click.Path(path_type=Path))
@live.DIR
def backup(to: Path, folder: Path | None) -> None:
    """Copy the store to the file TO; the cluster may go on meanwhile."""
    from murmuration.runtime.store.sqlite import SqliteStore

    if to.exists():
        raise InputError(f"{to}: expected a file that is not there yet")
    opened = SqliteStore(_existing(folder))
    try:
        opened.check()
        opened.backup(to)
    finally:
        opened.close()
    common.say(f"the store was copied to {to}")


@store.command()
@click.argument("source", metavar="FROM", type=click.Path(path_type=Path))
@live.DIR
def restore(source: Path, folder: Path | None) -> None:
    """Put the backup FROM in the place of the store; the cluster must be down.

    The store that was there is kept beside it, under a name that ends in -before.
    """
    from murmuration.runtime.folder import MASTER_LOCK, STORE, find_folder
    from murmuration.runtime.locks import holder
    from murmuration.runtime.store.sqlite import SqliteStore, mark_path

    place = find_folder(folder)
    if not source.is_file() or not place.is_dir():
        missing = place if source.is_file() else source
        raise InputError(f"{missing}: expected a backup, and the folder of a cluster")
    if holder(place / MASTER_LOCK) is not None:
        raise InputError(f"{place}: expected a cluster that is down; murmur down --keep ends it")
    path, fresh = place / STORE, place / f"{STORE}-restored"
    shutil.copyfile(source, fresh)
    try:
        opened = SqliteStore(fresh)
        try:
            opened.check()
            opened.skip_epochs()
        finally:
            opened.close()
    except InputError:
        for left in place.glob(f"{STORE}-restored*"):
            left.unlink()
        raise
    for old in (path, *(place / f"{STORE}{end}" for end in ("-wal", "-shm"))):
        if old.exists():
            old.replace(old.with_name(old.name.replace(STORE, f"{STORE}-before")))
    mark_path(path).unlink(missing_ok=True)
    mark_path(fresh).unlink(missing_ok=True)
    fresh.replace(path)
    common.say(f"{source} is the store of {place} now")


def _existing(folder: Path | None) -> Path:
    from murmuration.runtime.folder import STORE, find_folder

    path = find_folder(folder) / STORE
    if not path.is_file():
        raise InputError(f"{path}: expected the store of a cluster, and there is none")
    return path
