"""Placements by name: built in, the user's own by module path, and one clear sentence for anything
else."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.placement.plain import FirstFit, RankedPolicy
from murmuration.placement.registry import ENTRY_POINTS, NAMES, resolve
from murmuration.placement.scores import SCORES
from murmuration.placement.view import JobView, View

MODULE = '''
import murmuration

def fewest(total, free, request):
    return -total[:, 0]

@murmuration.kernel
def fast(total, free, request):
    """Prefers small nodes."""
    return -1.0 * total[:, 0]

class Always:
    def decide(self, view, job, rng):
        return [1] * job.tasks

class Needs:
    def __init__(self, size):
        self.size = size
    def decide(self, view, job, rng):
        return []

class Empty:
    pass

ready = Always()
number = 3
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the user's with modules in it; what the tests import is forgotten afterwards."""
    (tmp_path / "my_policies.py").write_text(MODULE)
    (tmp_path / "broken_policies.py").write_text("def score(:\n")
    (tmp_path / "failing_policies.py").write_text("size = 1 / 0\n")
    (tmp_path / "hungry_policies.py").write_text("import no_such_package\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.endswith("_policies"):
            del sys.modules[name]


def view() -> tuple[View, JobView]:
    total = np.array([[3, 1], [1, 1], [2, 1]], dtype=np.int64)
    seen = View(
        Resources(), ("a", "b", "c"), ({}, {}, {}), total, total, np.ones(3, dtype=np.bool_)
    )
    return seen, JobView("job", "batch", 2, np.array([1, 0]), 1.0)


def choice(name: str) -> list[int]:
    return [int(node) for node in resolve(name).policy.decide(*view(), np.random.default_rng(1))]


@pytest.mark.parametrize("name", NAMES)
def test_built_in_placements_are_compiled(name: str) -> None:
    placement = resolve(name)
    assert (placement.name, placement.fast) == (name, True)
    assert placement.score is SCORES.get(name)
    assert placement.policy == (RankedPolicy(SCORES[name]) if name in SCORES else placement.policy)
    assert isinstance(placement.policy, RankedPolicy if name in SCORES else FirstFit)


def test_a_score_function_ranks_in_plain_python() -> None:
    placement = resolve("my_policies:fewest")
    assert not placement.fast
    assert choice("my_policies:fewest") == [1, 2]


def test_a_kernel_ranks_compiled_and_is_plain_when_called() -> None:
    placement = resolve("my_policies:fast")
    assert placement.fast
    module = sys.modules["my_policies"]
    assert placement.score is module.fast.function
    assert (module.fast.__name__, module.fast.__doc__) == ("fast", "Prefers small nodes.")
    assert choice("my_policies:fast") == [1, 2]


@pytest.mark.parametrize("name", ["my_policies:Always", "my_policies:ready"])
def test_a_class_or_an_object_decides_itself(name: str) -> None:
    placement = resolve(name)
    assert (placement.fast, placement.score) == (False, None)
    assert choice(name) == [1, 1]


def test_an_installed_package_may_name_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = importlib.metadata.EntryPoint("packed", "my_policies:Always", ENTRY_POINTS)

    def entry_points(group: str, name: str) -> list[importlib.metadata.EntryPoint]:
        return [ours] if (group, name) == (ENTRY_POINTS, "packed") else []

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    monkeypatch.syspath_prepend(Path.cwd())
    assert choice("packed") == [1, 1]
    with pytest.raises(InputError, match="unknown placement 'unpacked'"):
        resolve("unpacked")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("best", "unknown placement 'best'; did you mean 'best-fit'?"),
        ("First-Fit", "unknown placement 'First-Fit'; did you mean 'first-fit'?"),
        ("zzz", f"unknown placement 'zzz'; known: {', '.join(sorted(NAMES))}"),
        ("my_policies:fewer", "my_policies:fewer: unknown name 'fewer'; did you mean 'fewest'?"),
        ("my_policies:", "my_policies:: unknown name ''; known: "),
        (
            "no_policies:x",
            "no_policies:x: module 'no_policies' cannot be imported: No module named 'no_policies'",
        ),
        (":x", ":x: module '' cannot be imported: "),
        ("..up:x", "..up:x: module '..up' cannot be imported: "),
        (
            "broken_policies:score",
            "broken_policies:score: module 'broken_policies' cannot be imported: ",
        ),
        ("failing_policies:size", "module 'failing_policies' cannot be imported: division by zero"),
        (
            "hungry_policies:x",
            "module 'hungry_policies' cannot be imported: No module named 'no_such_package'",
        ),
        (
            "my_policies:number",
            "expected a score function or a class with decide(view, job, rng), got 3",
        ),
        (
            "my_policies:Empty",
            "expected a score function or a class with decide(view, job, rng), got <class",
        ),
        ("my_policies:Needs", "my_policies:Needs: the class cannot be made without arguments: "),
    ],
)
def test_what_cannot_be_a_placement_is_refused(name: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        resolve(name)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
