"""What a migration costs (Sliwko and Getov, 6.1: every figure of their logs)."""

from __future__ import annotations

BASE_MB = 100.0
MIB = 1024.0 * 1024.0


def migration_mb(memory_bytes: float) -> float:
    """Megabytes moved: a hundred for the container itself, and its memory in MiB."""
    return BASE_MB + memory_bytes / MIB
