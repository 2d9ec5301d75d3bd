"""Virtual time for the code that ships: one queue of events, and event loops that share it.

Each simulated process has an event loop of its own (`VirtualLoop`). A process that is paused does
nothing; what was to happen to it waits, in order, as bytes wait in a socket. One that is killed
does nothing ever after, not even its `finally`; its kernel closes its connections. Work for threads
(`run_in_executor`) is done at one moment and known to be done at a later one, so that a kill may
fall before, between or after.
"""

# What asyncio types by the arguments of a callback is not typed again here.
# mypy: disable-error-code="override"

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

#: What a thread takes at most to do something, and its loop as long again to hear of it.
THREAD_S = 0.02
#: No timer is shorter.
TICK_S = 1e-6


class Killed(SystemExit):
    """A process is killed in the middle of a call; nothing below may catch it."""


class World:
    """The queue, the time, and one source of chance."""

    def __init__(self, seed: int) -> None:
        self.now, self.rng = 0.0, random.Random(seed)
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._posted = 0
        #: What no part of a cluster may ever meet: an exception that nobody caught.
        self.errors: list[str] = []

    def at(self, when: float, call: Callable[..., None], *arguments: Any) -> None:
        self._posted += 1
        heapq.heappush(self._queue, (max(when, self.now), self._posted, call, arguments))

    def after(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now + seconds, call, *arguments)

    def run(self, until: float) -> None:
        queue = self._queue
        while queue and queue[0][0] <= until and not self.errors:
            self.now, _, call, arguments = heapq.heappop(queue)
            call(*arguments)
        self.now = until


class VirtualLoop(asyncio.AbstractEventLoop):
    """The event loop of one process on a host. `sockets` is the network it is connected to."""

    def __init__(self, world: World, host: str, network: Any = None) -> None:
        self.world, self.host, self._network = world, host, network
        self.is_dead = self.is_paused = False
        self._held: deque[asyncio.Handle] = deque()
        self._signals: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        #: What watches a descriptor; a process that ends calls it.
        self.readers: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        #: Its ends of connections.
        self.ends: list[Any] = []

    # What happens to a process.

    def pause(self, seconds: float) -> None:
        if not self.is_dead and not self.is_paused:
            self.is_paused = True
            self.world.after(seconds, self._resume)

    def _resume(self) -> None:
        self.is_paused = False
        while self._held and not self.is_dead and not self.is_paused:
            self._run(self._held.popleft())

    def kill(self) -> None:
        """Nothing of the process runs any more. A coroutine that Python collected would run its
        `finally`, as no killed process does: so it is never collected."""
        if self.is_dead:
            return
        self.is_dead = True
        for task in self._tasks:
            if not task.done():
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))
        self._held.clear()
        if self._network is not None:
            self._network.close_all(self)

    def signal(self, number: int) -> None:
        if number in self._signals:
            call, arguments = self._signals[number]
            self.call_soon(call, *arguments)

    def inside(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call something as a part of this process."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            return call(*arguments)
        finally:
            asyncio._set_running_loop(before)

    def _run(self, handle: asyncio.Handle) -> None:
        if self.is_dead or handle.cancelled():
            return
        if self.is_paused:
            self._held.append(handle)
            return
        with contextlib.suppress(Killed):
            self.inside(handle._run)

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self.world.now

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self.world.at(self.world.now, self._run, handle)
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_soon(callback, *args, context=context)

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        # A host's clock, far from the world's, cannot tell shorter times apart.
        late = max(delay, TICK_S) if delay > 0 else 0.0
        return self.call_at(self.world.now + late, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self.world.at(when, self._run, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is skipped when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **options: Any) -> Any:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, **options)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        done = self.create_future()
        self.call_later(THREAD_S * self.world.rng.random(), self._work, done, func, args)
        return done

    def _work(self, done: asyncio.Future[Any], func: Any, args: tuple[Any, ...]) -> None:
        try:
            settle, outcome = done.set_result, func(*args)
        except Exception as error:
            settle, outcome = done.set_exception, error
        self.call_later(THREAD_S * self.world.rng.random(), self._tell, done, settle, outcome)

    def _tell(self, done: asyncio.Future[Any], settle: Any, outcome: Any) -> None:
        if not done.done():
            settle(outcome)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self.is_dead

    def set_exception_handler(self, handler: Any) -> None:
        """Whatever a process would say of it, here it is an error."""

    def call_exception_handler(self, context: Any) -> None:
        if not self.is_dead:
            self.world.errors.append(f"{self.host}: {context.get('exception', context)!r}")

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:
        self._signals[sig] = callback, args

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        self.readers[fd] = callback, args

    def remove_reader(self, fd: Any) -> bool:
        return self.readers.pop(fd, None) is not None

    async def create_connection(self, protocol_factory: Any, *where: Any, **options: Any) -> Any:
        return await self._network.connect(self, protocol_factory, where[1])

    async def create_server(self, protocol_factory: Any, *where: Any, **options: Any) -> Any:
        return self._network.listen(self, protocol_factory, where[1])


def start_loop(world: World, host: str, network: Any = None) -> VirtualLoop:
    """The loop of a new process. What it leaves out of asyncio's interface no part of the cluster
    asks for."""
    return VirtualLoop(world, host, network)  # type: ignore[abstract]
