"""Draws docs/negotiation-scores.png: both allocation scores over the loads of two resources.

python scripts/score_surfaces.py docs/negotiation-scores.png
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from murmuration.placement.allocation_scores import sias, sras_bands

CELLS, LOAD_MAX, SCORE_MAX = 200, 1.1, 3.0
EDGES = (0.7, 0.9, 1.0)
#: Where each region is named: CPU, memory, name.
REGIONS = (
    (0.35, 0.35, "PA"),
    (0.8, 0.8, "TA"),
    (0.8, 0.35, "DA"),
    (0.35, 0.8, "DA"),
    (0.95, 0.35, "STA"),
    (0.35, 0.95, "STA"),
    (0.5, 1.05, "overloaded"),
    (1.05, 0.45, "overloaded"),
)
Score = Callable[[NDArray[np.float64]], float]


def draw_panel(axes: Axes, title: str, score: Score) -> object:
    loads = (np.arange(CELLS) + 0.5) / CELLS * LOAD_MAX
    values = [[score(np.array([cpu, memory])) for cpu in loads] for memory in loads]
    extent = (0.0, LOAD_MAX, 0.0, LOAD_MAX)
    image = axes.imshow(values, cmap="Blues", vmin=0, vmax=SCORE_MAX, origin="lower", extent=extent)
    for edge in EDGES:
        axes.axvline(edge, color="0.25", linewidth=0.7, linestyle="--")
        axes.axhline(edge, color="0.25", linewidth=0.7, linestyle="--")
    for cpu, memory, name in REGIONS:
        is_dark = score(np.array([cpu, memory])) > 0.5 * SCORE_MAX
        turned = 90 if cpu > 0.9 else 0
        place = {"ha": "center", "va": "center", "rotation": turned, "weight": "bold"}
        axes.text(cpu, memory, name, color="white" if is_dark else "black", **place)
    ticks = [0.0, 0.35, *EDGES]
    axes.set_xticks(ticks, [f"{tick:.0%}" for tick in ticks])
    axes.set_yticks(ticks, [f"{tick:.0%}" for tick in ticks])
    axes.tick_params(labelsize=8)
    axes.set(title=title, xlabel="CPU", ylabel="memory")
    return image


def main(path: str) -> None:
    figure = Figure(figsize=(10.6, 5.0), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    draw_panel(left, "Initial allocation (SIAS)", sias)
    image = draw_panel(right, "Re-allocation in bands (sras-bands)", sras_bands)
    figure.colorbar(image, ax=[left, right], label="score", shrink=0.9)  # type: ignore[arg-type]
    figure.savefig(path, metadata={"Software": None})


if __name__ == "__main__":
    main(sys.argv[1])
