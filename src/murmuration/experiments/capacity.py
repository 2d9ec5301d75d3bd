"""How few nodes, and how much more load: the same scenario on ever fewer nodes, or with its
workload ever larger, until nodes are overloaded or jobs are left waiting.

The walk goes outwards from 100 % step by step and ends at two failures in a row: a single one may
be chance, and the steps between are the curve that a search by halves would not show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from murmuration.base.errors import InputError
from murmuration.experiments.replicates import Interval, interval
from murmuration.experiments.runs import Summary
from murmuration.experiments.specs import Spec, assign_folders, change_spec
from murmuration.reports.formats import percent
from murmuration.simulation.scenarios import scenario as sc

#: The largest multiple of a workload.
MULTIPLE_MAX = 1000.0
#: Failures in a row that end a walk.
FAILURES = 2
RunAll = Callable[[Sequence[Spec]], list[Summary]]


@dataclass(frozen=True)
class CapacityQuestion:
    """What is asked: `compact` (fewer nodes) or `grow` (more load), how fast, and what may be
    overloaded or waiting."""

    kind: str
    step: float
    limit: float = 0.005
    waiting: float = 0.01

    @property
    def key(self) -> str:
        """The key of a scenario that each step changes."""
        return "cluster.keep" if self.kind == "compact" else "workload.multiply"

    def sizes(self, start: float) -> Iterator[float]:
        """100 % and what lies beyond, as multiples of the scenario as it is."""
        sign = -1.0 if self.kind == "compact" else 1.0
        count = 0
        while 1e-9 < (size := round(1.0 + sign * count * self.step, 9)) * start <= MULTIPLE_MAX:
            yield size
            count += 1


@dataclass(frozen=True)
class CapacityStep:
    """One size: the figures of its run, and why it fails (empty: it holds)."""

    size: float
    why: str
    nodes: float | None = None
    tasks_running: float | None = None
    used: Mapping[str, float] | None = None
    allocation_types: Mapping[str, float] | None = None
    overloaded: float | None = None
    #: Of the submitted jobs, the share that was not placed in the end.
    left: float | None = None

    @property
    def holds(self) -> bool:
        return not self.why


@dataclass(frozen=True)
class Walk:
    """The steps of one scheduler, outwards from 100 %."""

    scheduler: str
    steps: tuple[CapacityStep, ...]
    seed: int = 1
    #: Others walk with other seeds.
    is_replica: bool = False

    @property
    def label(self) -> str:
        return f"{self.scheduler}, seed {self.seed}" if self.is_replica else self.scheduler

    @property
    def farthest(self) -> CapacityStep | None:
        """The last size of those that hold without a gap; None if 100 % does not."""
        last = None
        for step in self.steps:
            if not step.holds:
                break
            last = step
        return last


def check(question: CapacityQuestion) -> None:
    """One sentence about the first setting that makes no sense."""
    step_max = 0.5 if question.kind == "compact" else 10.0
    if not 0.0 < question.step <= step_max:
        raise InputError(
            f"--step: expected a share above 0 up to {step_max:g}, got {question.step:g}"
        )
    for option, value in (("--limit", question.limit), ("--waiting", question.waiting)):
        if not 0.0 <= value < 1.0:
            raise InputError(f"{option}: expected a share from 0 to below 1, got {value:g}")


def walk(
    spec: Spec,
    question: CapacityQuestion,
    run_all: RunAll,
    ahead: int = 1,
    folder: Path | None = None,
    tell: Callable[[Walk], None] = lambda so_far: None,
) -> Walk:
    """Step outwards until two sizes in a row fail; `ahead` sizes run side by side, and after them
    the walk so far is told."""
    start = _start(spec, question)
    sizes = list(question.sizes(start))
    steps: list[CapacityStep] = []
    first: Summary | None = None
    while len(steps) < len(sizes):
        batch = sizes[len(steps) : len(steps) + ahead]
        for size, outcome in zip(
            batch, _measure(spec, question, start, batch, run_all, folder), strict=True
        ):
            if isinstance(outcome, InputError):
                if first is None:
                    raise outcome
                steps.append(CapacityStep(size, str(outcome)))
            else:
                first = first or outcome
                steps.append(judge(size, outcome, first, question))
            if len(steps) >= FAILURES and not any(step.holds for step in steps[-FAILURES:]):
                return Walk(spec.label, tuple(steps), spec.scenario.seed)
        tell(Walk(spec.label, tuple(steps), spec.scenario.seed))
    return Walk(spec.label, tuple(steps), spec.scenario.seed)


def _start(spec: Spec, question: CapacityQuestion) -> float:
    """What the scenario itself has under the key that is varied."""
    scenario = spec.scenario
    return scenario.cluster.keep if question.kind == "compact" else sc.find_multiple(scenario)


def _measure(
    spec: Spec,
    question: CapacityQuestion,
    start: float,
    sizes: Sequence[float],
    run_all: RunAll,
    folder: Path | None,
) -> list[Summary | InputError]:
    """A summary of each size, or why it cannot be run: of too few nodes none may be left that a
    workload fits on."""
    try:
        return list(run_all([resize_spec(spec, question, start, size, folder) for size in sizes]))
    except InputError as error:
        if len(sizes) == 1:
            return [error]
        each = [_measure(spec, question, start, [size], run_all, folder) for size in sizes]
        return [outcome for outcomes in each for outcome in outcomes]


def resize_spec(
    spec: Spec, question: CapacityQuestion, start: float, size: float, folder: Path | None = None
) -> Spec:
    """The same run at another size."""
    label = f"{spec.label}-{100 * size:g}"
    changes = {} if size == 1.0 else {question.key: round(start * size, 9)}
    changed = change_spec(spec, changes, label, spec.scenario.name)
    return changed if folder is None else assign_folders([changed], folder)[0]


def judge(
    size: float, summary: Summary, first: Summary, question: CapacityQuestion
) -> CapacityStep:
    """The figures of a run, and whether it holds beside the run at 100 %."""
    cluster = summary["cluster"]
    types = cluster["allocation_types"]
    overloaded = types["overloaded"] / max(sum(types.values()), 1.0)
    left, left_first = unplaced_share(summary), unplaced_share(first)
    reasons = []
    if overloaded > question.limit:
        reasons.append("overloaded")
    if left > left_first + question.waiting:
        reasons.append("not placed")
    # Judged by itself, not beside 100 %: where the queue only grows no size holds, 100 % neither.
    saturated = _list_saturated(summary)
    if saturated:
        reasons.append(f"{', '.join(saturated)} saturated")
    return CapacityStep(
        size,
        "; ".join(reasons),
        nodes=cluster["nodes_mean"],
        tasks_running=cluster["tasks_running_mean"],
        used=cluster["used"],
        allocation_types=types,
        overloaded=overloaded,
        left=left,
    )


def unplaced_share(summary: Summary) -> float:
    """Of the jobs submitted, the share that still waits at the end, was given up or can never
    run."""
    rows = summary["workloads"].values()
    submitted = sum(row["jobs_submitted"] for row in rows)
    return float(
        sum(row["jobs_queued"] + row["jobs_abandoned"] for row in rows) / max(submitted, 1)
    )


def _list_saturated(summary: Summary) -> list[str]:
    return sorted(name for name, row in summary["workloads"].items() if row["saturated"])


def document(question: CapacityQuestion, walks: Sequence[Walk]) -> dict[str, Any]:
    """Question and answers as plain values."""
    import msgspec

    asked = {
        "kind": question.kind,
        "step": question.step,
        "limit": question.limit,
        "waiting": question.waiting,
    }
    answers = [
        {
            "scheduler": walk.scheduler,
            "seed": walk.seed,
            "farthest": None if walk.farthest is None else walk.farthest.size,
            "steps": [{**msgspec.to_builtins(step), "holds": step.holds} for step in walk.steps],
        }
        for walk in walks
    ]
    means = {name: found._asdict() for name, found in _mean_sizes(walks).items()}
    return {**asked, "schedulers": answers, **({"farthest": means} if means else {})}


def _mean_sizes(walks: Sequence[Walk]) -> dict[str, Interval]:
    """How far each scheduler that was run with several seeds comes. Where 100 % does not hold
    already there is no size, and so no mean."""
    sizes: dict[str, list[float | None]] = {}
    for each in walks:
        size = None if each.farthest is None else each.farthest.size
        sizes.setdefault(each.scheduler, []).append(size)
    return {
        name: interval([size for size in found if size is not None])
        for name, found in sizes.items()
        if len(found) > 1 and None not in found
    }


def answer_all(question: CapacityQuestion, walks: Sequence[Walk]) -> list[str]:
    """The walks of each scheduler with several seeds in one sentence."""
    what = "of its nodes" if question.kind == "compact" else "of its load"
    return [
        f"{name}: {percent(found.mean, 1)} {what} on average, 95 % interval "
        f"{percent(found.low, 1)} to {percent(found.high, 1)}, "
        f"{sum(each.scheduler == name for each in walks)} seeds"
        for name, found in _mean_sizes(walks).items()
    ]


def answer(question: CapacityQuestion, walk: Walk) -> str:
    """The walk in one sentence."""
    farthest = walk.farthest
    if farthest is None:
        first = walk.steps[0]
        figures = (
            f"{percent(first.overloaded, 2)} of nodes overloaded, {percent(first.left, 2)} "
            "of jobs not placed"
        )
        return f"{walk.label}: does not hold at 100 % already: {first.why} ({figures})"
    nodes, tasks = farthest.nodes or 0.0, farthest.tasks_running or 0.0
    what = "of its nodes" if question.kind == "compact" else "of its load"
    return (
        f"{walk.label}: holds at {100 * farthest.size:g} % {what} ({nodes:,.0f} nodes, "
        f"{tasks:,.0f} tasks running)"
    )
