"""The placement of a run as a kernel calls it: compiled once, passed as a value."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from murmuration.base.arrays import Amounts
from murmuration.base.errors import InputError
from murmuration.base.jit import FirstClass
from murmuration.placement import kernels, scores
from murmuration.placement.decide import what_failed
from murmuration.placement.python_score import PythonScore
from murmuration.placement.ranking import RankIndex, make_index
from murmuration.placement.registry import Placement
from murmuration.simulation.engine.world import World

if TYPE_CHECKING:
    from murmuration.simulation.engine.run import Run


#: Rows on which it is tried whether a score looks at other rows.
PROBED_ROWS = 100


def compile_policy(placement: Placement) -> tuple[FirstClass, FirstClass]:
    """What the kernel calls: the placement, and the score behind it (any, where it uses none)."""
    if placement.score is None:
        return _compile_placement(False), _compile_score(scores.best_fit)
    if not placement.fast:
        return _compile_placement(True), python_score(placement.score).first_class
    return _compile_placement(True), _compile_score(placement.score)


def decides_compiled(run: Run) -> bool:
    """Whether the kernel decides: a compiled placement, or one by a plain score that it can ask for
    the few scores it does not know."""
    return run.setup.placement.fast or run.setup.has_index


def index_of(run: Run) -> RankIndex:
    """What a ranking keeps between the decisions of this run."""
    if run.index is None:
        rows = len(run.world.total) if run.setup.has_index else 0
        run.index = make_index(rows, len(run.setup.resources))
    return run.index


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


@cache
def python_score(function: scores.Score) -> PythonScore:
    """A user's plain score as a kernel calls it."""
    return PythonScore(function)


def raise_score_error(placement: Placement) -> None:
    """Raise what went wrong in a plain score that the kernel has called."""
    if not placement.fast and placement.score is not None:
        error = python_score(placement.score).take_error()
        if error is not None:
            raise InputError(f"{placement.name}: {error}")


def compile_user_code(compile_it: Callable[[], FirstClass], what: str) -> FirstClass:
    """Compile what a user wrote. The compiler's message is long, and its first lines are the ones
    that help."""
    from numba.core.errors import NumbaError

    try:
        return compile_it()
    except (NumbaError, TypeError) as error:
        first = " ".join(line.strip() for line in str(error).splitlines()[:4] if line.strip())
        raise InputError(f"{what} that can be compiled: {first}") from error


def _callable_score(placement: Placement) -> scores.Score:
    """The score as Python calls it."""
    score = _compile_score(placement.score).compiled if placement.fast else placement.score
    return score  # type: ignore[no-any-return]


def check_score(placement: Placement, world: World) -> None:
    """Try a user's score once before the run: a kernel calls it without any check of what it
    answers."""
    if placement.score is None or placement.score in scores.SCORES.values():
        return
    try:
        answered = np.asarray(
            _callable_score(placement)(world.total, world.free.copy(), world.request[0])
        )
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


def is_row_wise(placement: Placement, total: Amounts) -> bool:
    """Whether a placement is a ranking whose score of a row depends on that row alone, which is
    what lets scores be kept. A user's score is tried: on rows with made-up amounts, all at once and
    every third of them alone, in another order. One that fails in any way is always given the whole
    table."""
    if placement.score is None or placement.score in scores.SCORES.values():
        return placement.score is not None
    total = np.resize(total, (PROBED_ROWS, total.shape[1]))
    draw = np.random.Generator(np.random.PCG64(0))
    free = (total * draw.random(total.shape)).astype(np.int64)
    request = free[len(free) // 2] // 2
    some = np.arange(len(total))[::-3]
    score = _callable_score(placement)
    try:
        with np.errstate(all="ignore"):
            whole = np.asarray(score(total.copy(), free.copy(), request), dtype=np.float64)
            parts = np.asarray(score(total[some], free[some], request), dtype=np.float64)
        return whole.shape == (len(total),) and np.array_equal(whole[some], parts, equal_nan=True)
    except Exception:
        return False
