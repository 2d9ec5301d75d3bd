"""`murmur list` and `murmur init`: what is listed can be used, and what is written runs."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from tests.cli.conftest import Murmur

from murmuration.placement.registry import NAMES, resolve
from murmuration.simulation.architectures.table import kinds
from murmuration.simulation.scenarios import scenario as sc


def listed(murmur: Murmur, kind: str) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads(murmur("list", kind, "--json").out)[kind]
    return rows


def test_what_is_listed_is_what_can_be_named(murmur: Murmur) -> None:
    assert [row["preset"] for row in listed(murmur, "presets")] == sc.preset_names()
    assert [row["scheduler"] for row in listed(murmur, "schedulers")] == list(kinds())
    placements = [row["placement"] for row in listed(murmur, "placements")]
    assert set(NAMES) < set(placements) and all(resolve(name) for name in NAMES)
    assert all(row["what it is"] for row in listed(murmur, "presets"))


def test_every_key_with_a_default_can_be_set_to_it(murmur: Murmur) -> None:
    """The defaults as they are listed, written into a scenario, change nothing and are accepted."""
    keys = listed(murmur, "keys")
    assert len(keys) > 60 and len({row["key"] for row in keys}) == len(keys)
    base = {"cluster": {"nodes": 3}, "workload": {"w": {"arrivals_per_s": 0.1}}}
    changes = {
        row["key"].replace("NAME", "w"): json.loads(row["default"])
        for row in keys
        if "[]" not in row["key"]
        and row["default"] not in ("", "required", "{}", "[]")
        and not row["key"].startswith(("workload.", "scheduler.policy", "scheduler.decision"))
        # These tables are not there unless they are asked for.
        and not row["key"].startswith(("cluster.failures.", "cluster.costs."))
        and row["key"].startswith(("seed", "days", "scheduler.", "cluster."))
    }
    before = sc.check(base, "x")
    after = sc.check(sc.override(base, changes), "x")
    assert after.cluster == before.cluster and after.days == before.days
    assert after.scheduler.placement == before.scheduler.placement


def test_all_lists_at_once(murmur: Murmur) -> None:
    out = murmur("list").out
    assert "omega-a" in out and "best-fit" in out and "shared-state" in out and "crowding" in out
    assert "scheduler.retry_s" not in out and "scheduler.retry_s" in murmur("list", "keys").out


@pytest.mark.parametrize(("kind", "name"), [("scenario", "scenario.toml"), ("job", "job.toml")])
def test_a_template_is_valid_toml(murmur: Murmur, tmp_path: Path, kind: str, name: str) -> None:
    assert name in murmur("init", kind).err
    assert tomllib.loads((tmp_path / name).read_text())["name"]


def test_the_scenario_and_the_policy_run(murmur: Murmur, tmp_path: Path) -> None:
    murmur("init", "scenario", "mine.toml")
    murmur("init", "policy", "own.py")
    sizes = ("--days", "0.01", "--set", "cluster.nodes=20", "--json", "--jobs", "1")
    document = json.loads(murmur("compare", "mine.toml", *sizes, "-s", "packed,own:pack").out)
    assert [run["scheduler"] for run in document["runs"]] == ["packed", "own:pack"]


def test_a_file_that_is_there_is_left_alone(murmur: Murmur, tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text("mine")
    answer = murmur("init", "job")
    assert (
        answer.code == 2
        and "is there already" in answer.err
        and (tmp_path / "job.toml").read_text() == "mine"
    )
