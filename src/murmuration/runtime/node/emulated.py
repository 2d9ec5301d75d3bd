"""An executor without processes: a task takes as long as its order says, for driving a simulated
scenario live."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from murmuration.runtime.net.wire import Output
from murmuration.runtime.node.executor import Tell
from murmuration.schedulers.central.messages import Ended
from murmuration.schedulers.central.node_agent import (
    Exited,
    Found,
    Freeze,
    RunStopping,
    Start,
    Started,
    Thaw,
)
from murmuration.schedulers.central.services.health import CheckHealth, HealthSeen


class EmulatedExecutor:
    """The runs of one emulated node agent. It has no memory: an agent that ends takes its tasks
    along."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._timers: dict[str, asyncio.TimerHandle] = {}
        #: What those that are suspended have still to do.
        self._left: dict[str, float] = {}

    def find(self) -> tuple[list[Found], list[Ended]]:
        return [], []

    def watch_found(self) -> None:
        """Nothing runs from before."""

    def start(self, command: Start) -> None:
        run, lasts = command.launch.run, command.launch.order.duration_s
        self._tell(Started(run))
        # A task without a duration runs until it is killed.
        self._end_later(run, 1e6 if lasts is None else lasts)

    def _end_later(self, run: str, seconds: float) -> None:
        self._timers[run] = asyncio.get_running_loop().call_later(seconds, self._end, run, 0, None)

    def _end(self, run: str, code: int | None, signal: int | None) -> None:
        if run in self._timers or run in self._left:
            self._left.pop(run, None)
            if run in self._timers:
                self._timers.pop(run).cancel()
            self._tell(Exited(run, code, signal))

    def freeze(self, act: Freeze) -> None:
        timer = self._timers.pop(act.run, None)
        if timer is not None:
            timer.cancel()
            self._left[act.run] = max(0.0, timer.when() - asyncio.get_running_loop().time())

    def thaw(self, act: Thaw) -> None:
        if act.run in self._left:
            self._end_later(act.run, self._left.pop(act.run))

    def kill(self, run: str, reason: str, now: bool) -> None:
        self._end(run, None, 15)

    def poll_each(self) -> Iterator[None]:
        """There is nothing to look at."""
        return iter(())

    def kill_all(self, runs: Iterable[str]) -> None:
        for run in runs:
            self._end(run, None, 15)

    def probe(self, look: CheckHealth) -> None:
        """What is emulated is well."""
        asyncio.get_running_loop().call_soon(self._tell, HealthSeen(look.run, look.number))

    def note_end(self, ended: Ended) -> None:
        """Nothing is kept."""

    def note_stop(self, stop: RunStopping) -> None:
        """Nothing is kept."""

    @property
    def stopping(self) -> dict[str, RunStopping]:
        return {}

    def forget(self, run: str) -> None:
        """Nothing is kept."""

    def usage(self) -> dict[str, tuple[float, int]]:
        return {}

    def read(self, run: str, stream: str, offset: int, size: int) -> Output:
        return Output()
