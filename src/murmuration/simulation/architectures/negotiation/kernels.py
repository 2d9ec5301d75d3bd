"""The decision functions of negotiation, compiled for long message-level runs: the same code, the
same choices."""

from __future__ import annotations

from typing import Any

from murmuration.base.jit import loop_kernel, tree
from murmuration.schedulers.negotiation import candidates, selection

_select = tree(selection.select)
_tabu = tree(selection.tabu)
_rate = tree(candidates.rate_nodes)


@loop_kernel
def run_select(
    total: Any, used: Any, guaranteed: Any, tasks: Any, chosen: Any, work: Any, exact_max: int
) -> Any:
    return _select(total, used, guaranteed, tasks, chosen, work, exact_max)


@loop_kernel
def run_tabu(
    total: Any,
    used: Any,
    guaranteed: Any,
    tasks: Any,
    chosen: Any,
    work: Any,
    rng: Any,
    restarts: int,
    steps: int,
    patience: int,
    count_restarts: bool,
    visited: Any,
) -> Any:
    return _tabu(
        total,
        used,
        guaranteed,
        tasks,
        chosen,
        work,
        rng,
        restarts=restarts,
        steps=steps,
        patience=patience,
        count_restarts=count_restarts,
        visited=visited,
    )


@loop_kernel
def run_rate(
    kind: int,
    total: Any,
    used: Any,
    guaranteed: Any,
    tasks: Any,
    allowed: Any,
    order: Any,
    use: Any,
    request: Any,
    production: bool,
    limit: int,
    weights: Any,
    fit: Any,
    after: Any,
    before: Any,
) -> Any:
    return _rate(
        kind=kind,
        total=total,
        used=used,
        guaranteed=guaranteed,
        tasks=tasks,
        allowed=allowed,
        order=order,
        use=use,
        request=request,
        production=production,
        limit=limit,
        weights=weights,
        fit=fit,
        after=after,
        before=before,
    )
