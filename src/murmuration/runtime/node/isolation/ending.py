"""How a task is made to end, the same in every isolation: asked first, forced after the grace, the
reason kept; and how it is made to do nothing for a while.

A task is frozen by SIGSTOP to all its processes but the shim, which does nothing anyway. That is in
every isolation and on every kernel, needs no thawing before SIGKILL, and outlives the agent."""

from __future__ import annotations

import os
import signal
import time
from abc import ABC, abstractmethod

from murmuration.runtime.node.isolation import folder as files
from murmuration.runtime.node.isolation import processes
from murmuration.runtime.node.isolation.interface import KILLED, EndOrder, Handle

FREEZING_ROUNDS = 100


class Ending(ABC):
    """The part of an isolation that ends and freezes tasks."""

    @abstractmethod
    def _others(self, handle: Handle) -> set[int]:
        """All processes of the task but the shim, which is never asked: it is to tell how the task
        ended."""

    @abstractmethod
    def _end(self, handle: Handle) -> None:
        """SIGKILL to all, the shim too."""

    def kill(self, handle: Handle, grace_s: float, reason: str = KILLED) -> None:
        if handle.ended or has_ended(handle) or files.state(handle.folder).code is not None:
            return  # it has ended by itself, and is to say so
        if handle.order is None:
            handle.order = EndOrder(reason, time.monotonic() + grace_s)
            files.give_order(handle.folder, handle.order)
        if grace_s > 0:
            self._ask(handle)
        else:
            self._end(handle)

    def _ask(self, handle: Handle) -> None:
        """SIGTERM, once: what a task starts in order to end well is left to it. Only the command
        itself is sure to hear it; a copy of the shim that is yet to become the command may not."""
        others, shim = self._others(handle), processes.command_line(handle.pid)
        handle.asked = any(processes.command_line(pid) not in (shim, b"") for pid in others)
        processes.send(others, signal.SIGTERM)
        # What is frozen, or was stopped by the task itself, hears it only when it goes on.
        processes.send(others, signal.SIGCONT)

    def _carry_on(self, handle: Handle) -> None:
        """Carry on with an order: its grace may be over, or the command may run only now."""
        if handle.order and time.monotonic() >= handle.order.deadline:
            self._end(handle)
        elif handle.order and not handle.asked:
            self._ask(handle)

    def freeze(self, handle: Handle) -> None:
        """No process of the task does anything from now on. Found again until nobody is new: what
        is stopped starts no others."""
        stopped: set[int] = set()
        for _ in range(FREEZING_ROUNDS):
            others = self._others(handle)
            if handle.ended or handle.order is not None or others <= stopped:
                return
            processes.send(others - stopped, signal.SIGSTOP)
            stopped |= others

    def thaw(self, handle: Handle) -> None:
        """All of them go on."""
        processes.send(self._others(handle), signal.SIGCONT)


def has_ended(handle: Handle) -> bool:
    """Whether the shim has, waited for or not."""
    if not handle.child:
        return processes.has_ended(handle.fileno())
    try:
        return os.waitid(os.P_PID, handle.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody else has waited for it
        return True
