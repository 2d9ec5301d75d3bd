"""Runs by the dozen: which ones, under which names, in which folders, and on what they run."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from murmuration.base.errors import InputError
from murmuration.experiments import parallel, runs
from murmuration.experiments.pages.parts import read_series, series_of
from murmuration.experiments.specs import (
    assign_folders,
    grid_specs,
    make_spec,
    make_study,
    replicate_seeds,
    variant_specs,
)
from murmuration.simulation.architectures.table import kinds
from murmuration.simulation.results import snapshots
from murmuration.simulation.scenarios import scenario as sc

WORK = {
    "arrivals_per_s": 0.2,
    "tasks_per_job": 3,
    "task_duration_s": 20,
    "task_cpu": 1,
    "task_memory": "1G",
}
BASE: dict[str, Any] = {
    "name": "base",
    "seed": 4,
    "days": 0.005,
    "cluster": {"nodes": 10, "cpu": 4, "memory": "8G"},
    "workload": {"w": WORK},
    "scheduler": {"kind": "shared-state"},
}
VARIANTS = {"machine": {"scheduler.conflict": "machine"}, "tiny": {"cluster.nodes": 1}}
PLAIN, STUDY = make_study(BASE), make_study({**BASE, "variant": VARIANTS})


def test_without_names_the_scenario_and_its_variants_or_every_quick_architecture() -> None:
    named = [spec.label for spec in variant_specs(STUDY, [])]
    assert named == ["shared-state", "machine", "tiny"]
    quick = [kind for kind in kinds() if kind not in ("swarm", "genetic")]
    assert [spec.label for spec in variant_specs(PLAIN, [])] == quick


def test_a_name_is_a_variant_an_architecture_or_the_users_own() -> None:
    specs = variant_specs(STUDY, ["tiny", "offers", "a.b:C", "tiny"])
    assert [spec.label for spec in specs] == ["tiny", "offers", "a.b:C"]
    assert [spec.tables["scheduler"]["kind"] for spec in specs] == [
        "shared-state",
        "offers",
        "a.b:C",
    ]
    assert specs[0].tables["cluster"]["nodes"] == 1 and all(
        "variant" not in spec.tables for spec in specs
    )
    with pytest.raises(InputError, match="unknown scheduler 'machin'; did you mean 'machine'"):
        variant_specs(STUDY, ["machin"])


def test_a_variant_leaves_the_others_alone() -> None:
    first = variant_specs(STUDY, ["machine"])[0]
    second = variant_specs(
        make_study({**BASE, "variant": {**VARIANTS, "x": {"seed": 9}}}), ["x", "machine"]
    )[1]
    assert first == second
    assert runs.execute(first)["workloads"] == runs.execute(second)["workloads"]


def test_a_grid_is_every_combination() -> None:
    specs = grid_specs(
        PLAIN, {"cluster.nodes": [5, 6], "scheduler.conflict": ["resource", "machine"]}
    )
    assert [spec.label for spec in specs] == [
        "nodes=5, conflict=resource",
        "nodes=5, conflict=machine",
        "nodes=6, conflict=resource",
        "nodes=6, conflict=machine",
    ]
    assert [spec.tables["cluster"]["nodes"] for spec in specs] == [5, 5, 6, 6]
    assert specs[1].vary == {"cluster.nodes": 5, "scheduler.conflict": "machine"}
    assert BASE["cluster"]["nodes"] == 10, "the scenario itself is not changed"


def test_replicas_have_seeds_one_after_the_other() -> None:
    specs = replicate_seeds(variant_specs(PLAIN, ["offers", "monolithic"]), 3)
    assert [(spec.label, spec.tables["seed"]) for spec in specs] == [
        ("offers", 4),
        ("offers", 5),
        ("offers", 6),
        ("monolithic", 4),
        ("monolithic", 5),
        ("monolithic", 6),
    ]
    with pytest.raises(InputError, match="--replicas"):
        replicate_seeds(specs, 0)


def test_every_run_has_a_folder_of_its_own(tmp_path: Path) -> None:
    labels = ["a/b", "a_b", "../up", "mod:Class", "x=1, y=2", "..", ""]
    placed = assign_folders([make_spec(label, BASE) for label in labels], tmp_path)
    folders = [Path(spec.folder or "") for spec in placed]
    assert len(set(folders)) == len(labels)
    assert all(folder.parent == tmp_path for folder in folders)


def test_what_a_folder_holds_decides_whether_it_is_finished(tmp_path: Path) -> None:
    spec = assign_folders(grid_specs(PLAIN, {"cluster.nodes": [10]}), tmp_path)[0]
    assert runs.read_stored_summary(spec) is None
    summary = runs.execute(spec)
    assert runs.read_stored_summary(spec) == summary and summary["vary"] == {"cluster.nodes": 10}
    assert (
        runs.read_stored_summary(make_spec(spec.label, {**spec.tables, "seed": 5}, spec.folder))
        is None
    )
    (Path(spec.folder or "") / snapshots.SUMMARY).unlink()
    assert runs.read_stored_summary(spec) is None


def test_answers_come_in_the_order_of_the_specs_and_are_told_as_they_end(tmp_path: Path) -> None:
    specs = assign_folders(grid_specs(PLAIN, {"seed": [1, 2, 3]}), tmp_path)
    alone = [runs.execute(spec)["workloads"] for spec in specs]
    told: list[int] = []
    for workers in (1, 2):
        told.clear()
        answers = parallel.run_all(specs, workers, done=lambda index, summary: told.append(index))
        assert [answer["seed"] for answer in answers] == [1, 2, 3]
        assert [answer["workloads"] for answer in answers] == alone
        assert sorted(told) == [0, 1, 2]


def test_bad_input_in_a_process_of_its_own_is_still_one_sentence(tmp_path: Path) -> None:
    bad = {**BASE, "workload": {"trace": str(tmp_path / "missing.csv")}}
    specs = [make_spec("a", bad), make_spec("b", bad)]
    with pytest.raises(InputError, match=r"missing\.csv: no such file"):
        parallel.run_all(specs, 2)


def on_a_pretended_ray(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A stand-in for Ray with as much of it as is used; tasks run when they are waited for, the
    last one first."""
    asked: dict[str, Any] = {}

    def remote(function: Callable[..., Any]) -> SimpleNamespace:
        return SimpleNamespace(remote=lambda *arguments: Task(function, arguments))

    class Task:
        def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
            self.run = lambda: function(*arguments)

    ray: Any = ModuleType("ray")
    ray.is_initialized = lambda: bool(asked)
    ray.init = lambda **options: asked.update(options)
    ray.remote = remote
    ray.wait = lambda tasks, num_returns: (tasks[-1:], tasks[:-1])
    ray.get = lambda task: task.run()
    monkeypatch.setitem(sys.modules, "ray", ray)
    return asked


def test_on_ray_the_results_are_written_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = on_a_pretended_ray(monkeypatch)
    here, there = (
        assign_folders(grid_specs(PLAIN, {"seed": [1, 2]}), tmp_path / name)
        for name in ("here", "there")
    )
    plain, summaries = parallel.run_all(here, 1), parallel.run_all(there, 1, on="ray://head:10001")
    assert asked["address"] == "ray://head:10001"
    assert [{k: v for k, v in s.items() if k != "timing"} for s in summaries] == [
        {k: v for k, v in s.items() if k != "timing"} for s in plain
    ]
    for one, other in zip(here, there, strict=True):
        for name in (snapshots.SUMMARY, snapshots.JOBS, snapshots.SERIES, snapshots.SCENARIO):
            assert (Path(one.folder or "") / name).read_bytes() == (
                Path(other.folder or "") / name
            ).read_bytes()


def test_without_ray_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        InputError,
        match=r"Ray is not installed; in the project: pip install '\.\[ray\]'",
    ):
        parallel.run_all([make_spec("a", BASE)], 1, on="ray")


def test_a_run_that_is_stopped_and_resumed_leaves_the_files_of_one_that_was_not(
    tmp_path: Path,
) -> None:
    whole, parts = (make_spec("x", BASE, str(tmp_path / name)) for name in ("whole", "parts"))
    runs.execute(whole)
    said: list[str] = []
    shares: list[float] = []
    stopping = runs.Control(until_s=200.0, say=said.append, progress=shares.append, check=True)
    assert runs.complete(parts, stopping) is None
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == [
        snapshots.SCENARIO,
        snapshots.SNAPSHOT,
    ]
    assert "--resume" in said[0] and 0.0 < shares[-1] < 1.0
    resumed = runs.complete(parts, runs.Control(resume=True))
    assert resumed is not None and resumed.tables
    for name in (snapshots.SUMMARY, snapshots.JOBS, snapshots.SERIES, snapshots.SCENARIO):
        one, other = (tmp_path / folder / name for folder in ("whole", "parts"))
        assert one.read_bytes() == other.read_bytes()
    again = runs.complete(parts, runs.Control(resume=True))
    assert again is not None and again.summary == resumed.summary and not again.tables


def test_a_series_in_memory_is_the_one_in_the_file(tmp_path: Path) -> None:
    outcome = runs.complete(make_spec("x", BASE, str(tmp_path)))
    assert outcome is not None
    in_memory = series_of(outcome, tmp_path / "nothing is read here")
    assert in_memory == read_series(tmp_path) == series_of(runs.RunOutcome({}, {}), tmp_path)


def test_a_scenario_is_checked_once_on_its_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Read, resolved, run and written: the check is the expensive part of a short run, and a value
    that was checked needs no other."""
    checked: list[str] = []

    def count(tables: dict[str, Any], source: str = "scenario") -> sc.Scenario:
        checked.append(source)
        return check(tables, source)

    check = sc.check
    monkeypatch.setattr(sc, "check", count)
    study = make_study(BASE, "base.toml")
    assert checked == ["base.toml"]
    runs.complete(assign_folders([study.base], tmp_path)[0])
    assert checked == ["base.toml"]
    specs = variant_specs(study, ["offers", "monolithic"])
    assert checked == ["base.toml"] * 3, "each of the two is a scenario of its own"
    assert pickle.loads(pickle.dumps(specs)) == specs, "as a worker process gets them"
    assert [spec.scenario.scheduler.kind for spec in specs] == ["offers", "monolithic"]
