"""The named types of arrays, so that a signature says what an array holds.

Several names stand for the same element type on purpose: `Amounts` and `Indices` are both 64-bit
integers, and a checker takes one for the other, but a reader does not. What a checker does catch is
an array of another element type: flags for amounts, a placement of 32 bits for row numbers of 64.

Kernels may carry these annotations freely. Numba ignores them and compiles for the arrays it is
called with, so a wrong annotation misleads people, never the compiler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Element = TypeVar("Element", bound=np.generic)

#: Exact amounts of resources (bytes, millionths): a vector per resource, or a row of them per node
#: or task.
Amounts = NDArray[np.int64]
#: How many of something: tasks on a node, sequence numbers, events so far.
Counts = NDArray[np.int64]
#: Small counts in one byte each, because there are many.
ByteCounts = NDArray[np.uint8]
#: Row numbers into another array, −1 for none.
Indices = NDArray[np.int64]
#: Whole numbers that are none of the above, or several of them in one array.
Integers = NDArray[np.int64]
#: Row numbers kept small because there are many: a placement is one node per task, −1 for none.
Placement = NDArray[np.int32]
#: One placement per row.
Placements = NDArray[np.int32]
#: Numbers as 32-bit integers.
SmallIntegers = NDArray[np.int32]
#: True or false per row: a mask of nodes, which tasks are pinned.
Flags = NDArray[np.bool_]
#: How good (or bad) each row is.
Scores = NDArray[np.float64]
#: How much each of several terms counts.
Weights = NDArray[np.float64]
#: Points in time or durations, in seconds.
Times = NDArray[np.float64]
#: Fractions of a whole: loads, utilisations, probabilities.
Shares = NDArray[np.float64]
#: Real numbers that are none of the above, or several of them in one array.
Floats = NDArray[np.float64]
#: The state of a generator of random numbers: four words, see `base/random`.
RandomState = NDArray[np.uint64]
#: An array whose element type is not fixed: a column of a table, a saved array of a world.
Column = NDArray[Any]
#: Named columns of equal length.
Table = Mapping[str, Column]
#: Rows of several named facts (`jobs[j].left`); a checker sees any type in them.
Records = NDArray[Any]


def resize(rows: NDArray[Element], gone: int | None) -> NDArray[Element]:
    """The same rows with one of zeros at the end; or without the one that is gone."""
    if gone is not None:
        return np.delete(rows, gone, axis=0)
    return np.concatenate([rows, np.zeros((1, *rows.shape[1:]), dtype=rows.dtype)])
