"""A host in virtual time: a table of processes under the executor, journal, lease and watchdog that
ship.

The isolation is the port. What it starts takes a folder as every isolation does (the record, the
locked state file, the order to end), but is a line in a table: it lasts as long as its environment
says, ends with the code that is written there, hears a SIGTERM or ignores it, and needs a moment to
die of a SIGKILL. Its shim is killed with it, sometimes before and sometimes after it has written
down that its command was.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.runtime.virtual.network import VirtualNetwork
from tests.runtime.virtual.world import Killed, VirtualLoop, World, start_loop

from murmuration.base.errors import InputError
from murmuration.runtime.node.isolation import folder as files
from murmuration.runtime.node.isolation.interface import (
    KILLED,
    EndOrder,
    Exit,
    Handle,
    Inside,
    Isolation,
    RunSpec,
    StartFailed,
    TerminalSize,
)
from murmuration.runtime.node.watchdog import LOOK_S, Watchdog
from murmuration.runtime.options import AgentOptions

KILL_S, PATIENCE_S = 0.3, 4.0
#: What a task says in its environment: how long it lasts and with which code it ends.
LASTS, CODE = "LASTS", "CODE"
FIRST_PID = 1000
EPOCH_S = 1.7e9
SIGTERM_CODE, SIGKILL_CODE = 143, 137


class Witness(Protocol):
    """Who is told what really runs."""

    def began(self, node: str, task: VirtualTask) -> None: ...
    def ended(self, node: str, task: VirtualTask, code: int | None) -> None: ...


@dataclass(eq=False)
class VirtualTask:
    run: str
    folder: Path
    pid: int
    state: int
    began_s: float
    ports: tuple[int, ...]
    is_deaf: bool


class VirtualHandle(Handle, eq=False):
    """Its descriptor is its number in the table."""

    def fileno(self) -> int:
        self.pidfd = self.pid
        return self.pidfd

    def close(self) -> None:
        self.pidfd = -1


class VirtualHost:
    """The machine under one node agent (`runtime/node/host.py`), and its watchdog."""

    def __init__(self, world: World, network: VirtualNetwork, name: str, witness: Witness) -> None:
        self.world, self.network, self.name, self.witness = world, network, name, witness
        self.tasks: dict[Path, VirtualTask] = {}
        #: Until when nothing can be started here: the disk is full.
        self.sick_until_s = -1.0
        #: Until when its watchdog may not be there, and until when its agent.
        self.unwatched_until_s = self.alone_until_s = -1.0
        #: Where its agent is to be killed next, in the middle of a start, and what does it.
        self.dies_at: tuple[str, Callable[[], None]] | None = None
        self.agent: VirtualLoop | None = None
        self.watchdog: VirtualLoop | None = None
        self._watchdog: Watchdog | None = None
        self._watchdogs = 0
        self._pids = FIRST_PID
        self._booted_s, self._base_s = 0.0, world.rng.uniform(0, 1e6)
        self._set_s = world.rng.uniform(-1e3, 1e3)
        self.boots = 0
        self.reboots_s: list[float] = []
        self.isolation = VirtualIsolation(self, is_slow=world.rng.random() < 0.5)

    # What an agent asks of it.

    def monotonic(self) -> float:
        return self.world.now - self._booted_s + self._base_s

    def wall(self) -> float:
        return self.world.now + self.offset_s

    @property
    def offset_s(self) -> float:
        """What the wall clock shows beyond the world's time."""
        return EPOCH_S + self._set_s

    def reach(self, point: str) -> None:
        """Its agent has come to this point of a start."""
        if self.dies_at is not None and self.dies_at[0] == point:
            (_, kill), self.dies_at = self.dies_at, None
            kill()
            raise Killed

    def find_ports(self, wanted: Sequence[int]) -> list[int]:
        self.reach("ports")
        used = {port for task in self.tasks.values() for port in task.ports}
        for port in wanted:
            if port in used:
                raise InputError(f"port {port} is in use")
        return list(wanted)

    def isolate(self, options: AgentOptions) -> Isolation:
        return self.isolation

    def watch_disk(self, end: Callable[[str], None]) -> None:
        """Nothing of a task is on a disk."""

    def start_watchdog(self, folder: Path, tasks: Path, isolation: Isolation) -> int:
        self.end_watchdog(folder)
        loop = start_loop(self.world, self.name)
        watchdog = Watchdog(folder, tasks, isolation, self.monotonic)

        def look() -> None:
            watchdog.look()
            if watchdog.is_needed:
                loop.call_later(LOOK_S, look)
            else:
                self.end_watchdog(folder)

        loop.call_later(LOOK_S, look)
        self.watchdog, self._watchdog = loop, watchdog
        self._watchdogs += 1
        return self._watchdogs

    def has_ended(self, watchdog: int) -> bool:
        return watchdog != self._watchdogs or self.watchdog is None

    def end_watchdog(self, folder: Path | None = None) -> None:
        if self.watchdog is not None and self._watchdog is not None:
            self.watchdog.kill()
            self._watchdog.close()
            self.watchdog = self._watchdog = None

    # What goes wrong.

    def set_clock(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self._set_s += seconds

    def reboot(self) -> None:
        """Everything that runs is gone without a word, and the clock begins anew."""
        self.boots += 1
        self.reboots_s.append(self.world.now)
        self.end_watchdog()
        for task in list(self.tasks.values()):
            self.end(task, None)
        self._booted_s, self._base_s = self.world.now, 0.0

    # Processes.

    def begin(self, spec: RunSpec, state: int) -> VirtualTask:
        self._pids += 1
        rng = self.world.rng
        is_deaf = rng.random() < 0.3
        task = VirtualTask(
            spec.task, spec.folder, self._pids, state, self.world.now, spec.ports, is_deaf
        )
        os.write(state, f"pid {task.pid}\n".encode())
        self.tasks[spec.folder] = task
        if LASTS in spec.env:
            self.world.after(float(spec.env[LASTS]), self.end, task, int(spec.env.get(CODE, "0")))
        self.witness.began(self.name, task)
        return task

    def end(self, task: VirtualTask, code: int | None, notes: bool = True) -> None:
        """A process ends; its shim notes how, unless it was killed too."""
        if self.tasks.get(task.folder) is not task:
            return
        if code is not None and notes:
            os.write(task.state, f"exit {code}\n".encode())
        os.close(task.state)
        del self.tasks[task.folder]
        self.witness.ended(self.name, task, code)
        if self.agent is not None and task.pid in self.agent.readers:
            call, arguments = self.agent.readers[task.pid]
            self.agent.call_soon(call, *arguments)

    def terminate(self, task: VirtualTask) -> None:
        if not task.is_deaf:
            seconds = PATIENCE_S * self.world.rng.random()
            self.world.after(seconds, self.end, task, SIGTERM_CODE)

    def kill(self, task: VirtualTask) -> None:
        self.world.after(KILL_S * self.world.rng.random(), self.kill_now, task)

    def kill_now(self, task: VirtualTask) -> None:
        """Its shim may have seen the command die before it was killed itself."""
        self.end(task, SIGKILL_CODE if self.world.rng.random() < 0.5 else None)


class VirtualIsolation:
    """Tasks as lines in the table of a host. It keeps nothing itself, as no isolation may."""

    name = "virtual"
    has_networks = False

    def __init__(self, host: VirtualHost, is_slow: bool) -> None:
        self._host, self.is_slow = host, is_slow

    def start(self, spec: RunSpec) -> Handle:
        files.check(spec)
        self._host.reach("start")
        if self._host.world.now < self._host.sick_until_s:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(spec.folder))
        with files.open_folder(spec, files.Record(self.name, spec.task, spec.limits)) as opened:
            self._host.reach("locked")
            task = self._host.begin(spec, os.dup(opened.state))
        self._host.reach("begun")
        return VirtualHandle(spec.task, spec.folder, task.pid, spec.limits)

    def recover(self, folder: Path) -> Handle | None:
        record = files.record(folder, self.name)
        if record is None:
            return None
        order, task = files.order(folder), self._host.tasks.get(folder)
        if task is not None:
            return VirtualHandle(
                record.task, folder, task.pid, record.limits, child=False, order=order
            )
        ended = files.exit_of(folder, order)
        if ended.lost:
            return None
        return VirtualHandle(record.task, folder, 0, record.limits, ended=ended)

    def kill(self, handle: Handle, grace_s: float, reason: str = KILLED) -> None:
        task = self._host.tasks.get(handle.folder)
        if handle.ended or task is None:
            return
        if handle.order is None:
            handle.order = EndOrder(reason, self._host.monotonic() + grace_s)
            files.give_order(handle.folder, handle.order)
        (self._host.terminate if grace_s > 0 else self._host.kill)(task)

    def freeze(self, handle: Handle) -> None:
        """Nothing here is suspended."""

    def thaw(self, handle: Handle) -> None:
        """Nothing here is suspended."""

    def kill_all(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            if folder in self._host.tasks:
                self._host.kill(self._host.tasks[folder])

    def poll(self, handle: Handle) -> Exit | None:
        task = self._host.tasks.get(handle.folder)
        if handle.ended is None and task is None:
            handle.ended = files.exit_of(handle.folder, handle.order)
        is_late = handle.order and self._host.monotonic() >= handle.order.deadline
        if task is not None and is_late:
            self._host.kill(task)
        return handle.ended

    def usage(self, handle: Handle) -> tuple[float, int]:
        return 0.0, 0

    def enter(
        self, handle: Handle, command: Sequence[str], size: TerminalSize | None = None
    ) -> Inside:
        raise StartFailed("nothing runs here")

    def keep_child(self, pid: int, is_kept: bool) -> None:
        """There are no children."""

    def clean(self, folder: Path) -> None:
        if folder in self._host.tasks:
            self._host.kill_now(self._host.tasks[folder])
