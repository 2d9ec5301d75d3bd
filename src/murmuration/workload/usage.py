"""Usage curves: what share of its request a task really uses, over time.

A curve is a row of points, `step_s` apart, with one share per resource. A task follows its job's
curve from its start; where the curves are cyclic, a task begins at a point of its own and
wraps around, otherwise the last point stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from murmuration.base.errors import InputError


@dataclass(frozen=True)
class Curves:
    """Shares of the request, by curve, point and resource."""

    share: NDArray[np.float32]
    step_s: float
    cyclic: bool = False

    def __len__(self) -> int:
        return len(self.share)


def join(parts: Sequence[Curves | None]) -> Curves | None:
    """The curves of several job lists, one after the other."""
    known = [curves for curves in parts if curves is not None]
    if not known:
        return None
    first = known[0]
    for other in known[1:]:
        if (other.step_s, other.cyclic, other.share.shape[1:]) != (
            first.step_s,
            first.cyclic,
            first.share.shape[1:],
        ):
            raise InputError(
                "usage curves of different steps or lengths cannot be part of one workload"
            )
    return Curves(np.concatenate([curves.share for curves in known]), first.step_s, first.cyclic)
