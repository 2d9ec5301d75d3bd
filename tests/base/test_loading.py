"""A user's `module:name`: the current folder and the folder of the input file are looked at, and
the user's error is one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from murmuration.base.errors import InputError
from murmuration.base.loading import is_module_path, load_object, look_beside


@pytest.fixture(autouse=True)
def clean_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules of a test are forgotten after it, and the search path is as before."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_the_current_folder_is_looked_at() -> None:
    Path("mine_here.py").write_text("value = 7\n")
    assert load_object("mine_here:value") == 7


def test_the_folder_of_an_input_file_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "there" / "mine_there.py").write_text("import mine_helper\nvalue = mine_helper.x\n")
    (tmp_path / "there" / "mine_helper.py").write_text("x = 8\n")
    with pytest.raises(InputError, match="module 'mine_there' cannot be imported"):
        load_object("mine_there:value")
    look_beside(tmp_path / "there" / "scenario.toml")
    assert load_object("mine_there:value") == 8


def test_the_current_folder_wins_and_a_package_is_not_hidden(tmp_path: Path) -> None:
    Path("mine_both.py").write_text("value = 'here'\n")
    (tmp_path / "there" / "mine_both.py").write_text("value = 'there'\n")
    (tmp_path / "there" / "wave.py").write_text(
        "raise RuntimeError('hides the standard library')\n"
    )
    look_beside(tmp_path / "there" / "scenario.toml")
    assert load_object("mine_both:value") == "here"
    assert load_object("wave:open").__module__ == "wave"


def test_a_module_of_another_folder_with_the_same_name_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook that changes its folder, whichever way the folder became known."""
    Path("mine_twin.py").write_text("value = 'here'\n")
    (tmp_path / "there" / "mine_twin.py").write_text("value = 'there'\n")
    first = load_object("mine_twin:value")
    look_beside(tmp_path / "there" / "scenario.toml")
    monkeypatch.chdir(tmp_path / "there")
    assert (first, load_object("mine_twin:value")) == ("here", "there")
    loaded = sys.modules["mine_twin"]
    load_object("mine_twin:value")
    assert sys.modules["mine_twin"] is loaded


def test_the_path_is_extended_once(tmp_path: Path) -> None:
    for _ in range(3):
        look_beside(tmp_path / "there" / "a.toml")
        look_beside(tmp_path / "there" / "b.toml")
    assert sys.path.count(str(tmp_path / "there")) == 1


def test_a_failure_names_the_place_and_the_module(tmp_path: Path) -> None:
    Path("mine_bad.py").write_text("value = 1 / 0\n")
    with pytest.raises(InputError) as error:
        load_object("mine_bad:value", "--objective mine_bad:value")
    sentence = "--objective mine_bad:value: module 'mine_bad' cannot be imported: division by zero"
    assert str(error.value) == sentence
    Path("mine_names.py").write_text("score = 1\n")
    with pytest.raises(
        InputError, match="mine_names:scor: unknown name 'scor'; did you mean 'score'"
    ):
        load_object("mine_names:scor")


def test_what_a_module_path_is() -> None:
    assert is_module_path("package.module:Name") and not is_module_path("first-fit")
