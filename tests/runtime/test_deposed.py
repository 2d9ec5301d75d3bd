"""A master that does not lead any more says nothing, not even what rests on no fact."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.master.process import MasterProcess
from murmuration.runtime.net.directory import FolderDirectory, Leader
from murmuration.runtime.net.sockets import connect
from murmuration.runtime.net.transport import Connection
from murmuration.runtime.net.wire import Hello
from murmuration.runtime.options import MasterOptions
from murmuration.runtime.store.sqlite import open_store
from murmuration.schedulers.central.messages import AgentJoined, Heartbeat, HeartbeatSeen, Welcome


class Election(FolderDirectory):
    """A directory whose leader loses its lease when the test says so."""

    leading = True

    def is_leading(self) -> bool:
        return self.leading


async def find_leader(directory: FolderDirectory) -> Leader:
    while True:
        try:
            return directory.leader()
        except InputError:
            await asyncio.sleep(0.01)


async def talk(folder: Path) -> list[Any]:
    """What a node agent hears that sends heartbeats 1, 2 and 3; the second one while its master
    does not lead."""
    directory = Election(folder)
    directory.create()
    options = MasterOptions(folder=str(folder), isolation="process")
    process, answers = MasterProcess(options, directory), asyncio.Queue[Any]()
    running = asyncio.create_task(process.run(lambda: open_store(folder)))
    connection = await connect(
        asyncio.get_running_loop(),
        lambda: Connection(lambda *frame: answers.put_nowait(frame[-1]), lambda _: None),
        (await find_leader(directory)).frames,
    )
    await connection.ask(Hello(directory.credentials().token, "agent"))
    connection.send(AgentJoined("n", "id", 1, {"cpu": 1, "memory": 1}), "n")
    heard = [await answers.get()]
    for serial in (1, 2, 3):
        before = process._master.leases.members["n"].heard_s
        directory.leading = serial != 2
        connection.send(Heartbeat("n", 1, serial), "n")
        while process._master.leases.members["n"].heard_s == before:
            await asyncio.sleep(0.01)
        if serial != 2:
            heard.append(await answers.get())
    connection.close()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return heard


def test_a_master_that_cannot_listen_says_so_and_no_more(tmp_path: Path) -> None:
    """It has begun to write by then; nothing of that is left hanging."""
    options = MasterOptions(
        folder=str(tmp_path / "c"), host="0.0.0.0", advertise="127.0.0.1", isolation="process"
    )
    command = [sys.executable, "-X", "dev", "-m", "murmuration.runtime.master.process"]
    text = msgspec.json.encode(options).decode()
    done = subprocess.run([*command, text], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "nothing listens there without certificates" in done.stderr
    # In development mode asyncio tells of turns that took long, as they do on a slow machine.
    lines = [line for line in done.stderr.splitlines() if "WARNING Executing" not in line]
    assert len(lines) == 1, done.stderr


def test_heartbeats_are_answered_by_the_leader_alone(tmp_path: Path) -> None:
    async def limited() -> list[Any]:
        return await asyncio.wait_for(talk(tmp_path / "c"), 200.0)

    welcome, *seen = asyncio.run(limited())
    assert isinstance(welcome, Welcome)
    assert seen == [HeartbeatSeen(1, 1), HeartbeatSeen(1, 3)]
