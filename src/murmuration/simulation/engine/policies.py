"""The placement of a run as a kernel calls it: compiled once, passed as a value."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from murmuration.base.errors import InputError
from murmuration.base.jit import FirstClass
from murmuration.placement import kernels, scores
from murmuration.placement.decide import what_failed
from murmuration.placement.registry import Placement
from murmuration.simulation.engine.world import World


def compile_policy(placement: Placement) -> tuple[FirstClass, FirstClass]:
    """What the kernel calls: the placement, and the score behind it (any, where it uses none)."""
    ranked = placement.fast and placement.score is not None
    return _compile_placement(ranked), _compile_score(
        placement.score if ranked else scores.best_fit
    )


@cache
def _compile_placement(ranked: bool) -> FirstClass:
    return kernels.as_placement(kernels.place_ranked if ranked else kernels.first_fit)


@cache
def _compile_score(function: Any) -> FirstClass:
    """A score of ours is cached on disk; a user's is compiled for this process."""
    if function in scores.SCORES.values():
        return kernels.as_score(function)
    return compile_user_code(
        lambda: kernels.as_score(function, cache=False), f"{function.__name__}: expected a score"
    )


def compile_user_code(compile_it: Callable[[], FirstClass], what: str) -> FirstClass:
    """Compile what a user wrote. The compiler's message is long, and its first lines are the ones
    that help."""
    from numba.core.errors import NumbaError

    try:
        return compile_it()
    except (NumbaError, TypeError) as error:
        first = " ".join(line.strip() for line in str(error).splitlines()[:4] if line.strip())
        raise InputError(f"{what} that can be compiled: {first}") from error


def check_score(placement: Placement, world: World) -> None:
    """Try a user's score once before the run: a kernel calls it without any check of what it
    answers."""
    if placement.score is None or placement.score in scores.SCORES.values():
        return
    score = _compile_score(placement.score).compiled if placement.fast else placement.score
    try:
        answered = np.asarray(score(world.total, world.free.copy(), world.request[0]))
    except Exception as error:
        raise InputError(f"{placement.name}: {what_failed(error)}") from error
    if (
        answered.shape != (len(world.total),)
        or answered.dtype.kind not in "iuf"
        or np.isnan(answered).any()
    ):
        raise InputError(
            f"{placement.name}: expected one number for each of the {len(world.total)} nodes"
        )
