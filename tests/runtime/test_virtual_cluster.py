"""The processes that ship, in virtual time under random faults."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.virtual.checks import check
from tests.runtime.virtual.faults import END_S, draw

SEEDS = range(1, 25)


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory, where that can be had: what a power cut does to a disk is tested elsewhere."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as place:
        yield Path(place) / "cluster"


@pytest.mark.parametrize("seed", SEEDS)
def test_random_faults(seed: int, folder: Path) -> None:
    cluster = draw(seed, folder)
    try:
        cluster.world.run(END_S)
        broken = check(cluster)
    finally:
        cluster.close()
    assert not broken, "\n".join(broken)
