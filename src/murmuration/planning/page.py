"""The report of a plan: what changes, the front it was chosen from, how the search went, and every
node's bars."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np

from murmuration.assignment import objectives as of
from murmuration.assignment.objectives import MEANINGS, shares
from murmuration.assignment.problem import sum_requests
from murmuration.assignment.search.construct import BASELINES, LABELS
from murmuration.base.arrays import Floats
from murmuration.base.version import __version__
from murmuration.planning.document import (
    Document,
    format_share,
    pick_front,
    rehearsal_sentence,
    table,
)
from murmuration.planning.plan import LABEL, Plan
from murmuration.planning.rehearsal import MoveRehearsal
from murmuration.reports.figures import (
    Chart,
    Fills,
    Parallel,
    Playback,
    PlayedMove,
    Scatter,
    Series,
)
from murmuration.reports.page import Page, ReportTable, Section

MOVES_SHOWN = 500
#: Names of nodes that one sentence has.
NODES_SHOWN = 40
#: How the placement was chosen, by `Plan.choice`.
CHOSEN = {
    "knee": "The chosen one is the knee: beyond it each move gains less than one does on average.",
    "mean": "The chosen one has the lowest mean of normalised objectives among those that are no "
    "worse than the reference in anything, if there are any.",
}
#: Pairs of objectives plotted at most.
PAIRS = 10
#: Nodes whose bars are drawn, and nodes and moves that can be played.
FILLS_MAX, PLAYED_NODES_MAX, PLAYED_MOVES_MAX = 240, 2000, 5000
#: Figures of one front: what is chosen in one of them is chosen in all.
FRONT = "front"


def page(plan: Plan, document: Document) -> Page:
    """The whole report; `document` is the plan as `plan.json` has it."""
    sections = [_objectives(plan), _nodes(plan), *_list_emptied(document), _moves(plan, document)]
    if document["moves"]:
        sections.append(_rehearsal(plan))
    if len(plan.front) > 1 and len(plan.objectives) > 1:
        sections += [*_front(plan), _search(plan)]
    if document["unplaced"] or document.get("stranded") or document["notes"]:
        sections.append(_remarks(document))
    sections.append(_explain_names())
    bound = document["fewest_moves_bound"]
    facts = [
        ("nodes", f"{document['nodes']:,}"),
        ("tasks", f"{document['tasks']:,}"),
        (
            "moves, the fewest there can be" if bound == document["moved"] else "moves",
            f"{document['moved']:,}",
        ),
        *_gain(document),
        ("nodes that become empty", f"{len(document['emptied_nodes']):,}"),
        ("without a node", f"{len(document['unplaced']):,}"),
        ("placements looked at", f"{document['evaluations']:,}"),
    ]
    footer = (
        f"Murmuration {__version__}. {LABEL.capitalize()}: it holds for the snapshot it was "
        "made from."
    )
    # The whole path is in plan.json; a title has room for the name.
    name = Path(document["snapshot"]).name
    return Page(f"Plan for {name}", LABEL, tuple(facts), tuple(sections), footer)


def _objectives(plan: Plan) -> Section:
    titles, cells = table(plan)
    # The chosen placement stands beside what is there, baselines after both.
    order = [0, 1, len(titles) - 2, len(titles) - 1, *range(2, len(titles) - 2)]
    columns = [titles[k] for k in order]
    rows = [[_keep_together(row[k]) for k in order] for row in cells]
    base = "what is there" if plan.running else "Kubernetes (LeastRequested)"
    searched = "* what the search made small; the" if plan.objectives else "The"
    note = f"{searched} change is against {base}."
    if named := [LABELS[name] for name in BASELINES if name in plan.baselines]:
        note += f" {', '.join(named)}: from nothing, everything that may move is placed again."
    return Section("Objectives", "", (), (ReportTable("", columns, rows, note),))


def _keep_together(cell: object) -> object:
    """A figure and its unit, a name and its mark stay on one line."""
    return cell.replace(" ", "\u00a0") if isinstance(cell, str) else cell


def _explain_names() -> Section:
    rows = [[name, MEANINGS[name]] for name in of.NAMES]
    table = ReportTable("", ("objective", "meaning"), rows)
    return Section("What the names mean", tables=(table,))


def _nodes(plan: Plan) -> Section:
    problem = plan.problem
    parts = problem.resources[:2]
    before = np.nan_to_num(shares(problem, problem.present))[:, : len(parts)]
    after = np.nan_to_num(shares(problem, problem.with_leaving(plan.order.node_of)))[
        :, : len(parts)
    ]
    changes = np.abs(after - before).max(axis=1, initial=0.0)
    shown = np.sort(np.argsort(-changes, kind="stable")[:FILLS_MAX]).tolist()
    rows = [(problem.nodes[k], before[k].tolist(), after[k].tolist()) for k in shown]
    note = "Upper bar of each pair before, lower bar after."
    if len(rows) < len(problem.nodes):
        note += f" The {FILLS_MAX} nodes that change most are shown."
    return Section("Every node", "", (Fills("Requested share of every node", parts, rows, note),))


def _gain(document: Document) -> list[tuple[str, str]]:
    """What the moves buy, for the head of the page."""
    gain = document["gain"]
    if not gain["mean"]:
        return []
    return [
        ("mean gain", format_share(gain["mean"])),
        ("gain for each move", format_share(gain["per_move"])),
    ]


def _list_emptied(document: Document) -> list[Section]:
    """Which nodes become empty, and what keeps the others in use."""
    emptied, kept = document["emptied_nodes"], document["nodes_in_use"]
    if not emptied and not kept:
        return []
    text = f"{len(emptied):,} nodes become empty"
    text += f": {', '.join(emptied[:NODES_SHOWN])}{' …' if len(emptied) > NODES_SHOWN else ''}."
    rows = [[entry["node"], entry["tasks"], entry["reason"]] for entry in kept]
    note = "Those with the fewest tasks first: what keeps each of them from being emptied as well."
    tables = (
        (ReportTable("Nodes that stay in use", ("node", "tasks", "why"), rows, note),)
        if kept
        else ()
    )
    return [Section("Nodes that become empty", text if emptied else "None.", (), tables)]


def _playback(plan: Plan) -> list[Playback]:
    """The moves on the nodes, to be played: all nodes, or of many those that moves touch."""
    problem, steps = plan.problem, plan.order.steps[:PLAYED_MOVES_MAX]
    if not steps:
        return []
    shown = list(range(len(problem.nodes)))
    if len(shown) > PLAYED_NODES_MAX:
        touched = dict.fromkeys(k for step in steps for k in (step.origin, step.node) if k >= 0)
        shown = sorted(list(touched)[:PLAYED_NODES_MAX])
    place = {node: k for k, node in enumerate(shown)}
    parts = problem.resources[:2]
    taken = sum_requests(problem, problem.present)
    nodes = [
        (problem.nodes[k], *(row[k, : len(parts)].tolist() for row in (problem.total, taken)))
        for k in shown
    ]
    moves = [
        PlayedMove(
            problem.tasks[step.task],
            "detour" if step.detour else "place" if step.origin < 0 else "move",
            place.get(step.origin, -1),
            place.get(step.node, -1),
            problem.request[step.task, : len(parts)].tolist(),
            float(plan.rehearsal.start[k]),
            float(plan.rehearsal.end[k]),
            step.wave,
        )
        for k, step in enumerate(steps)
    ]
    note = "" if len(steps) == len(plan.order.steps) else f"The first {len(steps):,} steps."
    if len(shown) < len(problem.nodes):
        note += f" {len(shown):,} of {len(problem.nodes):,} nodes: those that moves touch."
    return [Playback("The moves, step by step", parts, nodes, moves, note.strip())]


def _moves(plan: Plan, document: Document) -> Section:
    rows = [
        [m["step"], m["wave"], m["kind"], m["task"], m["from"], m["to"]]
        for m in document["moves"][:MOVES_SHOWN]
    ]
    text = (
        "Steps of one wave may run side by side; the next wave waits for it. No step "
        "overloads a node on the way."
    )
    note = (
        f"{MOVES_SHOWN} of {len(document['moves']):,} steps."
        if len(document["moves"]) > MOVES_SHOWN
        else ""
    )
    columns = ("step", "wave", "kind", "task", "from", "to")
    table = ReportTable("", [str(name) for name in columns], rows, note)
    return Section("Moves", text, tuple(_playback(plan)), (table,))


def _rehearsal(plan: Plan) -> Section:
    """How many moves are under way and how full the fullest node is, from the first to the last."""
    rehearsal = plan.rehearsal
    at, under_way, load = _changes(rehearsal)
    note = "A move counts on both nodes until it ends."
    moves = Series("moves", at, under_way, stepped=True)
    charts = (
        Chart("Moves under way", "seconds", "moves", (moves,), note=note),
        Chart(
            "The fullest node",
            "seconds",
            "load",
            (Series("load", at, load, stepped=True),),
            lines=(("total", 1.0),),
            y_percent=True,
        ),
    )
    text = rehearsal_sentence(rehearsal)
    return Section(
        "Rehearsal", f"{text[0].upper()}{text[1:]}.", charts if rehearsal.seconds else ()
    )


def _changes(rehearsal: MoveRehearsal) -> tuple[list[float], list[float], list[float]]:
    """Times, moves under way and the fullest node's load, each until the next time: of one time the
    last count and the highest load."""
    known: dict[float, tuple[float, float]] = {0.0: (0.0, rehearsal.load_before)}
    for moment in rehearsal.moments:
        highest = max(known[moment.at][1], moment.load) if moment.at in known else moment.load
        known[moment.at] = float(moment.under_way), highest
    counts, loads = zip(*known.values(), strict=True)
    return list(known), list(counts), list(loads)


def _mark_placements(plan: Plan) -> list[tuple[str, Floats]]:
    """What is named in the plots: chosen, before where something ran, and the baselines."""
    named = [("chosen", plan.values)]
    if plan.running:
        named.append(("before", plan.before))
    return named + [(LABELS[name], values) for name, values in plan.baselines.items()]


def _front(plan: Plan) -> list[Section]:
    names = tuple(objective.name for objective in plan.objectives)
    indices = [plan.names.index(name) for name in names]
    marked = tuple((name, values[indices].tolist()) for name, values in _mark_placements(plan))
    rows = plan.front[pick_front(plan)].tolist()
    parallel = Parallel(
        "All objectives",
        names,
        rows,
        marked,
        "Each line is a placement; lower is better everywhere.",
        FRONT,
    )
    pairs = [
        Scatter(
            f"{names[a]} and {names[b]}",
            names[a],
            names[b],
            [(row[a], row[b]) for row in rows],
            tuple((name, values[a], values[b]) for name, values in marked),
            group=FRONT,
        )
        for a, b in list(combinations(range(len(names)), 2))[:PAIRS]
    ]
    text = (
        f"{len(plan.front):,} placements of which none is better than another in everything"
        f"{'' if len(rows) == len(plan.front) else f'; {len(rows):,} are drawn'}. "
        f"{CHOSEN[plan.choice]} A drag on an axis, or round points below, chooses placements; "
        "the tables then show those alone."
    )
    return [
        Section("The front", text, (parallel,)),
        Section("Two objectives at a time", "", tuple(pairs)),
    ]


def _search(plan: Plan) -> Section:
    """Figures 14 and 16 of the paper: each objective over generations, its range in the population
    a band."""
    generations = [float(k) for k in range(len(plan.history))]
    charts = []
    for k, objective in enumerate(plan.objectives):
        low, mean, high = (
            [step[key][k] for step in plan.history] for key in ("low", "mean", "high")
        )
        series = Series("mean", generations, mean, low, high)
        charts.append(
            Chart(objective.name, "generation", objective.name, (series,), y_from_zero=False)
        )
    return Section(
        "The search", "Range and mean of each objective in the population.", tuple(charts)
    )


def _remarks(document: Document) -> Section:
    rows = [
        ["without a node", entry["task"], entry["reason"]]
        for entry in document["unplaced"][:MOVES_SHOWN]
    ]
    rows += [["stranded", entry["task"], entry["reason"]] for entry in document.get("stranded", [])]
    rows += [["note", "", note] for note in document["notes"]]
    return Section("Remarks", "", (), (ReportTable("", ("what", "task", "why"), rows),))
