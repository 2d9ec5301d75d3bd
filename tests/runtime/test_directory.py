"""The directory of a folder: who leads, where, with which credentials, and that there is one leader
at most."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from murmuration.base.errors import InputError
from murmuration.runtime.folder import API, TOKEN
from murmuration.runtime.net.addresses import Address
from murmuration.runtime.net.directory import FolderDirectory, Leader

LEADER = Leader(Address("127.0.0.1", 8080), Address("::1", 9090), 123)


def test_a_folder_without_a_cluster_says_so(tmp_path: Path) -> None:
    directory = FolderDirectory(tmp_path / "none")
    assert not directory.exists()
    for ask in (directory.leader, directory.credentials):
        with pytest.raises(InputError, match="no cluster runs here"):
            ask()


def test_a_token_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    directory = FolderDirectory(tmp_path / "a" / "b")
    directory.create()
    token = directory.credentials().token
    directory.create()
    assert directory.credentials().token == token and len(token) >= 32
    assert stat.S_IMODE((directory.folder / TOKEN).stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.folder.stat().st_mode) == 0o700


def test_what_a_leader_announces_is_what_others_find(tmp_path: Path) -> None:
    directory = FolderDirectory(tmp_path)
    asyncio.run(directory.announce(LEADER))
    assert FolderDirectory(tmp_path).leader() == LEADER
    assert stat.S_IMODE((tmp_path / API).stat().st_mode) == 0o600
    asyncio.run(directory.withdraw())
    asyncio.run(directory.withdraw())
    with pytest.raises(InputError, match="no cluster runs here"):
        directory.leader()


@pytest.mark.parametrize("text", ["", "{", "{}", '{"url": "http://x", "agents": "y:1", "pid": 1}'])
def test_a_broken_announcement_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / API).write_text(text)
    with pytest.raises(InputError, match="no cluster runs here"):
        FolderDirectory(tmp_path).leader()


#: Leads until its standard input is closed.
LEADING = """
import asyncio, sys
from pathlib import Path
from murmuration.runtime.net.directory import FolderDirectory
asyncio.run(FolderDirectory(Path(sys.argv[1])).lead())
print("leads", flush=True)
sys.stdin.read()
"""


def test_there_is_one_leader_until_its_process_ends(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEADING, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
    ) as first:
        assert first.stdout is not None and first.stdout.readline() == b"leads\n"
        directory = FolderDirectory(tmp_path)
        assert directory.leading_process() == first.pid
        with pytest.raises(InputError, match="a master runs already"):
            asyncio.run(directory.lead())
        first.kill()
        first.wait()
        asyncio.run(directory.lead())
