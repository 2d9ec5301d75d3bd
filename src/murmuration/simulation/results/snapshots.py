"""The files of a run's folder, and its snapshot: every array that changes, saved and loaded
whole."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from murmuration.base.errors import InputError
from murmuration.base.files import replace_file
from murmuration.base.version import __version__

if TYPE_CHECKING:
    from murmuration.simulation.engine.run import Run

SUMMARY, TIMING, SCENARIO, SNAPSHOT = "summary.json", "timing.json", "scenario.json", "snapshot.npz"
#: Goes up when a key of the summary changes its meaning.
SUMMARY_VERSION = 2
JOBS, SERIES = "jobs.parquet", "series.parquet"
TICKS, USAGE, DECISIONS, ERRORS = "ticks.csv", "usage.csv", "decisions.csv", "errors.log"


def save_run(path: Path, run: Run, label: str) -> None:
    """A snapshot: every array of a run that changes, and the version and scenario it belongs to."""
    arrays: dict[str, Any] = {
        f"{part}.{name}": array
        for part, record in _parts(run).items()
        for name, array in record.items()
    }
    replace_file(
        path,
        lambda target: np.savez_compressed(target, _label=np.array([__version__, label]), **arrays),
    )


def load_run(path: Path, run: Run, label: str) -> None:
    """Put a run where its snapshot left it, refused if that is of another version or another
    scenario."""
    try:
        with path.open("rb") as handle, np.load(handle) as stored:
            version, saved_label = stored["_label"]
            if version != __version__ or saved_label != label:
                raise InputError(
                    f"{path}: expected a snapshot of this version and scenario, found another"
                )
            parts = {
                part: {name: np.ascontiguousarray(stored[f"{part}.{name}"]) for name in record}
                for part, record in _parts(run).items()
            }
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        raise InputError(f"{path}: expected a snapshot of a run: {error}") from error
    for part, record in parts.items():
        field = part if part in ("world", "measured") else "state"
        setattr(run, field, type(getattr(run, field))(**record))
    run.index = None
    assert len(run.world.schedulers) == len(run.setup.schedulers) * run.setup.slots, (
        "the world and the setup have the same schedulers"
    )


def _parts(run: Run) -> dict[str, dict[str, NDArray[Any]]]:
    """What of a run changes, by the name of the array; the architecture names its own part."""
    parts = {
        "world": run.world,
        run.setup.architecture.state_name: run.state,
        "measured": run.measured,
    }
    return {name: part._asdict() for name, part in parts.items() if part is not None}
