"""A score in plain Python as a value that kernels call.

The kernel leaves compiled code for each call, which costs a few microseconds; it asks for many rows
at once and remembers the answers (`ranking`). An exception cannot pass through compiled code. It is
kept here, the kernel goes on with scores of zero, and whoever called the kernel asks for it
(`take_error`).
"""

from __future__ import annotations

import numba
import numpy as np

from murmuration.base.arrays import Amounts, Scores
from murmuration.base.jit import SCORE, FirstClass
from murmuration.placement.decide import what_failed
from murmuration.placement.scores import Score


def frozen(array: Amounts) -> Amounts:
    """The same amounts, to read. (What a kernel passes may be the very array of the world.)"""
    view = array.view()
    view.flags.writeable = False
    return view


class PythonScore:
    """A user's plain score, compiled to a call back into Python."""

    def __init__(self, function: Score) -> None:
        self.function = function
        self.error: str | None = None
        ask = self._ask

        def call(total: Amounts, free: Amounts, request: Amounts) -> Scores:
            with numba.objmode(scores="float64[::1]"):
                scores = ask(total, free, request)
            return scores

        self.first_class = FirstClass(call, SCORE, cache=False)

    def take_error(self) -> str | None:
        """What went wrong since the last time, in one sentence."""
        error, self.error = self.error, None
        return error

    def _ask(self, total: Amounts, free: Amounts, request: Amounts) -> Scores:
        if self.error is None:
            try:
                scores = np.asarray(self.function(*map(frozen, (total, free, request))))
                if scores.shape == (len(total),):
                    return np.ascontiguousarray(scores, dtype=np.float64)
                self.error = f"expected one number for each of {len(total)} nodes"
            except Exception as error:
                self.error = what_failed(error)
        return np.zeros(len(total))
