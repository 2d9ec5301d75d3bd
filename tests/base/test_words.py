"""Sentences speak of numbers and lists, not of the types of a program, and of one task or of
several."""

from __future__ import annotations

import msgspec
import pytest

from murmuration.base.words import count_of, plain_types


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


@pytest.mark.parametrize(
    ("number", "words", "sentence"),
    [
        (0, ("task", "leave"), "0 tasks leave"),
        (1, ("task", "leave"), "1 task leaves"),
        (12_000, ("task", "leave"), "12,000 tasks leave"),
        (1, ("", "are"), "1 is"),
        (2, ("", "are"), "2 are"),
        (1, ("wave",), "1 wave"),
        (3, ("wave",), "3 waves"),
    ],
)
def test_a_count_agrees_with_its_noun_and_verb(
    number: int, words: tuple[str, ...], sentence: str
) -> None:
    assert count_of(number, *words) == sentence
