"""Figures 3.3, 3.4, 4.4, 6.4 and 6.5: monolithic, offers and shared-state scheduling as decisions
take longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from murmuration.experiments import theory
from murmuration.experiments.papers.omega import monte_carlo as mc
from murmuration.experiments.papers.omega.monte_carlo import Curve
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.experiments.statistics import middle
from murmuration.reports.figures import Chart

SINGLE = {"scheduler.kind": "monolithic", "scheduler.paths": "single"}
MULTI = {"scheduler.kind": "monolithic", "scheduler.paths": "multi"}
OFFERS = {"scheduler.kind": "offers"}
SHARED = {"scheduler.kind": "shared-state"}
MODES = {
    "resource, incremental": SHARED,
    "resource, all-or-nothing": {**SHARED, "scheduler.transaction": "all-or-nothing"},
    "machine, incremental": {**SHARED, "scheduler.conflict": "machine"},
    "machine, all-or-nothing": {
        **SHARED,
        "scheduler.conflict": "machine",
        "scheduler.transaction": "all-or-nothing",
    },
}
#: The papers' wait: submission to the start of the first attempt.
WAIT = "wait_first_attempt_s_mean"
#: A queue this close to saturation does not reach its steady state within a week.
SETTLED_LOAD = 0.95
#: How far a mean may be from the formula: a tenth, or the confidence interval if that is wider; but
#: an interval wider than a fifth of the formula's value to each side tells nothing.
TOLERANCE, WIDE = 0.1, 0.2
#: Interference is limited if a scheduler works at most this many times what one attempt for each
#: job takes; less than one attempt each would be an error.
INTERFERENCE = (0.9, 1.5)
#: What the paper calls a steep increase is at least this many times as much.
STEEP = 2.0


def _row(quantity: str, paper: Any, figure: Any, holds: bool | None) -> Row:
    bounds = figure if isinstance(figure, dict) else {}
    return Row(quantity, paper, middle(figure), bounds.get("low"), bounds.get("high"), holds)


def is_near(figure: Any, expected: float) -> bool | None:
    """Whether a mean of replicates agrees with a formula; None where it is not known well enough
    to disagree."""
    low, high = (figure["low"], figure["high"]) if isinstance(figure, dict) else (None, None)
    close = bool(abs(middle(figure) - expected) <= TOLERANCE * expected)
    if low is None or high is None:
        return close
    if not (low <= expected <= high):
        return close
    return True if high - low <= 2.0 * WIDE * expected else None


def _wait_and_busy(shown: Sequence[Curve], x_label: str) -> tuple[Any, ...]:
    return (
        mc.chart("Mean job wait time", "seconds", x_label, shown, WAIT, True),
        mc.chart("Scheduler busyness", "share of time", x_label, shown, "busy_fraction", False),
    )


def _single_rows(curve: Curve) -> list[Row]:
    """Each unsaturated point against Pollaczek–Khinchine, and where the SLO and saturation lie."""
    rows, met, predicted = [], [], []
    for x in curve.x:
        streams = mc.streams(curve.cell, {"batch": x, "service": x})
        expected, figure = (
            theory.mean_wait(streams),
            curve.at(x, "batch", WAIT),
        )
        if theory.load(streams) < SETTLED_LOAD:
            quantity = f"cell {curve.cell}, job time {x:g} s: mean wait (s) = Pollaczek–Khinchine"
            rows.append(_row(quantity, expected, figure, is_near(figure, expected)))
        predicted += [x] if expected < mc.SLO_S else []
        met += (
            [x]
            if middle(figure) < mc.SLO_S and not curve.saturated("batch")[curve.x.index(x)]
            else []
        )
    quantity = (
        f"cell {curve.cell}: longest job time (s) that meets the 30 s SLO = longest the "
        "formula allows"
    )
    rows.append(Row(quantity, max(predicted), max(met, default=None), holds=met == predicted))
    return rows


def mss_single(settings: ReproductionSettings) -> Reproduction:
    """Figure 3.3, left: one decision time for all jobs."""
    shown = mc.curves(settings, {"single-path": SINGLE}, mc.varying(mc.ALL), mc.times(settings))
    rows = [row for curve in shown for row in _single_rows(curve)]
    title, figures = (
        "Figure 3.3 (left): single-path monolithic scheduling",
        _wait_and_busy(shown, "job time (s)"),
    )
    notes = (
        "The paper gives curves, no numbers: short waits until the scheduler saturates. "
        "The numbers beside it are the formula's.",
    )
    return Reproduction("mss-single", title, tuple(rows), figures, notes)


def mss_multi(settings: ReproductionSettings) -> Reproduction:
    """Figure 3.3, right: a fast path for batch jobs."""
    x = mc.times(settings)
    multi = mc.curves(settings, {"multi-path": MULTI}, mc.varying(mc.SERVICE), x)
    single = mc.curves(settings, {"single-path": SINGLE}, mc.varying(mc.ALL), x)
    rows = []
    for fast, slow in zip(multi, single, strict=True):
        for at in (1.0, 10.0):
            wait, before = (
                fast.at(at, "batch", WAIT),
                middle(slow.at(at, "batch", WAIT)),
            )
            quantity = (
                f"cell {fast.cell}, job time {at:g} s: batch wait (s) well below "
                "single-path's (less than half)"
            )
            paper = f"decreased significantly (single-path here {before:.3g})"
            rows.append(_row(quantity, paper, wait, middle(wait) < before / 2))
        busy = [middle(fast.at(10.0, n, "busy_fraction")) for n in ("batch", "service")]
        once = [middle(slow.at(10.0, n, "busy_fraction")) for n in ("batch", "service")]
        quantity = f"cell {fast.cell}, job time 10 s: busyness below single-path's"
        paper = f"decreased (single-path here {sum(once):.3g})"
        rows.append(Row(quantity, paper, sum(busy), holds=sum(busy) < sum(once)))
        rows.append(_blocking(fast))
        rows += _multi_formula(fast)
    title = "Figure 3.3 (right): multi-path monolithic scheduling"
    notes = (
        "Batch keeps job time 0.1 s; the service job time varies. Cell C has fewer service jobs, "
        "hence less blocking.",
    )
    return Reproduction(
        "mss-multi", title, tuple(rows), _wait_and_busy(multi, "service job time (s)"), notes
    )


def _blocking(curve: Curve) -> Row:
    first, last = (
        middle(curve.at(curve.x[0], "batch", WAIT)),
        curve.at(curve.x[-1], "batch", WAIT),
    )
    quantity = (
        f"cell {curve.cell}: batch jobs still stuck behind service jobs: "
        f"wait (s) at {curve.x[-1]:g} s is over 10 × that at {curve.x[0]:g} s"
    )
    paper = f"head-of-line blocking (at {curve.x[0]:g} s here {first:.3g})"
    return _row(quantity, paper, last, middle(last) > 10 * first)


def _multi_formula(curve: Curve) -> list[Row]:
    rows = []
    for x in (1.0, 10.0):
        streams = mc.streams(curve.cell, {"batch": 0.1, "service": x})
        expected, figure = (
            theory.mean_wait(streams),
            curve.at(x, "batch", WAIT),
        )
        quantity = (
            f"cell {curve.cell}, service job time {x:g} s: mean wait (s) = Pollaczek–Khinchine"
        )
        rows.append(_row(quantity, expected, figure, is_near(figure, expected)))
    return rows


def mss_arrivals(settings: ReproductionSettings) -> Reproduction:
    """Figure 3.4: single-path scheduling as jobs arrive faster."""
    factors = (
        (1.0, 4.0, 12.0) if settings.quick else (1.0, 2.0, 4.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0)
    )
    changes = {**SINGLE, "cluster.nodes": 40_000, "cluster.prefill": 0.0, mc.ALL: 0.1}
    settings = replace(settings, days=settings.days or (0.25 if settings.quick else 1.0))
    shown = mc.curves(settings, {"single-path": changes}, mc.faster, factors)
    rows = [row for curve in shown for row in _arrival_rows(curve)]
    notes = (
        "40,000 empty nodes, so that the scheduler, not the room, is what runs out "
        "(filled to 60 %, the cell is full at 3.7 times the arrivals).",
        "Job time 0.1 s and task time 5 ms, as in the paper; x is the factor on both arrival "
        "rates.",
    )
    title = "Figure 3.4: single-path scheduling as jobs arrive faster"
    return Reproduction(
        "mss-arrivals", title, tuple(rows), _wait_and_busy(shown, "arrivals ÷ Table 3.1"), notes
    )


def _arrival_rows(curve: Curve) -> list[Row]:
    rows, saturated, predicted = [], [], []
    for x in curve.x:
        streams = mc.streams(curve.cell, {"batch": 0.1, "service": 0.1}, x)
        expected, figure = (
            theory.mean_wait(streams),
            curve.at(x, "batch", WAIT),
        )
        if theory.load(streams) < 0.9:
            quantity = f"cell {curve.cell}, arrivals × {x:g}: mean wait (s) = Pollaczek–Khinchine"
            rows.append(_row(quantity, expected, figure, is_near(figure, expected)))
        predicted += [x] if theory.load(streams) >= 1.0 else []
        saturated += [x] if curve.saturated("batch")[curve.x.index(x)] else []
    first, here = min(predicted, default=None), min(saturated, default=None)
    quantity = (
        f"cell {curve.cell}: smallest factor at which the scheduler saturates = the formula's"
    )
    # Where neither saturates within what was run there is nothing to compare.
    holds = None if first is None and here is None else first == here
    rows.append(Row(quantity, first, here, holds=holds))
    return rows


def dps(settings: ReproductionSettings) -> Reproduction:
    """Figure 4.4: offers, as the service scheduler takes longer."""
    offers = mc.curves(settings, {"offers": OFFERS}, mc.varying(mc.SERVICE), mc.times(settings))
    rows = []
    for curve in offers:
        rows += [_attempts_row(curve, n, at) for n in ("batch", "service") for at in (1.0, 10.0)]
        rows.append(_check_held(curve))
    notes = (
        "Busyness beyond what one attempt per job needs comes from attempts on offers too small "
        "for the job: "
        "at long service times the service framework holds all that was free.",
        "The reference simulator let a framework take offers while it was still deciding, so "
        "that its busyness can "
        "exceed 1: `scheduler.offers.double_booked = true` does the same.",
    )
    title, figures = (
        "Figure 4.4: two-level scheduling with offers",
        _wait_and_busy(offers, "service job time (s)"),
    )
    return Reproduction("dps", title, tuple(rows), figures, notes)


def _alone(curve: Curve, workload: str, service_s: float) -> theory.DecisionStream:
    """The stream of one workload, for a scheduler of its own."""
    names = ("batch", "service")
    each = mc.streams(curve.cell, {"batch": 0.1, "service": service_s})
    return dict(zip(names, each, strict=True))[workload]


def _attempts_row(curve: Curve, workload: str, at: float) -> Row:
    busy = curve.at(at, workload, "busy_fraction")
    expected = theory.load([_alone(curve, workload, at)])
    what = f"{workload} busyness = one attempt per job (formula)"
    quantity = f"cell {curve.cell}, service job time {at:g} s: {what}"
    return _row(quantity, expected, busy, is_near(busy, expected))


def _check_held(curve: Curve) -> Row:
    first = middle(curve.at(curve.x[0], "batch", "wait_full_s_mean"))
    last = curve.at(curve.x[-1], "batch", "wait_full_s_mean")
    quantity = (
        f"cell {curve.cell}: batch jobs take longer to be fully scheduled (s) "
        f"when service decisions last {curve.x[-1]:g} s than {curve.x[0]:g} s"
    )
    paper = f"resources are locked while a framework decides (at {curve.x[0]:g} s here {first:.3g})"
    return _row(quantity, paper, last, middle(last) > first)


def rss(settings: ReproductionSettings) -> Reproduction:
    """Figure 6.4: shared state, as the service scheduler takes longer."""
    x = mc.times(settings)
    shown = mc.curves(settings, {"shared state": SHARED}, mc.varying(mc.SERVICE), x)
    rows = [row for curve in shown for at in (1.0, 10.0) for row in _shared_rows(curve, at)]
    figures = (
        *_wait_and_busy(shown, "service job time (s)"),
        mc.chart(
            "Conflict fraction",
            "failed ÷ successful",
            "service job time (s)",
            shown,
            "conflict_fraction",
            False,
        ),
    )
    notes = (
        "Resource granularity, incremental transactions.",
        "A batch scheduler of its own is a queue of its own: its wait is Pollaczek–Khinchine's for "
        "batch jobs alone, whatever the service scheduler does, as far as conflicts are few. "
        "Multi-path's is the same formula for both kinds of jobs.",
    )
    return Reproduction("rss", "Figure 6.4: shared-state scheduling", tuple(rows), figures, notes)


def _shared_rows(curve: Curve, at: float) -> list[Row]:
    """One service job time: the batch queue by the formula, and how much conflicts cost."""
    where = f"cell {curve.cell}, service job time {at:g} s"
    batch, service = (_alone(curve, name, at) for name in ("batch", "service"))
    wait = curve.at(at, "batch", WAIT)
    alone, together = theory.mean_wait([batch]), theory.mean_wait([batch, service])
    least, most = INTERFERENCE
    ratio = middle(curve.at(at, "service", "busy_fraction")) / theory.load([service])
    return [
        _row(
            f"{where}: batch wait (s) = Pollaczek–Khinchine, batch jobs alone",
            alone,
            wait,
            is_near(wait, alone),
        ),
        _row(
            f"{where}: batch wait (s) no longer than multi-path's by the formula",
            f"comparable (formula {together:.3g})",
            wait,
            middle(wait) <= together,
        ),
        Row(
            f"{where}: service busyness ÷ one attempt per job, {least:g} to {most:g}",
            "interference is limited",
            ratio,
            holds=least <= ratio <= most,
        ),
    ]


def rss_modes(settings: ReproductionSettings) -> Reproduction:
    """Figure 6.5: conflict detection and transaction modes."""
    shown = mc.curves(settings, MODES, mc.varying(mc.SERVICE), mc.times(settings))
    rows = []
    for cell in mc.CELLS:
        by_label = {c.label: c for c in shown if c.cell == cell}
        best = by_label["resource, incremental"]
        for label, curve in by_label.items():
            if curve is best:
                continue
            for key, words in (
                ("conflict_fraction", "conflict fraction"),
                ("busy_fraction", "busyness"),
            ):
                figure, base = curve.at(10.0, "service", key), middle(best.at(10.0, "service", key))
                steep = label.startswith("machine") and key == "conflict_fraction"
                more = f"at least {STEEP:g} times" if steep else "above"
                what = f"service {words} {more} resource granularity, incremental"
                quantity = f"cell {cell}, service job time 10 s, {label}: {what}"
                rows.append(_increase(quantity, figure, base, STEEP if steep else 1.0))
    figures = tuple(
        chart for cell in mc.CELLS for chart in _mode_charts([c for c in shown if c.cell == cell])
    )
    return Reproduction(
        "rss-modes",
        "Figure 6.5: conflict detection and transaction granularity",
        tuple(rows),
        figures,
    )


def _increase(quantity: str, figure: Any, base: float | None, times: float) -> Row:
    """A run too short for any service transaction has nothing to compare."""
    measured = middle(figure)
    if measured is None or base is None:
        return _row(quantity, "increase", figure, None)
    words = "increase" if times == 1.0 else "steep increase"
    holds = measured > base and measured >= times * base
    return _row(quantity, f"{words} (there {base:.3g})", figure, holds)


def _mode_charts(curves: Sequence[Curve]) -> list[Chart]:
    """The service scheduler of one cell under each mode."""
    wanted = (
        ("Conflict fraction", "failed ÷ successful", "conflict_fraction"),
        ("Busyness", "share of time", "busy_fraction"),
    )
    where = f"cell {curves[0].cell}, service"
    return [
        mc.chart(
            f"{title}, {where}", unit, "service job time (s)", curves, key, False, ("service",)
        )
        for title, unit, key in wanted
    ]
