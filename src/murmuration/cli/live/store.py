"""`murmur store`: look at a cluster's store, copy it, and take a copy back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.live import common as live

if TYPE_CHECKING:
    from murmuration.runtime.store.etcd import EtcdStore


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


IN_ETCD = (
    click.option(
        "--store",
        "url",
        default="",
        metavar="etcd://HOST:PORT,…",
        help="The store in etcd instead of the one in the folder.",
    ),
    click.option("--store-tls", default="", metavar="FOLDER", help="The certificate for etcd."),
    click.option(
        "--cluster", default="murmuration", show_default=True, help="The cluster's name in etcd."
    ),
)


@store.command()
@click.argument("to", type=click.Path(path_type=Path))
@live.DIR
@common.with_options(*IN_ETCD)
def backup(to: Path, folder: Path | None, url: str, store_tls: str, cluster: str) -> None:
    """Copy the store to the file TO; the cluster may go on meanwhile.

    A backup is the same whatever store it was made of, and can be restored to either kind.
    """
    from murmuration.runtime.store.sqlite import SqliteStore

    if to.exists():
        raise InputError(f"{to}: expected a file that is not there yet")
    if url:
        _backup_etcd(to, url, store_tls, cluster)
    else:
        opened = SqliteStore(_existing(folder))
        try:
            opened.check()
            opened.backup(to)
        finally:
            opened.close()
    common.say(f"the store was copied to {to}")


def _backup_etcd(to: Path, url: str, store_tls: str, cluster: str) -> None:
    import tempfile

    from murmuration.runtime.store.sqlite import SqliteStore

    opened = _open_etcd(url, store_tls, cluster)
    try:
        copied = opened.copy()
    finally:
        opened.close()
    # It appears whole or not at all.
    with tempfile.TemporaryDirectory(dir=to.absolute().parent) as made:
        beside = Path(made) / to.name
        filled = SqliteStore(beside)
        try:
            filled.fill(copied)
            filled.backup(Path(made) / "whole")
        finally:
            filled.close()
        (Path(made) / "whole").replace(to)


def _open_etcd(url: str, store_tls: str, cluster: str) -> EtcdStore:
    from murmuration.runtime.net.etcd_client import EtcdClient, parse_members
    from murmuration.runtime.store.etcd import EtcdStore

    tls = None
    if store_tls:
        from murmuration.runtime.net.certificates import client_context

        tls = client_context(Path(store_tls))
    return EtcdStore(EtcdClient(parse_members(url), tls), cluster)


@store.command()
@click.argument("source", metavar="FROM", type=click.Path(path_type=Path))
@live.DIR
@common.with_options(*IN_ETCD)
@click.option("--replace", is_flag=True, help="In etcd: remove the store that is there.")
def restore(
    source: Path, folder: Path | None, url: str, store_tls: str, cluster: str, replace: bool
) -> None:
    """Put the backup FROM in the place of the store; the cluster must be down.

    In a folder, the store that was there is kept beside it, under a name that ends in -before.
    """
    if url:
        _restore_etcd(source, _open_etcd(url, store_tls, cluster), replace)
        common.say(f"{source} is the store of {cluster} in etcd now")
    else:
        _restore_folder(source, folder)


def _restore_etcd(source: Path, to: EtcdStore, replace: bool) -> None:
    from murmuration.runtime.store.interface import StoreError
    from murmuration.runtime.store.sqlite import read_copy

    try:
        to.fill(read_copy(source), replace)
    except StoreError as error:
        raise InputError(str(error)) from error
    finally:
        to.close()


def _restore_folder(source: Path, folder: Path | None) -> None:
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
