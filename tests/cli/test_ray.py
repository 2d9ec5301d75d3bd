"""The same sweep on Ray: started here, with a policy from the current folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Murmur
from tests.cli.test_commands import results

POLICY = """
from murmuration.placement.plain import FirstFit

class Mine(FirstFit):
    pass
"""


def test_a_sweep_on_ray_leaves_the_same_files(murmur: Murmur, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    (tmp_path / "on_ray.py").write_text(POLICY)
    sweep = (
        "sweep",
        "small.toml",
        "--vary",
        "scheduler.placement=first-fit,on_ray:Mine",
        "--json",
        "--out",
    )
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        there = murmur(*sweep, "there", "--on", "ray")
    finally:
        ray.shutdown()
    assert there.code == 0, there.err
    assert [run["path"] for run in json.loads(there.out)["runs"]] == ["compiled", "python"]
    assert murmur(*sweep, "here", "--jobs", "1").code == 0
    assert results(tmp_path / "there") == results(tmp_path / "here")
