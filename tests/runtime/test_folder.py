"""A cluster's folder is its owner's alone, and `down` takes away only what it made."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.runtime.clusters import live_cluster

from murmuration.base.errors import InputError
from murmuration.runtime import supervisor
from murmuration.runtime.folder import MARK, NODES, STORE, TOKEN, claim, remove_made, remove_tree
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.node.journal import Journal

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def made(folder: Path) -> FolderDirectory:
    directory = FolderDirectory(folder)
    directory.create()
    return directory


@as_root
@pytest.mark.parametrize("name", ["", TOKEN, "api.json", STORE, NODES])
def test_what_somebody_else_owns_is_refused(tmp_path: Path, name: str) -> None:
    directory = made(tmp_path / "d")
    place = directory.folder / name
    if not place.exists():
        place.touch()
    os.chown(place, NOBODY, NOBODY)
    for ask in (directory.create, directory.credentials):
        with pytest.raises(InputError, match=f"belongs to user {NOBODY}"):
            ask()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    directory = made(tmp_path / "d")
    directory.folder.chmod(mode)
    for ask in (directory.create, directory.credentials):
        with pytest.raises(InputError, match="expected that nobody else can write to it"):
            ask()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_token_that_others_know_is_refused(tmp_path: Path, mode: int) -> None:
    directory = made(tmp_path / "d")
    (directory.folder / TOKEN).chmod(mode)
    with pytest.raises(InputError, match="token: expected"):
        directory.credentials()


def test_a_folder_that_others_can_replace_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    directory = made(shared / "d")
    shared.chmod(0o777)
    with pytest.raises(InputError, match="nobody else can rename the folders above it"):
        directory.credentials()
    shared.chmod(0o1777)  # as /tmp is
    assert directory.credentials().token


def test_a_link_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    directory = made(tmp_path / "d")
    (tmp_path / "elsewhere").write_text("known")
    (directory.folder / TOKEN).unlink()
    (directory.folder / TOKEN).symlink_to(tmp_path / "elsewhere")
    for ask in (directory.create, directory.credentials):
        with pytest.raises(InputError, match="token: expected a file or a folder, got a link"):
            ask()


def test_a_prepared_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / TOKEN).write_text("known")
    with pytest.raises(InputError, match="token: expected no file of this name"):
        FolderDirectory(tmp_path).create()
    assert (tmp_path / TOKEN).read_text() == "known"


def test_what_an_earlier_version_left_open_is_closed(tmp_path: Path) -> None:
    for name in (STORE, f"{STORE}-wal", TOKEN):
        (tmp_path / name).touch(mode=0o644)
    (tmp_path / TOKEN).chmod(0o600)
    (tmp_path / NODES).mkdir(mode=0o755)
    claim(tmp_path)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {STORE: 0o600, f"{STORE}-wal": 0o600, TOKEN: 0o600, NODES: 0o700}


def test_a_journal_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Journal(tmp_path / "journal")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "journal").stat().st_mode) == 0o600


def test_nothing_of_a_cluster_is_open_to_others(tmp_path: Path) -> None:
    """In a folder that everybody may look into, a job's environment is in no file that others
    can read."""
    folder = tmp_path / "d"
    folder.mkdir(mode=0o755)
    value = "not" + "-for-others"
    with live_cluster(folder, agents=1) as cluster:
        cluster.submit("a", "sh", "-c", "umask; echo x > file", environment={"SECRET": value})
        assert cluster.wait("a")["code"] == 0
        assert cluster.output("a.0") == "0022\n", "a task has the usual mask"
        top = list(folder.iterdir())
        assert any(value.encode() in path.read_bytes() for path in top if path.is_file())
        assert [p for p in top if stat.S_IMODE(p.lstat().st_mode) & 0o077] == []


def test_down_takes_away_what_a_cluster_made_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    with live_cluster(folder, agents=1):
        (folder / "app.log").write_text("mine")
        (folder / "app.log.1").write_text("mine")
        (folder / NODES / "data").mkdir()
        (folder / NODES / "data/file").write_text("mine")
        (folder / "store.db.backup").write_text("mine")
    assert supervisor.bring_down(folder, keep=False)
    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert left == {"app.log", "app.log.1", "nodes/data/file", "store.db.backup"}


def test_a_folder_that_never_was_a_clusters_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / TOKEN).write_text("mine")
    (tmp_path / "app.log").write_text("mine")
    (tmp_path / NODES).mkdir()
    assert not supervisor.bring_down(tmp_path, keep=False)
    assert {path.name for path in tmp_path.iterdir()} == {TOKEN, "app.log", NODES}


def test_an_empty_folder_goes_with_its_cluster(tmp_path: Path) -> None:
    directory = made(tmp_path / "d")
    assert (directory.folder / MARK).exists()
    remove_made(directory.folder)
    assert not directory.folder.exists()


def test_a_very_deep_tree_is_removed(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    os.mkdir("deep", dir_fd=here)
    for name in ["deep", *["d"] * 3000]:
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.mkdir("d", dir_fd=below)
        os.close(here)
        here = below
    os.close(here)
    remove_tree(tmp_path / "deep")
    assert list(tmp_path.iterdir()) == []
