"""The index behind rankings: which row has the best score, without scoring every row each time.

A score depends on one row and the request alone. So between two decisions for equal requests only
rows whose amounts have changed need a new score, and those are in the log of changes (`room`). For
each of the last few kinds of request there is a *tournament tree*: every row has its score, or
NOWHERE where the task does not fit, each block of rows the best score in it, and each pair of
blocks, pair of pairs and so on the better of the two. A change climbs until a parent stays as it
was; the best row is found by descending from the root. Ties go to the first row from a random
start, as in a scan of all rows.

Beside each tree a *memo* remembers scores by the amounts they were computed from. Rows of one size
go through few states, so most new scores are known ones; that spares calling a compiled score, and
makes one in plain Python nearly as fast.

The index changes how long a decision takes, never which rows it chooses. It is no part of a
snapshot: a fresh one yields the same choices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from murmuration.base.arrays import Amounts, Counts, Floats, Placement, Scores
from murmuration.base.jit import AMOUNTS, compiled, helper, inlined, inner
from murmuration.base.rows import fits, take
from murmuration.placement.room import JobRoom, log_change, log_place
from murmuration.placement.scores import Score

#: Marks a row that cannot take the task. Scores are kept above it.
NOWHERE, LOWEST = -np.inf, -1.7976931348623157e308
#: Scores that a memo holds; a power of two.
MEMO = 2048
#: Rows of a block: few enough to look at each, enough that the tree above them stays in the cache.
BLOCK_BITS = 4
BLOCK = 1 << BLOCK_BITS
#: How many tasks ahead a row is scored: what it would score with one of them, with two, …
LEVELS = 8
#: Bytes that all trees and memos may take together, and how many of them there are at most.
INDEX_BYTES, SHAPES_MAX = 1 << 25, 32
# Columns of `cursors`: changes in the log when the tree was last true (−1: never), and last use.
TRUE_AT, USED_AT = 0, 1

Memo = NDArray[np.int64]


class RankIndex(NamedTuple):
    """One tree and one memo for each of the last few kinds of request, and room to work in."""

    #: The best score of block `b` is at `blocks + b`, that of a pair of places `k` and `k + 1` at
    #: `k // 2`, that of all rows at 1.
    trees: Floats
    scores: Floats
    #: Part of the table and request of each tree.
    keys: Amounts
    #: How far each tree has followed the log and when it was used; behind them, a count of uses.
    cursors: Counts
    #: Total and free amounts of a row, and the score that goes with them.
    memo_rows: Memo
    memo_scores: Floats
    #: Rows whose scores are not known yet, with their amounts.
    unknown: Placement
    unknown_total: Amounts
    unknown_free: Amounts
    #: Scores just computed.
    fresh: Floats


INDEX = types.NamedTuple(
    (
        types.float64[:, ::1],
        types.float64[:, ::1],
        AMOUNTS,
        AMOUNTS,
        types.int64[:, :, ::1],
        types.float64[:, ::1],
        types.int32[::1],
        AMOUNTS,
        AMOUNTS,
        types.float64[::1],
    ),
    RankIndex,
)


def make_index(rows: int, resources: int) -> RankIndex:
    """An empty index for a table; for one of no rows, a value to pass where nothing is ranked."""
    blocks = 1 << max((rows - 1) >> BLOCK_BITS, 0).bit_length()
    memo = MEMO if rows else 1
    shape_bytes = 8 * blocks * (2 + BLOCK) + 8 * memo * (2 * resources + 1)
    shapes = min(max(INDEX_BYTES // shape_bytes, 4), SHAPES_MAX) if rows else 1
    return RankIndex(
        trees=np.full((shapes, 2 * blocks), NOWHERE),
        scores=np.full((shapes, blocks * BLOCK), NOWHERE),
        keys=np.full((shapes, 1 + resources), -1, np.int64),
        cursors=np.full((shapes + 1, 2), -1, np.int64),
        memo_rows=np.full((shapes, memo, 2 * resources), -1, np.int64),
        memo_scores=np.zeros((shapes, memo)),
        unknown=np.zeros(rows, np.int32),
        unknown_total=np.zeros((rows + LEVELS, resources), np.int64),
        unknown_free=np.zeros((rows + LEVELS, resources), np.int64),
        fresh=np.zeros(rows + LEVELS),
    )


@inlined
def usable(room: JobRoom, node: int, request: Amounts) -> bool:
    """Whether a row may take one more task and has room for it."""
    return bool(
        (room.allowed.shape[0] == 0 or room.allowed[node]) and fits(room.free, node, request)
    )


@inner
def bounded(score: float) -> float:
    """A score above NOWHERE; the lowest there is for one that is no number."""
    return score if score > LOWEST else LOWEST


@compiled
def ask(
    score: Score, total: Amounts, free: Amounts, request: Amounts, count: int, fresh: Scores
) -> None:
    """Score the first `count` of these rows. It is a function of its own because a score makes an
    array: only here references are counted, not in the loops."""
    answered = score(total[:count], free[:count], request)
    for k in range(count):
        fresh[k] = bounded(answered[k])


# ---- The tree.


@inner
def set_score(tree: Scores, scores: Scores, node: int, value: float) -> None:
    """Give a row its score, and everything above it the best below."""
    at = (tree.shape[0] >> 1) + (node >> BLOCK_BITS)
    was, best = scores[node], tree[at]
    scores[node] = value
    if value < best and was < best:
        return
    if value < best:
        best = best_of_block(scores, node >> BLOCK_BITS)
    else:
        best = value
    while tree[at] != best:
        tree[at] = best
        # Shifts instead of divisions: this is an inner loop of every ranking.
        if at > 1:
            best = max(best, tree[at ^ 1])
            at >>= 1


@inner
def best_of_block(scores: Scores, block: int) -> float:
    """The best score in a block."""
    best = NOWHERE
    for node in range(block << BLOCK_BITS, (block + 1) << BLOCK_BITS):
        best = max(best, scores[node])
    return best


@inner
def first_in(scores: Scores, start: int, best: float) -> int:
    """The first row from `start` to the end of its block with the best score, −1 if there is
    none."""
    for node in range(start, ((start >> BLOCK_BITS) + 1) << BLOCK_BITS):
        if scores[node] == best:
            return node
    return -1


@inner
def first_best(tree: Scores, scores: Scores, start: int) -> int:
    """The first row with the best score, counted round from `start`."""
    best, blocks = tree[1], tree.shape[0] >> 1
    at = blocks + (start >> BLOCK_BITS)
    node = first_in(scores, start, best) if tree[at] == best else -1
    if node < 0:
        # Up, until a subtree to the right has the best; from the root, all rows are before `start`.
        while at > 1 and (at & 1 == 1 or tree[at + 1] != best):
            at >>= 1
        at = at + 1 if at > 1 else 1
        while at < blocks:
            at = 2 * at + (tree[2 * at] != best)
        node = first_in(scores, (at - blocks) << BLOCK_BITS, best)
    return node


# ---- The memo.


@inner
def memo_place(total: Amounts, free: Amounts, node: int, size: int) -> int:
    """Where in a memo of this size the score of a row would be."""
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for r in range(total.shape[1]):
        mixed = (mixed ^ np.uint64(free[node, r])) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ np.uint64(total[node, r])) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(32)
    return int(mixed & np.uint64(size - 1))


@inner
def is_known(memo_rows: Amounts, at: int, total: Amounts, free: Amounts, node: int) -> bool:
    """Whether this place of a memo holds the score of exactly these amounts."""
    resources, same = total.shape[1], True
    for r in range(resources):
        same &= memo_rows[at, r] == free[node, r]
        same &= memo_rows[at, resources + r] == total[node, r]
    return same


@helper
def remember(index: RankIndex, shape: int, row: int) -> None:
    """Keep the fresh score of a row of `unknown_total` and `unknown_free`; whatever had its place
    in the memo is forgotten."""
    total, free, resources = index.unknown_total, index.unknown_free, index.unknown_free.shape[1]
    at = memo_place(total, free, row, index.memo_scores.shape[1])
    for r in range(resources):
        index.memo_rows[shape, at, r] = free[row, r]
        index.memo_rows[shape, at, resources + r] = total[row, r]
    index.memo_scores[shape, at] = index.fresh[row]


# ---- Finding a tree and making it true.


@helper
def find_shape(index: RankIndex, part: int | np.int64, request: Amounts) -> int:
    """The tree for this request on this part of the table; the one used longest ago is given up for
    a new one."""
    shapes, cursors, found = index.keys.shape[0], index.cursors, -1
    oldest = 0
    for shape in range(shapes):
        same = cursors[shape, USED_AT] >= 0 and index.keys[shape, 0] == part
        for r in range(request.shape[0]):
            same &= index.keys[shape, 1 + r] == request[r]
        if same:
            found = shape
            break
        if cursors[shape, USED_AT] < cursors[oldest, USED_AT]:
            oldest = shape
    if found < 0:
        found = oldest
        index.keys[found, 0] = part
        for r in range(request.shape[0]):
            index.keys[found, 1 + r] = request[r]
        cursors[found, TRUE_AT] = -1
        # No row has less than nothing free, so what has −1 there is never taken for a score.
        for at in range(index.memo_rows.shape[1]):
            index.memo_rows[found, at, 0] = -1
    cursors[shapes, USED_AT] += 1
    cursors[found, USED_AT] = cursors[shapes, USED_AT]
    return found


@helper
def build_tree(index: RankIndex, shape: int, room: JobRoom, request: Amounts, score: Score) -> None:
    """Score every row."""
    tree, scores = index.trees[shape], index.scores[shape]
    ask(score, room.total, room.free, request, room.total.shape[0], index.fresh)
    for i in range(room.total.shape[0]):
        scores[i] = index.fresh[i] if usable(room, i, request) else NOWHERE
    blocks = tree.shape[0] // 2
    for block in range(blocks):
        tree[blocks + block] = best_of_block(scores, block)
    for at in range(blocks - 1, 0, -1):
        tree[at] = max(tree[2 * at], tree[2 * at + 1])


@inlined
def follow_log(index: RankIndex, shape: int, room: JobRoom, request: Amounts, true_at: int) -> int:
    """Give every row that changed since then its score, if that is known; the others are listed,
    and their number returned."""
    tree, scores, memo_rows = index.trees[shape], index.scores[shape], index.memo_rows[shape]
    unknown = 0
    for change in range(true_at, room.changes[0]):
        node = room.changes[log_place(room.changes, change)]
        if not usable(room, node, request):
            set_score(tree, scores, node, NOWHERE)
            continue
        at = memo_place(room.total, room.free, node, memo_rows.shape[0])
        if is_known(memo_rows, at, room.total, room.free, node):
            set_score(tree, scores, node, index.memo_scores[shape, at])
            continue
        index.unknown[unknown] = node
        for r in range(request.shape[0]):
            index.unknown_total[unknown, r] = room.total[node, r]
            index.unknown_free[unknown, r] = room.free[node, r]
        unknown += 1
    return unknown


@inlined
def refresh(index: RankIndex, shape: int, room: JobRoom, request: Amounts, score: Score) -> None:
    """Make a tree true again: every row that changed since it was gets its new score."""
    true_at, rows = index.cursors[shape, TRUE_AT], room.total.shape[0]
    unknown = 0
    if true_at < 0 or room.changes[0] - true_at > min(room.changes.shape[0] - 1, rows // 2):
        build_tree(index, shape, room, request, score)
    else:
        unknown = follow_log(index, shape, room, request, true_at)
    if unknown > 0:
        ask(score, index.unknown_total, index.unknown_free, request, unknown, index.fresh)
        for k in range(unknown):
            remember(index, shape, k)
            node, value = index.unknown[k], index.fresh[k]
            set_score(index.trees[shape], index.scores[shape], node, value)


# ---- Choosing.


@inlined
def place_known(
    room: JobRoom,
    request: Amounts,
    count: int,
    placed: int,
    start: int,
    nodes: Placement,
    index: RankIndex,
    shape: int,
) -> tuple[int, int]:
    """Each task in turn to the row with the best score, until all are placed, nothing fits or a new
    score is not known; returns how many are placed, and the row without a score, or −1."""
    tree, scores, memo_rows = index.trees[shape], index.scores[shape], index.memo_rows[shape]
    while placed < count and tree[1] > NOWHERE:
        value = tree[1]
        node = first_best(tree, scores, start)
        again = True
        while again:
            best = value
            take(room.free, node, request)
            nodes[placed] = node
            placed += 1
            value = NOWHERE
            if fits(room.free, node, request):
                at = memo_place(room.total, room.free, node, memo_rows.shape[0])
                if not is_known(memo_rows, at, room.total, room.free, node):
                    log_change(room.changes, node)
                    return placed, node
                value = index.memo_scores[shape, at]
            # Better than the best of all: the row stays ahead, and the tree need not know yet.
            again = value > best and placed < count
        log_change(room.changes, node)
        set_score(tree, scores, node, value)
    return placed, -1


@helper
def score_ahead(
    index: RankIndex, shape: int, room: JobRoom, node: int, request: Amounts, score: Score
) -> None:
    """Score the row just chosen for one more task, and at once for two more and so on, since it may
    well be chosen again."""
    total, free = index.unknown_total, index.unknown_free
    levels, more = 0, True
    while more and levels < LEVELS:
        for r in range(request.shape[0]):
            total[levels, r] = room.total[node, r]
            free[levels, r] = room.free[node, r] - levels * request[r]
        more = fits(free, levels, request)
        levels += more
    ask(score, total, free, request, levels, index.fresh)
    for k in range(levels):
        remember(index, shape, k)
    set_score(index.trees[shape], index.scores[shape], node, index.fresh[0])


@inlined
def choose_ranked(
    room: JobRoom,
    request: Amounts,
    count: int,
    start: int,
    nodes: Placement,
    score: Score,
    index: RankIndex,
) -> int:
    """Each task in turn to the row with the best score, by the tree of its kind of request."""
    shape = find_shape(index, room.part, request)
    refresh(index, shape, room, request, score)
    placed, node = place_known(room, request, count, 0, start, nodes, index, shape)
    while node >= 0:
        score_ahead(index, shape, room, node, request, score)
        placed, node = place_known(room, request, count, placed, start, nodes, index, shape)
    index.cursors[shape, TRUE_AT] = room.changes[0]
    return placed
