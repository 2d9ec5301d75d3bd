"""Checksums of a store: one for each row, and one for all rows of a table together.

A flipped bit in a row changes the row's sum; a row that is gone, or there twice, changes the
table's. The table's sum is the exclusive or of those of its rows, so that a change of one row
changes it without a look at the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

_encoder = msgspec.msgpack.Encoder()


def row_sum(table: str, values: Sequence[object]) -> int:
    """The sum of a row of a table: 64 bits, as SQLite keeps them."""
    digest = hashlib.blake2b(_encoder.encode((table, *values)), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def total(sums: Sequence[int]) -> int:
    """The sum of a table from those of its rows."""
    result = 0
    for each in sums:
        result ^= each
    return result
