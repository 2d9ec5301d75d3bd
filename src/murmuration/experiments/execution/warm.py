"""Kernels compiled before the runs that need them, side by side and behind a bar of their own.

Numba compiles a kernel at its first call, in the middle of a run: a newcomer would look at a bar
that seems to hang. So each combination of kernels that the runs need and no earlier command has
compiled is called once beforehand, on a cell of a few nodes. What has been compiled is remembered
by an empty file beside the cached kernels, which lie in a folder of this version's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from murmuration.base.documents import Document
from murmuration.base.errors import InputError
from murmuration.base.kernel_cache import kernel_folder
from murmuration.experiments.execution.workers import Workers
from murmuration.experiments.specs import Spec
from murmuration.placement.registry import NAMES, is_user_defined
from murmuration.simulation.architectures.table import BUILT_IN

#: Kinds whose kernels take longest to compile go first.
SLOWEST = ("genetic", "negotiation", "swarm", "offers")


class KernelSet(NamedTuple):
    """What decides which kernels a run calls."""

    kind: str
    placement: str
    queue: str
    has_usage: bool

    @property
    def marker(self) -> str:
        parts = [self.kind, self.placement, self.queue or "arrival", "used" * self.has_usage]
        return "-".join(["compiled", *(part for part in parts if part)])


def missing_kernels(specs: Sequence[Spec]) -> list[KernelSet]:
    """What these runs need and no command has compiled yet; nothing if it could not be kept."""
    folder = _cache()
    if folder is None:
        return []
    wanted = dict.fromkeys(kernels for spec in specs for kernels in _kernels_of(spec))
    missing = [each for each in wanted if not (folder / each.marker).exists()]
    order = {kind: place for place, kind in enumerate(SLOWEST)}
    return sorted(missing, key=lambda each: order.get(each.kind, len(order)))


def is_compiled(command: str) -> bool:
    """Whether a command has compiled its kernels before, or could not keep them anyway."""
    folder = _cache()
    return folder is None or (folder / f"compiled-{command}").exists()


def mark_compiled(command: str) -> None:
    """Remember that a command has compiled its kernels."""
    folder = _cache()
    if folder is not None:
        (folder / f"compiled-{command}").touch()


def _cache() -> Path | None:
    """Where Numba keeps kernels, if it can be written to."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return None
    folder = kernel_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


def _kernels_of(spec: Spec) -> list[KernelSet]:
    """The kernels of a run; a user's own scheduler names its architecture only when it is
    loaded."""
    scheduler = spec.scenario.scheduler
    if is_user_defined(scheduler.kind) or scheduler.kind not in BUILT_IN:
        return []
    placement = scheduler.placement if scheduler.placement in NAMES else NAMES[0]
    has_usage = any(
        isinstance(table, dict) and "usage" in table for table in spec.scenario.workload.values()
    )
    return [KernelSet(scheduler.kind, placement, scheduler.queue, has_usage)]


def compile_all(missing: Sequence[KernelSet], workers: int, done: Callable[[int], None]) -> None:
    """Compile each set, as many at a time as there are workers; a single one in this process."""
    if workers <= 1 or len(missing) <= 1:
        for count, kernels in enumerate(missing, 1):
            compile_set(kernels)
            done(count)
        return
    with Workers(min(workers, len(missing))) as compilers:
        for count, _ in enumerate(compilers.map(compile_set, missing), 1):
            done(count)


def compile_set(kernels: KernelSet) -> None:
    """Run a few jobs on a few nodes, which calls the kernels, and remember that it was done."""
    from murmuration.experiments.runs import execute
    from murmuration.experiments.specs import make_spec

    # Settings that make no sense together are told by the run itself, which names the user's file.
    with suppress(InputError):
        execute(make_spec("compile", tiny_scenario(kernels)))
    folder = _cache()
    if folder is not None:
        (folder / kernels.marker).touch()


def tiny_scenario(kernels: KernelSet) -> Document:
    """The smallest scenario that calls the kernels of a set."""
    batch: Document = {
        "arrivals_per_s": 0.1,
        "tasks_per_job": 2.0,
        "task_duration_s": 20.0,
        "task_memory": "1G",
    }
    if kernels.has_usage:
        batch["usage"] = {"cpu": 0.5, "memory": 0.5}
    scheduler = {"kind": kernels.kind, "placement": kernels.placement, "queue": kernels.queue}
    return {
        "name": "compile",
        "days": 0.002,
        "cluster": {"nodes": 8},
        "workload": {"batch": batch},
        "scheduler": scheduler,
    }
