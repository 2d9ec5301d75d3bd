"""What a reproduction yields: for each quantity what the paper says, what was measured here, and
whether it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from murmuration.reports.figures import Bars, Chart


@dataclass(frozen=True)
class ReproductionSettings:
    """How a reproduction is run. `days` None is the paper's length; `quick` shortens it to
    seconds. Its runs are made on so many workers here, or on Ray where `on` says."""

    seed: int = 1
    days: float | None = None
    quick: bool = False
    workers: int = 1
    on: str | None = None
    progress: Callable[[str, float], None] = field(default=lambda text, share: None)


@dataclass(frozen=True)
class Row:
    """One quantity. `paper` is what the paper states or shows, in words where it is no number."""

    quantity: str
    paper: str | float | None
    measured: str | float | None
    low: float | None = None
    high: float | None = None
    holds: bool | None = None

    def document(self) -> dict[str, Any]:
        return {
            name: getattr(self, name)
            for name in ("quantity", "paper", "measured", "low", "high", "holds")
        }


@dataclass(frozen=True)
class Reproduction:
    """A table or figure of a paper, measured here."""

    experiment: str
    title: str
    rows: tuple[Row, ...]
    figures: tuple[Chart | Bars, ...] = ()
    notes: tuple[str, ...] = ()
