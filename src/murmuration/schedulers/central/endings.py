"""What follows an end: how long a task waits before it runs again, and how the end is put."""

from __future__ import annotations

from murmuration.schedulers.central.messages import Ended
from murmuration.schedulers.offers.messages import Status
from murmuration.workload.job_spec import JobSpec


def backoff_s(spec: JobSpec, failures: int) -> float:
    """How long a task waits after its n-th failure in a row."""
    return min(spec.restart.backoff_s * 2.0 ** min(failures - 1, 60), spec.restart.backoff_max_s)


def lost_backoff_s(spec: JobSpec, losses: int) -> float:
    """How long a task waits after its n-th loss in a row: after the first one not at all."""
    return 0.0 if losses <= 1 else backoff_s(spec, losses - 1)


def exit_reason(ended: Ended) -> str:
    """Why a run ended of which its agent says no more than how."""
    if ended.signal is not None:
        return f"killed by signal {ended.signal}"
    if ended.code:
        return f"exit code {ended.code}"
    return "" if ended.status is Status.FINISHED else str(ended.status)
