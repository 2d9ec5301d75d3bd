"""Section 3 of the swarm paper: the differential equations, their fixed points and how stable those
are."""

from __future__ import annotations

import numpy as np

from murmuration.experiments.papers.swarm import model as model
from murmuration.experiments.papers.swarm.figures import START
from murmuration.experiments.papers.swarm.model import Vector
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.reports.figures import Chart, Series

SADDLE = "1 negative, 1 zero, 1 positive"
SHARES = (0.1, 0.4, 0.49, 0.6)


def equations(settings: ReproductionSettings) -> Reproduction:
    """Fixed points, their stability, and solutions."""
    times = np.linspace(0.0, 12.0, 61)
    rows = [*_two_node_rows(times), *_three_node_rows(), *_ends(settings)]
    notes = (
        "n0 = 50, n_min = 1; destinations at random, as eq. 5 has it. Integrated by the classic "
        "Runge–Kutta method; "
        "eigenvalues of the Jacobi matrix by differences. Stable here means that no eigenvalue "
        "is positive.",
        "Beyond the paper: for three nodes with 2 n0 containers the stationary states are a "
        "curve, not points. "
        "n (n0 − n)² = c has three roots that add up to 2 n0 whatever c is; eq. 8 (c = 0) and "
        "eq. 15 are its ends. "
        "Hence the zero eigenvalues, and random destinations may leave a cloud anywhere between.",
    )
    figures = (_two_node_chart(times), _track_chart())
    return Reproduction(
        "swarm-model", "Section 3: the cloud as differential equations", tuple(rows), figures, notes
    )


def _two_node_rows(times: Vector) -> list[Row]:
    n0 = model.N0
    solved = model.integrate(np.array([0.4, 0.6]) * n0, "quadratic", times)
    error = float(np.abs(solved[:, 0] - model.two_nodes(0.4 * n0, times)).max())
    still = max(
        float(np.abs(model.flow(np.array([s, 1 - s]) * n0, "linear")).max()) for s in SHARES
    )
    rows = [
        Row(
            "two nodes, linear: largest rate of change (containers per T)",
            0,
            still,
            holds=still < 1e-9,
        ),
        Row(
            "two nodes, quadratic: largest distance from eq. 11 (containers)",
            0,
            error,
            holds=error < 1e-3,
        ),
    ]
    for share, words in ((0.5, "unstable"), (0.0, "stable"), (1.0, "stable")):
        stability = _stability(np.array([share, 1 - share]) * n0, "quadratic")
        rows.append(
            Row(
                f"two nodes, quadratic: fixed point n1 = {share:g} n0",
                words,
                stability,
                holds=stability == words,
            )
        )
    return rows


def _stability(point: Vector, kind: str) -> str:
    if np.abs(model.flow(point, kind)).max() > 1e-9 * model.N0:
        return "not a fixed point"
    return "stable" if model.signs(model.eigenvalues(point, kind))[2] == 0 else "unstable"


def _three_node_rows() -> list[Row]:
    n0 = model.N0
    packed = np.array([0.0, n0, n0])
    rows = [
        _signs_row(
            "spread, 4 nodes, all at n0",
            "negative, and one zero",
            np.full(4, n0),
            "spread",
            (3, 1, 0),
        ),
        _signs_row("three nodes, linear: one empty, two full", SADDLE, packed, "linear", (1, 1, 1)),
        _signs_row(
            "three nodes, quadratic: one empty, two full",
            "1 negative, 2 zero",
            packed,
            "quadratic",
            (1, 2, 0),
        ),
    ]
    points = (
        ("all at 2/3 n0 (eq. 14)", (2, 2, 2), "unstable"),
        ("4/3, 1/3, 1/3 of n0 (eq. 15)", (4, 1, 1), "stable"),
    )
    for name, shares, words in points:
        stability = _stability(np.array(shares) * n0 / 3, "quadratic")
        rows.append(
            Row(f"three nodes, quadratic: {name}", words, stability, holds=stability == words)
        )
    return rows


def _signs_row(
    name: str, paper: str, point: Vector, kind: str, expected: tuple[int, int, int]
) -> Row:
    counts = model.signs(model.eigenvalues(point, kind))
    words = ("negative", "zero", "positive")
    text = ", ".join(f"{count} {word}" for count, word in zip(counts, words, strict=True) if count)
    return Row(f"{name}: eigenvalues", paper, text, holds=counts == expected)


def _ends(settings: ReproductionSettings) -> list[Row]:
    """Where three nodes end from random states (6.5)."""
    rng = np.random.default_rng(settings.seed)
    ends = []
    for _ in range(20 if settings.quick else 200):
        cut = np.sort(rng.random(2)) * 2 * model.N0
        start = np.array([cut[0], cut[1] - cut[0], 2 * model.N0 - cut[1]])
        ends.append(
            model.resting_place(
                model.integrate(start, "quadratic", np.array([200.0]), step=0.1)[-1]
            )
        )
    moving, unwanted = ends.count("none"), ends.count("unwanted")
    share, expected = unwanted / len(ends), "only some are correct"
    return [
        Row(
            f"three nodes, {len(ends)} random states: end in no stationary state",
            0,
            moving,
            holds=moving == 0,
        ),
        Row(
            "three nodes: share that ends in an unwanted stationary state",
            expected,
            share,
            holds=0 < share < 1,
        ),
    ]


def _two_node_chart(times: Vector) -> Chart:
    series = []
    for colour, share in enumerate(SHARES):
        solved = model.integrate(np.array([share, 1 - share]) * model.N0, "quadratic", times)
        exact = model.two_nodes(share * model.N0, times)
        series.append(
            Series(f"from {share:g} n0", times.tolist(), solved[:, 0].tolist(), colour=colour)
        )
        label = "eq. 11" if colour == 0 else ""
        series.append(Series(label, times.tolist(), exact.tolist(), dotted=True, colour=colour))
    return Chart(
        "Two nodes, integrated and by eq. 11", "time (T)", "containers on node 1", tuple(series)
    )


def _track_chart() -> Chart:
    times = np.linspace(0.0, 20.0, 101)
    tracks = model.integrate(np.array(START, dtype=np.float64), "quadratic", times)
    names = ("node 1", "nodes 2 and 3")
    series = tuple(
        Series(name, times.tolist(), tracks[:, k].tolist()) for k, name in enumerate(names)
    )
    title = "Three nodes from 32, 34, 34: the model always empties node 1"
    return Chart(title, "time (T)", "containers", series, lines=(("n0", model.N0),))
