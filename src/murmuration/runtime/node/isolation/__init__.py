"""Isolation of tasks: plain processes for any user, containers by runc for root, behind one
interface."""

from __future__ import annotations

from murmuration.runtime.node.isolation.choose import choose
from murmuration.runtime.node.isolation.interface import (
    Exit,
    Handle,
    Isolation,
    RunLimits,
    RunSpec,
    StartFailed,
    task_folder,
)

__all__ = [
    "Exit",
    "Handle",
    "Isolation",
    "RunLimits",
    "RunSpec",
    "StartFailed",
    "choose",
    "task_folder",
]
