"""The master process: the master's state machine, the driver that runs it, and the servers that
clients, node agents and schedulers connect to."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.drive import LiveDriver
from murmuration.runtime.logs import set_term, set_up_logs
from murmuration.runtime.master.access import find_by_digest, token_is_good
from murmuration.runtime.master.api import Api, Orders, make_app
from murmuration.runtime.master.front.overview import Overview
from murmuration.runtime.master.front.routes import FrontApi
from murmuration.runtime.master.notes import StoreNotes
from murmuration.runtime.master.peers import Peers
from murmuration.runtime.master.reading import ReadModel
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.master.usage import UsageMeter
from murmuration.runtime.net.addresses import Address
from murmuration.runtime.net.callers import Doorkeeper
from murmuration.runtime.net.directory import Directory, FolderDirectory, Leader
from murmuration.runtime.net.http import HttpServer
from murmuration.runtime.net.sessions import Sessions
from murmuration.runtime.net.sockets import listen, log_accept_errors
from murmuration.runtime.options import MasterOptions
from murmuration.runtime.store.interface import Deposed, Store, StoreError
from murmuration.runtime.store.log import FactLog
from murmuration.runtime.store.sqlite import open_store
from murmuration.schedulers.agent import Do, Message, Send
from murmuration.schedulers.central.master import CentralMaster

#: Hosts that stand for all addresses of this one.
EVERY_ADDRESS = ("", "0.0.0.0", "::")
#: When the collector of cycles looks: at what is new, after so many objects more than went; at what
#: it has seen once, after so many times; at everything, after so many of those.
EXAMINE = (50_000, 20, 100)

log = logging.getLogger("murmuration.master")


class Clock:
    """Seconds since 1970 that never go back: the wall clock at the start, then what has passed."""

    def __init__(self) -> None:
        self._base = time.time() - time.monotonic()

    def now(self) -> float:
        return self._base + time.monotonic()


class Doors(NamedTuple):
    """How others come in: from a browser, by a token, by frames."""

    sessions: Sessions
    doorkeeper: Doorkeeper
    peers: Peers


class MasterProcess:
    """One master. While it leads, it is the only writer of its store."""

    def __init__(
        self,
        options: MasterOptions,
        directory: Directory,
        clock: Callable[[], float] | None = None,
    ) -> None:
        settings, options.scheduler, options.placement = live_settings(options)
        self._options, self._directory = options, directory
        self._credentials = directory.credentials()
        self._clock = clock or Clock().now
        self._master = CentralMaster(settings, options.seed)
        self._facts, self._meter = FactLog(), UsageMeter()
        self._reading = ReadModel(self._master, self._facts, self._meter, self._clock, options)
        #: The server for node agents and schedulers, and where it listens.
        self._frames: tuple[asyncio.Server, Address] | None = None

    async def run(self, open_store: Callable[[], Store]) -> None:
        """Lead until SIGTERM or SIGINT. The store is opened by the leader alone."""
        stop = asyncio.Event()
        log_accept_errors(asyncio.get_running_loop())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        find_token = find_by_digest(self._master, self._clock)
        is_good = token_is_good(self._master, self._clock)
        sessions = Sessions(self._credentials.token, is_good, self._clock)
        doorkeeper = Doorkeeper(self._credentials.token, find_token, sessions.identify)
        peers = Peers(self._master, self._meter, self._clock, doorkeeper, self._tell)
        await self._open_early(peers)
        try:
            await _first(self._directory.lead(), stop.wait())
            if not stop.is_set():
                await self._lead(open_store, Doors(sessions, doorkeeper, peers), stop)
        finally:
            if self._frames is not None:
                self._frames[0].close()

    async def _open_early(self, peers: Peers) -> None:
        """A master that stands by takes connections already, where others know its port: when it
        leads, nobody has to dial first."""
        options = self._options
        if options.store and options.agents_port:
            # A port that is taken is spoken of when this master has to listen on it.
            with contextlib.suppress(InputError, OSError):
                self._frames = await self._listen_for_frames(peers, [options.agents_port])

    async def _listen_for_frames(
        self, peers: Peers, ports: list[int]
    ) -> tuple[asyncio.Server, Address]:
        loop, tls = asyncio.get_running_loop(), self._credentials.server_tls
        return await listen(loop, peers.make_protocol, self._options.host, ports, tls)

    async def _lead(
        self, open_store: Callable[[], Store], doors: Doors, stop: asyncio.Event
    ) -> None:
        notes = StoreNotes(open_store(), self._facts)
        try:
            await self._serve(notes, doors, stop)
        finally:
            await self._directory.withdraw()
            notes.close()

    def _tell(self, message: Message) -> None:
        self.driver.tell(message)

    async def _serve(self, notes: StoreNotes, doors: Doors, stop: asyncio.Event) -> None:
        sessions, doorkeeper, peers = doors

        def carry_out(effect: Send | Do) -> None:
            # Facts are guarded by the store. This guards what rests on none: the answer to a
            # heartbeat, which keeps a lease alive.
            if self._directory.is_leading():
                peers.carry_out(effect)

        self.driver = driver = LiveDriver(self._master, self._clock, notes, carry_out)
        with unexamined_memory():
            first = notes.recover(self._options, self._clock())
            self._reading.epoch = first.epoch
            set_term(first.epoch)
            # Before it listens: what it starts from comes before anything that others say.
            driver.start(first)
        orders = Orders(driver.ask, notes.probe, peers.read_output, peers.ask, peers.list_connected)
        disk = self._options.disk, self._options.disk_max
        api = Api(self._master, self._reading, orders, self._clock, disk)
        overview = Overview(self._master, self._facts, self._meter, self._clock)
        overview.epoch = first.epoch
        front = FrontApi(self._master, overview, sessions)
        http = HttpServer(make_app(api, front, doorkeeper, self._options.rate_limit), doorkeeper)
        servers: tuple[asyncio.Server, ...] = ()
        try:
            servers = await self._listen(http, peers)
            front.url = self._reading.url
            peers.lead(first.epoch, self._reading.url)
            await _first(driver.run(), stop.wait(), self._await_deposition(), overview.run())
        finally:
            for server in servers:
                server.close()
            await http.close()
            driver.close()

    async def _await_deposition(self) -> None:
        await self._directory.deposed()
        raise Deposed("this master does not lead any more: its lease was not renewed in time")

    async def _listen(self, http: HttpServer, peers: Peers) -> tuple[asyncio.Server, ...]:
        """Listen for HTTP and for frames, and announce where. A master that starts again takes the
        ports it had before if it can."""
        loop, host, tls = (
            asyncio.get_running_loop(),
            self._options.host,
            self._credentials.server_tls,
        )
        if tls is None and self._credentials.client_tls is not None:
            raise InputError(
                f"{self._options.folder}: expected the certificate of a master, the only one that "
                "may listen"
            )
        api_ports, frame_ports = [0], [self._options.agents_port]
        with contextlib.suppress(InputError):
            before = self._directory.leader()
            api_ports, frame_ports = [before.api.port, 0], [before.frames.port, 0]
        if self._options.port:
            api_ports = [self._options.port]
        if self._options.agents_port:
            frame_ports = [self._options.agents_port]
        reached = find_advertised(host, self._options.advertise)
        api, api_at = await listen(loop, http.make_protocol, host, api_ports, tls)
        if self._frames is None:
            self._frames = await self._listen_for_frames(peers, frame_ports)
        frames, frames_at = self._frames
        api_at, frames_at = Address(reached, api_at.port), Address(reached, frames_at.port)
        self._reading.url = api_at.secure_url if tls else api_at.url
        await self._directory.announce(Leader(api_at, frames_at, os.getpid()))
        log.info("listening on %s", self._reading.url)
        return api, frames


def find_advertised(host: str, given: str) -> str:
    """The host that a master tells others to connect to. One that listens on every address has to
    be told: which of them others reach, and which its certificate is for, it cannot know."""
    if not given and host in EVERY_ADDRESS:
        raise InputError(
            f"--host {host or '(empty)'}: expected --advertise HOST beside it, the name or address "
            "under which others reach this master and that its certificate has"
        )
    return given or host


def examine_rarely() -> None:
    """Let the collector of cycles look at less: a master keeps millions of objects for as long as
    their tasks run and makes hardly a cycle, and by default looking at them again and again takes
    up to half of its time, with pauses of a second."""
    gc.set_threshold(*EXAMINE)


@contextlib.contextmanager
def unexamined_memory() -> Iterator[None]:
    """What is made in here is not looked at by the collector of cycles, now or later: a master that
    starts makes a million objects that stay, and looking at them again takes a fifth of its
    time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


async def _first(*work: Coroutine[Any, Any, Any]) -> None:
    """Until one of them ends; its exception, if it has one."""
    tasks = [asyncio.ensure_future(each) for each in work]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    for task in done:
        task.result()


def choose_store(
    options: MasterOptions, folder: Path
) -> tuple[FolderDirectory, Callable[[], Store]]:
    """Where the leader is known, and where its facts are kept: here, or in etcd."""
    if not options.store:
        return FolderDirectory(folder), lambda: open_store(folder)
    from murmuration.runtime.net.etcd_client import EtcdClient, parse_members
    from murmuration.runtime.net.etcd_directory import EtcdDirectory
    from murmuration.runtime.store.etcd import EtcdStore

    members, tls = parse_members(options.store), None
    if options.store_tls:
        from murmuration.runtime.net.certificates import client_context

        tls = client_context(Path(options.store_tls))
    client = EtcdClient(members, tls, max(0.5, options.leader_timeout_s / 3))
    directory = EtcdDirectory(folder, client, options.cluster, options.leader_timeout_s)
    return directory, lambda: EtcdStore(EtcdClient(members, tls), options.cluster)


def main(options: MasterOptions) -> None:
    set_up_logs(options.log_format, "master", socket.gethostname())
    os.umask(0o077)  # a job's environment is in the store
    examine_rarely()
    folder = Path(options.folder)
    directory, open_ = choose_store(options, folder)
    directory.create()
    master = MasterProcess(options, directory)
    try:
        asyncio.run(master.run(open_))
    except (Deposed, StoreError) as error:
        raise InputError(str(error)) from error


if __name__ == "__main__":
    import sys

    try:
        main(msgspec.json.decode(sys.argv[1], type=MasterOptions))
    except InputError as problem:
        print(f"murmur: {problem}", file=sys.stderr)
        sys.exit(2)
