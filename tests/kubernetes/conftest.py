"""A fresh control plane for each module of tests that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.kubernetes.control_plane import ControlPlane, skip_unless_built


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    skip_unless_built()
    plane = ControlPlane(tmp_path_factory.mktemp("plane"))
    yield plane
    plane.stop()
