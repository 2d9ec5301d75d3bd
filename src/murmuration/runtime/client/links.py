"""The connections of a node agent or a scheduler to masters: one to the master that leads, and one
to each that stands by, so that a fail-over does not begin with dialling.

```
 dial ──▶ hello ──▶ it stands by: wait ──▶ it leads now: hello again ──▶ serve it until it is lost
             └──────── it leads ─────────────────────────────────────────▲
```

Each master has a loop of its own. The master of the latest term is served: a connection to one that
was replaced is given up when the next one says that it leads, and an earlier term is not joined.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.net.addresses import Address
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.net.sockets import connect
from murmuration.runtime.net.transport import Connection
from murmuration.runtime.net.wire import Hello, HelloAnswer, NowLeads

RECONNECT_S = 0.1
#: Each master is dialled so often at most.
RECONNECT_MAX_S = 1.0
CONNECT_S = 5.0
#: How often a connection that waits is looked at: one whose other side has vanished says nothing.
LOOK_S = 10.0

Receive = Callable[[Connection, int, str, Any], None]


class RefusedError(InputError):
    """The master that leads does not let one in."""


class Links:
    """All connections of a node agent's process or of a scheduler to masters, each opened with the
    same hello. `join` is told of the one to be served and of the answer it gave, `lose` when it is
    no more, `fail` why a master cannot be reached: once for each reason."""

    def __init__(
        self,
        directory: FolderDirectory,
        hello: Hello,
        receive: Receive,
        join: Callable[[Connection, HelloAnswer], None],
        lose: Callable[[Connection], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self._directory, self._hello, self._fail = directory, hello, fail
        self._hear, self._join, self._leave = receive, join, lose
        self._leader: Connection | None = None
        self._term = 0
        #: Set when there is news for a connection: it is lost, or its master may lead.
        self._news: dict[Connection, asyncio.Event] = {}
        #: Why each master that cannot be reached cannot.
        self._errors: dict[int, Exception] = {}

    async def keep(self) -> None:
        """Keep connections to all masters, until it is cancelled."""
        finders = self._directory.list_masters()
        loops = [asyncio.create_task(self._keep_one(k, find)) for k, find in enumerate(finders)]
        try:
            await asyncio.gather(*loops)
        finally:
            for each in loops:
                each.cancel()

    def count_waiting(self) -> int:
        """Connections to masters that stand by."""
        return len(self._news) - (self._leader is not None)

    def find_errors(self) -> list[Exception]:
        """Why no master is there: of all of them, or of the one that leads; none if one may be."""
        errors = list(self._errors.values())
        refused: list[Exception] = [each for each in errors if isinstance(each, RefusedError)]
        return refused or (errors if len(errors) == len(self._directory.list_masters()) else [])

    async def _keep_one(self, number: int, find: Callable[[], Address]) -> None:
        delay = RECONNECT_S
        while True:
            try:
                await self._serve(number, find())
                delay = RECONNECT_S
            except (OSError, InputError, TimeoutError) as error:
                self._complain(number, error)
            await asyncio.sleep(delay)
            delay = min(2 * delay, RECONNECT_MAX_S)

    def _complain(self, number: int, error: Exception) -> None:
        """Once for each reason: an operator wants to read of a refused certificate."""
        before, self._errors[number] = self._errors.get(number), error
        if repr(before) != repr(error):
            self._fail(error)

    async def _serve(self, number: int, address: Address) -> None:
        """Connect to a master, and stay until the connection is lost."""
        credentials = self._directory.credentials()
        async with asyncio.timeout(CONNECT_S):
            connection = await connect(
                asyncio.get_running_loop(),
                lambda: Connection(self._receive, self._lose),
                address,
                credentials.client_tls,
            )
        if not connection.is_open:
            raise ConnectionError("the connection was lost")
        news = self._news[connection] = asyncio.Event()
        try:
            while not self._take(connection, await self._greet(connection, credentials.token)):
                self._errors.pop(number, None)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), LOOK_S)
                news.clear()
            self._errors.pop(number, None)
            while connection in self._news:
                await news.wait()
                news.clear()
        finally:
            self._news.pop(connection, None)
            connection.close()

    async def _greet(self, connection: Connection, token: str) -> HelloAnswer:
        hello = msgspec.structs.replace(self._hello, token=token)
        answer = await connection.ask(hello, timeout_s=CONNECT_S)
        if isinstance(answer, HelloAnswer) and not answer.error:
            return answer
        connection.abort()
        if not isinstance(answer, HelloAnswer):
            raise InputError("that is no master")
        raise (InputError if answer.is_standby else RefusedError)(answer.error)

    def _take(self, connection: Connection, answer: HelloAnswer) -> bool:
        """Serve the master behind a connection, if it leads and nobody later does."""
        if connection not in self._news:
            raise ConnectionError("the connection was lost")
        is_earlier = 0 < answer.term < self._term
        is_same = self._leader is not None and answer.term <= self._term
        if answer.is_standby or is_earlier or is_same:
            return False
        before, self._leader = self._leader, connection
        self._term = max(self._term, answer.term)
        if before is not None:
            self._leave(before)
            before.abort()
        self._join(connection, answer)
        return True

    def _receive(self, connection: Connection, request: int, node: str, message: Any) -> None:
        if not isinstance(message, NowLeads):
            self._hear(connection, request, node, message)
        elif connection in self._news:
            self._news[connection].set()

    def _lose(self, connection: Connection) -> None:
        news = self._news.pop(connection, None)
        if news is not None:
            news.set()
        if connection is self._leader:
            self._leader = None
            self._leave(connection)
            # One of the others may lead already, and say so only to who asks.
            for each in self._news.values():
                each.set()
