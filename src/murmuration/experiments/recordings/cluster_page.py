"""The web page of a cluster that is gone: its log is replayed, and the pages of a live master are
served of what it knew at the end.

A log has events and decisions and no measurements; what a dump says of them is taken from its
listings. Samples over time are taken as the replay passes. Nothing can be changed: whoever looks
has the role of a viewer, and there is nobody behind it who would carry out an order.
"""

from __future__ import annotations

import asyncio
import secrets
import tarfile
import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec

from murmuration.base.errors import InputError
from murmuration.experiments.live import read_entries
from murmuration.runtime.master.access import find_by_digest
from murmuration.runtime.master.answers import Listing
from murmuration.runtime.master.api import Api, Orders, make_app
from murmuration.runtime.master.front.overview import SAMPLES_MAX, Overview
from murmuration.runtime.master.front.routes import FrontApi
from murmuration.runtime.master.reading import ReadModel
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.master.usage import UsageMeter
from murmuration.runtime.net.callers import VIEWER, Caller, Doorkeeper
from murmuration.runtime.net.http import HttpServer, Refusal
from murmuration.runtime.net.sessions import Sessions
from murmuration.runtime.options import MasterOptions
from murmuration.runtime.store.interface import Entry, StoredLine
from murmuration.runtime.store.lines import encode_value, kind_of
from murmuration.runtime.store.log import FactLog
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.replaying import replay

#: Bytes of a listing in a dump, at most.
LISTING_MAX = 2**28


class RecordedLog(FactLog):
    """The facts of a log that is all in memory."""

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__()
        self._entries = entries

    def lines(self, after: int, limit: int) -> list[StoredLine]:
        first = bisect_right(self._entries, after, key=lambda entry: entry.number)
        return [
            (e.number, e.at_s, e.side, kind_of(e.value), encode_value(e.value))
            for e in self._entries[first : first + limit]
        ]


class RecordedCluster:
    """A master as it stood when its log ended, with samples of the time before."""

    overview: Overview

    def __init__(self, place: Path) -> None:
        self._entries = read_entries(place)
        self.facts, self.meter = RecordedLog(self._entries), UsageMeter()
        first_s, self.ends_s = self._entries[0].at_s, self._entries[-1].at_s
        self._now = self._next_s = first_s
        self._every_s = (self.ends_s - first_s) / (SAMPLES_MAX - 2)
        self._published = 0
        lines = ((e.number, e.at_s, e.side, e.value) for e in self._entries)
        replayed = replay(lines, self._begin, self._look)
        if replayed.difference is not None:
            self.facts.trouble = (
                f"the log could not be repeated beyond its line {replayed.difference[0]}: this "
                "version decides otherwise, and what follows it may be wrong"
            )
        self._take_sample(self._entries[-1].number + 1, self.ends_s)
        self._measure(place)
        self.overview.tick()

    def now(self) -> float:
        return self._now

    def _begin(self, options: MasterOptions) -> CentralMaster:
        """A master starts; the samples of the one before are its own."""
        settings, options.scheduler, options.placement = live_settings(options)
        self.master, self.options = CentralMaster(settings, options.seed), options
        before = getattr(self, "overview", None)
        self.overview = Overview(self.master, self.facts, self.meter, self.now)
        if before is not None:
            self.overview.samples = before.samples
        return self.master

    def _look(self, number: int, at_s: float) -> None:
        if at_s >= self._next_s and hasattr(self, "overview"):
            self._take_sample(number, at_s)

    def _take_sample(self, number: int, at_s: float) -> None:
        """What came before this line is known now."""
        begin = self._published
        while self._published < len(self._entries) and self._is_before(number):
            self._published += 1
        passed = self._entries[begin : self._published]
        if passed:
            self.facts.index = passed[-1].number
            self.facts.publish(passed)
        self._now, self._next_s = at_s, at_s + self._every_s
        self.overview.tick()
        self.overview.samples.append(self.overview.sample())

    def _is_before(self, number: int) -> bool:
        return self._entries[self._published].number < number

    def _measure(self, place: Path) -> None:
        """What nodes and tasks used, as the listings of a dump have it."""
        if not (place.is_file() and tarfile.is_tarfile(place)):
            return
        with tarfile.open(place) as archive:
            for row in _read_listing(archive, "nodes.json").nodes or ():
                self.meter.nodes.set(row.node, *(row.used.get(n, 0.0) for n in ("cpu", "memory")))
            for task in _read_listing(archive, "tasks.json").tasks or ():
                if task.cpu_s is not None:
                    self.meter.runs[f"{task.task}.{task.run}"] = task.cpu_s, task.memory or 0
        self.overview.columns.measure()


def _read_listing(archive: tarfile.TarFile, name: str) -> Listing:
    """A listing of a dump; an empty one if it is not there."""
    try:
        member = archive.extractfile(name)
    except KeyError:
        member = None
    if member is None:
        return Listing(0)
    try:
        return msgspec.json.decode(member.read(LISTING_MAX), type=Listing)
    except msgspec.DecodeError as error:
        raise InputError(f"{name} of the dump: expected a listing: {error}") from error


async def _refuse(*_: object) -> NoReturn:
    raise Refusal(409, "this is a recording: nothing can be asked of its nodes")


async def serve_cluster(cluster: RecordedCluster, port: int, ready: Callable[[str], None]) -> None:
    """The pages on this host's own address, until somebody interrupts. `ready` takes the link."""
    reading = ReadModel(cluster.master, cluster.facts, cluster.meter, cluster.now, cluster.options)
    sessions = Sessions(secrets.token_hex(16), lambda name, begun_s: True, time.time)
    front = FrontApi(cluster.master, cluster.overview, sessions, cluster.ends_s)
    keeper = Doorkeeper(
        secrets.token_hex(16), find_by_digest(cluster.master, cluster.now), sessions.identify
    )
    orders = Orders(_refuse, _refuse, _refuse, _refuse, list)
    api = Api(cluster.master, reading, orders, cluster.now)
    http = HttpServer(make_app(api, front, keeper), keeper)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(http.make_protocol, "127.0.0.1", port)
    front.url = reading.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        ready(f"{front.url}/#/enter/{sessions.issue(Caller('', VIEWER))}")
        await asyncio.Event().wait()
    finally:
        server.close()
        await http.close()


def serve_recorded(place: Path, port: int, ready: Callable[[str], None]) -> None:
    """Serve the pages of a file of `murmur dump`, of a cluster's folder or of its store."""
    asyncio.run(serve_cluster(RecordedCluster(place), port, ready))
