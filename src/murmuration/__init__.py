"""Murmuration: a cluster scheduler you can prove before you run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from murmuration.base.version import __version__

if TYPE_CHECKING:
    from murmuration.base.jit import Kernel as kernel  # noqa: N813
    from murmuration.experiments.python.live import Cluster
    from murmuration.experiments.python.plans import PlanResult, plan
    from murmuration.experiments.python.results import Comparison, RunResult, Sweep
    from murmuration.experiments.python.study import compare, simulate, sweep
    from murmuration.placement.view import JobView, View
    from murmuration.runtime.client.sdk import OfferScheduler, SharedStateScheduler
    from murmuration.workload.job_spec import JobSpec

__all__ = [
    "Cluster",
    "Comparison",
    "JobSpec",
    "JobView",
    "OfferScheduler",
    "PlanResult",
    "RunResult",
    "SharedStateScheduler",
    "Sweep",
    "View",
    "__version__",
    "compare",
    "kernel",
    "plan",
    "simulate",
    "sweep",
]

#: Where each public name is.
_LAZY = {
    "kernel": ("murmuration.base.jit", "Kernel"),
    **{
        name: (f"murmuration.experiments.python.{module}", name)
        for module, names in {
            "study": ("compare", "simulate", "sweep"),
            "plans": ("PlanResult", "plan"),
            "results": ("Comparison", "RunResult", "Sweep"),
            "live": ("Cluster",),
        }.items()
        for name in names
    },
    "View": ("murmuration.placement.view", "View"),
    "JobView": ("murmuration.placement.view", "JobView"),
    "JobSpec": ("murmuration.workload.job_spec", "JobSpec"),
    "OfferScheduler": ("murmuration.runtime.client.sdk", "OfferScheduler"),
    "SharedStateScheduler": ("murmuration.runtime.client.sdk", "SharedStateScheduler"),
}


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that `murmur --help` loads nothing it does not need."""
    if name not in _LAZY:
        raise AttributeError(f"module 'murmuration' has no attribute {name!r}")
    import importlib

    module, attribute = _LAZY[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
