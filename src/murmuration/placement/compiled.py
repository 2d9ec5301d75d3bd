"""Placements for whoever decides from Python and often: the ranking stays plain, its score runs
compiled and gives the same numbers."""

from __future__ import annotations

from dataclasses import replace

from murmuration.base.jit import SCORE, compiled
from murmuration.placement.plain import RankedPolicy
from murmuration.placement.registry import Placement


def with_compiled_score(placement: Placement) -> Placement:
    """The same placement, faster; what cannot be compiled stays as it is."""
    if not placement.fast or placement.score is None:
        return placement
    score = compiled(placement.score)
    # Compiled now rather than at the first decision.
    score.compile(SCORE.args)
    return replace(placement, policy=RankedPolicy(score))
