"""Following a kind of objects: list them, watch what changes, and go on after whatever breaks.

The server keeps only so much of the past. A watch that asks for a moment it has forgotten is
refused (410, also in the middle of a stream), and then the objects are listed again. Bookmarks move
the version on while nothing changes, so that this is rare. A stream that is silent for longer than
bookmarks take is given up, and one that breaks is taken up where it broke.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from murmuration.kubernetes.api.client import ApiError, Kind, KubeClient, Listed
from murmuration.kubernetes.api.http import UnreachableError
from murmuration.kubernetes.objects import Object

#: The server ends a watch after this long (and as much again, drawn), so that watches do not all
#: begin at once.
WATCH_S = 300
#: Bookmarks come about every minute.
SILENCE_S = 150.0
PAUSE_MIN_S, PAUSE_MAX_S = 0.2, 10.0
ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"

log = logging.getLogger("murmuration.kubernetes")


class Change(msgspec.Struct):
    """One line of a watch."""

    type: str
    thing: dict[str, object] = msgspec.field(name="object")


_decode = msgspec.json.Decoder(Change).decode


class _GoneError(Exception):
    """The server has forgotten the moment we ask for."""


@dataclass
class Follower:
    """Follows one kind. `on_list` gets everything there is, `on_changes` what changed since."""

    client: KubeClient
    kind: Kind
    on_list: Callable[[Kind, Listed], None]
    on_changes: Callable[[Kind, list[Change]], None]
    silence_s: float = SILENCE_S
    watch_s: int = WATCH_S
    #: The moment up to which everything was told; empty before the first list.
    version: str = ""

    async def run(self) -> None:
        """Follow until cancelled; raises only what will not go away by itself."""
        pause_s = PAUSE_MIN_S
        while True:
            try:
                if not self.version:
                    await self._list()
                await self._watch()
                pause_s = PAUSE_MIN_S
                continue
            except _GoneError:
                self.version = ""
                continue
            except ApiError as error:
                if error.status == 410:
                    self.version = ""
                elif error.status in (401, 403, 404):
                    raise
                pause_s = max(pause_s, error.retry_s or 0.0)
                log.warning("%s: %s", self.kind.plural, error.sentence)
            except UnreachableError as error:
                self._on_away(error)
            except msgspec.DecodeError as error:
                log.warning("%s: the watch is no JSON: %s", self.kind.plural, error)
            # Drawn, so that followers of one server do not come back all at once.
            await asyncio.sleep(pause_s * (0.5 + random.random()))
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    def _on_away(self, error: UnreachableError) -> None:
        """Say once for all followers of a server that it is away."""
        level = logging.INFO if self.client.is_away else logging.WARNING
        log.log(level, "the API server does not answer, and is asked until it does: %s", error)
        self.client.is_away = True

    def _on_answer(self) -> None:
        if self.client.is_away:
            log.warning("the API server answers again")
            self.client.is_away = False

    async def _list(self) -> None:
        listed = await self.client.list_all(self.kind)
        self._on_answer()
        self.on_list(self.kind, listed)
        self.version = listed.version

    async def _watch(self) -> None:
        lasts = self.watch_s + random.randrange(self.watch_s)
        stream = self.client.watch(self.kind, self.version, lasts, self.silence_s)
        async for lines in stream:
            self._on_answer()
            changes = [_decode(line) for line in lines if line]
            for at, change in enumerate(changes):
                if change.type == ERROR:
                    self._tell(changes[:at])
                    raise _error_of(change.thing)
            self._tell(changes)

    def _tell(self, changes: list[Change]) -> None:
        if changes:
            told = [change for change in changes if change.type != BOOKMARK]
            if told:
                self.on_changes(self.kind, told)
            self.version = version_of(changes[-1].thing)


def version_of(thing: Object) -> str:
    metadata = thing.get("metadata")
    return str(metadata.get("resourceVersion", "")) if isinstance(metadata, dict) else ""


def _error_of(status: Object) -> Exception:
    code = status.get("code")
    if code == 410:
        return _GoneError()
    return ApiError(
        code if isinstance(code, int) else 500,
        str(status.get("reason")),
        str(status.get("message")),
    )
