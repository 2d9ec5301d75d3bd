"""The differential equations of section 3: a continuous cloud whose containers go anywhere (eq.
5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
N0 = 50.0


def leaving(n: Vector, kind: str) -> Vector:
    """p(n)·n: containers that leave a node per T, for n0 = 50 and n_min = 1."""
    if kind == "spread":
        return n - N0
    p = (N0 - n) / (N0 - 1.0)
    return (p if kind == "linear" else p * p) * n


def flow(n: Vector, kind: str) -> Vector:
    """T dn/dt of every node (eq. 5): what leaves it, and its part of what leaves the others."""
    out = leaving(n, kind)
    arriving: Vector = (out.sum() - out) / (len(n) - 1)
    return arriving - out


def integrate(start: Vector, kind: str, times: Vector, step: float = 0.02) -> Vector:
    """The containers on each node at these times, by the classic Runge–Kutta method of fourth
    order."""
    n, now, rows = np.array(start, dtype=np.float64), 0.0, []
    for until in times:
        count = max(1, int(np.ceil((until - now) / step)))
        h = (until - now) / count
        for _ in range(count):
            a = flow(n, kind)
            b = flow(n + h / 2 * a, kind)
            c = flow(n + h / 2 * b, kind)
            n = n + h / 6 * (a + 2 * b + 2 * c + flow(n + h * c, kind))
        now = until
        rows.append(n)
    return np.array(rows)


def two_nodes(n1: float, times: Vector) -> Vector:
    """Eq. 11: the exact solution for two nodes that hold n0 together, with the quadratic
    pheromone."""
    alpha, beta = (N0 / (2 * n1 - N0)) ** 2 - 1.0, (N0 / (N0 - 1.0)) ** 2
    sign = 1.0 if n1 > N0 / 2 else -1.0
    return N0 / 2 * (1.0 + sign / np.sqrt(alpha * np.exp(-beta * times) + 1.0))


def eigenvalues(point: Vector, kind: str) -> Vector:
    """The eigenvalues of the Jacobi matrix at a point, in ascending order."""
    size, step = len(point), 1e-4
    columns = []
    for k in range(size):
        shift = np.zeros(size)
        shift[k] = step
        columns.append((flow(point + shift, kind) - flow(point - shift, kind)) / (2 * step))
    return np.sort(np.linalg.eigvals(np.array(columns).T).real)


def signs(values: Vector) -> tuple[int, int, int]:
    """How many eigenvalues are negative, zero and positive."""
    zero = np.abs(values) < 1e-6
    return int((~zero & (values < 0)).sum()), int(zero.sum()), int((~zero & (values > 0)).sum())


def resting_place(n: Vector) -> str:
    """Where three nodes with the quadratic pheromone are: in the wanted state (eq. 8), another
    stationary one or none.

    n (n0 − n)² = c has three roots that add up to 2 n0 whatever c is: so the stationary states form
    a curve, from eq. 8 (c = 0) to eq. 15 (c = 4/27 n0³).
    """
    shares = np.sort(n) / N0
    if np.abs(shares - [0.0, 1.0, 1.0]).max() < 0.05:
        return "wanted"
    return "unwanted" if np.abs(flow(n, "quadratic")).max() < 1e-3 * N0 else "none"
