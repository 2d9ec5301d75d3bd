"""Arithmetic on one row of a table of amounts, and the random draw of kernels.

Helpers: they are compiled as part of the kernels that call them and cannot be called from Python.
They loop over the resources by hand because a slice of a row would make an array header per call.
"""

from __future__ import annotations

from murmuration.base.arrays import Amounts
from murmuration.base.jit import helper
from murmuration.base.random import next_double as plain_next_double

next_double = helper(plain_next_double)


@helper
def fits(free: Amounts, node: int, request: Amounts) -> bool:
    """Whether a row has room for a request."""
    # No early exit: with two to five resources a branch costs more than the comparisons it saves.
    enough = True
    for r in range(request.shape[0]):
        enough &= request[r] <= free[node, r]
    return enough


@helper
def take(free: Amounts, node: int, request: Amounts) -> None:
    """Subtract a request from a row."""
    for r in range(request.shape[0]):
        free[node, r] -= request[r]


@helper
def give_back(free: Amounts, node: int, request: Amounts) -> None:
    """Add a request to a row."""
    for r in range(request.shape[0]):
        free[node, r] += request[r]
