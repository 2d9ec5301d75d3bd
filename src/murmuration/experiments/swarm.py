"""Swarm scheduling (Rusek, Dwornicki 2021): figures 1 to 3, and the differential equations of section 3."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from murmuration.cluster.random import state
from murmuration.experiments import swarm_model as model
from murmuration.experiments.replicates import interval, measured
from murmuration.experiments.result import Reproduction, Row, Settings
from murmuration.experiments.swarm_study import CAPACITY, FILLINGS, SIZES, Point, line, study
from murmuration.reports.charts import Chart, Series
from murmuration.schedulers.swarm.pheromone import LINEAR
from murmuration.schedulers.swarm.search import CHORD, RING
from murmuration.simulation import swarm_small as small
from murmuration.simulation.swarm_cloud import Outcomes

START = (32, 34, 34)
#: Figures of the paper's simulator hold within this; those of its experiment with real containers within FACTOR.
TOLERANCE, FACTOR = 0.1, 1.5
STRAIGHT = 0.98
PAPER_T0 = {49: 82.0, 25: 108.0, 1: 42.0}
QUICK_SIZES = (50, 100, 200, 400, 700, 1000)


def _near(value: float, paper: float) -> bool:
    return abs(value - paper) <= TOLERANCE * paper


def _alike(value: float, paper: float) -> bool:
    return paper / FACTOR <= value <= paper * FACTOR


def _mean_row(quantity: str, paper: float, values: Sequence[float], within: str = "near") -> Row:
    mean = interval(values).mean
    return measured(quantity, paper, values, _near(mean, paper) if within == "near" else _alike(mean, paper))


def _histogram(name: str, steps: np.ndarray, width: int = 1) -> Series:
    """The share of runs that took so many steps."""
    low = int(steps.min()) // width * width
    counts = np.bincount((steps - low) // width)
    return Series(name, [float(low + width * k) for k in range(len(counts))], (counts / len(steps) / width).tolist())


def three_nodes(settings: Settings) -> Reproduction:
    """Figure 1, and the three ways to choose a destination."""
    count = 300 if settings.quick else 10_000
    times: dict[int, np.ndarray] = {}
    for rule in (small.ANY, small.ROOM, small.FULLER):
        rng = state(settings.seed, "swarm-three-nodes", str(rule))
        found = [small.track(np.array(START), CAPACITY, rule, rng, 20_000)[0] for _ in range(count)]
        times[rule] = np.array(found)
        settings.progress("rules", (rule + 1) / 3)
    figures = (_figure_1(settings, times[small.ANY]), _three_histograms(times))
    notes = (
        "Random destinations and the free-space rule: section 4 experiments with real containers, whose waking period is not stated. "
        f"Those rows hold within a factor of {FACTOR:g}; the rows of both rules within {TOLERANCE:.0%}.",
        "An overfilled node expels by eq. 3 (as eq. 23 has it). The most probable time is read from few runs per step; the median is steadier.",
    )
    return Reproduction("swarm-three-nodes", "Figure 1: three nodes and three ways to choose a destination", tuple(_three_rows(times)), figures, notes)


def _three_rows(times: Mapping[int, np.ndarray]) -> list[Row]:
    free, room, both = (times[rule] for rule in (small.ANY, small.ROOM, small.FULLER))
    never = int(sum((steps < 0).sum() for steps in times.values()))
    gain_room, gain_both = free.mean() / room.mean(), free.mean() / both.mean()
    return [
        Row("runs that never come to rest", 0, never, holds=never == 0),
        _mean_row("any node at random: mean time (T)", 150.0, free.tolist(), "alike"),
        Row("any node at random: typical time (median, T)", 49.0, float(np.median(free)), holds=_alike(float(np.median(free)), 49.0)),
        Row("any node at random: a long tail: mean above the median (T)", f"mean 150, most probable 49 (median here {np.median(free):.0f})", float(free.mean()), holds=bool(free.mean() > 1.5 * np.median(free))),
        Row("only nodes with room (eq. 20): times faster than any node", "almost 2", gain_room, holds=_alike(gain_room, 2.0)),
        Row("and only fuller ones (eq. 21): times faster than any node", "about 5", gain_both, holds=_alike(gain_both, 5.0)),
        _mean_row("both rules: mean time (T)", 32.0, both.tolist()),
        Row("both rules: most probable time (T)", 32, int(np.bincount(both).argmax()), holds=int(np.bincount(both).argmax()) == 32),
        Row("both rules: longest time (T)", 38, int(both.max()), holds=_near(float(both.max()), 38.0)),
    ]  # fmt: skip


def _figure_1(settings: Settings, steps: np.ndarray) -> Chart:
    """A run of typical length with random destinations."""
    rng, typical = state(settings.seed, "swarm-three-nodes", "figure"), float(np.median(steps))
    tracks = [small.track(np.array(START), CAPACITY, small.ANY, rng, 20_000)[2] for _ in range(40)]
    shown = np.vstack([START, min(tracks, key=lambda track: abs(len(track) - typical))])
    series = tuple(
        Series(f"node {k + 1}", [float(t) for t in range(len(shown))], shown[:, k].astype(float).tolist()) for k in range(3)
    )  # fmt: skip
    return Chart("Figure 1: a typical run with random destinations", "time (T)", "containers", series, lines=(("n0", float(CAPACITY)),))


def _three_histograms(times: Mapping[int, np.ndarray]) -> Chart:
    names = {small.ANY: "any node", small.ROOM: "with room", small.FULLER: "with room and fuller"}
    series = [_histogram(name, np.minimum(times[rule], 200), 2) for rule, name in names.items()]
    return Chart("Time until one node is empty", "time (T); the last point is all longer runs", "share of runs per T", tuple(series), y_log=True)


def distribution(settings: Settings) -> Reproduction:
    """Figure 2: how long 1,000 nodes take."""
    points = [Point(1000, filling) for filling in FILLINGS]
    found = study(settings, points, 200 if settings.quick else 10_000)
    rows = [_mean_row(f"n(0) = {p.filling}: mean time (T)", PAPER_T0[p.filling], found[p].steps.tolist()) for p in points]
    more = [found[p].migrations.mean() / p.fewest - 1.0 for p in points]
    for point, extra in zip(points, more, strict=True):
        rows.append(Row(f"n(0) = {point.filling}: migrations beyond the fewest possible (eq. 28)", None, float(extra)))
    rows.append(Row("migrations beyond the fewest possible, mean of the three", 0.8, float(np.mean(more)), holds=_near(1 + float(np.mean(more)), 1.8)))
    rows += [_tail(found[p], p.filling) for p in points[:2]]
    rows.append(Row("runs that never come to rest", 0, 0, holds=True))
    figure = Chart(
        "Figure 2: time until every node is empty or full, N = 1,000", "time (T)", "share of runs per T",
        tuple(_histogram(f"n(0) = {p.filling}", found[p].steps) for p in points[:2]),
    )  # fmt: skip
    notes = (
        f"Means hold within {TOLERANCE:.0%}. A run that is not at rest after a million steps would stop the experiment with an error.",
        "The pheromone of a node is fixed while its containers decide, as section 5 describes; one that follows each decision gives 76, 112 and 43 T.",
    )
    return Reproduction("swarm-distribution", "Figure 2: times to equilibrium of 1,000 nodes", tuple(rows), (figure,), notes)


def _tail(found: Outcomes, filling: int) -> Row:
    """Skewness above zero: the tail is on the late side."""
    away = found.steps - found.steps.mean()
    skew = float((away**3).mean() / (away**2).mean() ** 1.5)
    return Row(f"n(0) = {filling}: a tail of late runs (skewness above 0)", "long tail", skew, holds=skew > 0)


def scaling(settings: Settings) -> Reproduction:
    """Figure 3, and what the search costs: the ring against fingers."""
    sizes = QUICK_SIZES if settings.quick else SIZES
    runs = 60 if settings.quick else 10_000
    found = study(settings, [Point(n, filling) for filling in FILLINGS for n in sizes], runs)
    rows = [row for filling in FILLINGS for row in _fit_rows(found, sizes, filling)]
    searched = _searches(settings)
    linear = study(settings, [Point(n, 25, form=form) for n in (50, 1000) for form in (0, LINEAR)], 100 if settings.quick else 1000)
    rows += _search_rows(searched) + _linear_rows(linear)
    figures = (_figure_3(found, sizes), *_search_charts(searched))
    notes = (
        f"A line through t0 against ln N is straight if R² is at least {STRAIGHT}. N goes from 50 to 1,000; the searches go on to 12,800.",
        "Search time: in each step the messages of the node that sends most, added up over the steps, because nodes search side by side. "
        "Ring: nodes asked in turn. Chord: nodes stand on a ring in order of fullness with fingers 1, 2, 4, … places ahead; a container goes to the fullest with room.",
        "Keeping that order costs two moves per migration, each about log2 N messages that are not on the searching container's path.",
    )
    return Reproduction("swarm-scaling", "Figure 3: time to equilibrium against the size of the cloud", tuple(rows), figures, notes)


def _fit_rows(found: Mapping[Point, Outcomes], sizes: Sequence[int], filling: int) -> list[Row]:
    means = [float(found[Point(n, filling)].steps.mean()) for n in sizes]
    _, slope, fit = line([math.log(n) for n in sizes], means)
    biggest = found[Point(sizes[-1], filling)].steps.tolist()
    return [
        _mean_row(f"n(0) = {filling}, N = {sizes[-1]}: mean time (T)", PAPER_T0[filling], biggest),
        Row(f"n(0) = {filling}: R² of t0 = a + b ln N (b here {slope:.2f} T)", "a straight line", fit, holds=fit >= STRAIGHT),
    ]  # fmt: skip


def _figure_3(found: Mapping[Point, Outcomes], sizes: Sequence[int]) -> Chart:
    series = []
    for colour, filling in enumerate(FILLINGS):
        bounds = [interval(found[Point(n, filling)].steps.tolist()) for n in sizes]
        x, y = [float(n) for n in sizes], [b.mean for b in bounds]
        series.append(Series(f"n(0) = {filling}", x, y, [b.low for b in bounds], [b.high for b in bounds], colour=colour, markers=True))
        a, slope, _ = line([math.log(n) for n in sizes], y)
        series.append(Series(f"{a:.0f} + {slope:.1f} ln N", x, [a + slope * math.log(n) for n in sizes], dotted=True, colour=colour))
    return Chart("Figure 3: mean time to equilibrium", "nodes", "time (T)", tuple(series), x_log=True)


def _searches(settings: Settings) -> dict[Point, Outcomes]:
    """Half-full clouds, the worst case, with either search."""
    sizes = (100, 400, 1600) if settings.quick else (100, 200, 400, 800, 1600, 3200, 6400, 12_800)
    return study(settings, [Point(n, 25, search) for search in (RING, CHORD) for n in sizes], 20 if settings.quick else 100)


def _search_rows(found: Mapping[Point, Outcomes]) -> list[Row]:
    sizes = sorted({point.nodes for point in found})
    first, last = sizes[0], sizes[-1]
    rows = []
    laws = {"ring": (RING, "N log N", lambda n: n * math.log2(n)), "chord": (CHORD, "log² N", lambda n: math.log2(n) ** 2)}
    for name, (search, words, law) in laws.items():
        a, b = (float(found[Point(n, 25, search)].search_time.mean()) / law(n) for n in (first, last))
        quantity = f"{name}: search time ÷ {words} at N = {last:,} over that at {first} (between 1/2 and 2)"
        rows.append(Row(quantity, f"O({words})", b / a, holds=0.5 <= b / a <= 2.0))
    for n in (first, last):
        for name, (search, _, _) in laws.items():
            each = found[Point(n, 25, search)]
            rows.append(Row(f"{name}, N = {n:,}: messages per migration", None, float((each.messages / each.migrations).mean())))
    hops = found[Point(last, 25, CHORD)]
    rows.append(Row(f"chord, N = {last:,}: messages per migration at most log2 N", math.log2(last), float((hops.messages / hops.migrations).max()), holds=bool((hops.messages / hops.migrations).max() <= math.log2(last))))
    return rows


def _search_charts(found: Mapping[Point, Outcomes]) -> tuple[Chart, Chart]:
    sizes = sorted({point.nodes for point in found})
    x = [float(n) for n in sizes]
    names = (("ring", RING), ("chord", CHORD))
    each = [Series(name, x, [float((found[Point(n, 25, s)].messages / found[Point(n, 25, s)].migrations).mean()) for n in sizes], markers=True) for name, s in names]
    total = [Series(name, x, [float(found[Point(n, 25, s)].search_time.mean()) for n in sizes], markers=True) for name, s in names]
    return (
        Chart("Messages per migration, n(0) = 25", "nodes", "messages", tuple(each), x_log=True, y_log=True),
        Chart("Search time until equilibrium, n(0) = 25", "nodes", "messages one after the other", tuple(total), x_log=True, y_log=True),
    )


def _linear_rows(found: Mapping[Point, Outcomes]) -> list[Row]:
    """Section 6.5: the linear pheromone with both rules."""
    ratio = {n: float(found[Point(n, 25, form=LINEAR)].steps.mean() / found[Point(n, 25)].steps.mean()) for n in (50, 1000)}
    return [
        Row("linear pheromone, N = 50: time ÷ quadratic's", "below 1 (faster)", ratio[50], holds=ratio[50] < 1.0),
        Row("linear pheromone, N = 1,000: time ÷ quadratic's", 1.05, ratio[1000], holds=_near(ratio[1000], 1.05)),
    ]


def model_equations(settings: Settings) -> Reproduction:
    """Section 3: fixed points, their stability, and solutions."""
    n0 = model.N0
    times = np.linspace(0.0, 12.0, 61)
    solved = model.integrate(np.array([0.4 * n0, 0.6 * n0]), "quadratic", times)
    rows = [*_two_node_rows(solved, times), *_three_node_rows(), _ends(settings)]
    tracks = model.integrate(np.array([float(n) for n in START]), "quadratic", np.linspace(0.0, 60.0, 121))
    figures = (_two_node_chart(times), _track_chart(tracks))
    notes = (
        "n0 = 50, n_min = 1; destinations at random, as the equations have it. Integrated by Runge–Kutta; eigenvalues of the Jacobi matrix by differences.",
        "Stable here means: no eigenvalue is positive. The zero ones belong to containers exchanged between full nodes, which settle like 1/t.",
    )
    return Reproduction("swarm-model", "Section 3: the cloud as differential equations", tuple(rows), figures, notes)


def _two_node_rows(solved: np.ndarray, times: np.ndarray) -> list[Row]:
    n0 = model.N0
    error = float(np.abs(solved[:, 0] - model.two_nodes(0.4 * n0, times)).max())
    still = float(np.abs(model.flow(np.array([0.3 * n0, 0.7 * n0]), "linear")).max())
    rows = [
        Row("two nodes, linear: largest rate of change anywhere with n1 + n2 = n0", 0, still, holds=still < 1e-9),
        Row("two nodes, quadratic: largest distance from eq. 11 (containers, below 0.001)", 0, error, holds=error < 1e-3),
    ]
    for share, words in ((0.5, "unstable"), (0.0, "stable"), (1.0, "stable")):
        found = _stability(np.array([share * n0, (1 - share) * n0]), "quadratic")
        rows.append(Row(f"two nodes, quadratic: fixed point n1 = {share:g} n0", words, found, holds=found == words))
    return rows


def _stability(point: np.ndarray, kind: str) -> str:
    if np.abs(model.flow(point, kind)).max() > 1e-9 * model.N0:
        return "not a fixed point"
    return "stable" if model.signs(model.eigenvalues(point, kind))[2] == 0 else "unstable"


def _three_node_rows() -> list[Row]:
    n0 = model.N0
    spread = model.signs(model.eigenvalues(np.full(4, n0), "spread"))
    linear = model.signs(model.eigenvalues(np.array([0.0, n0, n0]), "linear"))
    packed = model.signs(model.eigenvalues(np.array([0.0, n0, n0]), "quadratic"))
    rows = [
        _signs_row("spread, 4 nodes: n_i = n0", "negative, and one zero", spread, (3, 1, 0)),
        _signs_row("three nodes, linear: one empty, two full (a saddle)", "1 negative, 1 zero, 1 positive", linear, (1, 1, 1)),
        _signs_row("three nodes, quadratic: one empty, two full", "1 negative, the others zero", packed, (1, 2, 0)),
    ]
    for name, shares, words in (("all at 2/3 n0 (eq. 14)", (2, 2, 2), "unstable"), ("4/3, 1/3, 1/3 of n0 (eq. 15), unwanted", (4, 1, 1), "stable")):
        found = _stability(np.array(shares) * n0 / 3, "quadratic")
        rows.append(Row(f"three nodes, quadratic: {name}", words, found, holds=found == words))
    return rows


def _signs_row(name: str, paper: str, found: tuple[int, int, int], expected: tuple[int, int, int]) -> Row:
    return Row(f"{name}: eigenvalues", paper, "{} negative, {} zero, {} positive".format(*found), holds=found == expected)


def _ends(settings: Settings) -> Row:
    """Where three nodes end from random states: always in a stationary one, not always the wanted one (6.5)."""
    rng = np.random.default_rng(settings.seed)
    ends = []
    for _ in range(20 if settings.quick else 200):
        cut = np.sort(rng.random(2)) * 2 * model.N0
        start = np.array([cut[0], cut[1] - cut[0], 2 * model.N0 - cut[1]])
        ends.append(model.nearest(model.integrate(start, "quadratic", np.array([400.0]), step=0.1)[-1]))
    counts = {name: ends.count(name) for name in ("wanted", "unwanted", "none")}
    found = ", ".join(f"{count} {name}" for name, count in counts.items())
    return Row(f"{len(ends)} random states of three nodes: stationary state reached (eq. 8 wanted, eq. 15 unwanted)", "always one, not always the wanted one", found, holds=counts["none"] == 0 and counts["unwanted"] > 0)


def _two_node_chart(times: np.ndarray) -> Chart:
    series = []
    for colour, share in enumerate((0.1, 0.4, 0.49, 0.6)):
        solved = model.integrate(np.array([share, 1 - share]) * model.N0, "quadratic", times)
        series.append(Series(f"n1(0) = {share:g} n0", times.tolist(), solved[:, 0].tolist(), colour=colour))
        series.append(Series("" if colour else "eq. 11", times.tolist(), model.two_nodes(share * model.N0, times).tolist(), dotted=True, colour=colour))
    return Chart("Two nodes: integrated, and eq. 11 dotted", "time (T)", "containers on node 1", tuple(series))


def _track_chart(tracks: np.ndarray) -> Chart:
    x = np.linspace(0.0, 60.0, 121).tolist()
    series = (Series("node 1", x, tracks[:, 0].tolist()), Series("nodes 2 and 3", x, tracks[:, 1].tolist()))
    return Chart("Three nodes from 32, 34, 34: the model empties node 1", "time (T)", "containers", series, lines=(("n0", model.N0),))
