"""Which figure is drawn of which runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from murmuration.base import files
from murmuration.base.errors import InputError, unknown
from murmuration.experiments.figures.data import (
    FIGURES,
    PaperFigure,
    capacity_over_time,
    group_runs,
    usual_figure,
)
from murmuration.experiments.python.stored import read_runs
from murmuration.simulation.results import snapshots

CAPACITY = "capacity"


def choose_figure(folders: Sequence[Path], name: str | None) -> PaperFigure:
    """The figure of this name, or the one that most people would draw of these runs."""
    if name is not None and name not in (*FIGURES, CAPACITY):
        raise unknown("figure", name, [*FIGURES, CAPACITY])
    scalers = _scaler_folders(folders)
    if scalers:
        if name not in (None, CAPACITY):
            raise InputError(f"--figure {name}: expected runs of schedulers, got auto-scaling runs")
        return capacity_over_time(scalers)
    if name == CAPACITY:
        raise InputError("--figure capacity: expected runs of murmur autoscale")
    groups = group_runs(read_runs(folders).runs)
    return FIGURES[name or usual_figure(groups)](groups)


def _scaler_folders(folders: Sequence[Path]) -> list[Path]:
    """The folders of auto-scaling runs among these and below them: one for each scaler, that of
    its first seed."""
    places = [path for folder in folders for path in _scenarios(folder)]
    first: dict[str, Path] = {}
    for path in places:
        stored = files.read_json(path)
        if "autoscaler" in stored.get("tables", {}):
            first.setdefault(str(stored["label"]), path.parent)
    return list(first.values())


def _scenarios(folder: Path) -> list[Path]:
    own = folder / snapshots.SCENARIO
    return [own] if own.exists() else sorted(folder.glob(f"*/{snapshots.SCENARIO}"))
