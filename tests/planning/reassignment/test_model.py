"""The challenge's files: read as written, and refused with the place and what was expected
there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.planning.reassignment.instances import integers, small, written

from murmuration.base.errors import InputError
from murmuration.planning.reassignment.model import read_assignment, read_model, write_assignment


def saved(tmp_path: Path, text: str, name: str = "model.txt") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_model_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = read_model(saved(tmp_path, written(small())))
    for name, array in small()._asdict().items():
        assert np.array_equal(getattr(found, name), array), name


def test_line_breaks_mean_nothing(tmp_path: Path) -> None:
    found = read_model(saved(tmp_path, written(small()).replace("\n", "  ")))
    assert np.array_equal(found.request, small().request)


def test_names_of_places_need_not_be_consecutive(tmp_path: Path) -> None:
    model = small(
        neighbourhood=integers([7, 7, 90]), location=integers([5, 3000000000, 3000000000])
    )
    found = read_model(saved(tmp_path, written(model)))
    assert found.neighbourhood.tolist() == [0, 0, 1]
    assert found.location.tolist() == [0, 1, 1]


def lines(*changes: tuple[int, str]) -> str:
    """The small model with some lines (from 1) written differently."""
    text = written(small()).splitlines()
    for number, line in changes:
        text[number - 1] = line
    return "\n".join(text)


BAD = [
    (
        lines((1, "two")),
        "line 1, number 1 of the file: expected the number of resources",
        "found 'two'",
    ),
    (lines((1, "0")), "line 1, number 1", "from 1"),
    (
        lines((2, "2 10")),
        "line 2, number 2",
        "whether a resource is transient, an integer from 0 to 1, found '2'",
    ),
    (lines((5, "0 0 10 -10 6 8 0 1 2")), "line 5, number 10", "a node's capacity of resource 1"),
    (lines((5, "0 0 10 99999999999 6 8 0 1 2")), "line 5, number 10", "found '99999999999'"),
    (lines((5, "0 0 10 1_0 6 8 0 1 2")), "line 5, number 10", "found '1_0'"),
    (
        lines((10, "0 1 3")),
        "line 10, number 39",
        "a service that service 1 depends on, an integer from 0 to 2",
    ),
    (lines((13, "3 3 4 1")), "line 13, number 43", "a task's service, an integer from 0 to 2"),
    (
        lines((18, "0 2 1 5")),
        "line 18, number 61",
        "a resource of a balance cost, an integer from 0 to 1",
    ),
    (lines((19, "1 10")), "ends after", "expected the weights of task, service and node moves"),
    (lines((19, "1 10 100 4")), "line 19, number 67", "expected the end of the file, found '4'"),
    (lines((12, "999999999999")), "line 12, number 42", "the number of tasks"),
    ("", "ends after 0 numbers", "expected the number of resources"),
]


@pytest.mark.parametrize(("text", "place", "expected"), BAD)
def test_a_wrong_number_is_named(tmp_path: Path, text: str, place: str, expected: str) -> None:
    path = saved(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_model(path)
    assert str(caught.value).startswith(str(path))
    assert place in str(caught.value)
    assert expected in str(caught.value)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_model(tmp_path / "none.txt")
    (tmp_path / "picture").write_bytes(b"\xff\x00\x80")
    with pytest.raises(InputError, match="cannot be read as text"):
        read_model(tmp_path / "picture")


def test_an_assignment_goes_there_and_back(tmp_path: Path) -> None:
    write_assignment(tmp_path / "a.txt", integers([0, 2, 1, 0]))
    assert (tmp_path / "a.txt").read_text() == "0 2 1 0\n"
    assert read_assignment(tmp_path / "a.txt", small()).tolist() == [0, 2, 1, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 1 2", "ends after 3 numbers: expected the node of each of the 4 tasks"),
        (
            "0 1\n2 3",
            "line 2, number 4 of the file: expected the node of each of the 4 tasks, an integer "
            "from 0 to 2",
        ),
        ("0 1 2 0 0", "expected the end of the file"),
    ],
)
def test_a_wrong_assignment_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        read_assignment(saved(tmp_path, text, "a.txt"), small())
