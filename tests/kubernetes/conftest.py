"""A fresh control plane for each module of tests that asks for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kubernetes.commands import Command, clean
from tests.kubernetes.control_plane import ControlPlane, skip_unless_built
from tests.kubernetes.kubelets import Kubelets


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    skip_unless_built()
    plane = ControlPlane(tmp_path_factory.mktemp("plane"))
    yield plane
    plane.stop()


@pytest.fixture(scope="module")
def kubelets(plane: ControlPlane) -> Iterator[Kubelets]:
    """Pods run on the nodes, and deployments, replica sets and budgets are looked after."""
    plane.start(
        "kube-controller-manager",
        "--leader-elect=false",
        "--controllers=deployment,replicaset,disruption",
    )
    kubelets = Kubelets(plane)
    kubelets.start()
    yield kubelets
    kubelets.stop()


@pytest.fixture
def start(plane: ControlPlane) -> Iterator[Callable[..., Command]]:
    """Starts schedulers; ends them, and removes pods and nodes, after each test."""
    started: list[Command] = []

    def run(*options: str, config: Path | None = None) -> Command:
        started.append(Command(plane, *options, config=config))
        return started[-1]

    yield run
    for command in started:
        if command.process.poll() is None:
            command.process.kill()
            command.process.wait()
    clean(plane)
