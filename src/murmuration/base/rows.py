"""Arithmetic on one row of a table of amounts, and the random draw of kernels. Compiled into
whoever calls it."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from murmuration.base.jit import helper
from murmuration.base.random import next_double as plain_next_double

Array = NDArray[Any]

next_double = helper(plain_next_double)


@helper
def fits(free: Array, node: int, request: Array) -> bool:
    enough = True
    for r in range(request.shape[0]):
        enough &= request[r] <= free[node, r]
    return enough


@helper
def take(free: Array, node: int, request: Array) -> None:
    for r in range(request.shape[0]):
        free[node, r] -= request[r]


@helper
def give_back(free: Array, node: int, request: Array) -> None:
    for r in range(request.shape[0]):
        free[node, r] += request[r]
