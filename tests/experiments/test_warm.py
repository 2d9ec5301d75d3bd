"""Kernels are compiled before the runs that need them, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from murmuration.base.kernel_cache import kernel_folder
from murmuration.experiments.execution import warm
from murmuration.experiments.specs import make_study, variant_specs
from murmuration.simulation.scenarios import scenario as sc

TABLES = {
    "cluster": {"nodes": 4},
    "workload": {"batch": {"arrivals_per_s": 1.0}},
    "variant": {
        "best": {"scheduler.placement": "best-fit"},
        "again": {"scheduler.placement": "best-fit", "seed": 2},
        "mine": {"scheduler.kind": "mine:Policy"},
        "offers": {"scheduler.kind": "offers"},
    },
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MURMUR_CACHE", str(tmp_path))
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    return kernel_folder()


def test_what_is_compiled_is_not_compiled_again(cache: Path) -> None:
    """Runs that differ in nothing a kernel sees share one; a user's own scheduler is compiled when
    it is loaded; those that take longest come first."""
    specs = variant_specs(make_study(TABLES), [])
    missing = warm.missing_kernels(specs)
    assert [(each.kind, each.placement) for each in missing] == [
        ("offers", "first-fit"),
        ("monolithic", "first-fit"),
        ("monolithic", "best-fit"),
    ]
    (cache / missing[0].marker).touch()
    assert warm.missing_kernels(specs) == missing[1:]


def test_a_cache_that_cannot_be_kept_is_not_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MURMUR_CACHE", str(tmp_path / "file"))
    assert warm.missing_kernels(variant_specs(make_study(TABLES), ["offers"])) == []


@pytest.mark.parametrize("kind", ["monolithic", "offers", "negotiation", "swarm", "genetic"])
@pytest.mark.parametrize("has_usage", [False, True])
def test_the_cell_that_is_compiled_with_is_a_valid_scenario(kind: str, has_usage: bool) -> None:
    sc.check(warm.tiny_scenario(warm.KernelSet(kind, "first-fit", "", has_usage)))
