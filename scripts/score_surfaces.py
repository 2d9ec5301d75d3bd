"""Draws docs/negotiation-scores.png: both allocation scores over the loads of two resources.

python scripts/score_surfaces.py > surfaces.svg     then render it, 1060 × 560, light
"""

from __future__ import annotations

import numpy as np

from murmuration.placement.allocation_scores import sias, sras_bands
from murmuration.reports.style import LIGHT
from murmuration.reports.svg import NAMESPACE, tag

SIZE, CELLS, LOAD_MAX = 400, 100, 1.1
EDGES = (0.7, 0.9, 1.0)
RAMP = ("#ffffff", "#d6e6f4", "#9cc5e2", "#4a93c7", "#12609f", "#08335c")
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
FONT = "font-family:Inter,Helvetica,Arial,sans-serif"


def colour(share: float) -> str:
    """A shade of the ramp."""
    at = share * (len(RAMP) - 1)
    k = min(int(at), len(RAMP) - 2)
    a, b = (np.array([int(RAMP[n][i : i + 2], 16) for i in (1, 3, 5)]) for n in (k, k + 1))
    return "#" + "".join(f"{round(c):02x}" for c in a + (b - a) * (at - k))


def text(
    label: str, x: float, y: float, size: int = 13, fill: str = LIGHT["ink"], **more: object
) -> str:
    return tag(
        "text",
        label,
        x=float(x),
        y=float(y),
        fill=fill,
        font_size=size,
        text_anchor="middle",
        style=FONT,
        **more,
    )


def panel(title: str, score: object, left: float, top: float) -> str:
    cell = SIZE / CELLS
    parts = [text(title, left + SIZE / 2, top - 16, 16, font_weight="600")]
    for i in range(CELLS):
        for j in range(CELLS):
            loads = np.array([(i + 0.5) / CELLS, (j + 0.5) / CELLS]) * LOAD_MAX
            value = score(loads) / 3.0  # type: ignore[operator]
            x, y = left + i * cell, top + SIZE - (j + 1) * cell
            parts.append(
                tag("rect", x=x, y=y, width=cell + 0.3, height=cell + 0.3, fill=colour(value))
            )
    for edge in EDGES:
        at = edge / LOAD_MAX * SIZE
        line = {"stroke": LIGHT["reference"], "stroke_width": 0.8, "stroke_dasharray": "4 3"}
        parts.append(tag("line", x1=left + at, x2=left + at, y1=top, y2=top + SIZE, **line))
        parts.append(
            tag("line", x1=left, x2=left + SIZE, y1=top + SIZE - at, y2=top + SIZE - at, **line)
        )
        parts.append(text(f"{edge:.0%}", left + at, top + SIZE + 18, 12, LIGHT["muted"]))
        parts.append(text(f"{edge:.0%}", left - 22, top + SIZE - at + 4, 12, LIGHT["muted"]))
    for cpu, memory, name in REGIONS:
        value = score(np.array([cpu, memory])) / 3.0  # type: ignore[operator]
        x, y = left + cpu / LOAD_MAX * SIZE, top + SIZE - memory / LOAD_MAX * SIZE + 5
        turn = f"rotate(-90 {x} {y - 5})" if name in ("STA", "overloaded") and cpu > 0.9 else None
        fill = "#ffffff" if value > 0.45 else LIGHT["ink"]
        parts.append(text(name, x, y, 14, fill, font_weight="600", transform=turn))
    frame = tag("rect", x=left, y=top, width=SIZE, height=SIZE, fill="none", stroke=LIGHT["axis"])
    parts += [frame, text("CPU", left + SIZE / 2, top + SIZE + 40)]
    x, y = left - 48, top + SIZE / 2
    parts.append(text("memory", x, y, transform=f"rotate(-90 {x} {y})"))
    return "".join(parts)


def legend(left: float, top: float) -> str:
    height = SIZE / 60
    parts = [
        tag(
            "rect",
            x=left,
            y=top + SIZE - (k + 1) * height,
            width=16,
            height=height + 0.3,
            fill=colour(k / 59),
        )
        for k in range(60)
    ]
    parts += [
        text(str(n), left + 26, top + SIZE - n / 3 * SIZE + 4, 12, LIGHT["muted"]) for n in range(4)
    ]
    parts.append(
        tag("rect", x=left, y=top, width=16, height=SIZE, fill="none", stroke=LIGHT["axis"])
    )
    return "".join([*parts, text("score", left + 12, top - 16, 13)])


def main() -> None:
    parts = [
        tag("rect", width="100%", height="100%", fill="#ffffff"),
        panel("Initial allocation (SIAS)", sias, 80, 60),
        panel("Re-allocation in bands (sras-bands)", sras_bands, 570, 60),
        legend(1000, 60),
    ]
    print(tag("svg", *parts, xmlns=NAMESPACE, width=1060, height=530, viewBox="0 0 1060 530"))


if __name__ == "__main__":
    main()
