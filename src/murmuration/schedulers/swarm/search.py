"""The two ways to find a destination: along the ring of nodes, or along the order of fullness with
fingers."""

from __future__ import annotations

RING, CHORD = 0, 1
SEARCHES = ("ring", "chord")
