"""An executor without processes: a task takes as long as its order says, for driving a simulated
scenario live."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from murmuration.runtime.net.wire import Output
from murmuration.runtime.node.executor import Tell
from murmuration.schedulers.central.messages import Ended
from murmuration.schedulers.central.node_agent import Exited, Found, RunStopping, Start, Started
from murmuration.schedulers.central.services.health import CheckHealth, HealthSeen


class EmulatedExecutor:
    """The runs of one emulated node agent. It has no memory: an agent that ends takes its tasks
    along."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def find(self) -> tuple[list[Found], list[Ended]]:
        return [], []

    def watch_found(self) -> None:
        """Nothing runs from before."""

    def start(self, command: Start) -> None:
        run, lasts = command.launch.run, command.launch.order.duration_s
        self._tell(Started(run))
        # A task without a duration runs until it is killed.
        delay = 1e6 if lasts is None else lasts
        self._timers[run] = asyncio.get_running_loop().call_later(delay, self._end, run, 0, None)

    def _end(self, run: str, code: int | None, signal: int | None) -> None:
        if run in self._timers:
            self._timers.pop(run).cancel()
            self._tell(Exited(run, code, signal))

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
