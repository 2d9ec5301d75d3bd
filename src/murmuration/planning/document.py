"""A plan as one JSON document, and as the table a terminal shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from murmuration.assignment.moves import MoveStep
from murmuration.assignment.search.construct import LABELS
from murmuration.base.arrays import Floats
from murmuration.base.words import count_of
from murmuration.planning.nodes import list_emptied
from murmuration.planning.plan import LABEL, Plan
from murmuration.planning.rehearsal import MoveRehearsal
from murmuration.reports.formats import format_change, percent

#: What becomes JSON.
Document = dict[str, Any]
#: Points of the front that a document shows at most.
FRONT_MAX = 500


def document(plan: Plan, name: str, extra: Document | None = None) -> Document:
    """The whole plan for a program: `plan.json`, and what `--json` prints."""
    problem = plan.problem
    return {
        "snapshot": name,
        "label": LABEL,
        "nodes": len(problem.nodes),
        "tasks": len(problem.tasks),
        # Tasks on a node that is to be removed count too.
        "placed_before": int((problem.node_of >= 0).sum()) + len(plan.displaced),
        "objectives": {n: _row(plan, k) for k, n in enumerate(plan.names)},
        "optimised": [{"name": o.name, "weight": o.weight} for o in plan.objectives],
        "baselines": {n: _name_values(plan, values) for n, values in plan.baselines.items()},
        "chosen": _name_values(plan, plan.values),
        "front": _front(plan),
        "moves": [move(plan, k, step) for k, step in enumerate(plan.order.steps, 1)],
        "moved": plan.order.moved,
        "choice": plan.choice,
        "gain": describe_gain(plan),
        "emptied_nodes": list_emptied(problem, plan.order.node_of),
        "nodes_in_use": [kept._asdict() for kept in plan.kept_nodes],
        "rehearsal": describe_rehearsal(plan.rehearsal),
        **_describe_fewest(plan),
        "unplaced": [{"task": task, "reason": reason} for task, reason in plan.unplaced.items()],
        "evaluations": plan.evaluations,
        "notes": [*problem.notes, *plan.notes],
        **(extra or {}),
    }


def _describe_fewest(plan: Plan) -> Document:
    """The fewest moves that place what had no node, as `moved` counts them: who has to leave a node
    that goes is among them."""
    if plan.fewest is None:
        return {"fewest_moves": None, "fewest_moves_bound": None}
    leaving = len([t for t in plan.displaced if plan.fewest.node_of[t] >= 0])
    bound = plan.fewest.bound
    return {
        "fewest_moves": plan.fewest.moves + leaving,
        "fewest_moves_bound": None if bound is None else bound + leaving,
    }


def describe_gain(plan: Plan) -> Document:
    """By what share the objectives asked for fell on average, and how much that is for each move;
    None where there is nothing to compare with."""
    names = [o.name for o in plan.objectives if o.name not in ("moves", "megabytes")]
    changes = [_row(plan, plan.names.index(name))["change"] for name in names]
    known = [change for change in changes if change is not None]
    if not known or not plan.order.moved or not plan.running:
        return {"mean": None, "per_move": None}
    mean = 0.0 - sum(known) / len(known)
    return {"mean": mean, "per_move": mean / plan.order.moved}


def format_share(share: float) -> str:
    """A share that may be small, with two digits that say something."""
    return f"{float(f'{100 * share:.2g}'):g}\u00a0%"


def gain_sentence(document: Document) -> str:
    """The gain in one line, and the nodes that become empty."""
    sentences = []
    gain = document["gain"]
    if gain["mean"] == 0.0:
        sentences.append("gain: none by the objectives asked for")
    elif gain["mean"] is not None:
        each = f", {format_share(gain['per_move'])} for each of {document['moved']:,} moves"
        several = each if document["moved"] > 1 else ""
        sentences.append(f"gain: {percent(gain['mean'])} on average{several}".replace("-", "−"))
    emptied = document["emptied_nodes"]
    if emptied:
        shown = ", ".join(emptied[:20]) + (" …" if len(emptied) > 20 else "")
        sentences.append(f"{count_of(len(emptied), 'node', 'become')} empty: {shown}")
    return "\n".join(sentences)


def explain_kept(document: Document, shown: int = 5) -> list[str]:
    """Why the nodes with the fewest tasks stay in use."""
    listed = document["nodes_in_use"][:shown]
    return [
        f"{kept['node']} keeps {count_of(kept['tasks'], 'task')}: {kept['reason']}"
        for kept in listed
    ]


def _name_values(plan: Plan, values: Floats) -> dict[str, float]:
    return {name: float(value) for name, value in zip(plan.names, values, strict=True)}


def _row(plan: Plan, k: int) -> dict[str, float | None]:
    kubernetes = float(plan.baselines["kubernetes"][k]) if "kubernetes" in plan.baselines else None
    base = plan.before[k] if plan.running else kubernetes
    change = float(plan.values[k] / base - 1) if base else None
    return {
        "before": float(plan.before[k]),
        "kubernetes": kubernetes,
        "chosen": float(plan.values[k]),
        "change": change,
    }


def pick_front(plan: Plan) -> list[int]:
    """The points of the front that are shown: all, or as many as a document may have, evenly."""
    count = len(plan.front)
    places = np.linspace(0, max(count - 1, 0), min(count, FRONT_MAX)).astype(int)
    return [int(place) for place in np.unique(places)]


def _front(plan: Plan) -> list[dict[str, float]]:
    names = [objective.name for objective in plan.objectives]
    return [dict(zip(names, map(float, plan.front[k]), strict=True)) for k in pick_front(plan)]


def move(plan: Plan, number: int, step: MoveStep) -> Document:
    """One step: its number, its wave, where the task goes from and to, and when."""
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


def describe_rehearsal(rehearsal: MoveRehearsal) -> Document:
    """The result of carrying the steps out in virtual time; loads are shares of the fullest
    node."""
    return {
        "rate_mb_per_s": rehearsal.rate,
        "restarts": rehearsal.restarts,
        "seconds": round(rehearsal.seconds, 3),
        "seconds_one_by_one": round(rehearsal.one_by_one, 3),
        "moves_at_once_max": rehearsal.at_once,
        "megabytes": round(rehearsal.megabytes, 3),
        "load_before": rehearsal.load_before,
        "load_max": rehearsal.load,
        "nodes_above_total_before": rehearsal.overfull,
        "nodes_above_total": rehearsal.above,
        "wrong": rehearsal.errors,
    }


def rehearsal_sentence(rehearsal: MoveRehearsal) -> str:
    """The rehearsal in one line."""
    above = f"{rehearsal.above or 'none'} above its total"
    if rehearsal.overfull:
        above = f"{rehearsal.above or 'none'} of {rehearsal.overfull} overfull nodes got fuller"
    loads = (
        f"the fullest node was at {percent(rehearsal.load_before, 0)} and on the way at "
        f"{percent(rehearsal.load, 0)}, {above}"
    )
    if rehearsal.restarts:
        each = rehearsal.one_by_one / rehearsal.restarts
        return (
            f"rehearsed with restarts: {_duration(rehearsal.seconds)} for "
            f"{count_of(rehearsal.restarts, 'restart')} of {_duration(each)} each on average "
            f"until ready ({_duration(rehearsal.one_by_one)} one by one), at most "
            f"{rehearsal.at_once} at once; {loads}"
        )
    if rehearsal.rate is None or not rehearsal.megabytes:
        done = "restarted" if rehearsal.rate is None else "copied"
        return f"rehearsed: nothing has to be {done}; {loads}"
    return (
        f"rehearsed at {rehearsal.rate:g} MB/s a move: {_duration(rehearsal.seconds)} for "
        f"{_size(rehearsal.megabytes)} ({_duration(rehearsal.one_by_one)} one by one), "
        f"at most {rehearsal.at_once} at once; {loads}"
    )


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 2:
        return f"{seconds:.3g} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _size(megabytes: float) -> str:
    return f"{megabytes:.3g} MB" if megabytes < 1000 else f"{megabytes / 1000:,.0f} GB"


def table(plan: Plan, only: Sequence[str] = ()) -> tuple[list[str], list[list[object]]]:
    """The columns and rows of the table of objectives: before, the baselines (all of them, or
    `only` these), and the chosen placement with its change."""
    baselines = [name for name in plan.baselines if not only or name in only]
    columns = ["objective", "before", *(LABELS[name] for name in baselines), "chosen", "change"]
    wanted = {objective.name for objective in plan.objectives}
    rows: list[list[object]] = []
    for k, name in enumerate(plan.names):
        values = [plan.before[k], *(plan.baselines[n][k] for n in baselines), plan.values[k]]
        change = _row(plan, k)["change"]
        shown = "" if change is None else format_change(change)
        mark = f"{name} *" if name in wanted else name
        rows.append([mark, *(_short(v) for v in values), shown])
    return columns, rows


def _short(value: float) -> float | int:
    return (
        int(value)
        if float(value).is_integer()
        else round(float(value), 3 if abs(value) < 100 else 1)
    )
