"""Swarm scheduling (Rusek, Dwornicki 2021): figures 1 to 3, and what finding a destination
costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from murmuration.base.random import state
from murmuration.experiments.papers.swarm.study import (
    CAPACITY,
    FILLINGS,
    SIZES,
    StudyPoint,
    line,
    study,
)
from murmuration.experiments.replicates import interval, measure_row
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.reports.figures import Chart, Series
from murmuration.schedulers.swarm.pheromone import LINEAR
from murmuration.schedulers.swarm.search import CHORD, RING
from murmuration.simulation.architectures.swarm import small as small
from murmuration.simulation.architectures.swarm.cloud import STEPS_MAX as CLOUD_STEPS_MAX
from murmuration.simulation.architectures.swarm.cloud import Outcomes

Steps = NDArray[np.int64]
PointOutcomes = Mapping[StudyPoint, Outcomes]

START = (32, 34, 34)
#: Figures of the paper's simulator hold within TOLERANCE; those of its experiment with real
#: containers within FACTOR.
TOLERANCE, FACTOR = 0.1, 1.5
#: A line is straight if it explains this share of the variance.
STRAIGHT = 0.95
#: The power of N that may be left beside a law: O() bounds from above, hence hardly any more; with
#: much less the law would say nothing.
POWER = (-0.2, 0.05)
PAPER_T0 = {49: 82.0, 25: 108.0, 1: 42.0}
QUICK_SIZES = (50, 100, 200, 400, 700, 1000)
STEPS_MAX = 20_000


def _near(value: float, paper: float) -> bool:
    return abs(value - paper) <= TOLERANCE * paper


def _alike(value: float, paper: float) -> bool:
    return paper / FACTOR <= value <= paper * FACTOR


def _histogram(name: str, steps: Steps, width: int = 1) -> Series:
    """The share of runs that took so many steps."""
    low = int(steps.min()) // width * width
    counts = np.bincount((steps - low) // width)
    return Series(
        name,
        [float(low + width * k) for k in range(len(counts))],
        (counts / len(steps) / width).tolist(),
    )


def _mode(steps: Steps, width: int) -> float:
    """The middle of the fullest class."""
    return float(np.bincount(steps // width).argmax() * width + (width - 1) / 2)


def three_nodes(settings: ReproductionSettings) -> Reproduction:
    """Figure 1, and the three ways to choose a destination."""
    times: dict[int, Steps] = {}
    for rule in (small.ANY, small.ROOM, small.FULLER):
        rng = state(settings.seed, "swarm-three-nodes", str(rule))
        runs = range(300 if settings.quick else 10_000)
        times[rule] = np.array(
            [small.track(np.array(START), CAPACITY, rule, rng, STEPS_MAX)[0] for _ in runs]
        )
        settings.progress("rules", (rule + 1) / 3)
    notes = (
        "Section 4 is an experiment with real containers, whose waking period is not stated: "
        "rows about nodes taken at "
        f"random or with room hold within a factor of {FACTOR:g}; rows about both rules, which "
        "the simulator of "
        f"section 5 was built to repeat, within {TOLERANCE:.0%}.",
        "A node above n0 expels by eq. 3, as eq. 23 has it. The most probable time is the "
        "fullest class of 5 T.",
    )
    figures = (_figure_1(settings, times[small.ANY]), _still_running(times))
    title = "Figure 1: three nodes and three ways to choose a destination"
    return Reproduction("swarm-three-nodes", title, tuple(_three_rows(times)), figures, notes)


def _three_rows(times: Mapping[int, Steps]) -> list[Row]:
    free, room, both = (times[rule] for rule in (small.ANY, small.ROOM, small.FULLER))
    never = int(sum((steps < 0).sum() for steps in times.values()))
    ratio = {
        name: float(free.mean() / steps.mean()) for name, steps in (("room", room), ("both", both))
    }
    usual, likely = _mode(free, 5), _mode(both, 1)
    mean, longest = float(free.mean()), float(both.max())
    return [
        Row("runs that never come to rest", 0, never, holds=never == 0),
        measure_row("any node at random: mean time (T)", 150.0, free.tolist(), _alike(mean, 150.0)),
        Row("any node at random: most probable time (T)", 49.0, usual, holds=_alike(usual, 49.0)),
        Row(
            "any node at random: mean ÷ most probable time (a long tail)",
            150 / 49,
            mean / usual,
            holds=_alike(mean / usual, 150 / 49),
        ),
        Row(
            "only nodes with room (eq. 20): times faster",
            "almost 2",
            ratio["room"],
            holds=_alike(ratio["room"], 2.0),
        ),
        Row(
            "and only fuller ones (eq. 21): times faster",
            "about 5",
            ratio["both"],
            holds=_alike(ratio["both"], 5.0),
        ),
        measure_row(
            "both rules: mean time (T)", 32.0, both.tolist(), _near(float(both.mean()), 32.0)
        ),
        Row("both rules: most probable time (T)", 32.0, likely, holds=likely == 32.0),
        Row("both rules: longest time (T)", 38.0, longest, holds=_near(longest, 38.0)),
    ]


def _figure_1(settings: ReproductionSettings, steps: Steps) -> Chart:
    """A run of typical length with random destinations."""
    rng, typical = state(settings.seed, "swarm-three-nodes", "figure"), float(np.median(steps))
    tracks = [
        small.track(np.array(START), CAPACITY, small.ANY, rng, STEPS_MAX)[2] for _ in range(40)
    ]
    shown = np.vstack([START, min(tracks, key=lambda track: abs(len(track) - typical))])
    time = [float(t) for t in range(len(shown))]
    series = tuple(
        Series(f"node {k + 1}", time, shown[:, k].astype(float).tolist()) for k in range(3)
    )
    title = "Figure 1: a typical run with random destinations"
    return Chart(title, "time (T)", "containers", series, lines=(("n0", float(CAPACITY)),))


def _still_running(times: Mapping[int, Steps]) -> Chart:
    names = {small.ANY: "any node", small.ROOM: "with room", small.FULLER: "with room and fuller"}
    x = [float(t) for t in range(20, 201, 2)]
    series = [
        Series(name, x, [float((times[rule] > t).mean()) for t in x])
        for rule, name in names.items()
    ]
    title = "Runs that have not emptied a node yet"
    return Chart(title, "time (T)", "share of runs", tuple(series), y_percent=True)


def distribution(settings: ReproductionSettings) -> Reproduction:
    """Figure 2: how long 1,000 nodes take."""
    points = [StudyPoint(1000, filling) for filling in FILLINGS]
    outcomes = study(settings, points, 200 if settings.quick else 10_000)
    rows = [_time_row(outcomes, point) for point in points]
    more = [float(outcomes[p].migrations.mean() / p.fewest - 1.0) for p in points]
    for point, extra in zip(points, more, strict=True):
        rows.append(
            Row(
                f"n(0) = {point.filling}: migrations beyond the fewest possible (eq. 28)",
                None,
                extra,
            )
        )
    mean = float(np.mean(more))
    quantity = "migrations beyond the fewest, mean of the three"
    rows.append(Row(quantity, 0.8, mean, holds=_near(mean, 0.8)))
    rows += [_tail(outcomes[p], p.filling) for p in points[:2]]
    never = sum(int((outcomes[p].steps >= CLOUD_STEPS_MAX).sum()) for p in points)
    rows.append(Row("runs that never come to rest", 0, never, holds=never == 0))
    series = tuple(_histogram(f"n(0) = {p.filling}", outcomes[p].steps) for p in points[:2])
    title = "Figure 2: time until every node is empty or full, N = 1,000"
    notes = (
        f"Means hold within {TOLERANCE:.0%}. A run that is not at rest after a million steps "
        "stops the experiment.",
        "The pheromone of a node is fixed while its containers decide, as section 5 describes "
        "it; one that follows "
        "each decision gives 76, 112 and 43 T.",
    )
    figures = (Chart(title, "time (T)", "share of runs per T", series),)
    name = "Figure 2: times to equilibrium of 1,000 nodes"
    return Reproduction("swarm-distribution", name, tuple(rows), figures, notes)


def _time_row(outcomes: PointOutcomes, point: StudyPoint) -> Row:
    steps, paper = outcomes[point].steps, PAPER_T0[point.filling]
    quantity = f"n(0) = {point.filling}, N = {point.nodes:,}: mean time (T)"
    return measure_row(quantity, paper, steps.tolist(), _near(float(steps.mean()), paper))


def _tail(outcome: Outcomes, filling: int) -> Row:
    """Skewness above zero: the tail is on the late side."""
    away = outcome.steps - outcome.steps.mean()
    skew = float((away**3).mean() / (away**2).mean() ** 1.5)
    return Row(
        f"n(0) = {filling}: a tail of late runs (skewness above 0)",
        "long tail",
        skew,
        holds=skew > 0,
    )


def scaling(settings: ReproductionSettings) -> Reproduction:
    """Figure 3, and what the search costs: the ring against fingers."""
    sizes = QUICK_SIZES if settings.quick else SIZES
    points = [StudyPoint(n, filling) for filling in FILLINGS for n in sizes]
    outcomes = study(settings, points, 60 if settings.quick else 10_000)
    forms = [StudyPoint(n, 49, form=form) for n in (50, 1000) for form in (0, LINEAR)]
    linear = study(settings, forms, 200 if settings.quick else 2000)
    searched = study(settings, _search_points(settings), 20 if settings.quick else 100)
    rows = [row for filling in FILLINGS for row in _fit_rows(outcomes, sizes, filling)]
    rows += _linear_rows(linear) + _search_rows(searched)
    notes = (
        "A line through t0 against ln N, for N from 50 to 1,000, is straight if R² is at least "
        f"{STRAIGHT:g}.",
        "Search time: in each step the messages of the node that sends most, added up over the "
        "steps, because nodes "
        "search side by side. Ring: nodes asked in turn. Chord: nodes stand on a ring in order "
        "of fullness, with "
        "fingers 1, 2, 4, … places ahead, and a container goes to the fullest node with room.",
        "Keeping nodes in that order costs two moves per migration of about log2 N messages "
        "each, which no container "
        "waits for; they are not counted here.",
    )
    figures = (_figure_3(outcomes, sizes), *_search_charts(searched))
    title = "Figure 3: time to equilibrium against the size of the cloud"
    return Reproduction("swarm-scaling", title, tuple(rows), figures, notes)


def _fit_rows(outcomes: PointOutcomes, sizes: Sequence[int], filling: int) -> list[Row]:
    means = [float(outcomes[StudyPoint(n, filling)].steps.mean()) for n in sizes]
    _, slope, fit = line([math.log(n) for n in sizes], means)
    quantity = f"n(0) = {filling}: R² of t0 = a + b ln N (b here {slope:.2f} T)"
    return [
        _time_row(outcomes, StudyPoint(sizes[-1], filling)),
        Row(quantity, "a straight line", fit, holds=fit >= STRAIGHT),
    ]


def _figure_3(outcomes: PointOutcomes, sizes: Sequence[int]) -> Chart:
    series = []
    x = [float(n) for n in sizes]
    for colour, filling in enumerate(FILLINGS):
        bounds = [interval(outcomes[StudyPoint(n, filling)].steps.tolist()) for n in sizes]
        low, y, high = ([getattr(b, name) for b in bounds] for name in ("low", "mean", "high"))
        series.append(Series(f"n(0) = {filling}", x, y, low, high, colour=colour, markers=True))
        a, slope, _ = line([math.log(n) for n in sizes], y)
        fitted = [a + slope * math.log(n) for n in sizes]
        series.append(Series(f"{a:.0f} + {slope:.1f} ln N", x, fitted, dotted=True, colour=colour))
    return Chart(
        "Figure 3: mean time to equilibrium", "nodes", "time (T)", tuple(series), x_log=True
    )


def _linear_rows(outcomes: PointOutcomes) -> list[Row]:
    """Section 6.5: the linear pheromone with both rules."""
    ratio = {
        n: float(
            outcomes[StudyPoint(n, 49, form=LINEAR)].steps.mean()
            / outcomes[StudyPoint(n, 49)].steps.mean()
        )
        for n in (50, 1000)
    }
    small_cloud = "linear pheromone, n(0) = 49, N = 50: time ÷ quadratic's"
    large_cloud = "linear pheromone, n(0) = 49, N = 1,000: time ÷ quadratic's"
    return [
        Row(small_cloud, "below 1 (faster)", ratio[50], holds=ratio[50] < 1.0),
        Row(large_cloud, 1.05, ratio[1000], holds=ratio[1000] > 1.0 and _near(ratio[1000], 1.05)),
    ]


def _search_points(settings: ReproductionSettings) -> list[StudyPoint]:
    """Half-full clouds, the worst case (section 5), with either search."""
    sizes = (100, 400, 1600) if settings.quick else (100, 200, 400, 800, 1600, 3200, 6400, 12_800)
    return [StudyPoint(n, 25, search) for search in (RING, CHORD) for n in sizes]


LAWS = (
    ("ring", RING, "N log N", lambda n: n * math.log2(n)),
    ("chord", CHORD, "log² N", lambda n: math.log2(n) ** 2),
)


def _search_rows(outcomes: PointOutcomes) -> list[Row]:
    sizes = sorted({point.nodes for point in outcomes})
    first, last = sizes[0], sizes[-1]
    rows = []
    for name, search, words, law in LAWS:
        a, b = (
            float(outcomes[StudyPoint(n, 25, search)].search_time.mean()) / law(n)
            for n in (first, last)
        )
        # A law that holds up to a power of N would show as this power; constants cancel.
        power = math.log(b / a) / math.log(last / first)
        quantity = f"{name}: search time grows as {words} × N^x, N = {first} to {last:,}: x"
        holds = POWER[0] <= power <= POWER[1]
        rows.append(Row(quantity, f"0 (O({words}))", power, holds=holds))
    for n in (first, last):
        for name, search, _, _ in LAWS:
            rows.append(
                measure_row(
                    f"{name}, N = {n:,}: messages per migration",
                    None,
                    _per_migration(outcomes, n, search),
                )
            )
    highest, bound = max(_per_migration(outcomes, last, CHORD)), math.log2(last)
    quantity = (
        f"chord, N = {last:,}: most messages per migration in a run, at most log2 N = {bound:.1f}"
    )
    rows.append(Row(quantity, "O(log N)", highest, holds=highest <= bound))
    for name, search, _, _ in LAWS:
        rows.append(
            measure_row(
                f"{name}, N = {last:,}: time to equilibrium without search (T)",
                None,
                outcomes[StudyPoint(last, 25, search)].steps.tolist(),
            )
        )
    return rows


def _per_migration(outcomes: PointOutcomes, nodes: int, search: int) -> list[float]:
    point = outcomes[StudyPoint(nodes, 25, search)]
    return [float(x) for x in point.messages / point.migrations]


def _search_charts(outcomes: PointOutcomes) -> tuple[Chart, Chart]:
    sizes = sorted({point.nodes for point in outcomes})
    x = [float(n) for n in sizes]
    each: list[Series] = []
    total: list[Series] = []
    for name, search, _, _ in LAWS:
        each.append(
            Series(
                name,
                x,
                [interval(_per_migration(outcomes, n, search)).mean for n in sizes],
                markers=True,
            )
        )
        search_time = [float(outcomes[StudyPoint(n, 25, search)].search_time.mean()) for n in sizes]
        total.append(Series(name, x, search_time, markers=True))
    title, label = "Search time until equilibrium, n(0) = 25", "messages one after the other"
    return (
        Chart(
            "Messages per migration, n(0) = 25",
            "nodes",
            "messages",
            tuple(each),
            x_log=True,
            y_log=True,
        ),
        Chart(title, "nodes", label, tuple(total), x_log=True, y_log=True),
    )
