"""Which format is a snapshot in? Decided by its content: Kubernetes objects, our TOML, or Alibaba's
tables."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from murmuration.assignment.problem import Problem
from murmuration.assignment.snapshots.additions import Added
from murmuration.assignment.snapshots.builder import Snapshot, problem_from
from murmuration.assignment.snapshots.folding import fold_bound_tasks
from murmuration.base.errors import InputError
from murmuration.kubernetes import snapshot as kubernetes
from murmuration.kubernetes.admission import context_of
from murmuration.kubernetes.making import pods_to_place
from murmuration.kubernetes.marks import mark_for_execution
from murmuration.kubernetes.objects import looks_like_objects, read_objects
from murmuration.kubernetes.usage import read_usage
from murmuration.planning.snapshots import alibaba, toml
from murmuration.workload.formats.source import SourceFile, load

#: A path, or what was read from it already.
Input = Path | SourceFile


def open_snapshot(
    path: Input, place: Input | None = None, add: Sequence[Added] = (), usage: Input | None = None
) -> Problem:
    """The problem in a snapshot, with tasks to be placed and nodes added; pods that request nothing
    weigh what `usage` says they use."""
    try:
        with collection_paused():
            return fold_bound_tasks(problem_from(_snapshot(path, place, add, usage)))
    except InputError as error:
        # Every sentence names the file it is about.
        name = str(_path_of(path))
        raise (
            error
            if name in str(error) or str(error).startswith("--")
            else InputError(f"{name}: {error}")
        ) from None


@contextmanager
def collection_paused() -> Iterator[None]:
    """Look for no cycles of garbage meanwhile: reading a large cluster makes millions of objects
    that stay, and half of its time would go into counting them again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _path_of(given: Input) -> Path:
    return given.path if isinstance(given, SourceFile) else given


def _snapshot(
    given: Input, place: Input | None, add: Sequence[Added], usage: Input | None
) -> Snapshot:
    path = _path_of(given)
    kubernetes_only = "--usage: expected a snapshot of Kubernetes objects beside it"
    if usage is not None and (path.is_dir() or path.suffix == ".toml"):
        raise InputError(kubernetes_only)
    if path.is_dir():
        if place is not None:
            raise InputError("--place: expected a snapshot file to place into, this is a folder")
        return alibaba.folder_snapshot(path, add)
    source = load(given)
    if path.suffix == ".toml":
        more = toml.read_toml(load(place)).service if place is not None else ()
        return toml.snapshot_of(toml.read_toml(source), path, add, more)
    if alibaba.is_openb(source):
        if usage is not None:
            raise InputError(kubernetes_only)
        return alibaba.openb(path, None if place is None else _path_of(place), add)
    if not looks_like_objects(source):
        raise InputError(
            f"{path}: no snapshot: expected Kubernetes JSON or YAML, our TOML, or a list of "
            "openb's nodes"
        )
    things = cluster = read_objects(source)
    if place is not None:
        manifests = read_objects(load(place))
        context = context_of(manifests, cluster)
        things = [*cluster, *context, *pods_to_place(manifests, cluster)]
    used = None if usage is None else read_usage(load(usage))
    return mark_for_execution(kubernetes.snapshot_of(things, add, used), cluster)
