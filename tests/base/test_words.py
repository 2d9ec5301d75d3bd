"""Error sentences speak of numbers and lists, not of the types of a program."""

from __future__ import annotations

import msgspec
import pytest

from murmuration.base.words import plain_types


@pytest.mark.parametrize(
    ("value", "kind", "sentence"),
    [
        ("x", int, "Expected a whole number, got text"),
        ("x", int | None, "Expected a whole number or nothing, got text"),
        ("x", list[int], "Expected a list, got text"),
        (True, float, "Expected a number, got true or false"),
        (1, dict[str, int], "Expected a table, got a whole number"),
    ],
)
def test_types_in_words(value: object, kind: object, sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.convert(value, kind)
    assert plain_types(str(error.value)) == sentence


def test_other_words_stay() -> None:
    assert plain_types("Invalid enum value `x`") == "Invalid enum value x"
