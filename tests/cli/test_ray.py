"""Studies on Ray, started here: the same results as on this host's own processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Murmur
from tests.cli.test_commands import results

POLICY = """
from murmuration.placement.plain import FirstFit

class Mine(FirstFit):
    pass
"""


@pytest.fixture(autouse=True)
def two_workers(murmur: Murmur) -> Iterator[None]:
    """Ray's workers look for modules in the folder in which it was started."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_a_sweep_on_ray_leaves_the_same_files(murmur: Murmur, tmp_path: Path) -> None:
    sweep = (
        "sweep",
        "small.toml",
        "--vary",
        "scheduler.placement=first-fit,on_ray:Mine",
        "--json",
        "--out",
    )
    lost = murmur(*sweep, "there", "--on", "ray")
    assert lost.code == 2 and lost.err.count("\n") == 1, lost.err
    assert "module 'on_ray' cannot be imported" in lost.err
    (tmp_path / "on_ray.py").write_text(POLICY)
    there = murmur(*sweep, "there", "--on", "ray")
    assert there.code == 0, there.err
    assert [run["path"] for run in json.loads(there.out)["runs"]] == ["compiled", "python"]
    assert murmur(*sweep, "here", "--jobs", "1").code == 0
    assert results(tmp_path / "there") == results(tmp_path / "here")


@pytest.mark.parametrize("words", [("swarm-distribution",), ("rss", "--days", "0.002")])
def test_a_reproduction_on_ray_measures_the_same(murmur: Murmur, words: tuple[str, ...]) -> None:
    here, there = (
        murmur("reproduce", *words, "--quick", "--json", *where)
        for where in (("--jobs", "1"), ("--on", "ray"))
    )
    assert here.code == there.code == 0, here.err + there.err
    assert json.loads(there.out)["rows"] == json.loads(here.out)["rows"]
