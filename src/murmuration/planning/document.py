"""A plan as one JSON document, and as the table a terminal shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from murmuration.assignment.moves import Step
from murmuration.assignment.problem import Floats
from murmuration.assignment.search.construct import LABELS
from murmuration.planning.plan import LABEL, Plan
from murmuration.planning.rehearsal import Rehearsal

#: Points of the front that a document shows at most.
FRONT_MAX = 500


def document(plan: Plan, name: str, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """Everything a program would want to know about a plan."""
    problem = plan.problem
    return {
        "snapshot": name,
        "label": LABEL,
        "nodes": len(problem.nodes),
        "tasks": len(problem.tasks),
        "placed_before": int((problem.node_of >= 0).sum()),
        "objectives": {n: _row(plan, k) for k, n in enumerate(plan.names)},
        "optimised": [{"name": o.name, "weight": o.weight} for o in plan.objectives],
        "baselines": {n: _named(plan, values) for n, values in plan.baselines.items()},
        "chosen": _named(plan, plan.values),
        "front": _front(plan),
        "moves": [move(plan, k, step) for k, step in enumerate(plan.order.steps, 1)],
        "moved": plan.order.moved,
        "rehearsal": rehearsed(plan),
        "fewest_moves": None if plan.fewest is None else plan.fewest.moves,
        "fewest_moves_bound": None if plan.fewest is None else plan.fewest.bound,
        "impossible": [problem.tasks[t] for t in plan.order.blocked],
        "unplaced": [{"task": task, "reason": reason} for task, reason in plan.unplaced.items()],
        "evaluations": plan.evaluations,
        "notes": [*problem.notes, *plan.notes],
        **(extra or {}),
    }


def _named(plan: Plan, values: Floats) -> dict[str, float]:
    return {name: float(value) for name, value in zip(plan.names, values, strict=True)}


def _row(plan: Plan, k: int) -> dict[str, float | None]:
    base = plan.before[k] if plan.running else plan.baselines["kubernetes"][k]
    change = float(plan.values[k] / base - 1) if base else None
    return {
        "before": float(plan.before[k]),
        "kubernetes": float(plan.baselines["kubernetes"][k]),
        "chosen": float(plan.values[k]),
        "change": change,
    }


def _front(plan: Plan) -> list[dict[str, float]]:
    front = plan.front
    count = min(len(front), FRONT_MAX)
    rows = np.unique(np.linspace(0, max(len(front) - 1, 0), count).astype(int)).tolist()
    names = [objective.name for objective in plan.objectives]
    return [dict(zip(names, map(float, front[k]), strict=True)) for k in rows]


def move(plan: Plan, number: int, step: Step) -> dict[str, Any]:
    """One step for a program."""
    problem = plan.problem
    origin = problem.nodes[step.origin] if step.origin >= 0 else plan.displaced.get(step.task)
    kind = "detour" if step.detour else "place" if origin is None else "move"
    return {
        "step": number,
        "wave": step.wave,
        "kind": kind,
        "task": problem.tasks[step.task],
        "from": origin,
        "to": problem.nodes[step.node],
        "start_s": round(float(plan.rehearsal.start[number - 1]), 3),
        "end_s": round(float(plan.rehearsal.end[number - 1]), 3),
    }


def rehearsed(plan: Plan) -> dict[str, Any]:
    """What came of carrying the steps out in virtual time; loads are shares of the fullest node."""
    found = plan.rehearsal
    return {
        "rate_mb_per_s": found.rate,
        "seconds": round(found.seconds, 3),
        "seconds_one_by_one": round(found.one_by_one, 3),
        "moves_at_once_max": found.at_once,
        "megabytes": round(found.megabytes, 3),
        "load_before": found.load_before,
        "load_max": found.load,
        "nodes_above_total_before": found.overfull,
        "nodes_above_total": found.above,
        "wrong": found.wrong,
    }


def rehearsal_sentence(found: Rehearsal) -> str:
    """The rehearsal in one line."""
    above = f"{found.above or 'none'} above its total"
    if found.overfull:
        above = f"{found.above or 'none'} of {found.overfull} overfull nodes got fuller"
    loads = (
        f"the fullest node was at {found.load_before:.0%} and on the way at "
        f"{found.load:.0%}, {above}"
    )
    if not found.megabytes:
        return f"rehearsed: nothing has to be copied; {loads}"
    return (
        f"rehearsed at {found.rate:g} MB/s a move: {_duration(found.seconds)} for "
        f"{_size(found.megabytes)} "
        f"({_duration(found.one_by_one)} one by one), at most {found.at_once} at once; {loads}"
    )


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return (
        f"{seconds:.3g} s"
        if minutes < 2
        else f"{minutes:.0f} min"
        if minutes < 120
        else f"{minutes / 60:.1f} h"
    )


def _size(megabytes: float) -> str:
    return f"{megabytes:.3g} MB" if megabytes < 1000 else f"{megabytes / 1000:,.0f} GB"


def table(plan: Plan, only: Sequence[str] = ()) -> tuple[list[str], list[list[object]]]:
    """Before, what others would do from nothing (all of them, or these), and what was chosen, with
    its change."""
    baselines = [name for name in plan.baselines if not only or name in only]
    columns = ["objective", "before", *(LABELS[name] for name in baselines), "chosen", "change"]
    wanted = {objective.name for objective in plan.objectives}
    rows: list[list[object]] = []
    for k, name in enumerate(plan.names):
        told = [plan.before[k], *(plan.baselines[n][k] for n in baselines), plan.values[k]]
        change = _row(plan, k)["change"]
        shown = "" if change is None else f"{change:+.1%}" if abs(change) >= 5e-4 else "0 %"
        mark = f"{name} *" if name in wanted else name
        rows.append([mark, *(_short(v) for v in told), shown])
    return columns, rows


def _short(value: float) -> float | int:
    return (
        int(value)
        if float(value).is_integer()
        else round(float(value), 3 if abs(value) < 100 else 1)
    )
