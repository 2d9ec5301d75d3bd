"""The directory of a cluster: who leads it, where the leader listens, and with which credentials.

Everybody who wants to reach a master asks the directory: the command, schedulers outside, node
agents and the supervisor. A master asks it whether it may lead and announces itself there. What
stands behind it is nobody else's business: here it is a folder on one host; with several hosts it
is a key in etcd, leased to the leader (`etcd_directory.py`).

Readers call plain functions, because a command has no event loop. What a master does may wait for
an election, so those methods are coroutines.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.folder import (
    API,
    MASTER_LOCK,
    TLS,
    TOKEN,
    check_folder,
    check_secret,
    claim,
    write_private,
)
from murmuration.runtime.locks import hold, holder
from murmuration.runtime.net.addresses import Address, parse_address

if TYPE_CHECKING:
    import ssl


class Leader(msgspec.Struct, frozen=True):
    """The master that leads: clients reach it by HTTP, node agents and schedulers by frames."""

    api: Address
    frames: Address
    #: Its process; of use on the leader's own host only.
    pid: int
    #: A digest of what its members trust, by which masters of two clusters notice that they share a
    #: name.
    cluster: str = ""


class Credentials(msgspec.Struct, frozen=True):
    """What proves that one belongs to the cluster. Without contexts, connections are in clear text
    and stay on this host."""

    token: str
    #: For those who listen and for those who connect.
    server_tls: ssl.SSLContext | None = None
    client_tls: ssl.SSLContext | None = None


class Directory(Protocol):
    """Where the parts of a cluster find each other."""

    def leader(self) -> Leader:
        """Who leads now; InputError if nobody does."""

    def credentials(self) -> Credentials:
        """What to show to the others; InputError if this is no member of a cluster."""

    async def lead(self) -> None:
        """Become the leader, until the process ends; InputError if another one leads."""

    def is_leading(self) -> bool:
        """Whether this process still leads, and nobody else can."""

    async def deposed(self) -> None:
        """Until another one may lead."""

    async def announce(self, leader: Leader) -> None:
        """Tell everybody where the leader listens."""

    async def withdraw(self) -> None:
        """Nobody leads any more, until the next one announces itself."""


class _LeaderFile(msgspec.Struct):
    """The file `api.json`."""

    url: str
    agents: str
    pid: int


class FolderDirectory:
    """A directory for one host: a folder that only its owner can read. The leader holds a lock, so
    there is one at most, and none as soon as its process has ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = -1

    def create(self, token: str = "") -> None:
        """Make the folder and its token if they are not there yet, readable by their owner alone;
        the token of a cluster on another host is given. A folder that existed keeps its mode;
        refused if others own it or can write in it."""
        # Slow to import, and most commands only read a token.
        import secrets

        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_folder(self.folder)
            claim(self.folder)
            if token or not (self.folder / TOKEN).exists():
                write_private(self.folder / TOKEN, token or secrets.token_urlsafe(32))
        except OSError as error:
            raise InputError(f"{self.folder}: {(error.strerror or str(error)).lower()}") from error

    def check(self) -> None:
        """InputError if somebody else can write here or knows the token."""
        check_folder(self.folder)
        check_secret(self.folder / TOKEN, "make a new token")

    def exists(self) -> bool:
        return (self.folder / TOKEN).exists()

    def leader(self) -> Leader:
        try:
            file = msgspec.json.decode((self.folder / API).read_bytes(), type=_LeaderFile)
            return Leader(parse_address(file.url), parse_address(file.agents), file.pid)
        except (OSError, ValueError, msgspec.DecodeError) as error:
            raise no_cluster(self.folder) from error

    def list_masters(self) -> list[Callable[[], Address]]:
        """Where each master that may lead listens for frames, as known when it is asked."""
        return [lambda: self.leader().frames]

    def credentials(self) -> Credentials:
        """Where there are certificates, the token may be missing: nobody asks for it then."""
        tls = self.folder / TLS
        try:
            check_folder(self.folder)
            token = "" if os.path.lexists(tls) and not self.exists() else self._read_token()
        except OSError as error:
            raise no_cluster(self.folder) from error
        return load_credentials(token, tls)

    def _read_token(self) -> str:
        self.check()
        return (self.folder / TOKEN).read_text().strip()

    def leading_process(self) -> int | None:
        """The process that holds the lock of the leader."""
        return holder(self.folder / MASTER_LOCK)

    async def lead(self) -> None:
        self._lock = hold(self.folder / MASTER_LOCK, "a master")

    def is_leading(self) -> bool:
        return self._lock >= 0

    async def deposed(self) -> None:
        """Never: a lock is held until its process ends."""
        # Imported here: most commands only read, and have no event loop.
        import asyncio

        await asyncio.Event().wait()

    async def announce(self, leader: Leader) -> None:
        api = leader.api.secure_url if os.path.lexists(self.folder / TLS) else leader.api.url
        file = _LeaderFile(api, str(leader.frames), leader.pid)
        write_private(self.folder / API, msgspec.json.encode(file).decode())

    async def withdraw(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove what a leader that has ended may have left."""
        with contextlib.suppress(OSError):
            (self.folder / API).unlink()


def load_credentials(token: str, tls: Path) -> Credentials:
    """A token and, where a folder of certificates is, the contexts made of them. Only the
    certificate of a master is good for listening."""
    if not os.path.lexists(tls):
        return Credentials(token)
    # Slow to import, and needless for a cluster on one host.
    from murmuration.runtime.net.certificates import (
        MASTER,
        client_context,
        read_identity,
        server_context,
    )

    may_listen = read_identity(tls).role == MASTER
    return Credentials(token, server_context(tls) if may_listen else None, client_context(tls))


def read_token(path: Path) -> str:
    """A token in a file of its own, which nobody else can read."""
    try:
        check_secret(path, "make a new token")
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected a file with a token: {error}") from error
    if not token or not token.isascii() or not token.isprintable():
        raise InputError(f"{path}: expected a token in one line, and nothing else")
    return token


class JoinDirectory(FolderDirectory):
    """For a node agent on a host without a master: it knows where masters may listen."""

    def __init__(
        self, folder: Path, masters: Sequence[Address], token_file: Path | None = None
    ) -> None:
        super().__init__(folder)
        self._masters, self._token_file = list(masters), token_file

    def credentials(self) -> Credentials:
        """A token that was given comes before the one of the folder, which need not be there."""
        if self._token_file is None:
            return super().credentials()
        return load_credentials(read_token(self._token_file), self.folder / TLS)

    def list_masters(self) -> list[Callable[[], Address]]:
        return [functools.partial(lambda address: address, each) for each in self._masters]


def no_cluster(folder: Path) -> InputError:
    return InputError(
        f"{folder}: no cluster runs here; start one with murmur up, or name its folder with --dir"
    )
