"""Many runs at once: here one after the other, on local processes, or on a Ray cluster.

What is run is a *kind* of run: simulations of schedulers, or of auto-scalers. A kind says how one
is made, written and read back; who runs them, in which order and where is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from murmuration.experiments.execution.mapping import map_items
from murmuration.experiments.execution.workers import Workers
from murmuration.experiments.runs import (
    RunOutcome,
    Summary,
    compute,
    execute,
    read_stored_summary,
    write_run,
)
from murmuration.experiments.specs import Spec

Done = Callable[[int, Summary], None]


class SpecInFolder(Protocol):
    """One run to be made, and the folder for its results."""

    @property
    def folder(self) -> str | None: ...


S = TypeVar("S", bound=SpecInFolder)
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class RunKind(Generic[S, Outcome]):
    """How runs of one kind are made. Its functions are sent to other processes by name."""

    #: From start to end, with its files; returns the summary.
    execute: Callable[[S], Summary]
    #: The same without writing anything; the outcome may come from another host.
    compute: Callable[[S], Outcome]
    summary_of: Callable[[Outcome], Summary]
    write: Callable[[Path, S, Outcome], None]
    #: The summary of a run that is in its folder already.
    read_stored: Callable[[S], Summary | None]
    #: Names the kernels it calls.
    kernels: Callable[[S], str]


#: Runs with their place in the order of the answers.
Numbered = Sequence[tuple[int, S]]


def run_all(
    specs: Sequence[Spec],
    workers: int | Workers,
    on: str | None = None,
    resume: bool = False,
    done: Done = lambda i, s: None,
) -> list[Summary]:
    """Run simulations of schedulers, here or elsewhere."""
    return run_kind(SCHEDULING, specs, workers, on, resume, done)


def run_kind(
    kind: RunKind[S, Outcome],
    specs: Sequence[S],
    workers: int | Workers,
    on: str | None = None,
    resume: bool = False,
    done: Done = lambda i, s: None,
) -> list[Summary]:
    """Run them all, here or elsewhere; the summaries are in the order of the specs whatever order
    they finish in."""
    summaries: dict[int, Summary] = {}
    for index, spec in enumerate(specs):
        stored = kind.read_stored(spec) if resume else None
        if stored is not None:
            summaries[index] = stored
            done(index, stored)
    todo = [(index, spec) for index, spec in enumerate(specs) if index not in summaries]
    for index, summary in _run(kind, todo, workers, on):
        summaries[index] = summary
        done(index, summary)
    return [summaries[index] for index in range(len(specs))]


def _run(
    kind: RunKind[S, Outcome], todo: Numbered[S], workers: int | Workers, on: str | None
) -> Iterator[tuple[int, Summary]]:
    todo = _spread_kernels(kind, todo)
    specs = [spec for _, spec in todo]
    if on is None:
        for place, summary in map_items(kind.execute, specs, workers):
            yield todo[place][0], summary
        return
    # The results come back to be written here: a worker's own disk may be anywhere.
    for place, outcome in map_items(kind.compute, specs, workers, on):
        index, spec = todo[place]
        if spec.folder is not None:
            kind.write(Path(spec.folder), spec, outcome)
        yield index, kind.summary_of(outcome)


def _spread_kernels(kind: RunKind[S, Outcome], todo: Numbered[S]) -> Numbered[S]:
    """One run of each architecture first, so that missing kernels are compiled side by side."""
    seen: set[str] = set()
    first: list[tuple[int, S]] = []
    rest: list[tuple[int, S]] = []
    for index, spec in todo:
        name = kind.kernels(spec)
        (rest if name in seen else first).append((index, spec))
        seen.add(name)
    return first + rest


def _compute(spec: Spec) -> RunOutcome:
    outcome = compute(spec)
    assert outcome is not None, "nothing stops it"
    return outcome


def _summary_of(outcome: RunOutcome) -> Summary:
    return outcome.summary


def _architecture_of(spec: Spec) -> str:
    return spec.scenario.scheduler.kind


SCHEDULING = RunKind(
    execute, _compute, _summary_of, write_run, read_stored_summary, _architecture_of
)
