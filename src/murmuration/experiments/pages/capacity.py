"""The table and the page of a walk to fewer nodes or more load."""

from __future__ import annotations

from collections.abc import Sequence

from murmuration.base.version import __version__
from murmuration.cluster import allocation_types
from murmuration.experiments import capacity
from murmuration.experiments.capacity import CapacityQuestion, CapacityStep, Walk
from murmuration.experiments.pages.parts import keep_telling, kind_label
from murmuration.reports.figures import Chart, Series
from murmuration.reports.formats import percent
from murmuration.reports.page import Page, ReportTable, Section

TITLES = {"compact": "how few nodes", "grow": "how much more load"}
LOOKS = {"compact": "size of the cluster, %", "grow": "size of the workload, %"}
FOOTER = (
    f"Murmuration {__version__}. Overloaded: mean share of nodes whose tasks use more than the "
    "node has. Not placed: "
    "of the jobs submitted, those that wait at the end, were given up or can never run."
)


def table(walks: Sequence[Walk]) -> tuple[list[str], list[list[object]]]:
    """One row per scheduler and size."""
    kinds = [kind_label(name) for name in allocation_types.NAMES[:-1]]
    columns = [
        "scheduler",
        "size",
        "verdict",
        "nodes",
        "tasks",
        "CPU",
        "memory",
        *kinds,
        "overloaded",
        "not placed",
    ]
    rows: list[list[object]] = []
    for walk in walks:
        for index, step in enumerate(walk.steps):
            size, *figures = _cells(step)
            verdict = f"fails: {step.why}" if step.why else "holds"
            rows.append([walk.label if index == 0 else "", size, verdict, *figures])
    # Types of nodes that there were none of at any size say nothing.
    shown = [
        k for k, name in enumerate(columns) if name not in kinds or any(row[k] for row in rows)
    ]
    return [columns[k] for k in shown], [[row[k] for k in shown] for row in rows]


def _cells(step: CapacityStep) -> list[object]:
    size: list[object] = [f"{100 * step.size:g} %"]
    if step.used is None or step.allocation_types is None:
        return [*size, *[None] * (len(allocation_types.NAMES) + 5)]
    types = [round(step.allocation_types[name], 1) for name in allocation_types.NAMES[:-1]]
    return [
        *size,
        step.nodes,
        round(step.tasks_running or 0.0, 1),
        percent(step.used["cpu"]),
        percent(step.used["memory"]),
        *types,
        percent(step.overloaded, 2),
        percent(step.left, 2),
    ]


def page(name: str, question: CapacityQuestion, walks: Sequence[Walk]) -> Page:
    """The report: the answers, the curves, the table."""
    columns, rows = table(walks)
    answers = "\n\n".join(capacity.answer(question, walk) for walk in walks)
    facts = (("limit on overload", percent(question.limit, 2)), ("step", percent(question.step)))
    return Page(
        title=f"{name}: {TITLES[question.kind]}",
        subtitle="The same scenario, step by step outwards from 100 %",
        facts=(*facts, ("limit on more jobs not placed", percent(question.waiting, 2))),
        footer=FOOTER,
        sections=(
            Section("Answer", text=answers, figures=keep_telling(_charts(question, walks))),
            Section("Every step", tables=(ReportTable("Sizes in the order tried", columns, rows),)),
        ),
    )


def _charts(question: CapacityQuestion, walks: Sequence[Walk]) -> list[Chart]:
    limit = ((f"limit {percent(question.limit, 2)}", question.limit),)
    wanted = (
        ("Overloaded nodes", "share of nodes", "overloaded", limit),
        ("Not placed", "share of jobs", "left", _limit_on_left(question, walks)),
    )
    charts = []
    for title, unit, field, lines in wanted:
        series = tuple(_series(walk, field) for walk in walks)
        charts.append(Chart(title, LOOKS[question.kind], unit, series, lines=lines, y_percent=True))
    return charts


def _limit_on_left(
    question: CapacityQuestion, walks: Sequence[Walk]
) -> tuple[tuple[str, float], ...]:
    """The share of jobs that may be left, where it is one for all walks."""
    whole = {step.left for walk in walks for step in walk.steps if step.size == 1.0}
    if len(whole) != 1 or None in whole:
        return ()
    limit = next(left for left in whole if left is not None) + question.waiting
    return ((f"limit {percent(limit, 2)}", limit),)


def _series(walk: Walk, field: str) -> Series:
    """One figure over the sizes."""
    steps = sorted(
        (step for step in walk.steps if step.nodes is not None), key=lambda step: step.size
    )
    return Series(
        walk.label,
        [100 * step.size for step in steps],
        [getattr(step, field) for step in steps],
        markers=True,
    )
