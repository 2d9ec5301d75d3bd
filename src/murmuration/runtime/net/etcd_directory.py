"""The directory of a cluster with several masters: a key in etcd, leased to the one that leads.

```
 standby ──── the key is free: take it ────▶ leader ──── its lease cannot be renewed ────▶ over
    ▲                                                                                        │
    └──────────────────────── started again by whoever started it ───────────────────────────┘
```

**At most one leads.** The key goes when its lease does, and only then can another master take it;
how long the leader may believe in its lease is decided in `schedulers/central/leader_lease.py`.
What rests on facts is safe without any clock: the store refuses them (`store/etcd.py`).

Each host has a folder of its own with the token. A master that stands by writes there where the
leader is, so that commands work on its host too.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.folder import TLS
from murmuration.runtime.net.certificates import AUTHORITY
from murmuration.runtime.net.directory import FolderDirectory, Leader
from murmuration.runtime.net.etcd_client import EtcdClient, EtcdError, is_absent, put
from murmuration.schedulers.central.leader_lease import RENEWALS, LeaderLease

#: How often a master that stands by looks.
LOOK_S = 0.1

T = TypeVar("T")
log = logging.getLogger("murmuration.election")


def campaign(client: EtcdClient, key: str, seconds: int) -> tuple[int, float] | None:
    """Take the key that stands for leading if it is free: the lease, and how long it lasts from
    when it was asked for. None if somebody else has it."""
    if client.get(key) is not None:
        return None
    lease, lasts_s = client.grant(seconds)
    return (lease, lasts_s) if client.commit([is_absent(key)], [put(key, b"", lease)]) else None


class EtcdDirectory(FolderDirectory):
    """The cluster `name` in etcd, seen from a folder on this host."""

    def __init__(self, folder: Path, client: EtcdClient, name: str, lease_s: int) -> None:
        super().__init__(folder)
        self._client, self._lease_s, self._name = client, lease_s, name
        self._key = f"/murmuration/{name}/leader"
        self._lease, self._is_away = 0, False
        self._leadership = LeaderLease()
        self._renewing: asyncio.Task[None] | None = None

    def is_leading(self) -> bool:
        return self._leadership.is_leading(time.monotonic())

    async def lead(self) -> None:
        """Stand by until the key is free, and take it."""
        await super().lead()
        while not await self._campaign():
            await self._follow()
            await asyncio.sleep(LOOK_S)
        log.info("this master leads")
        self._renewing = asyncio.get_running_loop().create_task(self._renew())

    async def _campaign(self) -> bool:
        """Take the key if it is free; whether it was."""
        began = time.monotonic()
        try:
            taken = await self._call(lambda: campaign(self._client, self._key, self._lease_s))
        except EtcdError as error:
            # It may have been carried out: the key goes with its lease then.
            if not self._is_away:
                log.warning("etcd does not answer: %s", error)
            self._is_away = True
            return False
        self._is_away = False
        if taken is None:
            return False
        self._lease, lasts_s = taken
        self._leadership.renew(began, lasts_s)
        return True

    async def _follow(self) -> None:
        """Write down who leads, for the commands on this host. InputError if that is the master of
        another cluster: whoever stood by for it would lead nodes that do not trust it."""
        with contextlib.suppress(EtcdError, msgspec.DecodeError):
            stored = await self._call(lambda: self._client.get(self._key))
            if stored is not None and stored.value:
                leader = msgspec.json.decode(stored.value, type=Leader)
                if leader.cluster not in ("", self._digest()):
                    raise InputError(
                        f"etcd has another cluster named {self._name!r}, led from "
                        f"{leader.api.host}, whose token or authority is not that of "
                        f"{self.folder}; give this one a name of its own (--cluster)"
                    )
                await super().announce(leader)

    def _digest(self) -> str:
        """Of the authority that members trust, or of the token that they share."""
        authority = self.folder / TLS / AUTHORITY
        trusted = authority.read_bytes() if authority.exists() else self._read_token().encode()
        return hashlib.sha256(trusted).hexdigest()[:32]

    async def _renew(self) -> None:
        """Until the lease is over."""
        while self.is_leading():
            await asyncio.sleep(self._lease_s / RENEWALS)
            began = time.monotonic()
            try:
                lasts_s = await self._call(lambda: self._client.renew(self._lease))
            except EtcdError as error:
                log.warning("the lease was not renewed: %s", error)
                continue
            self._leadership.renew(began, lasts_s)

    async def deposed(self) -> None:
        assert self._renewing is not None
        await asyncio.shield(self._renewing)

    async def announce(self, leader: Leader) -> None:
        leader = msgspec.structs.replace(leader, cluster=self._digest())
        value = msgspec.json.encode(leader)
        try:
            await self._call(lambda: self._client.commit([], [put(self._key, value, self._lease)]))
        except EtcdError as error:
            # With a lease that is over, etcd refuses it: somebody else may lead by now.
            raise InputError(f"this master cannot say that it leads: {error}") from error
        await super().announce(leader)

    async def withdraw(self) -> None:
        """Leave the key to the next at once."""
        if self._renewing is not None:
            self._renewing.cancel()
        self._leadership.resign()
        with contextlib.suppress(EtcdError):
            await self._call(lambda: self._client.revoke(self._lease))
        self._client.close()
        await super().withdraw()

    async def _call(self, function: Callable[[], T]) -> T:
        """The client blocks: on a thread."""
        return await asyncio.get_running_loop().run_in_executor(None, function)
