"""Worker processes: fresh ones (not forks: libraries with threads do not survive one), started when
there is work, kept from one set of runs to the next, and gone with the process that started them,
however it goes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.popen_spawn_posix import Popen
from multiprocessing.process import BaseProcess
from types import ModuleType, TracebackType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Answer = TypeVar("Answer")


class _Worker(SpawnProcess):
    """A process that does not import the program it was started from: what workers run lies in
    this package, and a user's script would run from its first line again in every worker.

    It leaves Ctrl-C to the process that started it. The signal is blocked before there is a worker:
    one that is still importing has no other way to be silent.
    """

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Popen:  # noqa: N802
        program = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return SpawnProcess._Popen(process_obj)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            sys.modules["__main__"] = program


class _WorkerContext(SpawnContext):
    """How workers are started."""

    Process = _Worker


class Workers:
    """At most `count` processes. Leaving the `with` by an error, Ctrl-C among them, stops what they
    run: each run takes as long as it takes, and whoever stops a command wants it to end."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if error is not None:
            self.stop()
        elif self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def started(self) -> bool:
        return self._pool is not None

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self.count, mp_context=_WorkerContext(), initializer=_follow_parent
            )
        return self._pool.submit(function, *args, **kwargs)

    def map(self, function: Callable[[T], Answer], items: Sequence[T]) -> Iterator[Answer]:
        """The answers in the order of the items, each as soon as those before it are there."""
        for future in [self.submit(function, item) for item in items]:
            yield future.result()

    def stop(self) -> None:
        """Kill what is under way; more work would start other processes."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        for child in multiprocessing.active_children():
            if isinstance(child, _Worker):
                child.kill()
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def borrow_workers(workers: int | Workers) -> Iterator[Workers]:
    """The workers themselves, or so many that last as long as the `with`."""
    if isinstance(workers, Workers):
        yield workers
        return
    with Workers(workers) as fresh:
        yield fresh


def _follow_parent() -> None:
    """A worker ends when the process that started it is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "only workers follow"

    def end_with(parent: BaseProcess) -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
