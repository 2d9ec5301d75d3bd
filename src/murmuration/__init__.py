"""Murmuration: a cluster scheduler you can prove before you run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from murmuration.base.version import __version__

if TYPE_CHECKING:
    from murmuration.base.jit import Kernel as kernel  # noqa: N813
    from murmuration.experiments.runs import simulate
    from murmuration.placement.view import JobView, View
    from murmuration.runtime.client.sdk import OfferScheduler, SharedStateScheduler
    from murmuration.workload.job_spec import JobSpec

__all__ = [
    "JobSpec",
    "JobView",
    "OfferScheduler",
    "SharedStateScheduler",
    "View",
    "__version__",
    "kernel",
    "simulate",
]

_LAZY = {
    "kernel": ("murmuration.base.jit", "Kernel"),
    "simulate": ("murmuration.experiments.runs", "simulate"),
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
