"""The name of a task is the name of a folder directly in its parent, or it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.base.errors import InputError
from murmuration.runtime.node.isolation import task_folder


@given(st.text(alphabet=st.sampled_from("aB0._+-/\\ \n\0~*"), max_size=12))
def test_a_name_never_leaves_the_folder(name: str) -> None:
    parent = Path("/srv/tasks")
    try:
        folder = task_folder(parent, name)
    except InputError:
        return
    assert folder.parent == parent and folder.name == name
    assert Path(*folder.parts).resolve() == folder


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../up", "a/b", "/etc", "a..b", "-rf", "a b", "a\n", "a\0", "é", "x" * 129],
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="expected at most 128"):
        task_folder(Path("/srv/tasks"), name)


@pytest.mark.parametrize("name", ["hello-0", "web.3", "a", "A_1+2", "x" * 128])
def test_common_names_are_taken(name: str) -> None:
    assert task_folder(Path("/srv/tasks"), name) == Path("/srv/tasks") / name
