"""Every reproduction that is listed can be run: its module and its function are there."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

import pytest

from murmuration.base.errors import InputError
from murmuration.experiments.catalogue import EXPERIMENTS
from murmuration.experiments.papers.masb.tables import scale_cell
from murmuration.experiments.result import ReproductionSettings


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_listed_can_be_loaded(name: str) -> None:
    assert len(inspect.signature(EXPERIMENTS[name].load()).parameters) == 1


#: One computation each, with nothing to hand out.
ALONE = ("swarm-three-nodes", "swarm-model", "masb-optimum")


class RayReachedError(Exception):
    pass


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name not in ALONE])
def test_every_experiment_hands_its_runs_to_ray(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told where to run, it asks for a connection before it has run anything here."""

    def init(address: str, **options: object) -> None:
        raise RayReachedError(address)

    ray: Any = ModuleType("ray")
    ray.is_initialized, ray.init = bool, init
    monkeypatch.setitem(sys.modules, "ray", ray)
    settings = ReproductionSettings(quick=True, on="ray://head:10001")
    try:
        with pytest.raises(RayReachedError, match="ray://head:10001"):
            EXPERIMENTS[name].load()(settings)
    except InputError as error:
        pytest.skip(str(error))


def test_a_small_cell_keeps_every_kind_of_node() -> None:
    """Sizes by hand: a tenth of 40, 14 and 3 nodes, and the load with them."""
    cell = {
        "cluster": {"group": [{"count": 40}, {"count": 14}, {"count": 3}]},
        "workload": {"batch": {"initial": 250, "arrivals_per_s": 2.0}},
    }
    small = scale_cell(cell, nodes=0.1, load=0.1)
    assert [group["count"] for group in small["cluster"]["group"]] == [4, 1, 1]
    assert small["workload"]["batch"] == {"initial": 25, "arrivals_per_s": 0.2}
    common = scale_cell(cell, nodes=0.1, smallest=0)
    assert [group["count"] for group in common["cluster"]["group"]] == [4, 1]
